"""What may be asked: the body of every command and the query of every list, with defaults and bounds.

Bodies are strict (a number is not a string, a string is not a number) and closed (an unknown field is refused with its
path). What a value may be beyond its type is the domain's to say, where the domain bounds it. Fields of the caller's
own JSON are kept as bytes. Queries arrive as text and are read leniently, but are as closed.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from typing_extensions import TypedDict

from api.bodies import UserJson
from commands.desk import Role
from domain.closing import Close as ClosingCommand
from domain.instance import WHERE_MAX_CHARS
from domain.run_facts import State
from domain.submission import Policy as RunPolicy
from domain.submission import Submit as SubmitCommand

SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader holds exactly."""


def _instant(value: Any) -> datetime:
    if not isinstance(value, str):
        message = "an instant as text (RFC 3339)"
        raise ValueError(message)
    try:
        instant = msgspec.convert(value, datetime)
    except msgspec.ValidationError as error:
        message = "an instant as in RFC 3339, such as 2030-01-31T12:00:00Z"
        raise ValueError(message) from error
    if instant.tzinfo is None:
        message = "an instant with its offset, such as 2030-01-31T12:00:00Z"
        raise ValueError(message)
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        message = "an instant between the years 1 and 9999 in UTC"
        raise ValueError(message) from error


