"""Settling: bringing a run to its end otherwise than by its worker's close.

Every settlement here follows from a fact that stands before it and is cited: a cancel that was asked, an attempt that
spent ``max_attempts``, a process that ended with neither code nor signal. It raises the fence, so that whoever still
acts is refused from that position on, and it promotes the last partial to the result, once, when there is no result.
The worker is told after the append, never before.

A *cancel* by a principal asks first: the holder may save and close within ``cancel_grace_s``; its success stands,
anything else, or nothing, settles the run ``cancelled``. When nobody holds the run it is settled at once. A run that
was settled without a verdict is ``cancelled``: never ``succeeded``, and never ``lost``.

The settlement itself is one helper, which every policy that settles shares; only a cancel checks its principal.
"""

from typing import Literal

import msgspec

from domain.fencing import fence_lost
from domain.lease import FenceLost, Held, LeaseRevoked, holder_of
from domain.releasing import release_after
from domain.run import Run, Settled, SettledOtherwise, WaitingVerdict, WrongState
from domain.run_facts import (
    CancelRequested,
    PartialSalvaged,
    RunSettled,
    StopReported,
    Terminal,
    VerdictRendered,
)
from domain.standing import (
    Ending,
    Presented,
    Remains,
    RunDraft,
    Standing,
    end_attempt,
    refuse_settled,
)
from domain.values import NULL, Json, Moment, Value, later

CANCEL_GRACE_S = 10.0


class Settlement(Value, frozen=True, kw_only=True):
    """What the run ends as, why, and which facts it follows from."""

    state: Terminal
    reason: str
    cites: tuple[str, ...]
    error: Json = NULL


class Cancel(Value, frozen=True, kw_only=True):
    """A principal wants the run cancelled."""

    by: str
    grace_s: float = CANCEL_GRACE_S
    keep_workspaces: bool = False


class Verdict(Value, frozen=True, kw_only=True):
    """The leader judges a run whose worker has closed."""

    verdict: Literal["succeeded", "failed"]
    by: str
    result: Json = NULL


def settle_into(draft: RunDraft, settlement: Settlement, remains: Remains, now: Moment) -> None:
    """Put down that the run ends: the last partial salvaged, the settlement with its citations, the fence raised."""
    standing = draft.standing
    run, lease = standing.known, standing.lease
    if run.result == NULL and not run.salvaged and remains.partial != NULL:
        draft.on_run(PartialSalvaged(fence=remains.partial_fence, partial=remains.partial))
    draft.on_run(
        RunSettled(
            state=settlement.state,
            reason=settlement.reason,
            cites=settlement.cites,
            error=settlement.error,
            settled_at=now.wall,
        )
    )
    revoked = None if draft.lease_given_back else holder_of(lease)
    draft.on_lease(LeaseRevoked(fence=lease.fence + 1, worker=revoked, cause=settlement.reason))
    release_after(draft, settlement.reason, now)


def cancelled_by(run: Run, *cites: str) -> Settlement:
    """The run ends as its principal asked before, now that these facts are there too."""
    assert run.cancel is not None
    return Settlement(state="cancelled", reason="cancelled", cites=(run.cancel.citation, *cites))


def cancel(standing: Standing, command: Cancel, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when a principal wants the run cancelled: the wish, and its settlement when nobody holds it.

    A repeat yields none. One that wants the workspaces kept after all is another wish while the grace lasts, which
    goes on; once the run is cancelled it comes too late.

    Raises:
        SettledOtherwise: the run has ended, or was cancelled without keeping what is to be kept.
    """
    draft, run = standing.draft(), standing.known
    asks_more = command.keep_workspaces and not (run.cancel is not None and run.cancel.keep_workspaces)
    cancelled = isinstance(run.phase, Settled) and run.phase.state == "cancelled"
    if (cancelled or (run.cancel is not None and not isinstance(run.phase, Settled))) and not asks_more:
        return draft
    refuse_settled(standing)
    held = standing.live(now)
    settles_at = later(now.wall, command.grace_s if held else 0.0) if run.cancel is None else run.cancel.settles_at
    asked = draft.on_run(
        CancelRequested(
            by=command.by, keep_workspaces=command.keep_workspaces, requested_at=now.wall, settles_at=settles_at
        )
    )
    if not held:
        _settle_cancelled(draft, (asked,), remains, now)
    return draft


def cancel_due(standing: Standing, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when the grace of a cancel has passed; none when something else ended the run before."""
    draft, run = standing.draft(), standing.known
    if run.cancel is None or isinstance(run.phase, Settled):
        return draft
    _settle_cancelled(draft, (run.cancel.citation,), remains, now)
    return draft


def _settle_cancelled(draft: RunDraft, cites: tuple[str, ...], remains: Remains, now: Moment) -> None:
    end_into(draft, Settlement(state="cancelled", reason="cancelled", cites=cites), remains, now)


def end_into(draft: RunDraft, settlement: Settlement, remains: Remains, now: Moment) -> None:
    """Put down a settlement by somebody else than the holder; an attempt that is under way is revoked first."""
    if draft.standing.known.acting is None:
        draft.make_ambiguous()
        settle_into(draft, settlement, remains, now)
        return
    ended = end_attempt(draft, Ending(outcome="revoked", cites=settlement.cites), remains.work, now)
    settle_into(draft, msgspec.structs.replace(settlement, cites=(*settlement.cites, ended)), remains, now)


def verdict(standing: Standing, command: Verdict, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when the leader judges a run whose worker has closed.

    Raises:
        SettledOtherwise: the run ended with another verdict, or without one.
        WrongState: its worker has not closed it.
    """
    draft, run = standing.draft(), standing.known
    repeats = command.result in (NULL, run.result)
    if isinstance(run.phase, Settled) and repeats and (run.phase.reason, run.state) == ("verdict", command.verdict):
        return draft
    if isinstance(run.phase, Settled):
        raise SettledOtherwise(run_id=run.run_id, state=run.state, reason=run.reason)
    if not isinstance(run.phase, WaitingVerdict):
        raise WrongState(run_id=run.run_id, state=standing.state, wanted="waiting_verdict")
    if run.result == command.result == NULL and not run.salvaged and remains.partial != NULL:
        draft.on_run(PartialSalvaged(fence=remains.partial_fence, partial=remains.partial))
    draft.on_run(VerdictRendered(verdict=command.verdict, result=command.result, by=command.by, rendered_at=now.wall))
    draft.on_lease(LeaseRevoked(fence=standing.lease.fence + 1, worker=None, cause="verdict"))
    release_after(draft, "verdict", now)
    return draft


def report_stop(standing: Standing, presented: Presented, report: Literal["saved", "ignored"]) -> RunDraft:
    """Facts that follow when a worker whose lease was taken away tells whether it saved; accepted once per fence."""
    draft, run = standing.draft(), standing.known
    fence = presented.fence or 0
    worker = run.revoked.get(fence)
    if worker is None and isinstance(standing.lease, Held) and standing.lease.fence == fence:
        raise FenceLost(presented=fence, current=fence, holder=standing.lease.worker, reason="not_revoked")
    if worker is None or not presented.may_be(worker):
        raise fence_lost(standing.lease, fence)
    if fence not in run.stop_reports:
        draft.on_run(StopReported(fence=fence, worker=worker, report=report))
    return draft
