"""What an explanation is made of: clocks, what a run waits for, writes that were refused, and the place it is of.

Frozen like all results, with defaults where the service may leave something out. Instants are aware datetimes.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AsOf:
    """The place in the journal that an answer shows, when that was, and what is null because it was never recorded."""

    position: int
    recorded_at: datetime | None = None
    not_recorded: Any = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunClock:
    """A clock that runs on a run, or on the workspace or the turn that it names."""

    name: str
    since: datetime | None = None
    due_at: datetime | None = None
    workspace_id: str | None = None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn under way: its state and since when, and the incarnation of the workspace that it is held to."""

    turn: int
    state: str
    since: datetime | None = None
    workspace_id: str | None = None
    mark: int | None = None


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn under way, as its run shows it."""

    turn: int
    state: str
    workspace_id: str | None = None
    mark: int | None = None
    admitted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """One thing that keeps a queued run from being granted, and what would change it."""

    code: str
    because: str = ""
    until: str = ""
    details: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a queued run stands: due runs before it, and runs queued there at all."""

    name: str
    ahead: int = 0
    depth: int = 0


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """Writes under a fence that gave no right: whose, why it gave none, how often, and from when until when."""

    principal: str
    fence: int
    reason: str = ""
    count: int = 1
    worker: str | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
