"""The history's own books: what it notices that no world so far has done."""

from datetime import UTC, datetime, timedelta

import pytest

from domain.values import Fact
from domain.worker import WorkerQuarantined, WorkerRegistered, WorkerReleased
from journal.mapper import Meta, Recorded
from journal.registers import PartialWrite
from simulation.history import History
from simulation.laws import L2, ORDER, QUARANTINE, LawBroken
from tests.domain.facts import submitted
from tests.domain.kit import text

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ADA = "worker-default:ada"
REGISTERED = WorkerRegistered(worker_id="ada", labels={}, slots=2)
QUARANTINED = WorkerQuarantined(
    worker_id="ada", reason="ssh_timeout", cites=(), quarantined_at=NOON, until=NOON + timedelta(seconds=15)
)
PROBED = WorkerReleased(worker_id="ada", cause="probe", by="ada")
RELEASED = WorkerReleased(worker_id="ada", cause="operator", by="ops")


class Told:
    """A history that is told facts one after another, at seconds that the test names."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.history = History(lambda: self.seconds, lambda _: 0.0)

    def tell(self, fact: Fact, stream: str = ADA, *, at: float = 0.0, position: int | None = None) -> None:
        self.seconds = at
        place = self.history.position + 1 if position is None else position
        version = self.history.state(stream).version + 1
        meta = Meta(f"f{place}", NOON, None, None, None, "ada", "default", None)
        self.history.witness([Recorded(place, stream, version, "topic", fact, meta)], ())


def test_a_quarantine_that_a_probe_ends_before_its_cool_down_is_noticed() -> None:
    told = Told()
    told.tell(REGISTERED)
    told.tell(QUARANTINED)

    with pytest.raises(LawBroken) as broken:
        told.tell(PROBED, at=14.9)
    assert QUARANTINE == broken.value.law


def test_a_probe_after_the_cool_down_and_an_operator_at_any_time_may_end_a_quarantine() -> None:
    for ending, at in ((PROBED, 15.0), (RELEASED, 1.0)):
        told = Told()
        told.tell(REGISTERED)
        told.tell(QUARANTINED)
        told.tell(ending, at=at)

        assert told.history.state(ADA).quarantine is None


def test_a_position_that_is_left_out_is_noticed() -> None:
    told = Told()
    told.tell(REGISTERED)

    with pytest.raises(LawBroken) as broken:
        told.tell(QUARANTINED, position=3)
    assert ORDER == broken.value.law


def test_a_register_that_is_written_without_the_lease_is_noticed() -> None:
    told = Told()
    told.tell(submitted(), "run-r1")

    with pytest.raises(LawBroken) as broken:
        told.history.witness([], [PartialWrite("r1", 1, text("half"))])
    assert L2 == broken.value.law
