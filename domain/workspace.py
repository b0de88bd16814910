"""The workspace: what a run stands on (a pod, a directory, a process tree), and whether it still does.

    placing -> provisioning -> attaching -> running -> teardown -> destroyed
        a body that ends before it was attached to: provision_failed        one that ends afterwards: lost

What counts is continuity, not existence. A workspace has one *identity* for its whole life, judged by whoever made the
body; it never returns to an earlier phase and is never given a second body: a fresh one is a new workspace. How often
the harness inside has started is its *incarnation*, a mark and not an identity, and only rises.

``lost`` and ``provision_failed`` never change again. That their body is to be destroyed (``teardown``) and was
destroyed (``destroyed_at``) stands beside the phase, since a lost body may be there for people to look at.
``unknown_since`` says that nobody sees the body: shown with its age, and never a loss.

This file says what a workspace is and how facts change it. What may follow is decided in ``domain.placing`` (what its
provider and its holder do), ``domain.observing`` (what is seen of it) and ``domain.grounds`` (what its end means for
the run).
"""

from datetime import datetime
from typing import Literal, assert_never

import msgspec

from domain.values import Value
from domain.workspace_facts import (
    ContinuityRestored,
    ContinuityUnknown,
    ExitSeen,
    HarnessRestarted,
    LossReason,
    Provider,
    ProvisionFaulted,
    UnknownCause,
    WaitsOn,
    WorkspaceAttached,
    WorkspaceDestroyed,
    WorkspaceFact,
    WorkspaceLost,
    WorkspacePlaced,
    WorkspaceProvisioning,
    WorkspaceReaped,
    WorkspaceReleased,
    WorkspaceWaiting,
)

WorkspacePhase = Literal[
    "placing", "provisioning", "attaching", "running", "teardown", "destroyed", "lost", "provision_failed"
]
BEFORE_ATTACHMENT: frozenset[WorkspacePhase] = frozenset({"placing", "provisioning", "attaching"})
OVER: frozenset[WorkspacePhase] = frozenset({"lost", "provision_failed", "destroyed"})
"""Terminal phases."""


class Waiting(Value, frozen=True, kw_only=True):
    """What the body waits for."""

    on: WaitsOn
    message: str | None
    since: datetime


class Harness(Value, frozen=True, kw_only=True):
    """How the last life inside ended."""

    reason: str | None
    message: str | None
    exit_code: int | None


class Loss(Value, frozen=True, kw_only=True):
    """How the attached body was lost, and the fence that was then in force."""

    reason: LossReason
    message: str | None
    exit: ExitSeen | None
    fence: int
    pending: bool
    lost_at: datetime
    citation: str


class Faulted(Value, frozen=True, kw_only=True):
    """How the body failed before it was attached to."""

    reason: str
    message: str | None
    faulted_at: datetime


class Unplaced(Value, frozen=True, kw_only=True):
    """No workspace was placed under this id."""

    version: int = 0


UNPLACED = Unplaced()


class Workspace(Value, frozen=True, kw_only=True):
    """Everything that was decided about one workspace."""

    version: int
    placed: WorkspacePlaced
    phase: WorkspacePhase
    identity: str | None = None
    incarnation: int = 0
    details: dict[str, str] = msgspec.field(default_factory=dict)
    waiting: Waiting | None = None
    provisioning_since: datetime | None = None
    """When its budget began: at its first fact of provisioning."""
    attached_at: datetime | None = None
    unknown_since: datetime | None = None
    unknown_cause: UnknownCause | None = None
    harness: Harness | None = None
    lost: Loss | None = None
    fault: Faulted | None = None
    released_at: datetime | None = None
    reaped_at: datetime | None = None
    kept: bool = False
    """Explicitly kept beyond its run: not reaped until somebody releases it."""
    teardown: bool = False
    """The body is to be destroyed, or was."""
    destroyed_at: datetime | None = None
    observed: str | None = None
    """The version of the last observation that a fact followed from."""

    @property
    def workspace_id(self) -> str:
        """The workspace's id."""
        return self.placed.workspace_id

    @property
    def provider(self) -> Provider:
        """Who makes the body."""
        return self.placed.provider

    @property
    def over(self) -> bool:
        """Whether its phase is terminal."""
        return self.phase in OVER

    @property
    def awaits_teardown(self) -> bool:
        """Whether there may be a body that its provider is to destroy."""
        return self.teardown and self.destroyed_at is None

    @property
    def reason(self) -> str | None:
        """Why it is over, in one word, where that is not plain."""
        if self.lost is not None:
            return self.lost.reason
        return None if self.fault is None else self.fault.reason


