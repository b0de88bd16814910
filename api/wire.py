"""What is answered: the response vocabulary of the interface.

The models describe; they are not built on the way out. An answer is a command's or a view's own document, encoded once,
and ``tests/api`` holds real answers against these models, which are closed: a field that is not written here fails.

Instants are RFC 3339 in UTC, durations are seconds (``_s``), positions are the journal's. ``Any`` is the caller's JSON.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.facts import AnyFact, Shown, model_of
from api.wire_workspaces import Ground
from domain.run_facts import State
from domain.submission import Policy
from projections.outlook import BlockedCode

if TYPE_CHECKING:
    RunPolicy = Any
else:
    RunPolicy = model_of(Policy)


class Leader(Shown):
    """A leader's presence."""

    connections: int
    zero_since: datetime | None


class Submitted(Shown):
    """The receipt of a submission."""

    run_id: str
    state: State
    position: int
    leader: Leader | None


class SubmittedOne(Shown):
    """One receipt of a batch."""

    run_id: str
    state: State


class SubmittedBatch(Shown):
    """The receipts of a batch, in the order of its submissions."""

    runs: list[SubmittedOne]
    position: int


class Answered(Shown):
    """One question and what was answered."""

    question: Any
    answer: Any
    principal: str
    at: datetime


class Evidence(Shown):
    """The last-seen marks of a run."""

    last_renewed_at: datetime | None
    lease_deadline: datetime | None
    last_activity_at: datetime | None
    quiet_since: datetime | None
    unknown_since: datetime | None


class AsOf(Shown):
    """The place in the journal that is shown, when that was, and what is null because it was never recorded."""

    position: int
    recorded_at: datetime
    not_recorded: list[str]


class UnansweredTimeout(Shown):
    """A clock that has run out, of which the run's leader was told and has not said what it wants: extend or abort."""

    fact: str
    kind: Literal["inactivity", "total"]
    since: datetime
    after_s: float


class ListedRun(Shown):
    """A run as a list shows it."""

    run_id: str
    queue: str
    name: str | None
    tags: dict[str, str]
    labels: dict[str, str]
    priority: int
    run_after: datetime | None
    concurrency_key: str | None
    state: State
    reason: str | None
    leader_id: str | None
    revision: int
    fence: int
    attempt: int
    failed_attempts: int
    owner: str | None
    due_at: datetime | None
    policy: RunPolicy
    question: Any
    answers: list[Answered]
    timeouts: list[UnansweredTimeout] = Field(default_factory=list)
    """Told and not answered yet; an inactivity as long as its attempt is under way. Left out when there are none."""
    partial: Any
    result: Any
    error: Any
    retry_of: str | None
    workspaces: list[Ground]
    evidence: Evidence
    submitted_at: datetime
    settled_at: datetime | None
    position: int


class ShownTurn(Shown):
    """A turn that is under way; `why` has since when it is in its state."""

    turn: int
    state: Literal["admitted", "waiting", "busy", "answer_unread"]
    workspace_id: str | None
    mark: int | None
    """The incarnation that it is held to; null outside a workspace."""
    admitted_at: datetime


class Run(ListedRun):
    """A run with everything that is known of it; ``position`` is that of its last fact."""

    payload: Any
    turns: list[ShownTurn] = Field(default_factory=list)
    """Those under way; left out when there are none."""
    as_of: AsOf | None = None
    """Only in an answer about the past."""


class RunPage(Shown):
    """A page of runs; ``position`` is how far the list has read the journal, or the one that was asked for."""

    items: list[ListedRun]
    next_cursor: str | None
    position: int
    as_of: AsOf | None = None
    """Only in an answer about the past."""


class Facts(Shown):
    """Facts in order; read on after ``next_after``."""

    facts: list[AnyFact]
    next_after: int | None


class RunningClock(Shown):
    """A clock that runs on a run, on one of its workspaces, or on one of its turns."""

    name: str
    since: datetime | None
    due_at: datetime | None
    workspace_id: str | None
    turn: int | None


class OpenTurn(Shown):
    """A turn that is under way: its state and since when, what it is about, and the incarnation it is held to."""

    turn: int
    state: Literal["admitted", "waiting", "busy", "answer_unread"]
    since: datetime
    workspace_id: str | None
    mark: int | None