Instant = Annotated[datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
Fence = Annotated[int, Field(ge=0, le=SAFE_INTEGER, description="the fence of the lease; may be sent as a header")]
OptionalFence = Fence | None
Id = Annotated[str, Field(min_length=1, max_length=128)]
Position = Annotated[int, Field(ge=0, le=SAFE_INTEGER)]


class Body(BaseModel):
    """A body: strict and closed."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Nothing(Body):
    """A command that needs nothing said."""


class Policy(Body):
    """What the run's owner decides in advance; durations in seconds."""

    max_attempts: int = 3
    lease_ttl_s: float = 60.0
    max_hold_s: float | None = None
    retry_base_s: float = 10.0
    retry_cap_s: float = 300.0
    verdict_by: Literal["worker", "leader"] = "worker"
    on_quiet: Literal["report", "fail_attempt"] = "report"
    quiet_after_s: float = 300.0
    total_after_s: float = 1800.0
    on_leader_gone: Literal["cancel", "keep", "park"] = "cancel"
    on_workspace_lost: Literal["settle_lost", "retry_fresh", "park"] = "settle_lost"

    def value(self) -> RunPolicy:
        """The policy as the domain knows it."""
        return RunPolicy(**self.__dict__)


DEFAULT_POLICY = Policy()


class Submit(Body):
    """A run that is wanted; everything may be left out."""

    queue: str = "default"
    name: str | None = None
    tags: dict[str, str] = Field(default_factory=dict, description="for people and filters")
    payload: UserJson = None
    leader_id: str | None = None
    labels: dict[str, str] = Field(default_factory=dict, description="what a worker must have")
    priority: int = Field(0, description="higher is claimed first")
    run_after: Instant | None = None
    concurrency_key: str | None = None
    idempotency_key: str | None = None
    policy: Policy = Field(default_factory=lambda: DEFAULT_POLICY)

    def command(self, body_digest: str | None) -> SubmitCommand:
        """The submission as the domain knows it."""
        return SubmitCommand(
            queue=self.queue,
            name=self.name,
            tags=self.tags,
            payload=self.payload,
            leader_id=self.leader_id,
            labels=self.labels,
            priority=self.priority,
            run_after=self.run_after,
            concurrency_key=self.concurrency_key,
            policy=self.policy.value() if "policy" in self.model_fields_set else _DEFAULT,
            body_digest=body_digest,
        )


_DEFAULT = DEFAULT_POLICY.value()


class SubmitBatch(Body):
    """Many runs that are wanted, all or none."""

    runs: list[Submit] = Field(min_length=1, max_length=1000)


class RegisterWorker(Body):
    """What a worker is and how much it takes."""

    labels: dict[str, str] = Field(default_factory=dict)
    slots: int = Field(1, description="1 to 10,000")
    where: str | None = Field(
        None, max_length=WHERE_MAX_CHARS, description="where the process is, for people; kept with Jackline-Instance"
    )


class ClaimRuns(Body):
    """A worker asks for runs that are due."""

    worker_id: str
    queues: list[str] = ["default"]
    max: int = Field(1, description="1 to 1,000")
    wait_s: float = Field(0.0, description="0 to 60: how long to wait for the first")


class ClaimRun(Body):
    """A worker asks for this very run."""

    worker_id: str


class Reserve(Body):
    """A worker asks for runs ahead of being ready for them."""

    worker_id: str
    queues: list[str] = ["default"]
    wait_s: float = 0.0


class Bind(Body):
    """The reserving worker is ready."""

    worker_id: str | None = None


class LeaseRef(TypedDict):
    """A lease as its holder names it."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]
    run_id: str
    fence: Annotated[int, Field(ge=0, le=SAFE_INTEGER)]


class Heartbeat(Body):
    """A worker is alive and holds these leases."""

    leases: list[LeaseRef] = Field(max_length=10_000)


class SavePartial(Body):
    """What the attempt has produced so far."""

    fence: OptionalFence = None
    partial: UserJson


class Tool(Body):
    """A tool call that starts or ends; silence is not held against a run while one is in flight."""

    id: str
    name: str
    state: Literal["started", "ended"]


class Progress(Body):
    """A sign of work."""

    fence: OptionalFence = None
    message: str
    tool: Tool | None = None


class Output(Body):
    """One piece of output, of at most 256 KiB; a repeated ``seq`` is accepted once."""

    fence: OptionalFence = None
    seq: int = Field(ge=0, le=SAFE_INTEGER)
    stream: str = "stdout"
    data: str


class Park(Body):
    """The worker waits for somebody."""

    fence: OptionalFence = None
    kind: Literal["waiting_input", "waiting_peer", "waiting_takeover", "paused"] = "waiting_input"
    question: UserJson = None
    keep_lease: bool = False


class HandBack(Body):
    """The worker gives the run back unfinished."""

    fence: OptionalFence = None


class Close(Body):
    """How the attempt ended."""

    fence: OptionalFence = None
    outcome: Literal["succeeded", "failed"]
    result: UserJson = None
    error: UserJson = None
    retryable: bool = True

    def command(self) -> ClosingCommand:
        """The close as the domain knows it."""
        return ClosingCommand(outcome=self.outcome, result=self.result, error=self.error, retryable=self.retryable)


class CloseOne(Close):
    """How the attempt of one of many runs ended."""

    run_id: str


class CloseMany(Body):
    """Many closes in one append."""

    closes: list[CloseOne] = Field(min_length=1, max_length=1000)


class ClaimEffect(Body):
    """The worker is about to cause an effect outside."""

    fence: OptionalFence = None
    payload: UserJson = None


class FinishEffect(Body):
    """How the effect came out."""

    fence: OptionalFence = None
    outcome: UserJson = None


class ReconcileEffect(Body):
    """What somebody found out about an ambiguous effect; the run's leader and operators present no fence."""

    fence: OptionalFence = None
    resolution: Literal["done", "not_done"]
    outcome: UserJson = None


class Answer(Body):
    """What the question is answered with."""

    answer: UserJson


class Cancel(Body):
    """The run is not wanted any more."""

    keep_workspaces: bool = False


class KeepSession(Body):
    """How long the session is live without being heard again."""

    ttl_s: float = Field(15.0, description="seconds, 1 to 3600")


class AcknowledgeTimeout(Body):
    """What the leader says to a timeout."""

    answer: Literal["extend", "abort"]


class Reassign(Body):
    """Which leader wants the run from now on, and the revision that the caller has seen."""

    leader_id: str
    revision: int = Field(ge=1, le=SAFE_INTEGER)


class RunFilter(Body):
    """Open runs; everything that is given must hold."""

    queue: str | None = None
    leader_id: str | None = None
    state: State | None = None
    tags: dict[str, str] = Field(default_factory=dict)


class CancelMany(Body):
    """Which runs are not wanted any more; a dry run only says which."""

    filter: RunFilter
    dry_run: bool = True
    limit: int = Field(1_000, ge=1, le=1_000)


class RenderVerdict(Body):
    """The leader's judgement."""

    verdict: Literal["succeeded", "failed"]
    result: UserJson = None


class StopReport(Body):
    """What a worker whose lease was taken away could still do."""

    fence: OptionalFence = None
    report: Literal["saved", "ignored"]


class QueueLimits(Body):
    """The limits of a queue; null means none."""

    max_leases: int | None = None
    max_per_key: int = 1


class Quarantine(Body):
    """Why the worker is to be granted nothing."""

    reason: str = Field(min_length=1, max_length=200)


class NewKey(Body):
    """A key to be made; null ids mean any of the tenant."""

    name: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._-]+$")
    role: Role
    leader_ids: list[Id] | None = Field(None, max_length=1000)
    worker_ids: list[Id] | None = Field(None, max_length=1000)
    not_after: Instant | None = None


class Query(BaseModel):
    """A query: read from text, and closed."""

    model_config = ConfigDict(extra="forbid")


class Reading(Query):
    """How fresh a read must be."""

    min_position: Position | None = Field(None, description="wait, bounded, until the answer reflects this position")


class ReadFacts(Reading):
    """From which position on, and how many."""

    after: Position = 0
    limit: int = Field(1000, ge=1, le=1000)


class ReadOutput(Reading):
    """From which chunk on (`<fence>.<seq>`), and how many."""

    after: str | None = Field(None, pattern=r"^[0-9]{1,15}\.[0-9]{1,16}$")
    limit: int = Field(1000, ge=1, le=1000)
