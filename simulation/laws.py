"""The laws, as they can be seen in one decision about one run: what must hold whatever was decided, and why.

A law is checked against what was recorded, never by asking the code that decided. `check_decision` looks at the run
before, at the facts of the decision in their order, and at the run after; `check_standing` looks at one state. What
only a longer history can break (two outcomes under one fence, replay, limits, command ids) is `simulation.history`'s.

A broken law raises `LawBroken`, which names the law as the domain numbers them and tells the facts.
"""

from collections.abc import Sequence

from domain.effects import EffectCompleted, EffectFailed, EffectIntended, EffectReconciled
from domain.fencing import is_late
from domain.lease import (
    FenceBumped,
    Held,
    LeaseExpired,
    LeaseReleased,
    LeaseReserved,
    LeaseRevoked,
    Reserved,
    Vacant,
)
from domain.run import Absent, Parked, Queued, Run, Running, Settled, WaitingVerdict
from domain.run_facts import (
    TERMINAL,
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    InputProvided,
    PartialSalvaged,
    RunClosed,
    RunParked,
    RunResumed,
    RunSettled,
    StopReported,
    VerdictRendered,
    WorkerTimeout,
)
from domain.standing import Standing
from domain.turn_facts import TurnCut, TurnFailed
from domain.values import NULL, Fact
from domain.workspace_facts import ProvisionFaulted, WorkspaceFact, WorkspaceLost
from simulation.broken import LawBroken as LawBroken
from simulation.ground_laws import check_ground

Entries = Sequence[tuple[str, Fact]]

DEATHS = frozenset({"expired", "detached", "stalled", "workspace_lost", "provision_failed"})
"""How an attempt ends when its worker died or stalled, or its ground did: what counts against ``max_attempts``."""
AFTER_THE_END = (StopReported, EffectReconciled, WorkspaceFact)
"""All that may be recorded about a run that has settled."""
_RANKS: tuple[tuple[type[Fact], ...], ...] = (
    (LeaseExpired, CancelRequested, WorkspaceLost, ProvisionFaulted, TurnFailed, TurnCut),
    (AttemptEnded, RunClosed),
    (PartialSalvaged,),
    (RunSettled, VerdictRendered, RunParked, InputProvided, RunResumed),
    (AttemptStarted,),
)


L1 = "L1: fences only rise, one attempt under each"
L2 = "L2: only the holder writes"
L3 = "L3: a terminal run never changes"
L4 = "L4: a settlement cites what it follows from, or is the verdict-giver's own"
L5 = "L5: silence settles nothing"
L6 = "L6: a leader with a connection never loses a run to its absence"
L8 = "L8: no intended effect survives its attempt"
L9 = "L9: replay gives what was live"
L10 = "L10: what is acknowledged is in the journal"
L11 = "L11: evolve accepts every history"
L12 = "L12: at quiescence nothing is left"
L13 = "L13: no grant exceeds a limit in force"
L14 = "L14: a partial is promoted once"
L15 = "L15: a repeated command has one effect and one answer"
ONE_WRITER = "one writer: only the process that has the journal appends, and only one has it"
ORDER = "the journal's order: positions and versions without a gap"
ONE_APPEND = "one append: one fact of a kind, evidence first"
ONE_HOLDER = "one holder: run, lease and attempt agree"
DUE = "a queue gives out a run when it is due, and not before"
QUARANTINE = "a quarantine ends by an operator, or by one probing run after its cool-down"
COUNTERS = "counters: one for each attempt that died or failed"


def check_decision(before: Standing, entries: Entries, after: Standing) -> None:
    """Raise unless every law that one decision can break holds for it."""
    facts = [fact for _, fact in entries]
    _one_of_a_kind(entries)
    _in_order(facts)
    _fence_rises(before, facts)
    _terminal_stays(before, facts, after)
    _cites_lower(before, entries)
    _written_by_the_holder(before, facts)
    if isinstance(before.run, Run):
        _verdict_by_its_giver(before.run, facts)
        _never_settled_by_silence(before.run, facts)
        _counted_once(before.run, facts, after)
        _salvaged_once(before.run, facts)
    check_ground(before, entries, after)
    check_standing(after)


