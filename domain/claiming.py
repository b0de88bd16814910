"""Claiming: how a worker comes to act for a run.

*By queue* takes runs that are queued and due; the order, the labels and the limits are kept where grants are picked.
*By id* also takes a run before it is due, one that is parked without a live lease (``waiting_input``,
``waiting_peer``, ``waiting_takeover``), and one whose lease has expired; the expiry is then put down first, in the
same append. The one expiry that would spend ``max_attempts`` is not a claimant's to write: it answers ``lease_held``
with ``retry_after_s: 0``, and the policy that aborts the run writes it. So does one that decides a pending loss: a
lost workspace goes before a take-over.

Every grant raises the fence by one. A *reservation* is such a grant to a worker that is still acquiring what it
needs; only ``bind``, with the token and before its deadline, starts the attempt. Nothing is consumed when a reservation
is cancelled or lapses: the run is queued as it was. When a reservation or a slice ends is asked of the monotonic clock,
like the deadline of a lease; the instants in facts are for people.

A limit that would be exceeded refuses the grant (``limit_reached``), naming the limit and its value.
"""

from datetime import datetime, timedelta
from typing import Literal

from domain.handing import expire_into, refuse_pending, spends_the_last
from domain.lease import (
    FenceBumped,
    Held,
    LeaseBound,
    LeaseHeld,
    LeaseReserved,
    ReservationCancelled,
    ReservationLapsed,
    ReservationLost,
    Reserved,
)
from domain.refusal import Refusal
from domain.run import Parked, Queued, Run, WaitingVerdict, WrongState
from domain.run_facts import AttemptStarted, Work
from domain.standing import Remains, RunDraft, Standing, refuse_settled
from domain.values import Moment, Value

RESERVATION_S = 120.0


class Grant(Value, frozen=True, kw_only=True):
    """Who is to be granted the run, and on which road."""

    worker: str
    cause: Literal["queue", "id"]
    token: str | None = None
    """Set for a reservation: the random proof of who may bind it."""
    reservation_s: float = RESERVATION_S


class RunPaused(Refusal):
    """The run is paused; only a resume brings it back."""

    code = "run_paused"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} is paused; resume it first", run_id=run_id)


class VerdictPending(Refusal):
    """The work is done; the leader has yet to judge it."""

    code = "verdict_pending"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} waits for its leader's verdict, not for a worker", run_id=run_id)


class LimitReached(Refusal):
    """One more lease would exceed a limit."""

    code = "limit_reached"

    def __init__(self, *, limit: str, value: int, subject: str) -> None:
        super().__init__(f"{limit} of {subject!r} is {value} and is used up", limit=limit, value=value, subject=subject)


class LabelsMissing(Refusal):
    """The run asks for labels that the worker does not have."""

    code = "labels_missing"

    def __init__(self, *, worker_id: str, missing: dict[str, str]) -> None:
        super().__init__(f"worker {worker_id!r} lacks the labels {missing!r}", worker_id=worker_id, missing=missing)


def claim(standing: Standing, grant: Grant, work: Work, now: Moment) -> RunDraft:
    """Facts of one grant: an expiry that it takes over from, the fence bump, the attempt's start.

    Args:
        standing: how the run stands.
        grant: who is granted it; by queue only a due run, by id also one that is parked or expired.
        work: what the attempt that ended by the expiry had produced.
        now: the present moment.

    Raises:
        LeaseHeld: somebody holds or has reserved it.
        RunPaused: it is paused.
        VerdictPending: it waits for its leader.
        SettledOtherwise: it has ended.
    """
    draft = standing.draft()
    run = standing.known
    refuse_settled(standing)
    _refuse_waiting(run)
    _refuse_held(standing, now)
    if (grant.cause == "queue" or grant.token is not None) and not isinstance(run.phase, Queued):
        raise WrongState(run_id=run.run_id, state=standing.state, wanted="queued")
    if isinstance(standing.lease, Held):
        _take_over(draft, standing.lease, work, now)
    elif isinstance(run.phase, Queued) and grant.cause == "queue" and now.wall < run.phase.due_at:
        left = (run.phase.due_at - now.wall).total_seconds()
        raise LeaseHeld(holder="", fence=standing.lease.fence, retry_after_s=left)
    _grant(draft, grant, now)
    return draft


def _refuse_waiting(run: Run) -> None:
    if isinstance(run.phase, WaitingVerdict):
        raise VerdictPending(run.run_id)
    if isinstance(run.phase, Parked) and run.phase.kind == "paused":
        raise RunPaused(run.run_id)


