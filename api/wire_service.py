"""What is answered about the service itself: its workers, queues, keys and health.

Together with ``api/wire.py`` this is the response vocabulary; the same rules hold.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from api.facts import Shown
from commands.desk import Role


class QuarantineState(Shown):
    """Why a worker is granted nothing, and until when."""

    reason: str
    since: datetime
    until: datetime


class WorkerInstance(Shown):
    """Which process goes by a worker's id, and since when."""

    id: str
    where: str | None
    since: datetime


class Worker(Shown):
    """A worker."""

    worker_id: str
    state: Literal["active", "draining", "quarantined", "gone"]
    labels: dict[str, str]
    slots: int
    slots_used: int
    holding: list[str]
    quarantine: QuarantineState | None
    last_seen_at: datetime | None
    instance: WorkerInstance | None


class LeaderShown(Shown):
    """How a leader is present, and how many open runs it has."""

    leader_id: str
    connections: int
    zero_since: datetime | None
    open_runs: int


class CancelledRun(Shown):
    """One run that matched: what became of it, or why it was not cancelled."""

    run_id: str
    state: str | None = None
    code: str | None = None
    detail: str | None = None


class CancelledRuns(Shown):
    """How many open runs matched, and the first of them."""

    matching: int
    runs: list[CancelledRun]


class Queue(Shown):
    """A queue's limits, and what is in it."""

    queue: str
    max_leases: int | None
    max_per_key: int
    queued: int
    leases: int


class Key(Shown):
    """A key, without its secret."""

    key_id: str
    name: str
    role: Role
    leader_ids: list[str] | None
    worker_ids: list[str] | None
    not_after: datetime | None
    created_at: datetime
    revoked_at: datetime | None


class MadeKey(Key):
    """A new key; its secret is shown here and nowhere else."""

    key: str


class KeyPage(Shown):
    """The keys, the oldest first."""

    items: list[Key]
    next_cursor: str | None


class Whoami(Shown):
    """Who the caller is taken for; null ids mean any of the tenant."""

    principal: str
    role: Role
    tenant: str
    leader_ids: list[str] | None
    worker_ids: list[str] | None


class Version(Shown):
    """What is running."""

    version: str
    python: str
    journal: str


class Ticket(Shown):
    """A one-time pass for a url that cannot carry a header."""

    ticket: str
    expires_in_s: float


class JournalHealth(Shown):
    """The journal of this node."""

    kind: str
    epoch: str
    boot_id: str
    position: int
    last_append_at: datetime | None
    queued: int


class Unknown(Shown):
    """A workspace of which nobody knows whether it is there: since when, and for how long while the service was up."""

    workspace_id: str
    run_id: str
    scope: str | None
    cause: Literal["watch_dropped", "observer_gone", "holder_gone", "boot"]
    since: datetime
    age_s: float


class Health(Shown):
    """How the service is."""

    status: Literal["ok", "degraded", "error"]
    first_error: str | None = Field(description="sticky until it clears by itself or is acknowledged")
    unknowns: list[Unknown] = Field(description="the longest first, at most 100; `loops.observers` counts them all")
    refused_stale: dict[str, int] = Field(description="guarded writes refused for their fence, by route")
    unfenced: dict[str, int] = Field(description="guarded writes accepted without a fence, by what they did")
    loops: dict[str, Any]
    streams: int
    journal: JournalHealth


class Live(Shown):
    """The process answers."""

    status: Literal["ok"]


class Ready(Shown):
    """Whether the service has booted, and which step it is at."""

    status: Literal["ready", "booting", "stopping", "failed"]
    step: str