def check_standing(standing: Standing) -> None:
    """Raise unless run, lease and effects agree with one another."""
    run, lease = standing.run, standing.lease
    if isinstance(run, Absent):
        return
    match run.phase:
        case Running():
            sound = _acts(run, standing)
        case Parked(kind=kind):
            kept = run.acting is not None
            sound = (
                _acts(run, standing) if kept else isinstance(lease, Vacant if kind == "paused" else Vacant | Reserved)
            )
        case Queued():
            sound = run.acting is None and not isinstance(lease, Held)
        case WaitingVerdict() | Settled():
            sound = run.acting is None and isinstance(lease, Vacant)
    if not sound:
        raise LawBroken(ONE_HOLDER, f"{standing.state} does not go with {lease!r} and {run.acting!r}")
    _effects_end_with_their_attempt(run, standing)


def _acts(run: Run, standing: Standing) -> bool:
    acting, lease = run.acting, standing.lease
    return (
        acting is not None and isinstance(lease, Held) and (acting.fence, acting.worker) == (lease.fence, lease.worker)
    )


def _effects_end_with_their_attempt(run: Run, standing: Standing) -> None:
    for key in standing.effects.intended:
        fence = standing.effects.effects[key].fence
        if run.acting is None or run.acting.fence != fence:
            raise LawBroken(L8, f"effect {key!r} is still intended after the attempt under fence {fence} ended")


def _one_of_a_kind(entries: Entries) -> None:
    kinds = [
        (stream, type(fact), fact.turn if isinstance(fact, TurnFailed | TurnCut) else None) for stream, fact in entries
    ]
    if len(kinds) != len(set(kinds)):
        raise LawBroken(ONE_APPEND, "two facts of a kind for one stream", [fact for _, fact in entries])


def _in_order(facts: Sequence[Fact]) -> None:
    ranks = [rank for fact in facts for rank, kinds in enumerate(_RANKS) if isinstance(fact, kinds)]
    settled_by_close = [index for index, fact in enumerate(facts) if isinstance(fact, RunClosed) and fact.state]
    salvaged = [index for index, fact in enumerate(facts) if isinstance(fact, PartialSalvaged)]
    if salvaged and settled_by_close:
        ranks = [0] if salvaged < settled_by_close else [1, 0]
    if ranks != sorted(ranks):
        raise LawBroken(ONE_APPEND, "evidence, end of the attempt, salvage and outcome are out of order", facts)


def _fence_rises(before: Standing, facts: Sequence[Fact]) -> None:
    fence = before.lease.fence
    settles = any(isinstance(fact, RunSettled | VerdictRendered) for fact in facts)
    for fact in facts:
        match fact:
            case FenceBumped() | LeaseReserved():
                wanted = fence + 1
            case LeaseRevoked():
                wanted = fence + 1 if settles else fence
            case AttemptStarted() | AttemptEnded() | RunClosed() | LeaseExpired() | LeaseReleased():
                wanted = fence
            case _:
                continue
        if fact.fence != wanted:
            raise LawBroken(L1, f"fence {fact.fence} where {wanted} follows", facts)
        fence = wanted
    raised = any(isinstance(fact, LeaseRevoked) for fact in facts)
    if settles and not raised:
        raise LawBroken(L1, "settled by somebody else than the holder, and the fence was not raised", facts)


def _terminal_stays(before: Standing, facts: Sequence[Fact], after: Standing) -> None:
    run = before.run
    if any(isinstance(fact, RunSettled) for fact in facts) and after.known.state not in TERMINAL:
        raise LawBroken(L3, f"settled and {after.known.state} in one decision", facts)
    if isinstance(run, Absent) or not isinstance(run.phase, Settled):
        return
    assert isinstance(after.run, Run)
    same = (run.phase, run.result, run.error, before.lease) == (
        after.run.phase, after.run.result, after.run.error, after.lease,
    )  # fmt: skip
    if not same or not all(isinstance(fact, AFTER_THE_END) for fact in facts):
        raise LawBroken(L3, f"a run that is {run.state} changed", facts)


def _cites_lower(before: Standing, entries: Entries) -> None:
    heads = before.versions
    for stream, fact in entries:
        cites: tuple[str, ...] = getattr(fact, "cites", ())
        if isinstance(fact, RunSettled) and not cites:
            raise LawBroken(L4, "settled without citing anything", [fact])
        for cited in cites:
            name, _, version = cited.rpartition("@")
            if not 1 <= int(version) <= heads.get(name, int(version)):  # others are looked up by the history
                raise LawBroken(L4, f"{cited!r} is not recorded before the fact that cites it", [fact])
        heads[stream] = heads.get(stream, 0) + 1