def _refuse_held(standing: Standing, now: Moment) -> None:
    lease = standing.lease
    if isinstance(lease, Reserved):
        left = 0.0 if standing.ends is None else max(0.0, standing.ends - now.mono)
        raise LeaseHeld(holder=lease.worker, fence=lease.fence, retry_after_s=round(left, 3))
    if isinstance(lease, Held) and standing.live(now):
        left = lease.ttl_s if standing.mark is None else standing.mark.deadline - now.mono
        raise LeaseHeld(holder=lease.worker, fence=lease.fence, retry_after_s=round(left, 3))


def _take_over(draft: RunDraft, lease: Held, work: Work, now: Moment) -> None:
    run, mark = draft.standing.known, draft.standing.mark
    refuse_pending(draft.standing, now)
    asked = run.cancel is not None or run.pause_asked
    if spends_the_last(draft.standing) or asked or _slice_is_due(draft.standing, lease, now):
        assert mark is not None  # a lease without a mark is live
        left = max(0.0, mark.ttl_deadline - now.mono)
        raise LeaseHeld(holder=lease.worker, fence=lease.fence, retry_after_s=round(left, 3))
    expire_into(draft, Remains(work=work), now)


def _slice_is_due(standing: Standing, lease: Held, now: Moment) -> bool:
    """Where deadline and slice end fall together the slice comes first, and its end is the policy's to write."""
    return not lease.sliced and standing.ends is not None and standing.ends <= now.mono


def _grant(draft: RunDraft, grant: Grant, now: Moment) -> None:
    standing = draft.standing
    run, fence = standing.known, standing.lease.fence + 1
    if not isinstance(standing.lease, Held):
        draft.make_ambiguous()
    if grant.token is not None:
        lapses_at = now.wall + timedelta(seconds=grant.reservation_s)
        draft.on_lease(LeaseReserved(fence=fence, token=grant.token, worker=grant.worker, lapses_at=lapses_at))
        return
    draft.on_lease(
        FenceBumped(
            fence=fence,
            worker=grant.worker,
            ttl_s=run.policy.lease_ttl_s,
            granted_at=now.wall,
            slice_ends_at=_slice_end(run, now),
            cause=grant.cause,
        )
    )
    draft.on_run(_start(standing, fence, grant.worker, now))


def _slice_end(run: Run, now: Moment) -> datetime | None:
    hold_s = run.policy.max_hold_s
    return None if hold_s is None else now.wall + timedelta(seconds=hold_s)


def _start(standing: Standing, fence: int, worker: str, now: Moment) -> AttemptStarted:
    run = standing.known
    if not standing.workspaces:
        return AttemptStarted(attempt=run.attempt + 1, fence=fence, worker=worker, started_at=now.wall)
    marks = {each.workspace_id: each.incarnation for each in standing.workspaces if each.phase == "running"}
    return AttemptStarted(attempt=run.attempt + 1, fence=fence, worker=worker, incarnations=marks, started_at=now.wall)


def bind(standing: Standing, token: str, now: Moment) -> RunDraft:
    """Facts that follow when the reserving worker is ready: the lease is bound and the attempt starts.

    Raises:
        ReservationLost: cancelled, lapsed, bound already, made anew under another token, or over: at its deadline it
            is, whether or not that is recorded yet.
    """
    lease = _reservation(standing, token)
    if standing.ends is not None and standing.ends <= now.mono:
        raise ReservationLost(token)
    run, draft = standing.known, standing.draft()
    draft.on_lease(
        LeaseBound(
            fence=lease.fence,
            worker=lease.worker,
            ttl_s=run.policy.lease_ttl_s,
            granted_at=now.wall,
            slice_ends_at=_slice_end(run, now),
        )
    )
    draft.on_run(_start(standing, lease.fence, lease.worker, now))
    return draft


def cancel_reservation(standing: Standing, token: str, cause: str) -> RunDraft:
    """Facts that follow when a reservation is given back; the run is queued as it was."""
    lease, draft = _reservation(standing, token), standing.draft()
    draft.on_lease(ReservationCancelled(fence=lease.fence, token=token, worker=lease.worker, cause=cause))
    return draft


def lapse(standing: Standing, token: str) -> RunDraft:
    """Facts that follow when a reservation was not bound in time; none when it is no longer in force."""
    lease, draft = standing.lease, standing.draft()
    if isinstance(lease, Reserved) and lease.token == token:
        draft.on_lease(
            ReservationLapsed(fence=lease.fence, token=token, worker=lease.worker, lapses_at=lease.lapses_at)
        )
    return draft


def _reservation(standing: Standing, token: str) -> Reserved:
    lease = standing.lease
    if isinstance(lease, Reserved) and lease.token == token:
        return lease
    raise ReservationLost(token)
