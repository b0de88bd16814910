"""The facts of a workspace, in the past tense, each with everything needed to believe it later.

All of them are in the workspace's own stream and filed under its run. A *loss* and a *fault* are the two ways in which
a body fails its run: a loss is the end of a body that was attached to, a fault the end of one that never was. Both
carry what was last seen of it, so that nobody has to ask a body that is gone. Instants are aware UTC, and for people.
"""

from datetime import datetime
from typing import Literal, get_args

from domain.values import Fact, Json, Value

Provider = Literal["external", "directory", "process", "kubernetes"]
"""Who makes the body: ``kubernetes`` Pods and Sandboxes (the ``spec`` says which), ``external`` somebody else."""

ON_ITS_MACHINE: frozenset[Provider] = frozenset({"directory", "process"})
"""Providers whose bodies only the worker that placed them can see and reach."""

WaitsOn = Literal["node", "quota"]
UnknownCause = Literal["watch_dropped", "observer_gone", "holder_gone", "boot"]
LossReason = Literal[
    "PodDeleted", "Evicted", "Terminated", "PodFailed", "PodSucceeded", "NodeLost", "Deleted", "DirectoryDeleted",
    "DirectoryReplaced", "ProcessExited",
]  # fmt: skip
LOSS_REASONS: tuple[LossReason, ...] = get_args(LossReason)
EXITS: frozenset[LossReason] = frozenset({"ProcessExited", "PodSucceeded", "PodFailed"})
"""Reasons that say that what ran inside has ended: the holder, who may know how, is asked first."""


class ExitSeen(Value, frozen=True, kw_only=True):
    """What ran inside has ended; ``code`` is null when nobody saw it."""

    code: int | None = None


class WorkspacePlaced(Fact, frozen=True, kw_only=True):
    """A run is to stand on this; the body may not exist yet."""

    workspace_id: str
    run_id: str
    tenant: str
    provider: Provider
    scope: str | None
    """What one observer watches as a whole, for example a cluster; null: the holder watches it."""
    spec: Json
    fence: int
    worker: str
    placed_at: datetime


class WorkspaceWaiting(Fact, frozen=True, kw_only=True):
    """There is no room for the body yet; it waits without a deadline."""

    on: WaitsOn
    message: str | None
    since: datetime


class WorkspaceProvisioning(Fact, frozen=True, kw_only=True):
    """The body is being made; with an identity it exists, and what is inside has yet to answer."""

    identity: str | None
    since: datetime


class WorkspaceAttached(Fact, frozen=True, kw_only=True):
    """The run stands on this body, and on no other for the workspace's whole life."""

    identity: str
    incarnation: int
    details: dict[str, str]
    version: str | None = None
    attached_at: datetime


class HarnessRestarted(Fact, frozen=True, kw_only=True):
    """What runs inside was started again, for the ``incarnation``-th time; how its last life ended, if it was seen."""

    incarnation: int
    reason: str | None
    message: str | None
    exit_code: int | None
    version: str | None = None
    at: datetime


class ContinuityUnknown(Fact, frozen=True, kw_only=True):
    """Nobody sees the body. This is never a loss."""

    since: datetime
    cause: UnknownCause


class ContinuityRestored(Fact, frozen=True, kw_only=True):
    """The body is seen again, and is still the one that was attached to."""

    unknown_since: datetime
    restored_at: datetime


class WorkspaceLost(Fact, frozen=True, kw_only=True):
    """The attached body is gone, has ended or was replaced: told once.

    ``pending``: it carries an exit, and the holder under ``fence`` has a live lease; its close decides, or its lease's
    end.
    """

    identity: str
    reason: LossReason
    message: str | None
    exit: ExitSeen | None
    incarnation: int
    fence: int
    pending: bool
    version: str | None
    lost_at: datetime


class ProvisionFaulted(Fact, frozen=True, kw_only=True):
    """The body ended, or its budget ran out, before anybody attached to it."""

    reason: str
    message: str | None
    cites: tuple[str, ...]
    faulted_at: datetime


class WorkspaceReleased(Fact, frozen=True, kw_only=True):
    """Its run needs it no more: the body is to be destroyed, or explicitly kept."""

    keep: bool
    by: str
    cause: str
    released_at: datetime


class WorkspaceReaped(Fact, frozen=True, kw_only=True):
    """Nobody asserted it for ``idle_s``: the body is to be destroyed.

    ``last_asserted_at`` is null when nobody did since the service was started.
    """

    last_asserted_at: datetime | None
    idle_s: float
    reaped_at: datetime


class WorkspaceDestroyed(Fact, frozen=True, kw_only=True):
    """There is no body any more."""

    cause: str
    destroyed_at: datetime


WorkspaceFact = (
    WorkspacePlaced
    | WorkspaceWaiting
    | WorkspaceProvisioning
    | WorkspaceAttached
    | HarnessRestarted
    | ContinuityUnknown
    | ContinuityRestored
    | WorkspaceLost
    | ProvisionFaulted
    | WorkspaceReleased
    | WorkspaceReaped
    | WorkspaceDestroyed
)


class LastSeen(Value, frozen=True, kw_only=True):
    """What was last heard about a body beside its being there; kept in the evidence register and no fact."""

    reason: str | None = None
    message: str | None = None