def _written_by_the_holder(before: Standing, facts: Sequence[Fact]) -> None:
    held = before.lease.fence if isinstance(before.lease, Held) else None
    running = isinstance(before.run, Run) and isinstance(before.run.phase, Running)
    queued = isinstance(before.run, Run) and isinstance(before.run.phase, Queued)
    for fact in facts:
        match fact:
            case EffectIntended(fence=fence):
                allowed = running and fence == held
            case EffectCompleted(fence=fence) | EffectFailed(fence=fence):
                allowed = fence == held or (queued and is_late(before.lease, fence))
            case RunClosed(fence=fence, late=late):
                allowed = (queued and is_late(before.lease, fence)) if late else fence == held
            case AttemptEnded(fence=fence):
                allowed = fence == held
            case _:
                continue
        if not allowed:
            raise LawBroken(L2, f"written under fence {fence}, which {before.lease!r} does not hold", facts)


def _verdict_by_its_giver(run: Run, facts: Sequence[Fact]) -> None:
    by_worker = run.policy.verdict_by == "worker"
    for fact in facts:
        match fact:
            case RunClosed(state="succeeded" | "failed"):
                allowed = by_worker
            case VerdictRendered():
                allowed = not by_worker and isinstance(run.phase, WaitingVerdict)
            case RunSettled(state="succeeded" | "failed"):
                allowed = False
            case _:
                continue
        if not allowed:
            raise LawBroken(L4, f"a verdict that is not {run.policy.verdict_by}'s to render", facts)


def _never_settled_by_silence(run: Run, facts: Sequence[Fact]) -> None:
    """A clock may settle only by the run's own policy: with its attempts spent, and never by a detachment."""
    settled = [fact for fact in facts if isinstance(fact, RunSettled)]
    timeouts = [fact.kind for fact in facts if isinstance(fact, WorkerTimeout)]
    if settled and settled[0].reason == "leader_gone" and "leader_gone" not in timeouts:
        raise LawBroken(L6, "settled by absence and its evidence do not go together", facts)
    if settled and settled[0].reason == "workspace_lost":
        return  # a loss is evidence, whatever brought its judgement about
    quiet = settled and not run.cancel and ("inactivity" in timeouts or "total" in timeouts)
    if quiet and (run.policy.on_quiet == "report" or settled[0].state != "aborted"):
        raise LawBroken(L5, "a quiet or long run was settled", facts)
    expired = [fact for fact in facts if isinstance(fact, LeaseExpired)]
    if not settled or settled[0].state == "cancelled":
        return
    ended = [fact for fact in facts if isinstance(fact, AttemptEnded)]
    spent = bool(ended) and ended[0].failed_attempts >= run.policy.max_attempts
    if expired and not (settled[0].state == "aborted" and spent and not expired[0].detached):
        raise LawBroken(L5, "settled because of silence, with attempts left", facts)


def _counted_once(run: Run, facts: Sequence[Fact], after: Standing) -> None:
    assert isinstance(after.run, Run)
    rise = after.run.failed_attempts - run.failed_attempts
    died = any(isinstance(fact, AttemptEnded) and fact.outcome in DEATHS for fact in facts)
    failed = any(isinstance(fact, RunClosed) and fact.outcome == "failed" for fact in facts)
    if rise not in (0, 1) or (rise == 1 and not died and not failed):
        raise LawBroken(COUNTERS, f"failed attempts rose by {rise}", facts)


def _salvaged_once(run: Run, facts: Sequence[Fact]) -> None:
    if not any(isinstance(fact, PartialSalvaged) for fact in facts):
        return
    settles = any(
        isinstance(fact, RunSettled | VerdictRendered) or (isinstance(fact, RunClosed) and fact.state in _VERDICTS)
        for fact in facts
    )
    results = [fact for fact in facts if isinstance(fact, RunClosed | VerdictRendered) and fact.result != NULL]
    if run.salvaged or run.result != NULL or results or not settles:
        raise LawBroken(L14, "a partial was promoted twice, beside a result, or without an end", facts)


_VERDICTS = ("succeeded", "failed")
