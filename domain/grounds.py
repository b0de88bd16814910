"""What the end of the ground means for its run: evidence first, then the run's own policy decides.

A *loss* is told once. Under ``on_workspace_lost: settle_lost`` the run is ``lost``; under ``retry_fresh`` an acting
attempt is revoked, counted, and the run queued due at once (a run that nobody acts for keeps its state, and a kept
lease is revoked without counting); under ``park`` it waits for a take-over. A fresh workspace is placed at the next
grant. A run that has ended, or waits for its verdict, is told and nothing else follows.

A loss that carries an *exit* while the lease is live is ``pending``: the holder is asked first, since its close may
know better. Its close decides; where the attempt ends without one, the policy does (``judge_pending``).

A *fault* is the end of a body that was never attached to. It is no loss: it fails the attempt that placed it, under
the retry policy, and any later attempt does not care. A budget that ran out is told to the run first.

Whatever was asked of the run before is kept: a pending cancel settles it, a pending pause makes it paused instead of
queued. A leader that is gone goes before a loss, and a loss before a take-over.
"""

from datetime import timedelta
from typing import Final

import msgspec

from domain.failing import Failed, fail_attempt, revoke
from domain.lease import Held
from domain.run import Parked, Run, Running, Settled, WaitingVerdict
from domain.run_facts import RunParked, WorkerTimeout
from domain.settling import Settlement, cancelled_by, settle_into
from domain.standing import Ending, Remains, RunDraft, Standing, end_attempt
from domain.values import NULL, Moment, Value, to_json
from domain.workspace import Workspace
from domain.workspace_facts import EXITS, ExitSeen, LossReason, ProvisionFaulted, WorkspaceLost
from domain.workspace_refusals import REASON_MAX_CHARS, check_message, check_text

LOST: Final = "workspace_lost"
BY_THE_CLOCK = ("expired", "detached", "slice_ended")
BUDGET_SPENT = "ProvisioningTimeout"


class End(Value, frozen=True, kw_only=True):
    """How an attached body ended, as it was seen."""

    reason: LossReason
    message: str | None = None
    exit_code: int | None = None
    incarnation: int | None = None
    version: str | None = None


class Broken(Value, frozen=True, kw_only=True):
    """Ground that a run can no longer stand on, and the facts that say so."""

    workspace_id: str
    reason: str
    message: str | None
    exit_code: int | None
    cites: tuple[str, ...]


def lose_into(draft: RunDraft, workspace: Workspace, end: End, remains: Remains, now: Moment) -> None:
    """Put down the loss of a running workspace, and what follows for its run."""
    standing = draft.standing
    exit_seen = ExitSeen(code=end.exit_code) if end.reason in EXITS else None
    pending = exit_seen is not None and isinstance(standing.lease, Held) and standing.live(now)
    lost = draft.on_workspace(
        workspace.workspace_id,
        WorkspaceLost(
            identity=workspace.identity or workspace.workspace_id,
            reason=end.reason,
            message=end.message,
            exit=exit_seen,
            incarnation=max(workspace.incarnation, end.incarnation or 0),
            fence=standing.lease.fence,
            pending=pending,
            version=end.version,
            lost_at=now.wall,
        ),
    )
    if not pending:
        broken = Broken(
            workspace_id=workspace.workspace_id,
            reason=end.reason,
            message=end.message,
            exit_code=end.exit_code,
            cites=(lost,),
        )
        judge(draft, broken, remains, now)


def pending_loss(standing: Standing) -> Broken | None:
    """The loss that the holder was asked about and that its lease's end decides, if there is one."""
    if not standing.workspaces or not isinstance(standing.lease, Held):
        return None
    fence = standing.lease.fence
    asked = [
        (each.lost.lost_at, each.workspace_id, each.lost)
        for each in standing.workspaces
        if each.lost is not None and each.lost.pending and each.lost.fence == fence
    ]
    if not asked:
        return None
    _, workspace_id, loss = min(asked, key=lambda each: each[:2])
    return Broken(
        workspace_id=workspace_id,
        reason=loss.reason,
        message=loss.message,
        exit_code=None if loss.exit is None else loss.exit.code,
        cites=(loss.citation,),
    )


def judge_pending(draft: RunDraft, ending: Ending, remains: Remains, now: Moment) -> Ending | None:
    """How the attempt ends without a close when a loss was pending; None when the loss decided it, and it is put down.

    Under ``retry_fresh`` an expiry stays one, so that its holder may still close late, and a run that nobody works on
    simply goes on as its attempt's end has it; both cite the loss.
    """
    broken, run = pending_loss(draft.standing), draft.standing.known
    if broken is None:
        return ending
    cites = (*ending.cites, *broken.cites)
    goes_on = ending.outcome in BY_THE_CLOCK or not isinstance(run.phase, Running)
    if run.policy.on_workspace_lost == "retry_fresh" and goes_on:
        return msgspec.structs.replace(ending, cites=cites)
    judge(draft, msgspec.structs.replace(broken, cites=cites), remains, now)
    return None


