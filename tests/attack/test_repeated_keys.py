"""What is asked for twice under one idempotency key is made once: a key, whose secret is shown once, or a ticket."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.admission import TICKET_S, TICKETS_MAX, Tickets
from api.keys import Entry, KeyRing, Wanted
from domain.values import Moment
from tests.api.service import Service, running

ASKED = {"name": "crane", "role": "reader"}
UNDER = {"Idempotency-Key": "make crane"}


async def _ids(service: Service) -> list[str]:
    return [key["key_id"] for key in (await service.ok("GET", "/v1/keys"))["items"]]


async def test_a_repeat_makes_no_second_key_and_names_the_first(service: Service) -> None:
    made = await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    before = await _ids(service)

    refusal = await service.refused("POST", "/v1/keys", ASKED, headers=UNDER)

    assert ("key_made", made["key_id"], 409) == (refusal["code"], refusal["key_id"], refusal["status"])
    assert made["key"].split("_")[2] not in str(refusal)
    assert before == await _ids(service)
    await service.ok("GET", "/v1/whoami", key=made["key"])


async def test_a_repeat_after_a_restart_makes_no_second_key(data_dir: Path) -> None:
    async with running(data_dir) as first:
        made = await first.ok("POST", "/v1/keys", ASKED, headers=UNDER)
        admin = first.key
    async with running(data_dir) as second:
        refusal = await second.refused("POST", "/v1/keys", ASKED, headers=UNDER, key=admin)

        assert made["key_id"] == refusal["key_id"]


async def test_a_lost_answer_is_made_good_by_revoking_and_asking_under_another_idempotency_key(
    service: Service,
) -> None:
    await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    lost = (await service.refused("POST", "/v1/keys", ASKED, headers=UNDER))["key_id"]

    await service.ok("DELETE", f"/v1/keys/{lost}")
    made = await service.ok("POST", "/v1/keys", ASKED, headers={"Idempotency-Key": "make crane again"})

    await service.ok("GET", "/v1/whoami", key=made["key"])
    again = await service.refused("POST", "/v1/keys", ASKED, headers=UNDER)
    assert ("key_made", lost) == (again["code"], again["key_id"])


async def test_the_same_idempotency_key_for_another_key_is_refused(service: Service) -> None:
    await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    before = await _ids(service)

    refusal = await service.refused("POST", "/v1/keys", {**ASKED, "role": "admin"}, headers=UNDER)

    assert "idempotency_mismatch" == refusal["code"]
    assert before == await _ids(service)


async def test_another_admin_may_use_the_same_idempotency_key_and_learns_nothing(service: Service) -> None:
    made = await service.ok("POST", "/v1/keys", ASKED, headers=UNDER)
    other = service.made_key("admin", "other")

    own = await service.ok("POST", "/v1/keys", ASKED, headers=UNDER, key=other)

    assert made["key_id"] != own["key_id"]


async def test_without_an_idempotency_key_each_request_makes_a_key(service: Service) -> None:
    first = await service.ok("POST", "/v1/keys", ASKED)
    second = await service.ok("POST", "/v1/keys", ASKED)

    assert first["key_id"] != second["key_id"]


async def test_a_repeat_gets_the_ticket_that_it_got_before_and_opens_nothing_more(service: Service) -> None:
    first, again, other = [
        (await service.ok("POST", "/v1/tickets", headers={"Idempotency-Key": key}))["ticket"] for key in "aab"
    ]
    plain = {(await service.ok("POST", "/v1/tickets"))["ticket"] for _ in range(2)}

    assert (first, 4) == (again, len({first, other, *plain}))
    assert 200 == (await service.ask("GET", f"/v1/whoami?ticket={first}", key="")).status_code
    assert first == (await service.ok("POST", "/v1/tickets", headers={"Idempotency-Key": "a"}))["ticket"]
    assert 401 == (await service.ask("GET", f"/v1/whoami?ticket={again}", key="")).status_code


def entry_of(ring: KeyRing, name: str = "any") -> Entry:
    entry = ring.find(ring.make(Wanted(name=name, role="admin"), "admin", NOON.wall)[1], NOON.wall)
    assert entry is not None
    return entry


NOON = Moment(datetime(2026, 1, 1, 12, tzinfo=UTC), 0.0)


@pytest.mark.parametrize(("later_s", "same"), [(TICKET_S - 0.5, True), (TICKET_S, False)])
def test_a_ticket_is_repeated_until_it_has_expired(later_s: float, same: bool) -> None:
    tickets, entry = Tickets(), entry_of(KeyRing(None))
    first, lasts_s = tickets.issue(entry, NOON, "c1")
    again, left_s = tickets.issue(entry, NOON.after(later_s), "c1")

    assert (TICKET_S, same) == (lasts_s, first == again)
    assert (TICKET_S - later_s if same else TICKET_S) == left_s
    assert entry is tickets.redeem(again, NOON.after(later_s + left_s - 0.1))


def test_another_key_of_the_same_name_gets_a_ticket_of_its_own() -> None:
    tickets, ring = Tickets(), KeyRing(None)
    entries = [entry_of(ring), entry_of(ring)]

    issued = [tickets.issue(entry, NOON, "c1")[0] for entry in entries]

    assert entries == [tickets.redeem(ticket, NOON) for ticket in issued]


def test_of_more_repeats_than_are_remembered_the_oldest_get_another_ticket() -> None:
    tickets, entry = Tickets(), entry_of(KeyRing(None))
    issued = [tickets.issue(entry, NOON, f"c{number}")[0] for number in range(TICKETS_MAX + 1)]

    assert issued[1] == tickets.issue(entry, NOON, "c1")[0]
    assert issued[0] != tickets.issue(entry, NOON, "c0")[0]
