"""A leader that is gone: which runs are told, and that each is told once for one absence."""

import pytest

from domain.lease import LeaseRevoked
from domain.run_facts import AttemptEnded, PartialSalvaged, RunParked, RunReassigned, RunSettled, WorkerTimeout
from tests.domain.commands import leader_gone
from tests.domain.facts import LEADER, granted, submitted
from tests.domain.ground_facts import ground, lost
from tests.domain.kit import Given, given, ground_citation, noon, run_citation

KEPT = given(submitted(on_leader_gone="keep"), granted())
REASSIGNED = RunReassigned(leader_id="leo", revision=2, by=LEADER, reassigned_at=noon(3))


def test_the_absence_of_another_leader_is_told_to_no_run() -> None:
    given(submitted(on_leader_gone="cancel"), granted(), REASSIGNED).when(leader_gone(), at=10).then_nothing()


def test_a_run_is_told_once_of_one_absence_and_again_of_the_next() -> None:
    told = KEPT.when(leader_gone(60), at=10).then(WorkerTimeout)

    told.when(leader_gone(60), at=20).then_nothing()
    told.when(leader_gone(30), at=20).then(WorkerTimeout)


def _parks(policy: str) -> Given:
    """A run that its leader's absence parks, whose holder is still asked about the end of its process."""
    facts = (granted(), ground(), lost("ProcessExited", pending=True))
    return given(submitted(on_leader_gone="park", on_workspace_lost=policy), *facts)


def test_a_run_that_an_absence_parks_is_lost_with_its_ground_where_its_policy_says_so() -> None:
    outcome = _parks("settle_lost").partial("half").when(leader_gone(), at=20)

    outcome.then(WorkerTimeout, AttemptEnded, PartialSalvaged, RunSettled, LeaseRevoked).now_it_is("lost", fence=2)
    both = (run_citation(3), ground_citation(3))
    assert both == outcome.fact(AttemptEnded).cites
    assert (*both, run_citation(4)) == outcome.fact(RunSettled).cites
    assert noon(20) == outcome.fact(RunSettled).settled_at


@pytest.mark.parametrize("policy", ["retry_fresh", "park"])
def test_a_run_that_an_absence_parks_is_paused_on_a_loss_that_would_not_end_it_and_cites_it(policy: str) -> None:
    outcome = _parks(policy).when(leader_gone(), at=20)

    outcome.then(WorkerTimeout, AttemptEnded, LeaseRevoked, RunParked).now_it_is("paused")
    assert (run_citation(3), ground_citation(3)) == outcome.fact(AttemptEnded).cites


def test_a_run_that_an_absence_parks_is_paused_whatever_it_would_do_at_a_loss_while_there_is_none() -> None:
    outcome = given(submitted(on_leader_gone="park"), granted(), ground()).when(leader_gone(), at=20)

    outcome.then(WorkerTimeout, AttemptEnded, LeaseRevoked, RunParked).now_it_is("paused")
    assert (run_citation(3),) == outcome.fact(AttemptEnded).cites
