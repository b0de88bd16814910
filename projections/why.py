"""Why a run is as it is: the screen that is opened first when something looks wrong.

The answer is read off the facts, never guessed: the facts that made the present state, the facts which those cite
(``stream@version``, in the run's own streams and in others) or were caused by, back to the submission; the evidence
that the facts carry and the mark of the live lease; the fence in force, and the writes that were refused for
presenting another; the clocks that are running, each with the instant at which it is due; everything that a queued run
waits for; and one sentence that says what happens next, when, and who could change it.

Of the past only facts are known. Then there are no marks and no clock of a lease, and the last sentence says what did
happen next.

It is a pure function of a run's standing, its facts and what is known beside them (``Case``), so it shows exactly what
a decision made now would go by. It never decides. Instants are aware UTC; a lease's deadline, which is kept on the
monotonic scale, is shown as the wall instant that the present moment makes of it.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, assert_never

from domain.effects import EffectsMadeAmbiguous
from domain.lease import (
    FenceBumped,
    Held,
    LeaseBound,
    LeaseExpired,
    LeaseReserved,
    ReservationCancelled,
    ReservationLapsed,
    Reserved,
    SliceEnded,
)
from domain.quiet import unanswered
from domain.run import Parked, Queued, Run, Running, Settled, WaitingVerdict
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    InputProvided,
    PartialSalvaged,
    PauseRequested,
    RunClosed,
    RunParked,
    RunResumed,
    RunSettled,
    RunSubmitted,
    VerdictRendered,
    WorkerTimeout,
)
from domain.standing import PAUSE_ASKED, Standing
from domain.turn_facts import TurnMoved
from domain.turns_state import Turn
from domain.values import Fact, Moment, Value, cite
from evidence.refused import RefusedWrite
from journal.mapper import Recorded
from projections.coming import Clock
from projections.document import fact_document
from projections.hindsight import AsOf
from projections.outlook import Ahead, Blocked, outlook

REASONS_MAX = 100
"""Facts shown at most: the submission and the latest. Longer chains are read with the facts of the run."""

Kind = type[Fact]
_GRANTS: tuple[Kind, ...] = (FenceBumped, LeaseBound)
_SETTLERS: tuple[Kind, ...] = (RunSettled, VerdictRendered, RunClosed)
_ENDS: tuple[Kind, ...] = (AttemptEnded, RunClosed)
_CONTINUES: tuple[Kind, ...] = (InputProvided, RunResumed)
_ASKED = (PAUSE_ASKED, "asked_by_leader")  # what it is called now, and was before
_UNRESERVES: tuple[Kind, ...] = (ReservationCancelled, ReservationLapsed)


class Case(Value, frozen=True, kw_only=True):
    """What is known about a run beside its facts and the mark of its lease."""

    now: Moment
    blocked: tuple[Blocked, ...] = ()
    """Everything that keeps a queued run from being granted, and what would change that; what is decisive first."""
    queue: dict[str, Any] | None = None
    """Where a queued run stands in its queue."""
    refused: tuple["Refused", ...] = ()
    """Writes that were refused for their fence, the latest first."""
    cited: Callable[[str], list[Recorded]] = lambda _: []
    """Finds what is cited from a stream that is not the run's own."""
    as_of: AsOf | None = None
    """The place in the journal, when it is the past that is asked for."""
    followed: Recorded | None = None
    """What happened to the run next, in the past."""
    last_activity_at: datetime | None = None
    quiet_since: datetime | None = None
    unknown_since: datetime | None = None
    broke_at: datetime | None = None
    """When the connection of the run's holder broke, if nothing was heard of it since."""
    clocks: tuple[Clock, ...] = ()
    """Clocks that no fact shows: the leader's grace, the quiet stretch, the time worked on it."""


class Refused(Value, frozen=True):
    """A refused write, and the worker that its fence was once granted to."""

    worker: str | None
    write: RefusedWrite


