"""Letting go of workspaces: what becomes of those that were never made when their run ends."""

import pytest

from domain.lease import LeaseRevoked
from domain.run_facts import AttemptEnded, RunSettled
from domain.workspace_facts import ProvisionFaulted, WorkspaceDestroyed, WorkspaceReleased
from tests.domain.facts import granted, submitted
from tests.domain.ground_facts import fault, placed
from tests.domain.kit import given, on


@pytest.mark.parametrize("other", ["w2", "other-w1"])
def test_a_fault_that_ends_the_run_lets_go_of_every_other_workspace_that_was_never_made(other: str) -> None:
    last = given(submitted(max_attempts=1), granted(), placed(), on(other, placed(workspace_id=other)))

    ended = last.when(fault(workspace_id=other), at=10)

    after = ended.then(
        ProvisionFaulted, AttemptEnded, RunSettled, LeaseRevoked, WorkspaceReleased, WorkspaceDestroyed
    ).now_it_is("aborted")
    assert ("destroyed", "provision_failed") == (after.ground("w1").phase, after.ground(other).phase)
