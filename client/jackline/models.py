"""What the service answers, as typed values.

One frozen dataclass per document of the wire contract, with its names; what is not named here is ignored. User JSON
(payload, partial, question, answer, result, error, outcome) is `Any`. Instants are aware and UTC, `_s` is seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, TypedDict

from jackline.reasons import AsOf, OpenTurn, QueuePlace, RefusedWrite, RunClock, ShownTurn, WaitedFor
from jackline.workspaces.models import Ground

TERMINAL: Final = frozenset({"succeeded", "failed", "cancelled", "aborted", "lost"})
PARKED: Final = frozenset({"waiting_input", "waiting_peer", "waiting_takeover", "waiting_verdict", "paused"})
SETTLED_TOPIC: Final = "run.settled.v1"


class PolicyOptions(TypedDict, total=False):
    """A run's policy as it is submitted; what is left out takes the service's default."""

    max_attempts: int
    lease_ttl_s: float
    max_hold_s: float | None
    retry_base_s: float
    retry_cap_s: float
    verdict_by: Literal["worker", "leader"]
    on_quiet: Literal["report", "fail_attempt"]
    quiet_after_s: float
    total_after_s: float
    on_leader_gone: Literal["cancel", "keep", "park"]
    on_workspace_lost: Literal["settle_lost", "retry_fresh", "park"]


class SubmitOptions(TypedDict, total=False):
    """Everything that a submission may say beside its payload."""

    queue: str
    name: str | None
    tags: Mapping[str, str]
    leader_id: str | None
    labels: Mapping[str, str]
    priority: int
    run_after: str | None
    concurrency_key: str | None
    idempotency_key: str | None
    policy: PolicyOptions


class Submission(SubmitOptions):
    """A submission with its payload, for `submit_many`."""

    payload: NotRequired[Any]


At = int | str | datetime
"""A place in the journal: a position, or an instant (aware, or as RFC 3339 text)."""


class RunFilter(TypedDict, total=False):
    """What a listing of runs may be narrowed by."""

    state: str
    queue: str
    leader_id: str
    owner: str
    tag: str
    q: str
    sort: str
    limit: int
    cursor: str
    min_position: int
    at: At


class CancelFilter(TypedDict, total=False):
    """Which open runs to cancel; everything that is given must hold."""

    queue: str
    leader_id: str
    state: str
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LeaderPresence:
    """A leader's presence, as a submission reports it."""

    connections: int
    zero_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class LeaderInfo:
    """A leader as the service knows it: its connections, since when it has had none, and its open runs."""

    leader_id: str
    connections: int
    zero_since: datetime | None = None
    open_runs: int = 0


