"""Handing on: how an attempt ends while its run goes on.

    expiry, detachment   counted; queued, due at once (the last attempt spent: aborted, with its partial salvaged)
    slice unanswered     not counted; queued as a continuation
    handed back          not counted; queued as a continuation
    parked               not counted; waits for somebody, with the lease given up or kept

Whatever ends an attempt makes its unfinished effects ambiguous first. A pending cancel settles the run as soon as its
attempt ends otherwise, and a pending pause makes it paused instead of queued. A detachment never spends the last
attempt: then the full ttl is waited. A lease that was kept while parked and expires leaves the run parked and counts
nothing. A loss of the ground that the holder was asked about is decided by the first of these ends
(``domain.grounds``); a detachment does not decide it, and the full ttl is waited then too.

A holder that fell silent also watched the workspaces that no observer watches: nobody sees them from then on, and
their continuity is unknown.
"""

from datetime import timedelta

import msgspec

from domain.grounds import judge_pending, parked_on, pending_loss, settlement_of
from domain.lease import Held, LeaseExpired, LeaseHeld, LeaseMark, LeaseReleased, SliceEnded
from domain.run import Parked, Running, WrongState
from domain.run_facts import ParkKind, RunParked, WorkerTimeout
from domain.settling import Settlement, cancelled_by, settle_into
from domain.standing import (
    Ending,
    Presented,
    Remains,
    RunDraft,
    Standing,
    end_attempt,
    holder,
    pause_now,
)
from domain.values import NULL, Json, Moment, Value
from domain.workspace_facts import ON_ITS_MACHINE, ContinuityUnknown


class Park(Value, frozen=True, kw_only=True):
    """The worker waits for somebody."""

    kind: ParkKind
    question: Json = NULL
    keep_lease: bool = False


