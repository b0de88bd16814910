"""What a run can be, and what it remembers: the parts of its state, each with all that belongs to it and no more.

The *phase* is where the run stands; the other values are what was decided on the way: who is acting, how the last close
was put, what was asked and answered, which clocks ran out. ``domain.run`` puts them together and says how facts change
them. Instants are aware UTC and are for people.
"""

from datetime import datetime
from typing import Literal

from domain.run_facts import ParkKind, Terminal, TimeoutKind
from domain.values import Json, Value


class Queued(Value, frozen=True, kw_only=True):
    """Ready to be claimed from ``due_at`` on."""

    due_at: datetime
    reason: str


class Running(Value, frozen=True, kw_only=True):
    """A worker acts for it."""


class Parked(Value, frozen=True, kw_only=True):
    """Waiting for somebody, not working."""

    kind: ParkKind
    question: Json
    since: datetime
    reason: str | None = None


class WaitingVerdict(Value, frozen=True, kw_only=True):
    """The worker has closed; the leader has not judged."""

    outcome: Literal["succeeded", "failed"]
    since: datetime


class Settled(Value, frozen=True, kw_only=True):
    """Ended, for good."""

    state: Terminal
    reason: str
    settled_at: datetime


Phase = Queued | Running | Parked | WaitingVerdict | Settled


class Acting(Value, frozen=True, kw_only=True):
    """The attempt that is under way, also while parked with its lease kept."""

    fence: int
    worker: str
    started_at: datetime


class ClosedBy(Value, frozen=True, kw_only=True):
    """The last close: what makes an identical one a harmless repeat."""

    fence: int
    outcome: Literal["succeeded", "failed"]
    result: Json
    error: Json
    retried: bool = False
    """Whether the run was queued again by it."""


class Asked(Value, frozen=True, kw_only=True):
    """A principal asked for the run to be cancelled; it is settled at ``settles_at`` if nothing settles it before."""

    asked_at: datetime
    settles_at: datetime
    citation: str
    keep_workspaces: bool


class Timeout(Value, frozen=True, kw_only=True):
    """A clock that ran out: which, on what mark, and what the leader said to it."""

    kind: TimeoutKind
    mark: str
    """Since when the clock was running: an instant, for people."""
    after_s: float = 0.0
    fence: int | None = None
    """That of the attempt it was told about; None when nobody was acting."""
    answer: Literal["extend", "abort"] | None = None


class Answered(Value, frozen=True, kw_only=True):
    """One question and what was answered."""

    question: Json
    answer: Json
    principal: str
    at: datetime
    fence: int | None
    """The fence of the holder that it was delivered to, when one had kept its lease."""
