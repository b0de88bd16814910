"""The run: the unit of supervised work, one stable id from submission to its end.

States, and which of them are terminal:

    queued  reserved  running  waiting_input  waiting_peer  waiting_takeover  waiting_verdict  paused
    succeeded  failed  cancelled  aborted  lost

A terminal run never changes. ``lost`` means that evidence itself is missing or ambiguous, never that somebody went
quiet. ``failed_attempts`` rises once for each attempt that died, failed or stalled, and is what ``max_attempts`` is
compared with; answers, slice ends and hand-backs consume nothing. An *attempt* is one period in which one worker acts
under one fence; its end is carried by ``AttemptEnded`` or, when the worker says so, by ``RunClosed``, with lengths and
digests of what it produced, so that the journal vouches for every acknowledged byte.

This file says what a run is and how facts change it. Which facts may follow is decided beside it, where more than the
run is read. Several facts of one decision land in one append: what stands between them is never seen by anybody.
"""

from datetime import datetime
from typing import assert_never

import msgspec

from domain.phases import (
    Acting,
    Answered,
    Asked,
    ClosedBy,
    Parked,
    Phase,
    Queued,
    Running,
    Settled,
    Timeout,
    WaitingVerdict,
)
from domain.refusal import SettledOtherwise, WrongState
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    InputProvided,
    PartialSalvaged,
    PauseRequested,
    RunClosed,
    RunFact,
    RunParked,
    RunReassigned,
    RunResumed,
    RunSettled,
    RunSubmitted,
    State,
    SteeringFact,
    StopReported,
    TimeoutAcknowledged,
    VerdictRendered,
    WorkerTimeout,
)
from domain.submission import Policy
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnCut, TurnFailed, TurnMoved, TurnNoticed
from domain.turns_state import NO_TURNS, Turns, dropped, turned
from domain.values import NULL, Json, Value, cite

__all__ = [
    "ABSENT", "TAKEN_AWAY", "Absent", "Acting", "Answered", "Asked", "ClosedBy", "Parked", "Phase", "Queued", "Run",
    "Running", "Settled", "SettledOtherwise", "Timeout", "WaitingVerdict", "WrongState", "evolve", "run_stream",
]  # fmt: skip


class Run(Value, frozen=True, kw_only=True):
    """Everything that was decided about one run."""

    version: int
    submission: RunSubmitted
    phase: Phase
    revision: int = 1
    attempt: int = 0
    failed_attempts: int = 0
    acting: Acting | None = None
    closed: ClosedBy | None = None
    answers: tuple[Answered, ...] = ()
    counted_fence: int = 0
    """The fence of the last attempt whose end was counted, so that a late close does not count it again."""
    cancel: Asked | None = None
    pause_asked: bool = False
    result: Json = NULL
    error: Json = NULL
    salvaged: bool = False
    revoked: dict[int, str] = msgspec.field(default_factory=dict)
    """Fences that were taken from their holders, and who those were: each may report once how it stopped."""
    stop_reports: dict[int, str] = msgspec.field(default_factory=dict)
    reassigned_to: str | None = None
    timeouts: dict[str, Timeout] = msgspec.field(default_factory=dict)
    """Quiet stretches and overlong runs that were told, by citation."""
    absence: str | None = None
    """The ``zero_since`` of the absence that was last told to it."""
    turns: Turns = NO_TURNS
    """The turns of the attempt that is under way."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.submission.run_id

    @property
    def leader_id(self) -> str | None:
        """The leader that wants it now."""
        return self.submission.leader_id if self.reassigned_to is None else self.reassigned_to

    @property
    def policy(self) -> Policy:
        """What the owner decided in advance."""
        return self.submission.policy

    @property
    def state(self) -> State:
        """The state in one word."""
        match self.phase:
            case Queued():
                return "queued"
            case Running():
                return "running"
            case Parked(kind=kind):
                return kind
            case WaitingVerdict():
                return "waiting_verdict"
            case Settled(state=state):
                return state
            case _:
                assert_never(self.phase)

    @property
    def reason(self) -> str | None:
        """Why it is in this state, in one word, where that is not plain."""
        match self.phase:
            case Queued(reason=reason) | Settled(reason=reason) | Parked(reason=reason):
                return reason
            case _:
                return None


class Absent(Value, frozen=True, kw_only=True):
    """No run has been submitted under this id."""

    version: int = 0


ABSENT = Absent()

TAKEN_AWAY = frozenset({"revoked", "stalled", "workspace_lost", "provision_failed"})
"""How an attempt ends when its lease is taken from a holder that may still be working."""


def run_stream(run_id: str) -> str:
    """The run's own stream."""
    return f"run-{run_id}"


def evolve(run: Run | Absent, fact: RunFact) -> Run | Absent:
    """The run after one more fact."""
    if isinstance(fact, RunSubmitted):
        return Run(version=run.version + 1, submission=fact, phase=Queued(due_at=fact.due_at, reason="submitted"))
    if isinstance(run, Absent):
        return Absent(version=run.version + 1)
    changes = _changes(run, fact)
    if run.turns.last and changes.get("acting", run.acting) is not run.acting:
        changes["turns"] = dropped(run.turns)
    return msgspec.structs.replace(run, version=run.version + 1, **changes)