class History:
    """The facts of one run in order, found by kind, by citation and by id; ``cited`` finds those of other streams."""

    def __init__(self, facts: Iterable[Recorded], cited: Callable[[str], list[Recorded]] = lambda _: []) -> None:
        self._elsewhere = cited
        self.facts = sorted(facts, key=lambda recorded: recorded.position)
        self._cited = {cite(recorded.stream, recorded.version): recorded for recorded in self.facts}
        self._by_id = {recorded.meta.fact_id: recorded for recorded in self.facts}

    def all(self, *kinds: Kind) -> list[Recorded]:
        """Every fact of these kinds, in order."""
        return [recorded for recorded in self.facts if isinstance(recorded.fact, kinds)]

    def last(self, *kinds: Kind, before: Recorded | None = None, after: Recorded | None = None) -> list[Recorded]:
        """The last fact of these kinds, as a list of one or none; strictly before or after another where given."""
        return self.last_that(lambda fact: isinstance(fact, kinds), before=before, after=after)

    def last_that(
        self, holds: Callable[[Fact], bool], *, before: Recorded | None = None, after: Recorded | None = None
    ) -> list[Recorded]:
        """The last fact of which this holds, as a list of one or none."""
        high = before.position if before is not None else float("inf")
        low = after.position if after is not None else 0
        for recorded in reversed(self.facts):
            if low < recorded.position < high and holds(recorded.fact):
                return [recorded]
        return []

    def named(self, citations: Iterable[str]) -> list[Recorded]:
        """The run's own facts that are cited so, as far as they are here."""
        return [self._cited[citation] for citation in citations if citation in self._cited]

    def causes(self, recorded: Recorded) -> list[Recorded]:
        """The facts that this one cites, wherever they are, or was caused by, if that is one of the run's own."""
        found: list[Recorded] = []
        for citation in getattr(recorded.fact, "cites", ()):
            own = self._cited.get(citation)
            found += self._elsewhere(citation) if own is None else [own]
        caused = self._by_id.get(recorded.meta.causation_id or "")
        return found if caused is None else [*found, caused]


def why(standing: Standing, facts: Sequence[Recorded], case: Case) -> dict[str, Any]:
    """The answer, ready for ``msgspec.json.encode``.

    Args:
        standing: the run's three streams and the mark of its lease.
        facts: all facts correlated with the run; their order does not matter.
        case: the present moment, and what is known beside the facts.

    Raises:
        RunUnknown: there is no such run.
    """
    history = History(facts, case.cited)
    because = reasons(standing, history)
    return {
        "state": standing.state,
        "because": [fact_document(recorded) for recorded in because],
        "evidence": _evidence(standing, history, because, case),
        "fence": standing.lease.fence,
        "clocks": _clocks(standing, history, case),
        "next": outlook(standing, case.now, Ahead(case.blocked, case.broke_at, case.clocks))
        if case.as_of is None
        else followed(case.followed),
        "turns": [_turn(turn, history) for turn in standing.known.turns.open.values()],
        "waiting_for": [_waited(block) for block in case.blocked],
        "queue": case.queue,
        "refused": [_refused(refused) for refused in case.refused],
        **({} if case.as_of is None else {"as_of": case.as_of}),
    }


def _waited(block: Blocked) -> dict[str, Any]:
    return {"code": block.code, "because": block.because, "until": block.until, "details": block.details}


def _turn(turn: Turn, history: History) -> dict[str, Any]:
    """An open turn, and since when it is in its state."""
    moved = history.last_that(lambda fact: isinstance(fact, TurnMoved) and fact.turn == turn.turn)
    since = [each.fact.moved_at for each in moved if isinstance(each.fact, TurnMoved)]
    return {
        "turn": turn.turn,
        "state": turn.state,
        "since": since[0] if since and turn.delivered else turn.admitted_at,
        "workspace_id": turn.workspace_id,
        "mark": turn.mark,
    }


def _refused(refused: Refused) -> dict[str, Any]:
    write = refused.write
    return {
        "worker": refused.worker,
        "principal": write.principal,
        "fence": write.fence,
        "reason": write.reason,
        "count": write.count,
        "first_at": write.first_at,
        "last_at": write.last_at,
    }


