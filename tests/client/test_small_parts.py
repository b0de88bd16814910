"""The parts without I/O: decoding, event streams, patience, addresses."""

import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jackline import Client, Worker
from jackline.address import DEFAULT_URL, Misplaced, find
from jackline.cli.diagnose import _health
from jackline.cli.following import _told, _way_on
from jackline.clock import Clock
from jackline.decode import decode
from jackline.errors import Garbled
from jackline.models import Claim, Fact, Renewal, Run
from jackline.retrying import Patience, Retry
from jackline.sse import Event, EventParser

RUN = {"run_id": "r", "queue": "q", "state": "queued"}


def test_members_that_are_not_known_are_ignored_and_missing_ones_take_their_default() -> None:
    run = decode(Run, {**RUN, "brand_new": 1})

    assert ("r", 0, None) == (run.run_id, run.fence, run.partial)


def test_instants_become_aware_and_users_json_stays_as_it_is() -> None:
    run = decode(Run, {**RUN, "submitted_at": "2026-01-02T03:04:05Z", "payload": {"at": "2026-01-02T03:04:05Z"}})

    assert datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) == run.submitted_at
    assert {"at": "2026-01-02T03:04:05Z"} == run.payload


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"run_id": "r", "queue": "q"}, r"\$\.state is missing"),
        ({**RUN, "fence": "7"}, r"\$\.fence is str"),
        ({**RUN, "fence": True}, r"\$\.fence is bool"),
        ({**RUN, "answers": [{}]}, r"\$\.answers\[0\]\.answer is missing"),
        ([], r"\$ is list"),
    ],
)
def test_a_document_of_another_shape_is_garbled_and_the_place_is_named(document: object, path: str) -> None:
    with pytest.raises(Garbled, match=path):
        decode(Run, document)


def test_whole_numbers_are_durations_too() -> None:
    assert 60.0 == decode(Claim, {"run_id": "r", "fence": 1, "lease_ttl_s": 60}).lease_ttl_s


def test_an_outcome_of_a_renewal_is_one_of_three() -> None:
    assert "lost" == decode(Renewal, {"run_id": "r", "fence": 1, "outcome": "lost"}).outcome
    with pytest.raises(Garbled, match="outcome"):
        decode(Renewal, {"run_id": "r", "fence": 1, "outcome": "perhaps"})


def test_a_frame_is_complete_at_its_empty_line_and_comments_are_nothing() -> None:
    parser = EventParser()
    lines = [": keep", "id: 7", "event: run.submitted.v1", "data: {", "data: }", ""]
    found = [one for one in map(parser.feed, lines) if one is not None]

    assert [Event("7", "run.submitted.v1", "{\n}")] == found
    assert "7" == parser.last_id


def test_a_frame_that_was_cut_off_is_asked_for_again() -> None:
    parser = EventParser("6")
    for line in ("id: 7", "data: half"):
        parser.feed(line)
    parser.cut()

    assert "6" == parser.last_id
    assert parser.feed("") is None


def clock_at(now: Callable[[], float]) -> Clock:
    return Clock(now=now, chance=lambda: 1.0, new_id=lambda: "id")


def test_patience_doubles_its_pauses_up_to_the_cap_and_ends() -> None:
    now = [0.0]
    patience = Patience.start(Retry(patience_s=3.0, first_s=0.5, cap_s=1.0), clock_at(lambda: now[0]))
    pauses = []
    while (pause_s := patience.next_pause()) is not None:
        pauses.append(pause_s)
        now[0] += pause_s

    assert [0.5, 1.0, 1.0] == pauses


def test_patience_waits_as_long_as_it_was_told_to_but_not_beyond_its_end() -> None:
    patience = Patience.start(Retry(patience_s=3.0), clock_at(lambda: 0.0))

    assert (2.0, None) == (patience.next_pause(2.0), patience.next_pause(4.0))


def test_no_patience_is_one_attempt() -> None:
    assert Patience.start(Retry(patience_s=0.0), clock_at(lambda: 0.0)).next_pause() is None


def test_url_and_key_are_read_where_the_service_left_them(tmp_path: Path) -> None:
    (tmp_path / "server.url").write_text("http://127.0.0.1:9/\n")
    (tmp_path / "admin.key").write_text("secret\n")

    found = find(data_dir=tmp_path, environ={"JACKLINE_URL": "http://elsewhere:1", "JACKLINE_KEY": "other"})

    assert ("http://127.0.0.1:9", "secret") == (found.url, found.key)


def test_what_was_said_outright_wins_and_the_environment_wins_over_an_assumed_data_dir(tmp_path: Path) -> None:
    (tmp_path / "jackline").mkdir()
    (tmp_path / "jackline" / "admin.key").write_text("from-file")
    environ = {"XDG_DATA_HOME": str(tmp_path), "JACKLINE_URL": "http://a:1"}

    assert ("http://b:2", "k") == (find("http://b:2", "k", environ=environ).url, find("http://b:2", "k").key)
    assert ("http://a:1", "from-file") == (find(environ=environ).url, find(environ=environ).key)