def _changes(run: Run, fact: RunFact) -> dict[str, object]:  # noqa: C901  (one arm for each fact)
    match fact:
        case AttemptStarted():
            acting = Acting(fence=fact.fence, worker=fact.worker, started_at=fact.started_at)
            return {"phase": Running(), "attempt": fact.attempt, "acting": acting}
        case AttemptEnded():
            return _ended(run, fact)
        case RunClosed():
            return _closed(run, fact)
        case VerdictRendered():
            settled = Settled(state=fact.verdict, reason="verdict", settled_at=fact.rendered_at)
            return {"phase": settled, "result": run.result if fact.result == NULL else fact.result}
        case RunSettled():
            return _settled(run, fact)
        case PartialSalvaged():
            return {"salvaged": True, "result": fact.partial}
        case StopReported():
            return {"stop_reports": {**run.stop_reports, fact.fence: fact.report}}
        case RunSubmitted():
            return {}
        case TurnAdmitted() | TurnMoved() | TurnCompleted() | TurnFailed() | TurnCut() | TurnNoticed():
            return {"turns": turned(run.turns, fact)}
        case _:
            return _steered(run, fact)


def _steered(run: Run, fact: SteeringFact) -> dict[str, object]:  # noqa: C901  (one arm for each fact)
    match fact:
        case RunParked():
            parked = Parked(kind=fact.kind, question=fact.question, since=fact.parked_at, reason=fact.reason)
            still_asked = run.pause_asked and fact.kind != "paused"
            return {"phase": parked, "pause_asked": still_asked, "acting": run.acting if fact.lease_kept else None}
        case InputProvided():
            return _answered(run, fact)
        case RunResumed():
            return {"phase": _continued(fact.due_at, "resumed")}
        case PauseRequested():
            return {"pause_asked": True}
        case CancelRequested():
            return {"cancel": _asked(run, fact)}
        case WorkerTimeout():
            return _timed_out(run, fact)
        case TimeoutAcknowledged():
            told = run.timeouts.get(fact.timeout, Timeout(kind=fact.kind, mark=""))
            return {"timeouts": {**run.timeouts, fact.timeout: msgspec.structs.replace(told, answer=fact.answer)}}
        case RunReassigned():
            return {"reassigned_to": fact.leader_id, "revision": fact.revision, "absence": None}
        case _:
            assert_never(fact)


def _settled(run: Run, fact: RunSettled) -> dict[str, object]:
    settled = Settled(state=fact.state, reason=fact.reason, settled_at=fact.settled_at)
    error = run.error if fact.error == NULL else fact.error
    return {"phase": settled, "acting": None, "pause_asked": False, "error": error}


def _timed_out(run: Run, fact: WorkerTimeout) -> dict[str, object]:
    if fact.kind == "leader_gone":
        return {"absence": str(fact.marks.get("zero_since"))}
    if fact.kind in ("inactivity", "total"):
        after_s, mark = fact.marks.get("after_s"), str(fact.marks.get("since"))
        told = Timeout(kind=fact.kind, mark=mark, after_s=float(after_s or 0.0), fence=fact.fence)
        return {"timeouts": {**run.timeouts, cite(run_stream(run.run_id), run.version + 1): told}}
    return {}


def _ended(run: Run, fact: AttemptEnded) -> dict[str, object]:
    changes: dict[str, object] = {"acting": None, "failed_attempts": fact.failed_attempts}
    if fact.failed_attempts > run.failed_attempts:
        changes["counted_fence"] = fact.fence
    if fact.outcome in TAKEN_AWAY and run.acting is not None:
        changes["revoked"] = {**run.revoked, fact.fence: run.acting.worker}
    if fact.due_at is not None:
        changes["phase"] = Queued(due_at=fact.due_at, reason=fact.outcome)
    return changes


def _closed(run: Run, fact: RunClosed) -> dict[str, object]:
    retried = fact.state == "queued"
    closed = ClosedBy(fence=fact.fence, outcome=fact.outcome, result=fact.result, error=fact.error, retried=retried)
    changes: dict[str, object] = {
        "acting": None, "closed": closed, "failed_attempts": fact.failed_attempts, "error": fact.error,
        "result": run.result if fact.result == NULL or fact.state == "queued" else fact.result,
    }  # fmt: skip
    match fact.state:
        case "succeeded" | "failed":
            changes["pause_asked"] = False
            changes["phase"] = Settled(state=fact.state, reason="closed", settled_at=fact.closed_at)
        case "waiting_verdict":
            waiting = WaitingVerdict(outcome=fact.outcome, since=fact.closed_at)
            changes |= {"phase": waiting, "cancel": None, "pause_asked": False}
        case "queued":
            changes["phase"] = Queued(due_at=fact.due_at or fact.closed_at, reason="retry")
        case None:
            pass
    return changes


def _answered(run: Run, fact: InputProvided) -> dict[str, object]:
    answered = Answered(
        question=fact.question, answer=fact.answer, principal=fact.by, at=fact.provided_at, fence=fact.fence
    )
    return {"phase": _continued(fact.due_at, "answered"), "answers": (*run.answers, answered)}


def _continued(due_at: datetime | None, reason: str) -> Phase:
    return Running() if due_at is None else Queued(due_at=due_at, reason=reason)


def _asked(run: Run, fact: CancelRequested) -> Asked:
    return Asked(
        asked_at=fact.requested_at,
        settles_at=fact.settles_at,
        citation=cite(run_stream(run.run_id), run.version + 1),
        keep_workspaces=fact.keep_workspaces,
    )
