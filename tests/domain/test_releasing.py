"""Letting go of workspaces: what becomes of those that were never made when their run ends."""

import pytest

from domain.lease import LeaseRevoked
from domain.run_facts import AttemptEnded, CancelRequested, RunSettled
from domain.workspace_facts import ProvisionFaulted, WorkspaceDestroyed, WorkspaceReleased
from tests.domain.commands import cancel_due
from tests.domain.facts import LEADER, granted, submitted
from tests.domain.ground_facts import fault, ground, placed
from tests.domain.kit import given, noon, on


@pytest.mark.parametrize("other", ["w2", "other-w1"])
def test_a_fault_that_ends_the_run_lets_go_of_every_other_workspace_that_was_never_made(other: str) -> None:
    last = given(submitted(max_attempts=1), granted(), placed(), on(other, placed(workspace_id=other)))

    ended = last.when(fault(workspace_id=other), at=10)

    after = ended.then(
        ProvisionFaulted, AttemptEnded, RunSettled, LeaseRevoked, WorkspaceReleased, WorkspaceDestroyed
    ).now_it_is("aborted")
    assert ("destroyed", "provision_failed") == (after.ground("w1").phase, after.ground(other).phase)


def test_a_cancel_that_keeps_is_remembered_until_its_grace_is_over() -> None:
    wish = CancelRequested(by=LEADER, keep_workspaces=True, requested_at=noon(5), settles_at=noon(15))
    cancelling = given(submitted(), granted(), ground(), wish)

    assert cancelling.when(cancel_due(), at=15).fact(WorkspaceReleased).keep
