"""A disk that fills up under a running service: it says so, keeps what it promised, and goes on once there is room.

While nothing can be made durable, nothing is acknowledged: commands are answered 503 and may be repeated under their
key, reads go on. When there is room again the same process works again, without a restart.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.calling import Answer, Caller
from tests.system.conftest import Serving
from tests.system.disks import SmallDisk, small_disk
from tests.system.kills import verified
from tests.system.serving import Service, one_line
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("D11", "D38", "K12", "R22", "R28")]

PAYLOAD = "x" * 4_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def cramped(disk: SmallDisk, make_service: Serving) -> Iterator[Service]:
    """A running service on the small disk."""
    service = make_service(disk.place / "data")
    service.log = disk.place.with_name("service.log")
    yield service.start()
    service.end()


def submitted(caller: Caller, number: int) -> Answer:
    """The answer to a submission that is known by its number."""
    wish = {"name": f"run-{number}", "payload": PAYLOAD}
    return caller.post("/v1/runs", wish, idempotency=f"submission-{number}")


def until_refused(caller: Caller) -> tuple[dict[int, str], int, Answer]:
    """The ids that were acknowledged by number, the number that was not, and what was said about it."""
    known: dict[int, str] = {}
    for number in range(1, 5_000):
        answer = submitted(caller, number)
        if answer.status != 201:
            return known, number, answer
        known[number] = answer.body["run_id"]
    message = "the disk never filled up"
    raise AssertionError(message)


def test_a_full_disk_refuses_what_it_cannot_keep_and_recovers_without_a_restart(
    disk: SmallDisk, cramped: Service
) -> None:
    caller = cramped.caller()
    before = submitted(caller, 0).ok(201)["run_id"]
    assert [before] == [item["run_id"] for item in caller.get("/v1/runs?min_position=1").ok()["items"]]
    disk.fill(cramped)

    known, refused, answer = until_refused(caller)

    answer.refused(503, "outcome_unknown")
    assert int(answer.headers["retry-after"]) >= 1
    assert 503 == submitted(caller, refused).status
    health = caller.get("/healthz").ok()
    assert "error" == health["status"]
    assert health["first_error"]
    assert "queued" == caller.get(f"/v1/runs/{before}").ok()["state"]
    assert 200 == caller.get("/livez").status

    disk.free(cramped)

    again = until(lambda: _if_made(submitted(caller, refused)), what="the service to go on")
    runs = {0: before, **known, refused: again.ok(201)["run_id"]}
    assert {number: f"run-{number}" for number in runs} == {
        number: caller.get(f"/v1/runs/{run_id}").ok()["name"] for number, run_id in runs.items()
    }
    position = caller.get("/healthz").ok()["journal"]["position"]
    listed = caller.get(f"/v1/runs?limit=500&q=run-{refused}&min_position={position}").ok()["items"]
    assert [runs[refused]] == [item["run_id"] for item in listed if item["name"] == f"run-{refused}"]
    assert caller.post("/v1/health/ack").status in (200, 204)
    assert "ok" == caller.get("/healthz").ok()["status"]
    assert {"ok": True, "facts": position} == {key: verified(cramped)[key] for key in ("ok", "facts")}
    said = cramped.log.read_text()
    assert "Traceback" not in said
    assert 20 > len(said.splitlines()), said


def _if_made(answer: Answer) -> Answer | None:
    return answer if answer.status == 201 else None


def test_a_start_on_a_full_disk_says_so_and_loses_nothing(disk: SmallDisk, cramped: Service) -> None:
    run_id = submitted(cramped.caller(), 0).ok(201)["run_id"]
    cramped.caller().close()
    cramped.kill()
    disk.fill_to_the_brim(cramped)

    code, said = cramped.refused_to_start()

    assert 1 == code, said
    line = one_line(said)
    assert str(cramped.data_dir) in line
    assert "full" in line
    disk.free(cramped)
    cramped.start()
    assert run_id == submitted(cramped.caller(), 0).ok(201)["run_id"]