def workspace_stream(workspace_id: str) -> str:
    """The workspace's own stream."""
    return f"workspace-{workspace_id}"


def evolve(workspace: Workspace | Unplaced, fact: WorkspaceFact) -> Workspace | Unplaced:
    """The workspace after one more fact."""
    version = workspace.version + 1
    if isinstance(fact, WorkspacePlaced):
        external = fact.provider == "external"
        return Workspace(
            version=version,
            placed=fact,
            phase="provisioning" if external else "placing",
            provisioning_since=fact.placed_at if external else None,
        )
    if isinstance(workspace, Unplaced):
        return Unplaced(version=version)
    return msgspec.structs.replace(workspace, version=version, **_changes(workspace, fact))


def _changes(workspace: Workspace, fact: WorkspaceFact) -> dict[str, object]:  # noqa: C901  (one arm for each fact)
    match fact:
        case WorkspacePlaced():
            return {}
        case WorkspaceWaiting():
            return {"waiting": Waiting(on=fact.on, message=fact.message, since=fact.since)}
        case WorkspaceProvisioning():
            return _provisioned(workspace, fact)
        case WorkspaceAttached():
            return _attached(workspace, fact)
        case HarnessRestarted():
            harness = Harness(reason=fact.reason, message=fact.message, exit_code=fact.exit_code)
            return {"incarnation": fact.incarnation, "harness": harness, "observed": fact.version or workspace.observed}
        case ContinuityUnknown():
            return {"unknown_since": fact.since, "unknown_cause": fact.cause}
        case ContinuityRestored():
            return {"unknown_since": None, "unknown_cause": None}
        case WorkspaceLost() | ProvisionFaulted():
            return _failed(workspace, fact)
        case WorkspaceReleased() | WorkspaceReaped() | WorkspaceDestroyed():
            return _let_go(workspace, fact)
        case _:
            assert_never(fact)


_SEEN: dict[str, object] = {"unknown_since": None, "unknown_cause": None, "waiting": None}
"""Nothing is waited for, and nothing about continuity is open any more."""


def _provisioned(workspace: Workspace, fact: WorkspaceProvisioning) -> dict[str, object]:
    return {
        "phase": "provisioning" if fact.identity is None else "attaching",
        "identity": fact.identity or workspace.identity,
        "provisioning_since": workspace.provisioning_since or fact.since,
        "waiting": None,
    }


def _attached(workspace: Workspace, fact: WorkspaceAttached) -> dict[str, object]:
    return {
        "phase": "running", "identity": fact.identity, "incarnation": fact.incarnation, "details": fact.details,
        "attached_at": fact.attached_at, "observed": fact.version or workspace.observed, **_SEEN,
    }  # fmt: skip


def _failed(workspace: Workspace, fact: WorkspaceLost | ProvisionFaulted) -> dict[str, object]:
    if isinstance(fact, ProvisionFaulted):
        fault = Faulted(reason=fact.reason, message=fact.message, faulted_at=fact.faulted_at)
        return {"phase": "provision_failed", "fault": fault, **_SEEN}
    loss = Loss(
        reason=fact.reason, message=fact.message, exit=fact.exit, fence=fact.fence, pending=fact.pending,
        lost_at=fact.lost_at, citation=f"{workspace_stream(workspace.workspace_id)}@{workspace.version + 1}",
    )  # fmt: skip
    return {"phase": "lost", "lost": loss, "observed": fact.version or workspace.observed, **_SEEN}


def _let_go(
    workspace: Workspace, fact: WorkspaceReleased | WorkspaceReaped | WorkspaceDestroyed
) -> dict[str, object]:  # fmt: skip
    if isinstance(fact, WorkspaceReleased) and fact.keep:
        return {"kept": True, "released_at": fact.released_at}
    phase: WorkspacePhase = "destroyed" if isinstance(fact, WorkspaceDestroyed) else "teardown"
    changes: dict[str, object] = {"phase": workspace.phase if workspace.over else phase, "teardown": True, **_SEEN}
    match fact:
        case WorkspaceReleased():
            return changes | {"kept": False, "released_at": fact.released_at}
        case WorkspaceReaped():
            return changes | {"reaped_at": fact.reaped_at}
        case WorkspaceDestroyed():
            return changes | {"destroyed_at": fact.destroyed_at}