@dataclass(frozen=True, slots=True)
class Hello:
    """How the service greets a leader; `away_since` says from when on it had been away, if it had."""

    leader_id: str
    connections: int
    zero_since: datetime | None = None
    open_runs: int = 0
    away_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """A run that was settled while its leader was away."""

    run_id: str
    state: str
    name: str | None = None
    reason: str | None = None
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CancelledRun:
    """One run that a filter matched: what became of it, or the code and detail of why it was not cancelled."""

    run_id: str
    state: str | None = None
    code: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """How many open runs a filter matched, and the first of them."""

    matching: int
    runs: list[CancelledRun] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Submitted:
    """The receipt of one submission."""

    run_id: str
    state: str
    position: int | None = None
    leader: LeaderPresence | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One question that was put and answered."""

    answer: Any
    question: Any = None
    principal: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class UnansweredTimeout:
    """A clock that has run out, told and not answered: `fact` is its `stream@version`; `extend` or `abort` answers."""

    fact: str
    kind: str
    since: datetime | None = None
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The last-seen marks of a run."""

    last_renewed_at: datetime | None = None
    lease_deadline: datetime | None = None
    last_activity_at: datetime | None = None
    quiet_since: datetime | None = None
    unknown_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is now, or as it was (`as_of`); a listing leaves the payload out."""

    run_id: str
    queue: str
    state: str
    fence: int = 0
    attempt: int = 0
    failed_attempts: int = 0
    revision: int = 0
    priority: int = 0
    name: str | None = None
    reason: str | None = None
    leader_id: str | None = None
    owner: str | None = None
    due_at: datetime | None = None
    run_after: datetime | None = None
    concurrency_key: str | None = None
    tags: Any = field(default_factory=dict)
    labels: Any = field(default_factory=dict)
    policy: Any = field(default_factory=dict)
    payload: Any = None
    question: Any = None
    answers: list[Answer] = field(default_factory=list)
    timeouts: list[UnansweredTimeout] = field(default_factory=list)
    partial: Any = None
    result: Any = None
    error: Any = None
    retry_of: str | None = None
    workspaces: list[Ground] = field(default_factory=list)
    turns: list[ShownTurn] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)
    submitted_at: datetime | None = None
    settled_at: datetime | None = None
    position: int = 0
    as_of: AsOf | None = None

    @property
    def settled(self) -> bool:
        """Whether the run has ended for good."""
        return self.state in TERMINAL

    @property
    def parked(self) -> bool:
        """Whether the run waits for somebody."""
        return self.state in PARKED


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing of runs."""

    items: list[Run]
    next_cursor: str | None = None
    position: int = 0
    as_of: AsOf | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """One entry of the journal."""

    position: int
    topic: str
    data: Any
    fact_id: str = ""
    stream: str = ""
    recorded_at: datetime | None = None
    causation_id: str | None = None
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts in order, and where to go on."""

    facts: list[Fact]
    next_after: int | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """Why a run is in its state, with the facts that led to it, and what would happen next."""

    state: str
    because: list[Fact] = field(default_factory=list)
    evidence: Any = field(default_factory=dict)
    fence: int | None = None
    clocks: list[RunClock] = field(default_factory=list)
    turns: list[OpenTurn] = field(default_factory=list)
    workspaces: list[Any] = field(default_factory=list)
    next: str | None = None
    waiting_for: list[WaitedFor] = field(default_factory=list)
    queue: QueuePlace | None = None
    refused: list[RefusedWrite] = field(default_factory=list)
    as_of: AsOf | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """One entry of a run's effect ledger."""

    key: str
    state: str
    outcome: Any = None


@dataclass(frozen=True, slots=True)
class EffectAnswer:
    """What the ledger says to a claim: go on, do not repeat, another payload, or nobody knows."""

    answer: Literal["claimed", "existing", "mismatch", "ambiguous"]
    outcome: Any = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to act for one run, and what its predecessors left."""

    run_id: str
    fence: int
    attempt: int = 1
    lease_ttl_s: float = 60.0
    payload: Any = None
    partial: Any = None
    answers: list[Answer] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    queue: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A grant made before the worker is ready."""

    token: str
    run_id: str
    fence: int
    lapses_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LeaseRef:
    """A lease as its holder names it: the run and the fence."""

    run_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """Something that the service asks of a holder."""

    kind: str
    reason: str | None = None
    data: Any = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The service's answer about one lease."""

    run_id: str
    fence: int
    outcome: Literal["renewed", "lost", "slice_ended"]
    current: int | None = None
    holder: str | None = None
    reason: str | None = None
    ttl_s: float | None = None
    slice_ends_in_s: float | None = None
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker as the service knows it."""

    worker_id: str
    labels: Any = field(default_factory=dict)
    slots: int = 1
    slots_used: int = 0
    state: str = "active"
    last_seen_at: datetime | None = None
    raw: Any = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a run's output."""

    fence: int
    seq: int
    stream: str
    data: str


@dataclass(frozen=True, slots=True)
class Output:
    """Pieces of output in order, and where to go on."""

    chunks: list[Chunk]
    next_after: str | None = None
