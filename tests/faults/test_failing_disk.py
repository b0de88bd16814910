"""A disk that fails at its n-th operation, for each n: nothing acknowledged is lost, and what was refused can be told.

The layer under SQLite fails one write or one sync of the journal as the kernel would (EIO, ENOSPC), wherever in a
commit or a checkpoint it is. The service stays up, says what it knows, and goes on by itself. A command whose outcome
was not known is asked again under its key: it happened once, now or before.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.books import Books
from tests.faults.disk import FULL, IOERR_FSYNC, IOERR_WRITE, Faults, Kind
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.serving import Service, claim_one, register
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("D11", "D38", "R22")]

PLACES = 30
"""The n-th operation fails for each n below this: a commit of one submission has about ten."""


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path / "faults")


@pytest.fixture
def spoiled(make_quick_service: Serving, faults: Faults, tmp_path: Path) -> Iterator[Service]:
    """A running service whose disk can be made to fail."""
    service = make_quick_service()
    service.faults = tmp_path / "faults"
    yield service.start()
    faults.repair()


@pytest.mark.parametrize(
    ("kind", "codes"), [("sync", (IOERR_FSYNC,)), ("write", (IOERR_WRITE, FULL))], ids=["sync", "write"]
)
def test_whichever_operation_fails_nothing_acknowledged_is_lost_and_nothing_happens_twice(
    spoiled: Service, faults: Faults, kind: Kind, codes: tuple[int, ...]
) -> None:
    books = Books(spoiled.caller())
    for place in range(PLACES):
        faults.arm(kind, place, codes[place % len(codes)])
        books.submit_until(lambda: faults.failed)
        assert 1 == faults.repair()
        assert books.submit_next(), "it did not go on by itself"

    assert PLACES == len(books.refused)
    assert 200 == books.caller.get("/livez").status
    books.settle()
    spoiled.kill()
    spoiled.start()
    books.caller.close()
    books.settle()
    assert verified(spoiled)["ok"]


@pytest.mark.parametrize(("kind", "code"), [("sync", IOERR_FSYNC), ("write", FULL)], ids=["sync", "write"])
def test_a_disk_that_stays_broken_is_red_until_it_is_repaired_and_green_again_without_a_restart(
    spoiled: Service, faults: Faults, kind: Kind, code: int
) -> None:
    books = Books(spoiled.caller())
    caller = books.caller
    assert books.submit_next()
    faults.arm(kind, 0, code, for_good=True)

    assert [False] * 3 == [books.submit_next() for _ in range(3)]
    health = caller.get("/healthz").ok()
    assert ("error", True) == (health["status"], "disk" in health["first_error"])
    assert "queued" == caller.get(f"/v1/runs/{books.known[1]}").ok()["state"]
    assert spoiled.process is not None
    assert spoiled.process.poll() is None

    faults.repair()
    books.settle()
    assert "degraded" == caller.get("/healthz").ok()["status"]
    caller.post("/v1/health/ack").ok(204)
    assert "ok" == caller.get("/healthz").ok()["status"]


def test_a_service_killed_while_its_disk_is_broken_has_everything_that_it_acknowledged(
    spoiled: Service, faults: Faults
) -> None:
    books = Books(spoiled.caller())
    for place in range(5):
        faults.arm("sync", place, IOERR_FSYNC, for_good=True)
        books.submit_until(lambda: faults.failed)
        spoiled.kill()
        faults.repair()
        spoiled.start()
        books.caller.close()
        books.settle()


def test_an_expiry_that_could_not_be_recorded_is_recorded_once_the_disk_is_repaired(
    spoiled: Service, faults: Faults
) -> None:
    caller = spoiled.caller()
    run_id = caller.post("/v1/runs", {"policy": {"lease_ttl_s": 0.5}}).ok(201)["run_id"]
    claim_one(caller, register(caller, "silent"))
    faults.arm("sync", 0, IOERR_FSYNC, for_good=True)

    until(lambda: faults.failed, what="the service to try to record the expiry")
    until(lambda: caller.get("/healthz").ok()["status"] == "error", what="the service to say so")
    assert ("running", "silent") == tuple(caller.get(f"/v1/runs/{run_id}").ok()[name] for name in ("state", "owner"))
    faults.repair()

    until(lambda: caller.get("/healthz").ok()["status"] == "ok", what="the service to be well by itself")
    until(lambda: caller.get(f"/v1/runs/{run_id}").ok()["state"] == "queued", what="the expiry to be recorded")
    assert ["lease.expired.v1"] == [
        fact["topic"] for fact in caller.facts(run_id) if fact["topic"] == "lease.expired.v1"
    ]


def test_a_stop_while_the_disk_is_broken_ends_the_process_and_loses_nothing(spoiled: Service, faults: Faults) -> None:
    books = Books(spoiled.caller())
    assert books.submit_next()
    faults.arm("sync", 0, IOERR_FSYNC, for_good=True)
    assert not books.submit_next()

    assert spoiled.process is not None
    spoiled.process.send_signal(signal.SIGTERM)
    spoiled.wait()
    faults.repair()
    spoiled.start()
    books.caller.close()
    books.settle()