class WaitedFor(Shown):
    """One thing that keeps a queued run from being granted, and what would change it."""

    code: BlockedCode
    because: str
    until: str
    details: dict[str, Any]


class QueuePlace(Shown):
    """Where a queued run stands: due runs before it (counted up to 10,000), and runs queued there at all."""

    name: str
    ahead: int
    depth: int


class RefusedWrite(Shown):
    """Writes under a fence that gave no right: whose, why it gave none, how often, and from when until when."""

    worker: str | None
    principal: str
    fence: int
    reason: str
    count: int
    first_at: datetime
    last_at: datetime


class Why(BaseModel):
    """Why a run is as it is, with the facts that led to it, and what would happen next."""

    model_config = ConfigDict(extra="allow")

    state: State
    because: list[AnyFact]
    evidence: dict[str, Any]
    fence: int
    clocks: list[RunningClock]
    turns: list[OpenTurn]
    next: str
    waiting_for: list[WaitedFor]
    """Everything that keeps a queued run from being granted, what is decisive first."""
    queue: QueuePlace | None
    refused: list[RefusedWrite]
    """Writes that were refused for their fence, the latest first, as far as they are remembered."""
    as_of: AsOf | None = None
    """Only in an answer about the past."""


class Effect(Shown):
    """One entry of the effect ledger."""

    key: str
    state: Literal["intended", "completed", "failed", "ambiguous", "reconciled"]
    outcome: Any
    resolution: Literal["done", "not_done"] | None
    fence: int


class Effects(Shown):
    """The effects of a run, in the order in which they were first claimed."""

    effects: list[Effect]


class KnownEffect(Shown):
    """What a claimant is told of its predecessors' effects."""

    key: str
    state: Literal["intended", "completed", "failed", "ambiguous", "reconciled"]
    outcome: Any


class EffectAnswer(Shown):
    """Go on, use this outcome, another payload, or nobody knows."""

    answer: Literal["claimed", "existing", "mismatch", "ambiguous"]
    outcome: Any


class EffectTold(Shown):
    """What the ledger holds now."""

    key: str
    state: Literal["completed", "failed", "reconciled"]
    outcome: Any = None
    resolution: Literal["done", "not_done"] | None = None


class GivenAnswer(Shown):
    """One question and answer, as a claimant is told."""

    question: Any
    answer: Any
    principal: str
    at: datetime


class Claim(Shown):
    """The right to act for one run, and what came before."""

    run_id: str
    fence: int
    attempt: int
    lease_ttl_s: float
    payload: Any
    partial: Any
    answers: list[GivenAnswer]
    effects: list[KnownEffect]


class Claims(Shown):
    """The claims that were granted; none when nothing is due."""

    claims: list[Claim]
    position: int


class Reservation(Shown):
    """A run set aside for a worker that is getting ready."""

    token: str
    run_id: str
    fence: int
    lapses_at: datetime


class Instruction(Shown):
    """Something that is asked of a holder."""

    kind: Literal[
        "cancel", "pause", "drain", "answer", "turn_failed", "turn_cut", "workspace_lost", "destroy_workspace", "stop"
    ]
    reason: str | None
    data: Any


class Renewal(Shown):
    """The answer about one lease."""

    run_id: str
    fence: int
    outcome: Literal["renewed", "lost", "slice_ended"]
    current: int
    holder: str | None
    reason: str | None
    ttl_s: float | None
    slice_ends_in_s: float | None
    instructions: list[Instruction]


class Renewals(Shown):
    """One answer for each lease, in order."""

    leases: list[Renewal]


class Problem(BaseModel):
    """A failure (RFC 9457) with a stable code and the values of the case."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str
    detail: str
    retry_after_s: float | None = None


class Closed(BaseModel):
    """What became of one close: the run's state, or the refusal with its code and values."""

    model_config = ConfigDict(extra="allow")

    run_id: str
    state: State | None = None
    code: str | None = None


class ClosedMany(Shown):
    """One answer for each close, in order."""

    closes: list[Closed]
    position: int | None = None


class Chunk(Shown):
    """One piece of output."""

    fence: int
    seq: int
    stream: str
    data: str


class OutputPage(Shown):
    """Pieces of output in order; read on after ``next_after``."""

    chunks: list[Chunk]
    next_after: str | None