def followed(recorded: Recorded | None) -> str:
    """What happened next, for somebody who looks back."""
    if recorded is None:
        return "nothing has happened to it since."
    at = recorded.meta.recorded_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"then came {recorded.topic}, at position {recorded.position}, recorded at {at}."


def reasons(standing: Standing, history: History) -> list[Recorded]:
    """The facts that led to the present state, in order: its makers, what they follow from, and the submission."""
    found: dict[int, Recorded] = {}
    pending = [*_makers(standing, history), *history.last(RunSubmitted)]
    while pending:
        recorded = pending.pop()
        if recorded.position not in found:
            found[recorded.position] = recorded
            pending.extend(history.causes(recorded))
    ordered = [found[position] for position in sorted(found)]
    return ordered if len(ordered) <= REASONS_MAX else [ordered[0], *ordered[1 - REASONS_MAX :]]


def _makers(standing: Standing, history: History) -> list[Recorded]:
    """The facts that made the phase, and those that will end it."""
    run = standing.known
    phase = run.phase
    match phase:
        case Queued():
            made = _of_queued(standing, history)
        case Running():
            made = _of_running(history)
        case Parked():
            made = _of_parked(phase, history)
        case WaitingVerdict():
            made = history.last(RunClosed)
        case Settled():
            return _of_settled(phase, history)
        case _:
            assert_never(phase)
    ambiguous = any(effect.state == "ambiguous" for effect in standing.effects.effects.values())
    began = history.last(EffectsMadeAmbiguous) if ambiguous else []
    return [*made, *_pending_wishes(standing, run, history), *history.named(unanswered(run)), *began]


def _pending_wishes(standing: Standing, run: Run, history: History) -> list[Recorded]:
    wished = history.last(CancelRequested) if run.cancel is not None else []
    if run.pause_asked:
        wished = [*wished, *history.last(PauseRequested)]
    if isinstance(standing.lease, Held) and standing.lease.sliced:
        wished = [*wished, *history.last(SliceEnded)]
    return wished


def _queues(fact: Fact) -> bool:
    """Whether this fact makes its run queued."""
    match fact:
        case RunSubmitted():
            return True
        case AttemptEnded(due_at=due_at) | InputProvided(due_at=due_at) | RunResumed(due_at=due_at):
            return due_at is not None
        case RunClosed(state=state):
            return state == "queued"
        case _:
            return False


def _of_queued(standing: Standing, history: History) -> list[Recorded]:
    maker = history.last_that(_queues)
    if isinstance(standing.lease, Reserved):
        return [*maker, *history.last(LeaseReserved)]
    return [*maker, *history.last(*_UNRESERVES, after=maker[0] if maker else None)]


def _of_running(history: History) -> list[Recorded]:
    started = history.last(AttemptStarted)
    if not started:
        return []
    came_from = history.last_that(lambda fact: _queues(fact) or isinstance(fact, RunParked), before=started[0])
    continued = history.last(*_CONTINUES, after=started[0])
    return [*came_from, *history.last(*_GRANTS), *started, *continued]


def _of_parked(phase: Parked, history: History) -> list[Recorded]:
    parked = history.last(RunParked)
    asked = history.last(PauseRequested) if phase.kind == "paused" and phase.reason in _ASKED else []
    lapsed = history.last(AttemptEnded, after=parked[0]) if parked else []
    return [*history.last(*_GRANTS), *history.last(AttemptStarted), *asked, *parked, *lapsed]


def _of_settled(phase: Settled, history: History) -> list[Recorded]:
    """The end, and the attempts that it took to come there."""
    settled = history.last(*_SETTLERS)
    closed = history.last(RunClosed) if phase.reason == "verdict" else []
    return [*history.all(AttemptStarted, *_ENDS), *closed, *history.last(PartialSalvaged), *settled]