def judge(draft: RunDraft, broken: Broken, remains: Remains, now: Moment) -> None:
    """Put down what the run's policy makes of ground that is gone."""
    run = draft.standing.known
    if isinstance(run.phase, Settled | WaitingVerdict):
        return
    if run.cancel is not None:
        _settle(draft, broken, remains, now)
        return
    match run.policy.on_workspace_lost:
        case "settle_lost":
            _settle(draft, broken, remains, now)
        case "retry_fresh":
            _retry(draft, broken, remains, now)
        case "park":
            _park(draft, broken, remains, now)


def _settle(draft: RunDraft, broken: Broken, remains: Remains, now: Moment) -> None:
    run, cites = draft.standing.known, broken.cites
    if run.acting is None:
        draft.make_ambiguous()
    else:
        ended = end_attempt(draft, Ending(outcome=LOST, cites=broken.cites), remains.work, now)
        cites = (*broken.cites, ended)
    settle_into(draft, cancelled_by(run, *cites) if run.cancel else settlement_of(broken, cites), remains, now)


def settlement_of(broken: Broken, cites: tuple[str, ...]) -> Settlement:
    """The run is lost with its ground; its error says how the ground went."""
    error = {
        "code": LOST,
        "workspace_id": broken.workspace_id,
        "reason": broken.reason,
        "message": broken.message,
        "exit_code": broken.exit_code,
    }
    return Settlement(state="lost", reason=LOST, cites=cites, error=to_json(error))


def _retry(draft: RunDraft, broken: Broken, remains: Remains, now: Moment) -> None:
    run = draft.standing.known
    if run.acting is None:
        return
    if isinstance(run.phase, Running):
        fail_attempt(draft, Failed(outcome=LOST, cites=broken.cites, due_at=now.wall), remains, now)
        return
    end_attempt(draft, Ending(outcome=LOST, cites=broken.cites), remains.work, now)
    revoke(draft, LOST)


def _park(draft: RunDraft, broken: Broken, remains: Remains, now: Moment) -> None:
    run = draft.standing.known
    if run.acting is not None:
        end_attempt(draft, Ending(outcome=LOST, cites=broken.cites), remains.work, now)
    revoke(draft, LOST)
    waits = run.phase.kind if isinstance(run.phase, Parked) else None
    if waits == "paused" or (waits == "waiting_takeover" and run.acting is None):
        return
    question = run.phase.question if isinstance(run.phase, Parked) else NULL
    draft.on_run(
        RunParked(kind="waiting_takeover", question=question, lease_kept=False, reason=LOST, parked_at=now.wall)
    )


def parked_on(run: Run, parked: RunParked) -> RunParked:
    """What a worker's wish to park becomes when a pending loss is decided by it: a pause stays one."""
    if run.policy.on_workspace_lost != "park" or parked.kind == "paused":
        return parked
    return msgspec.structs.replace(parked, kind="waiting_takeover", reason=LOST)


class Fault(Value, frozen=True, kw_only=True):
    """Why a body did not come to be, and the facts that say so."""

    reason: str
    message: str | None = None
    cites: tuple[str, ...] = ()


def fault_into(draft: RunDraft, workspace: Workspace, fault: Fault, remains: Remains, now: Moment) -> None:
    """Put down that a body ended before anybody attached to it; it fails the attempt that placed it."""
    standing, run = draft.standing, draft.standing.known
    faulted = draft.on_workspace(
        workspace.workspace_id,
        ProvisionFaulted(reason=fault.reason, message=fault.message, cites=fault.cites, faulted_at=now.wall),
    )
    placed_by_this = isinstance(standing.lease, Held) and standing.lease.fence == workspace.placed.fence
    if isinstance(run.phase, Running) and placed_by_this:
        due_at = now.wall + timedelta(seconds=run.policy.backoff_s(run.failed_attempts + 1))
        ending = judge_pending(draft, Ending(outcome="provision_failed", cites=(*fault.cites, faulted)), remains, now)
        if ending is not None:
            failed = Failed(outcome="provision_failed", cites=ending.cites, due_at=due_at)
            fail_attempt(draft, failed, remains, now)


def fault(standing: Standing, workspace_id: str, why: Fault, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when a provider cannot make the body; none when it was attached to or is over."""
    check_text("reason", why.reason, REASON_MAX_CHARS)
    check_message(why.message)
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    if workspace.phase in ("placing", "provisioning", "attaching"):
        fault_into(draft, workspace, why, remains, now)
    return draft


def time_out(standing: Standing, workspace_id: str, budget_s: float, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when a body used up its budget: the run is told first, then the fault.

    None while nobody sees it (its clock stands still then), while it waits for capacity, and once it is attached to.
    """
    draft, workspace = standing.draft(), standing.workspace(workspace_id)
    since = workspace.provisioning_since
    if workspace.phase not in ("provisioning", "attaching") or workspace.unknown_since is not None:
        return draft
    cites: tuple[str, ...] = ()
    if not isinstance(standing.known.phase, Settled):
        marks = {
            "workspace_id": workspace_id, "since": None if since is None else since.isoformat(), "budget_s": budget_s,
        }  # fmt: skip
        placed = workspace.placed
        told = WorkerTimeout(kind="provision", fence=placed.fence, worker=placed.worker, marks=marks, cites=())
        cites = (draft.on_run(told),)
    why = Fault(reason=BUDGET_SPENT, message=f"no body within {budget_s:g} s", cites=cites)
    fault_into(draft, workspace, why, remains, now)
    return draft