def park(standing: Standing, presented: Presented, command: Park, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when the holder parks its run, keeping its lease or giving it up."""
    lease = holder(standing, presented)
    draft, run = standing.draft(), standing.known
    now_parked = run.phase if isinstance(run.phase, Parked) else None
    if command.kind == "paused" and not run.pause_asked and (now_parked is None or now_parked.kind != "paused"):
        raise WrongState(run_id=run.run_id, state=standing.state, wanted="asked to pause")
    if command.keep_lease and now_parked and (now_parked.kind, now_parked.question) == (command.kind, command.question):
        return draft
    parked = RunParked(
        kind=command.kind,
        question=command.question,
        lease_kept=command.keep_lease,
        reason="asked_by_worker",
        parked_at=now.wall,
    )
    if command.kind == "paused":  # its worker only obeys
        parked = msgspec.structs.replace(pause_now(now), question=command.question, lease_kept=command.keep_lease)
    if command.keep_lease:
        draft.on_run(parked)
        return draft
    released = LeaseReleased(fence=lease.fence, worker=lease.worker, cause="parked")
    _give_up(draft, parked, released, remains, now)
    return draft


def _give_up(draft: RunDraft, parked: RunParked, released: LeaseReleased, remains: Remains, now: Moment) -> None:
    run, broken = draft.standing.known, pending_loss(draft.standing)
    cites = () if broken is None else broken.cites
    ended = end_attempt(draft, Ending(outcome="parked", cites=cites), remains.work, now)
    draft.on_lease(released)
    if run.cancel is not None:
        settle_into(draft, cancelled_by(run, ended), remains, now)
    elif broken is None:
        draft.on_run(parked)
    elif run.policy.on_workspace_lost == "settle_lost":
        settle_into(draft, settlement_of(broken, (*cites, ended)), remains, now)
    else:
        draft.on_run(parked_on(run, parked))


def hand_back(standing: Standing, presented: Presented, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when the holder gives the run back unfinished; nothing is counted."""
    lease = holder(standing, presented)
    draft = standing.draft()
    ending = Ending(outcome="handed_back", due_at=now.wall + timedelta(seconds=standing.continuation_s))
    draft.on_lease(LeaseReleased(fence=lease.fence, worker=lease.worker, cause="handed_back"))
    _hand_on(draft, ending, remains, now)
    return draft


def expire(standing: Standing, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when the lease's deadline has passed; none when it is live or held by nobody."""
    draft = standing.draft()
    expire_into(draft, remains, now)
    return draft


def expire_into(draft: RunDraft, remains: Remains, now: Moment) -> None:
    """Put down an expiry: the evidence with its marks, the attempt's end, and what becomes of the run.

    Nothing is put down for a lease that is live, or held by nobody.
    """
    standing = draft.standing
    run, lease, mark = standing.known, standing.lease, standing.mark
    if not isinstance(lease, Held) or mark is None or mark.fence != lease.fence or mark.live(now):
        return
    if waits_for_the_ttl(standing) and now.mono < mark.ttl_deadline:
        return
    detached = mark.detached and not lease.sliced and now.mono < mark.ttl_deadline
    expired = draft.on_lease(
        LeaseExpired(
            fence=lease.fence,
            worker=lease.worker,
            last_renewed_at=mark.renewed_at,
            renewals=mark.renewals,
            detached=detached,
            expired_at=now.wall,
        )
    )
    _unsee(draft, lease.worker, mark)
    if isinstance(run.phase, Parked):
        _hand_on(draft, Ending(outcome="expired", cites=(expired,)), remains, now)
    elif lease.sliced:
        due_at = now.wall + timedelta(seconds=standing.continuation_s)
        _hand_on(draft, Ending(outcome="slice_ended", cites=(expired,), due_at=due_at), remains, now)
    else:
        timeout = draft.on_run(_timeout(lease, mark, detached=detached, cited=expired))
        outcome = Ending(
            outcome="detached" if detached else "expired", cites=(expired, timeout), counted=True, due_at=now.wall
        )
        _hand_on(draft, outcome, remains, now)


def _timeout(lease: Held, mark: LeaseMark, *, detached: bool, cited: str) -> WorkerTimeout:
    marks = {
        "ttl_s": lease.ttl_s,
        "granted_at": lease.granted_at.isoformat(),
        "last_renewed_at": mark.renewed_at.isoformat(),
        "renewals": mark.renewals,
    }
    kind = "detached" if detached else "lease_expired"
    return WorkerTimeout(kind=kind, fence=lease.fence, worker=lease.worker, marks=marks, cites=(cited,))  # type: ignore[arg-type]


def _unsee(draft: RunDraft, worker: str, mark: LeaseMark) -> None:
    """Put down that nobody sees what only this worker could see: where it acted, or on its own machine."""
    for workspace in draft.standing.workspaces:
        placed = workspace.placed
        elsewhere = placed.provider in ON_ITS_MACHINE and placed.worker != worker
        alone = workspace.phase == "running" and placed.scope is None and not elsewhere
        if alone and workspace.unknown_since is None:
            unknown = ContinuityUnknown(since=mark.renewed_at, cause="holder_gone")
            draft.on_workspace(workspace.workspace_id, unknown)


def waits_for_the_ttl(standing: Standing) -> bool:
    """Whether a detachment is not enough: it would spend the last attempt, or decide a loss over its holder's head."""
    mark = standing.mark
    return mark is not None and mark.detached and (spends_the_last(standing) or pending_loss(standing) is not None)


def refuse_pending(standing: Standing, now: Moment) -> None:
    """Refuse what would come before the end of a lease that ran out, where that end may end the run, too.

    A pending loss is decided by it, and a pending cancel settles the run.
    """
    lease, mark = standing.lease, standing.mark
    waits = standing.known.cancel is not None or pending_loss(standing) is not None
    if isinstance(lease, Held) and not standing.live(now) and waits:
        assert mark is not None  # a lease without a mark is live
        left = max(0.0, mark.ttl_deadline - now.mono)
        raise LeaseHeld(holder=lease.worker, fence=lease.fence, retry_after_s=round(left, 3))


def spends_the_last(standing: Standing) -> bool:
    """Whether the lease's expiry would be counted, and be the one that spends ``max_attempts``."""
    run, lease = standing.known, standing.lease
    counted = isinstance(run.phase, Running) and not (isinstance(lease, Held) and lease.sliced)
    return counted and run.failed_attempts + 1 >= run.policy.max_attempts


def end_slice(standing: Standing) -> RunDraft:
    """Facts that follow at the end of a slice; none when there is no slice, or its end is already recorded."""
    draft, lease = standing.draft(), standing.lease
    if isinstance(lease, Held) and lease.slice_ends_at is not None and not lease.sliced:
        draft.on_lease(SliceEnded(fence=lease.fence, worker=lease.worker, slice_ends_at=lease.slice_ends_at))
    return draft


def _hand_on(draft: RunDraft, end: Ending, remains: Remains, now: Moment) -> None:
    ending = judge_pending(draft, end, remains, now)
    if ending is None:
        return
    run = draft.standing.known
    exhausted = ending.counted and run.failed_attempts + 1 >= run.policy.max_attempts
    goes_on = run.cancel is None and not exhausted and not run.pause_asked
    kept = Ending(
        outcome=ending.outcome,
        cites=ending.cites,
        counted=ending.counted,
        due_at=ending.due_at if goes_on else None,
    )
    ended = end_attempt(draft, kept, remains.work, now)
    if run.cancel is not None:
        settle_into(draft, cancelled_by(run, ended), remains, now)
    elif exhausted:
        spent = Settlement(state="aborted", reason="attempts_exhausted", cites=(*ending.cites, ended))
        settle_into(draft, spent, remains, now)
    elif run.pause_asked and ending.due_at is not None:
        draft.on_run(pause_now(now))