def _evidence(standing: Standing, history: History, because: Sequence[Recorded], case: Case) -> dict[str, Any]:
    """The marks: of the live lease, else those by which the last one ran out; what each fact carried beside them."""
    carried = [entry for recorded in because if (entry := _carried(recorded)) is not None]
    evidence: dict[str, Any] = {
        "last_renewed_at": None,
        "renewals": None,
        "lease_deadline": None,
        "detached": None,
        "detached_at": case.broke_at,
        "last_activity_at": case.last_activity_at,
        "quiet_since": case.quiet_since,
        "unknown_since": case.unknown_since,
        "carried": carried,
    }
    mark = standing.mark
    if isinstance(standing.lease, Held):
        if mark is not None and mark.fence == standing.lease.fence:
            evidence |= {
                "last_renewed_at": mark.renewed_at,
                "renewals": mark.renewals,
                "lease_deadline": case.now.wall_at(mark.deadline),
                "detached": mark.detached or case.broke_at is not None,
            }
        return evidence
    latest = [getattr(granted.fact, "fence", None) for granted in history.last(*_GRANTS)]
    for recorded in because:
        if isinstance(recorded.fact, LeaseExpired) and recorded.fact.fence in latest:
            evidence |= _expiry(recorded.fact)
    return evidence


def _carried(recorded: Recorded) -> dict[str, Any] | None:
    named = {"fact": cite(recorded.stream, recorded.version), "topic": recorded.topic}
    match recorded.fact:
        case LeaseExpired():
            return {**named, **_expiry(recorded.fact)}
        case WorkerTimeout(kind=kind, marks=marks):
            return {**named, "kind": kind, **marks}
        case AttemptEnded(work=work) | RunClosed(work=work):
            return {**named, "work": work}
        case _:
            return None


def _expiry(fact: LeaseExpired) -> dict[str, Any]:
    return {"last_renewed_at": fact.last_renewed_at, "renewals": fact.renewals, "detached": fact.detached}


def _clocks(standing: Standing, history: History, case: Case) -> list[dict[str, Any]]:
    """The clocks that are running, soonest first."""
    run, lease, now = standing.known, standing.lease, case.now
    clocks = [_clock(clock) for clock in case.clocks]
    if isinstance(lease, Held):
        clocks.extend(_lease_clocks(standing, lease, now, past=case.as_of is not None))
    if isinstance(lease, Reserved):
        since, lapses_at = _recorded_at(history.last(LeaseReserved)), standing.ends_at(lease.lapses_at, now)
        clocks.append(_clock(Clock("reservation", since, lapses_at)))
    if run.cancel is not None and not isinstance(run.phase, Settled):
        clocks.append(_clock(Clock("cancel_grace", run.cancel.asked_at, run.cancel.settles_at)))
    if isinstance(run.phase, Queued) and run.phase.due_at > now.wall:
        since = _recorded_at(history.last_that(_queues))
        clocks.append(_clock(Clock(_due_name(run.phase.reason), since, run.phase.due_at)))
    return sorted(clocks, key=lambda clock: (clock["due_at"], clock["name"]))


def _lease_clocks(standing: Standing, lease: Held, now: Moment, *, past: bool) -> Iterable[dict[str, Any]]:
    mark = standing.mark
    if past:
        pass  # how long it was renewed for is not recorded
    elif mark is None or mark.fence != lease.fence:
        yield _clock(Clock("lease", now.wall, now.after(lease.ttl_s).wall))
    else:
        yield _clock(Clock("reconnect" if mark.detached else "lease", mark.renewed_at, now.wall_at(mark.deadline)))
    if lease.slice_ends_at is not None and not lease.sliced:
        yield _clock(Clock("slice", lease.granted_at, standing.ends_at(lease.slice_ends_at, now)))


def _due_name(reason: str) -> str:
    match reason:
        case "submitted" | "answered" | "resumed":
            return "run_after"
        case "slice_ended" | "handed_back":
            return "continuation"
        case _:
            return "retry"


def _clock(clock: Clock) -> dict[str, Any]:
    return {
        "name": clock.name,
        "since": clock.since,
        "due_at": clock.due_at,
        "workspace_id": clock.workspace_id,
        "turn": clock.turn,
    }


def _recorded_at(found: list[Recorded]) -> datetime | None:
    return found[0].meta.recorded_at if found else None