def test_a_service_that_was_found_in_its_data_dir_is_looked_for_there_again_and_one_that_was_named_is_not(
    tmp_path: Path,
) -> None:
    said = tmp_path / "server.url"
    said.write_text("http://127.0.0.1:9")
    inside = {"JACKLINE_URL": "http://127.0.0.1:9", "JACKLINE_URL_FILE": str(said)}
    ways = {
        "found": find(data_dir=tmp_path, environ={}),
        "inside a run": find(environ=inside),
        "not there yet": find(environ={"JACKLINE_DATA_DIR": str(tmp_path / "later")}),
        "named": find("http://127.0.0.1:9", data_dir=tmp_path, environ=inside),
        "in the environment": find(environ={"JACKLINE_URL": "http://127.0.0.1:9", "JACKLINE_DATA_DIR": str(tmp_path)}),
    }
    said.write_text("http://127.0.0.1:10")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "server.url").write_text("http://127.0.0.1:11")

    assert {
        "found": "http://127.0.0.1:10",
        "inside a run": "http://127.0.0.1:10",
        "not there yet": "http://127.0.0.1:11",
        "named": "http://127.0.0.1:9",
        "in the environment": "http://127.0.0.1:9",
    } == {way: address.again().url for way, address in ways.items()}


@pytest.mark.parametrize("left", ["", "not a url", "\x00"])
def test_a_place_that_says_nothing_of_use_leaves_the_address_as_it_was(tmp_path: Path, left: str) -> None:
    (tmp_path / "server.url").write_text("http://127.0.0.1:9")
    found = find(data_dir=tmp_path, environ={})
    (tmp_path / "server.url").write_text(left)

    assert found == found.again()


def test_a_key_can_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k\n")
    environ = {"JACKLINE_KEY_FILE": str(tmp_path / "key"), "HOME": str(tmp_path)}

    assert "k" == find(environ=environ).key
    with pytest.raises(Misplaced, match="cannot be read"):
        find(environ={**environ, "JACKLINE_KEY_FILE": str(tmp_path / "missing")})


@pytest.mark.parametrize("around", ["\n", " ", "\r\n"])
def test_what_surrounds_a_key_is_not_part_of_it(around: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"k{around}")
    home = {"HOME": str(tmp_path)}
    said = [{"JACKLINE_KEY": f"{around}k{around}"}, {"JACKLINE_KEY_FILE": str(tmp_path / "key")}]

    assert ["k", "k"] == [find(environ=home | one).key for one in said]
    assert "k" == find(key=f"k{around}", environ=home).key


@pytest.mark.parametrize("key", ["secret\nsecret", "secr\u00e9t-secret", "secret secret", "secret\x00"])
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(key: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(key.encode("latin-1"))
    home = {"HOME": str(tmp_path)}
    for environ in ({"JACKLINE_KEY": key}, {"JACKLINE_KEY_FILE": str(tmp_path / "key")}):
        with pytest.raises(Misplaced, match="not shown") as refused:
            find(environ=home | environ)
        assert "secr" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_without_anything_the_service_is_looked_for_at_its_default(tmp_path: Path) -> None:
    assert (DEFAULT_URL, None) == (find(environ={"HOME": str(tmp_path)}).url, find(environ={"HOME": str(tmp_path)}).key)


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8321", ""])
def test_a_url_that_is_none_is_refused(url: str, tmp_path: Path) -> None:
    environ = {"JACKLINE_URL": url, "HOME": str(tmp_path)}
    if not url:
        assert DEFAULT_URL == find(environ=environ).url
        return
    with pytest.raises(Misplaced, match="not an http"):
        find(environ=environ)


def test_files_that_hold_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    from jackline.worker import keeper

    keeper.write(tmp_path / "spec.json", {"env": {"TOKEN": "x"}})

    assert 0o600 == stat.S_IMODE((tmp_path / "spec.json").stat().st_mode)


def test_a_worker_with_a_blocking_client_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="needs an AsyncClient"):
        Worker(Client("http://127.0.0.1:1", "key"), "w1")  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "wanted"), [("waiting_verdict", True), ("succeeded", False), (None, False)])
def test_whose_turn_it_is_is_said_when_a_verdict_is_wanted(state: str | None, *, wanted: bool) -> None:
    closed = Fact(9, "run.closed.v1", {"outcome": "succeeded", "state": state})

    assert wanted == (_told(closed) is not None)
    assert wanted == ("`jackline verdict r1 succeeded` (or `failed`)" in _way_on(closed, "r1"))


@pytest.mark.parametrize(("status", "verdict"), [("degraded", "note"), ("error", "wrong")])
def test_the_doctor_says_what_is_wrong_with_the_service_and_not_only_that_something_is(
    status: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = "POST /v1/runs: the outcome of the append is unknown (disk I/O error)"
    with Client("http://127.0.0.1:9", "key") as client:
        monkeypatch.setattr(client, "health", lambda: {"status": status, "first_error": first, "journal": {}})
        found = _health(client)

    assert (verdict, f"{status}; {first}") == (found.verdict, found.found)
    assert "docs/operations.md" in found.remedy
