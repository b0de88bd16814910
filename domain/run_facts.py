"""The facts of a run, in the past tense, each with everything needed to believe it later.

One append holds at most one fact of a kind for a run, in the order evidence, end of the attempt, salvage, outcome. A
fact that ends an attempt carries what the attempt had produced (``Work``); a fact that settles a run cites the facts
it follows from as ``stream@version``. Instants are aware UTC and are for people.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec

from domain.submission import Policy
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnCut, TurnFailed, TurnMoved, TurnNoticed
from domain.values import Fact, Json, Value

State = Literal[
    "queued", "reserved", "running", "waiting_input", "waiting_peer", "waiting_takeover", "waiting_verdict", "paused",
    "succeeded", "failed", "cancelled", "aborted", "lost",
]  # fmt: skip
Terminal = Literal["succeeded", "failed", "cancelled", "aborted", "lost"]
ParkKind = Literal["waiting_input", "waiting_peer", "waiting_takeover", "paused"]
TimeoutKind = Literal["leader_gone", "lease_expired", "detached", "inactivity", "total", "provision"]
EndOutcome = Literal[
    "expired", "detached", "slice_ended", "handed_back", "parked", "stalled", "revoked", "workspace_lost",
    "provision_failed",
]  # fmt: skip
TERMINAL: frozenset[State] = frozenset({"succeeded", "failed", "cancelled", "aborted", "lost"})
OPEN: frozenset[State] = frozenset(State.__args__) - TERMINAL  # type: ignore[attr-defined]


class Work(Value, frozen=True, kw_only=True):
    """What an attempt had produced when it ended: lengths and digests of its durable registers."""

    output_chunks: int = 0
    output_bytes: int = 0
    output_digest: str | None = None
    partials: int = 0
    partial_digest: str | None = None


class RunSubmitted(Fact, frozen=True, kw_only=True):
    """Somebody wants this run."""

    run_id: str
    tenant: str
    queue: str
    name: str | None
    tags: dict[str, str]
    payload: Json
    leader_id: str | None
    labels: dict[str, str]
    priority: int
    run_after: datetime | None
    due_at: datetime
    concurrency_key: str | None
    policy: Policy
    retry_of: str | None
    body_digest: str | None
    submitted_at: datetime


class AttemptStarted(Fact, frozen=True, kw_only=True):
    """A worker began to act under this fence."""

    attempt: int
    fence: int
    worker: str
    incarnations: dict[str, int] = msgspec.field(default_factory=dict)
    started_at: datetime


class AttemptEnded(Fact, frozen=True, kw_only=True):
    """The attempt ended without a close; ``due_at`` says when the run may be claimed again, if it is queued by this."""

    attempt: int
    fence: int
    outcome: EndOutcome
    cites: tuple[str, ...]
    failed_attempts: int
    due_at: datetime | None
    work: Work
    ended_at: datetime


class RunClosed(Fact, frozen=True, kw_only=True):
    """The worker closed its attempt; ``state`` is what became of the run, or null when the next fact says so."""

    attempt: int
    fence: int
    outcome: Literal["succeeded", "failed"]
    state: Literal["succeeded", "failed", "waiting_verdict", "queued"] | None
    result: Json
    error: Json
    failed_attempts: int
    due_at: datetime | None
    late: bool
    work: Work
    closed_at: datetime


class RunParked(Fact, frozen=True, kw_only=True):
    """The run waits for somebody."""

    kind: ParkKind
    question: Json
    lease_kept: bool
    reason: str | None
    parked_at: datetime


class InputProvided(Fact, frozen=True, kw_only=True):
    """The question was answered: to the holder under ``fence``, or the run is queued from ``due_at``."""

    question: Json
    answer: Json
    by: str
    fence: int | None
    due_at: datetime | None
    provided_at: datetime


class RunResumed(Fact, frozen=True, kw_only=True):
    """The wait is over: its holder goes on, or the run is queued from ``due_at``."""

    by: str
    fence: int | None
    due_at: datetime | None


class PauseRequested(Fact, frozen=True, kw_only=True):
    """The leader wants the run paused at the holder's convenience."""

    by: str
    requested_at: datetime


class CancelRequested(Fact, frozen=True, kw_only=True):
    """A principal wants the run cancelled; the holder may still save and close until ``settles_at``."""

    by: str
    keep_workspaces: bool
    requested_at: datetime
    settles_at: datetime


class VerdictRendered(Fact, frozen=True, kw_only=True):
    """The leader judged."""

    verdict: Literal["succeeded", "failed"]
    result: Json
    by: str
    rendered_at: datetime


class RunSettled(Fact, frozen=True, kw_only=True):
    """The run ended otherwise than by its worker's close; ``cites`` are the facts it follows from."""

    state: Terminal
    reason: str
    cites: tuple[str, ...]
    error: Json
    settled_at: datetime


class PartialSalvaged(Fact, frozen=True, kw_only=True):
    """The last partial became the result of a run that has none, once."""

    fence: int
    partial: Json


class WorkerTimeout(Fact, frozen=True, kw_only=True):
    """A clock ran out; the marks are what it was judged by. By itself it changes nothing."""

    kind: TimeoutKind
    fence: int | None
    worker: str | None
    marks: dict[str, Any]
    cites: tuple[str, ...]


class TimeoutAcknowledged(Fact, frozen=True, kw_only=True):
    """The leader answered a timeout: the run goes on (a total clock starts anew, whole), or it ends."""

    timeout: str
    kind: TimeoutKind
    answer: Literal["extend", "abort"]
    by: str
    acknowledged_at: datetime


class RunReassigned(Fact, frozen=True, kw_only=True):
    """Another leader wants the run from now on; its revision rises."""

    leader_id: str
    revision: int
    by: str
    reassigned_at: datetime


class StopReported(Fact, frozen=True, kw_only=True):
    """A worker whose lease was revoked told whether it saved before it stopped. It moves nothing."""

    fence: int
    worker: str
    report: Literal["saved", "ignored"]


RunFact = (
    RunSubmitted
    | AttemptStarted
    | AttemptEnded
    | RunClosed
    | RunParked
    | InputProvided
    | RunResumed
    | PauseRequested
    | CancelRequested
    | VerdictRendered
    | RunSettled
    | PartialSalvaged
    | WorkerTimeout
    | TimeoutAcknowledged
    | RunReassigned
    | StopReported
    | TurnAdmitted
    | TurnMoved
    | TurnCompleted
    | TurnFailed
    | TurnCut
    | TurnNoticed
)

SteeringFact = (
    RunParked
    | InputProvided
    | RunResumed
    | PauseRequested
    | CancelRequested
    | WorkerTimeout
    | TimeoutAcknowledged
    | RunReassigned
)
"""Facts that neither begin nor end an attempt."""
