"""Keys: shown once, kept as hashes, bound to a role, and worth nothing the moment they are revoked."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.admission import TICKET_S, Tickets
from api.keys import KEYS_MAX, KeyRing, Wanted, check_of, first_admin_key
from api.problems import KeyUnknown, LastAdminKey
from domain.refusal import InvalidCommand
from domain.values import Moment
from tests.api.service import Service

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORKER = Wanted(name="crane", role="worker", worker_ids=("w1", "w2"))


@pytest.fixture
def ring(data_dir: Path) -> Iterator[KeyRing]:
    ring = KeyRing(data_dir)
    yield ring
    ring.close()


def test_a_key_opens_what_it_was_made_for(ring: KeyRing) -> None:
    key, token = ring.make(WORKER, "admin", NOON)

    entry = ring.find(token, NOON)

    assert entry is not None
    assert key == entry.key
    assert ("crane", "worker", frozenset({"w1", "w2"}), None) == (
        entry.caller.principal,
        entry.caller.role,
        entry.caller.workers,
        entry.caller.leaders,
    )


def test_a_key_has_a_prefix_an_id_a_secret_and_a_checksum(ring: KeyRing) -> None:
    key, token = ring.make(WORKER, "admin", NOON)

    prefix, key_id, secret, check = token.split("_")

    assert ("jlk", key.key_id) == (prefix, key_id)
    assert (8, 43, 6) == (len(key_id), len(secret), len(check))
    assert check == check_of(f"{prefix}_{key_id}_{secret}")


def test_no_two_keys_are_alike(ring: KeyRing) -> None:
    assert 100 == len({ring.make(WORKER, "admin", NOON)[1] for _ in range(100)})


def test_the_secret_is_nowhere_on_disk(ring: KeyRing, data_dir: Path) -> None:
    _, token = ring.make(WORKER, "admin", NOON)
    secret = token.split("_")[2].encode()

    kept = b"".join(path.read_bytes() for path in data_dir.iterdir())

    assert b"crane" in kept
    assert secret not in kept


def test_keys_are_still_there_after_a_restart(data_dir: Path) -> None:
    ring = KeyRing(data_dir)
    wanted = Wanted(name="crane", role="leader", leader_ids=("l1",), not_after=NOON + timedelta(days=1))
    key, token = ring.make(wanted, "admin", NOON)
    ring.close()

    again = KeyRing(data_dir)
    entry = again.find(token, NOON)
    again.close()

    assert entry is not None
    assert key == entry.key


@pytest.mark.parametrize(
    "garbled", ["", "jlk", "jlk___", "not a key", "jlk_aaaaaaaa_" + "b" * 43 + "_cccccc", "é" * 64]
)
def test_what_is_not_a_key_opens_nothing(ring: KeyRing, garbled: str) -> None:
    assert ring.find(garbled, NOON) is None


def test_a_key_with_one_letter_changed_opens_nothing(ring: KeyRing) -> None:
    _, token = ring.make(WORKER, "admin", NOON)
    place = len("jlk_") + 8 + 1
    changed = token[:place] + ("a" if token[place] != "a" else "b") + token[place + 1 :]

    assert ring.find(token, NOON) is not None
    assert ring.find(changed, NOON) is None


def test_a_key_is_worth_nothing_at_the_very_instant_of_its_end(ring: KeyRing) -> None:
    end = NOON + timedelta(hours=1)
    _, token = ring.make(Wanted(name="short", role="reader", not_after=end), "admin", NOON)

    assert ring.find(token, end - timedelta(microseconds=1)) is not None
    assert ring.find(token, end) is None


def test_a_revoked_key_opens_nothing_from_then_on_also_after_a_restart(ring: KeyRing, data_dir: Path) -> None:
    told: list[str] = []
    ring.on_revoked = told.append
    key, token = ring.make(WORKER, "admin", NOON)

    ring.revoke(key.key_id, NOON)
    ring.revoke(key.key_id, NOON)

    again = KeyRing(data_dir)
    found = (ring.find(token, NOON), again.find(token, NOON))
    again.close()
    assert (None, None) == found
    assert [key.key_id] == told


def test_revoking_a_key_that_does_not_exist_is_refused(ring: KeyRing) -> None:
    with pytest.raises(KeyUnknown):
        ring.revoke("nokeyhas", NOON)


def test_an_admin_key_that_opens_nothing_any_more_does_not_stand_in_for_the_last(ring: KeyRing) -> None:
    keys = [ring.make(Wanted(name="admin", role="admin", not_after=end), "admin", NOON)[0] for end in (None, NOON)]

    with pytest.raises(LastAdminKey):
        ring.revoke(keys[0].key_id, NOON)

    assert NOON == ring.revoke(keys[1].key_id, NOON).revoked_at
    assert ring.is_live(keys[0], NOON)


def test_two_keys_of_one_principal_may_live_at_once_so_that_they_can_be_changed(ring: KeyRing) -> None:
    (_, old), (key, new) = ring.make(WORKER, "admin", NOON), ring.make(WORKER, "admin", NOON)
    ring.revoke(key.key_id, NOON)

    assert ring.find(old, NOON) is not None
    assert ring.find(new, NOON) is None


def test_commands_are_remembered_for_a_name_and_its_rights_whatever_a_clock_says(data_dir: Path) -> None:
    ring = KeyRing(data_dir)
    made = [
        ring.make(Wanted(name="ci", role="leader", leader_ids=("ada",)), "admin", NOON),
        ring.make(Wanted(name="ci", role="leader", leader_ids=("bob",)), "admin", NOON - timedelta(days=1)),
        ring.make(Wanted(name="ci", role="leader", leader_ids=("ada",)), "admin", NOON + timedelta(days=1)),
        ring.make(Wanted(name="ci", role="worker", worker_ids=("ada",)), "admin", NOON),
    ]
    ring.revoke(made[1][0].key_id, NOON)
    ring.close()
    again = KeyRing(data_dir)
    found = [again._entries[key.key_id].identity for key, _ in made]
    again.close()

    assert ("ci", "ci") == (found[0], found[2])
    assert 3 == len({*found})


async def test_two_keys_of_one_name_for_two_leaders_share_no_idempotency_key(service: Service) -> None:
    ada = service.made_key("leader", "ci", leader_ids=["ada"])
    bob = service.made_key("leader", "ci", leader_ids=["bob"])
    changed = service.made_key("leader", "ci", leader_ids=["ada"])
    once = {"Idempotency-Key": "nightly"}
    hers = await service.ok("POST", "/v1/runs", {"name": "x"}, key=ada, headers=once)
    his = await service.ok("POST", "/v1/runs", {"name": "x"}, key=bob, headers=once)
    hers_again = await service.ok("POST", "/v1/runs", {"name": "x"}, key=changed, headers=once)

    assert hers["run_id"] == hers_again["run_id"] != his["run_id"]


def test_the_first_start_makes_an_admin_key_that_only_its_owner_can_read(ring: KeyRing, data_dir: Path) -> None:
    path = first_admin_key(ring, data_dir, NOON)

    assert data_dir / "admin.key" == path
    entry = ring.find(path.read_text(), NOON)
    assert entry is not None
    assert "admin" == entry.key.role
    for name in ("admin.key", "keys.sqlite3"):
        assert 0o600 == stat.S_IMODE((data_dir / name).stat().st_mode)


def test_a_later_start_makes_no_admin_key_even_when_the_file_was_taken_away(ring: KeyRing, data_dir: Path) -> None:
    first_admin_key(ring, data_dir, NOON)
    (data_dir / "admin.key").unlink()

    assert first_admin_key(ring, data_dir, NOON) is None
    assert not (data_dir / "admin.key").exists()


def test_a_start_that_was_cut_between_file_and_table_is_made_good_by_the_next(ring: KeyRing, data_dir: Path) -> None:
    (data_dir / "admin.key").write_text("jlk_nobodyhas_this_key")
    (data_dir / "admin.key.new").write_text("half of a k")

    first_admin_key(ring, data_dir, NOON)

    assert ring.find((data_dir / "admin.key").read_text(), NOON) is not None


def test_a_file_that_others_could_read_is_closed_to_them(data_dir: Path) -> None:
    os.close(os.open(data_dir / "keys.sqlite3", os.O_CREAT | os.O_RDWR, 0o644))

    KeyRing(data_dir).close()

    assert 0o600 == stat.S_IMODE((data_dir / "keys.sqlite3").stat().st_mode)


def test_a_ticket_is_good_once(ring: KeyRing) -> None:
    entry = ring.find(ring.make(WORKER, "admin", NOON)[1], NOON)
    assert entry is not None
    tickets = Tickets()
    ticket, _ = tickets.issue(entry, Moment(NOON, 0.0))

    assert entry is tickets.redeem(ticket, Moment(NOON, 1.0))
    assert tickets.redeem(ticket, Moment(NOON, 1.0)) is None


def test_a_ticket_is_worth_nothing_at_the_very_instant_of_its_end(ring: KeyRing) -> None:
    entry = ring.find(ring.make(WORKER, "admin", NOON)[1], NOON)
    assert entry is not None
    tickets = Tickets()
    early, late = (tickets.issue(entry, Moment(NOON, 0.0))[0] for _ in range(2))

    assert entry is tickets.redeem(early, Moment(NOON, TICKET_S - 0.001))
    assert tickets.redeem(late, Moment(NOON, TICKET_S)) is None


def test_one_key_past_the_bound_is_refused_until_one_opens_nothing_any_more(data_dir: Path) -> None:
    bounded = KeyRing(data_dir, most=2)
    first, _ = bounded.make(WORKER, "admin", NOON)
    bounded.make(Wanted(name="short", role="reader", not_after=NOON + timedelta(hours=1)), "admin", NOON)

    with pytest.raises(InvalidCommand, match="at most 2"):
        bounded.make(WORKER, "admin", NOON)
    bounded.make(WORKER, "admin", NOON + timedelta(hours=1))
    with pytest.raises(InvalidCommand, match="at most 2"):
        bounded.make(WORKER, "admin", NOON + timedelta(hours=1))
    bounded.revoke(first.key_id, NOON + timedelta(hours=1))
    bounded.make(WORKER, "admin", NOON + timedelta(hours=1))

    bounded.close()


def test_the_bound_on_keys_is_the_documented_one(ring: KeyRing) -> None:
    assert 10_000 == KEYS_MAX == ring.most
