"""What the stored read models answer: timelines, effects of all runs, usage, and how the models themselves stand.

Together with ``api/wire.py`` this is the response vocabulary; the same rules hold.
"""

from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field

from api.facts import Shown
from api.wire_service import LeaderShown, Queue, Worker
from domain.effects import EffectState
from domain.run_facts import State


class Happened(Shown):
    """One thing that happened to a run, and how long the state that it led to lasted."""

    position: int
    fact: str = Field(description="the fact's citation, `stream@version`")
    topic: str
    at: datetime
    state: State | None = Field(description="the state from then on, where the fact says so")
    until: datetime | None = Field(description="when that state ended; null while it lasts")
    lasted_s: float | None
    fence: int | None
    worker: str | None
    detail: str | None = Field(description="who, why or what, in one word")
    workspace_id: str | None = Field(description="the workspace that it happened to, or null")


class Timeline(Shown):
    """What happened to a run, in the order of the journal."""

    run_id: str
    items: list[Happened]
    next_cursor: str | None
    position: int


class ListedEffect(Shown):
    """An effect of any run, with that run's name."""

    run_id: str
    name: str | None
    key: str
    queue: str
    state: EffectState
    resolution: Literal["done", "not_done"] | None
    outcome: Any
    payload_digest: str
    fence: int
    intended_at: datetime
    changed_at: datetime
    position: int


class EffectPage(Shown):
    """Effects, in the order in which they were first claimed."""

    items: list[ListedEffect]
    next_cursor: str | None
    position: int


class Used(Shown):
    """What one queue used on one day (UTC)."""

    day: date
    queue: str
    submitted: int
    attempts: int = Field(description="begun on this day")
    seconds: float = Field(description="of attempts that ended on this day")
    closed_succeeded: int
    closed_failed: int
    given_back: int = Field(description="attempts that their holder ended without closing: handed back, parked, sliced")
    lost: int = Field(description="attempts whose holder was not heard any more, or had nothing to stand on")
    revoked: int
    late_closes: int
    settled_succeeded: int
    settled_failed: int
    settled_cancelled: int
    settled_aborted: int
    settled_lost: int
    reservations_lapsed: int
    effects: int
    effects_ambiguous: int
    workspaces: int = Field(description="placed for runs of this queue")
    workspaces_lost: int = Field(description="ends of a body that was attached to, whatever followed for its run")


class UsagePage(Shown):
    """Usage, the latest day first."""

    items: list[Used]
    next_cursor: str | None
    position: int


class Rate(Shown):
    """How fast runs came and went, per minute, over the last whole minutes."""

    window_s: int
    submitted_per_min: float
    started_per_min: float
    ended_per_min: float = Field(description="attempts that ended")
    settled_per_min: float


class ListedQueue(Queue):
    """A queue's limits, what waits in it and since when, and how fast runs come and go."""

    due: int = Field(description="queued runs that may be claimed now")
    oldest_due_at: datetime | None = Field(description="since when the run that has been due longest has been due")
    oldest_waits_s: float | None
    rates: list[Rate]


class QueuePage(Shown):
    """The queues, by name."""

    items: list[ListedQueue]
    next_cursor: str | None
    position: int


class WorkerCounts(Shown):
    """What came of a worker's attempts."""

    attempts: int
    succeeded: int
    failed: int
    given_back: int
    lost: int
    revoked: int
    seconds: float


class ListedWorker(Worker):
    """A worker, and what came of its attempts."""

    state: Literal["active", "draining", "quarantined", "left", "gone"]  # type: ignore[assignment]
    changed_at: datetime | None
    counts: WorkerCounts


class WorkerPage(Shown):
    """The workers, by id."""

    items: list[ListedWorker]
    next_cursor: str | None
    position: int


class LeaderCounts(Shown):
    """How many runs a leader wanted, and how those ended that were its own when they did."""

    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    aborted: int
    lost: int


class ListedLeader(LeaderShown):
    """A leader, and what became of its runs."""

    state: Literal["present", "absent", "gone", "never_seen"]
    changed_at: datetime | None
    counts: LeaderCounts


class LeaderPage(Shown):
    """The leaders, by id."""

    items: list[ListedLeader]
    next_cursor: str | None
    position: int


class Quarantined(Shown):
    """A fact at which a projection failed; it passes over everything later of the same subject."""

    subject: str
    position: int
    stream: str
    topic: str
    reason: str


class ProjectionShown(Shown):
    """How a stored read model stands."""

    name: str
    version: int
    state: Literal["current", "behind", "outdated", "missing"]
    position: int
    journal_position: int
    lag: int = Field(description="in facts")
    build: int = Field(description="raised by every rebuild")
    rows: int
    digest: str | None = Field(description="SHA-256 over every row; null unless it was asked for")
    rebuilt_to: int | None = Field(description="how far a rebuild is that is under way or was stopped")
    quarantined: list[Quarantined]
    rebuilding: bool = Field(description="whether this service is making it again")
    failing: bool
    errors: int
    first_error: str | None


class ProjectionList(Shown):
    """The stored read models."""

    items: list[ProjectionShown]
    next_cursor: str | None
    position: int
