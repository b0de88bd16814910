"""A leader that is gone: which runs are told, and that each is told once for one absence."""

from domain.run_facts import RunReassigned, WorkerTimeout
from tests.domain.commands import leader_gone
from tests.domain.facts import LEADER, granted, submitted
from tests.domain.kit import given, noon

KEPT = given(submitted(on_leader_gone="keep"), granted())
REASSIGNED = RunReassigned(leader_id="leo", revision=2, by=LEADER, reassigned_at=noon(3))


def test_the_absence_of_another_leader_is_told_to_no_run() -> None:
    given(submitted(on_leader_gone="cancel"), granted(), REASSIGNED).when(leader_gone(), at=10).then_nothing()


def test_a_run_is_told_once_of_one_absence_and_again_of_the_next() -> None:
    told = KEPT.when(leader_gone(60), at=10).then(WorkerTimeout)

    told.when(leader_gone(60), at=20).then_nothing()
    told.when(leader_gone(30), at=20).then(WorkerTimeout)
