"""What the service answers about workspaces and turns, as typed values; see `jackline.models` for the rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

OVER: Final = frozenset({"lost", "provision_failed", "destroyed"})

ProviderName = Literal["external", "directory", "process", "kubernetes"]


class WorkspaceFilter(TypedDict, total=False):
    """What a listing of workspaces may be narrowed by."""

    phase: str
    scope: str
    provider: str
    run_id: str
    all: bool
    limit: int
    cursor: str
    min_position: int


@dataclass(frozen=True, slots=True)
class WorkspaceLoss:
    """Why the attached body is gone."""

    reason: str
    message: str | None = None
    exit_code: int | None = None
    pending: bool = False
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceFault:
    """Why the body never came to be."""

    reason: str
    message: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceWaiting:
    """What the making of the body waits for."""

    on: str
    message: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Harness:
    """How the last life inside the body ended."""

    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run stands on, as the run shows it: no more is said there, and nothing more is made up here."""

    workspace_id: str
    phase: str
    provider: str = "external"
    scope: str | None = None
    identity: str | None = None
    incarnation: int = 0
    lost: WorkspaceLoss | None = None
    fault: WorkspaceFault | None = None
    waiting: WorkspaceWaiting | None = None
    unknown_since: datetime | None = None
    teardown: bool = False
    destroyed_at: datetime | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""
        return self.phase in OVER

    @property
    def awaits_teardown(self) -> bool:
        """Whether there may be a body that its provider is to destroy."""
        return self.teardown and self.destroyed_at is None

    @property
    def reason(self) -> str | None:
        """Why it is over, in one word, where that is not plain."""
        ended = self.lost or self.fault
        return None if ended is None else ended.reason


@dataclass(frozen=True, slots=True)
class Workspace(Ground):
    """Everything about a workspace: what its run shows of it, and what only the workspace itself does."""

    run_id: str | None = None
    unknown_cause: str | None = None
    spec: Any = None
    details: Any = field(default_factory=dict)
    harness: Harness | None = None
    placed_at: datetime | None = None
    attached_at: datetime | None = None
    last_asserted_at: datetime | None = None
    to_assert: bool = False
    position: int = 0


@dataclass(frozen=True, slots=True)
class WorkspacePage:
    """One page of a listing of workspaces."""

    items: list[Workspace]
    next_cursor: str | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """A new workspace."""

    workspace_id: str
    phase: str


@dataclass(frozen=True, slots=True)
class Asserted:
    """The workspace is kept: how long without the next assertion, and within which time to make it."""

    workspace_id: str
    idle_reap_s: float
    next_within_s: float


@dataclass(frozen=True, slots=True)
class RefusedObservation:
    """An observation that was not taken, and why."""

    workspace_id: str
    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What became of a batch of observations."""

    applied: int
    ignored: int
    refused: list[RefusedObservation] = field(default_factory=list)
    absent: int = 0


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """How a turn is; `incarnation` is the mark that it is held to."""

    turn: int
    incarnation: int | None = None
    state: str = "admitted"
    code: str | None = None
    message: str | None = None


class ScopePart(TypedDict, total=False):
    """Which part of a list that is larger than one batch this is."""

    sync_id: str
    index: int
    last: bool


Seen = Mapping[str, Any]
"""One observation as it goes over the wire: `Observation.document()`, with `workspace_id` where a scope is told."""
