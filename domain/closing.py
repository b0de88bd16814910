"""Closing: the holder says how its attempt ended.

What becomes of the run is decided once, here. *succeeded* goes the verdict-giver's path: the run succeeds, or waits
for its leader's verdict. *failed* and retryable with attempts left is queued again after a backoff, whoever judges;
otherwise it fails, or waits for the verdict. An exit code of 0 is an outcome of the attempt; only the verdict-giver
renders ``succeeded``.

When nobody will try again and the process ended with neither code nor signal (``exit_unknown``), the evidence itself is
missing: a run that its worker judges is then ``lost``, and not ``failed``.

A *late close* is welcome: the attempt under the fence in force ended by a clock, nothing was granted since, and the
run is still queued. It replaces the expiry's outcome, and ``failed_attempts`` is not raised again.

A pending cancel lets a success stand and settles everything else ``cancelled``; a pending pause makes the run paused
instead of queued. An identical close that is already in force yields no facts and success.
"""

from datetime import timedelta
from typing import Literal

from domain.lease import Held, LeaseReleased, Reserved
from domain.releasing import release_after
from domain.run import Run
from domain.run_facts import PartialSalvaged, RunClosed
from domain.settling import Settlement, settle_into
from domain.standing import Presented, Remains, RunDraft, Standing, holder, late_holder, pause_now
from domain.values import NULL, Json, Moment, Value, of_json

Becomes = Literal["succeeded", "failed", "waiting_verdict", "queued", "paused", "cancelled", "lost"]


EXIT_UNKNOWN = "exit_unknown"
"""The error of a process that ended with neither exit code nor signal."""


class Close(Value, frozen=True, kw_only=True):
    """How the attempt ended, as its worker reports it."""

    outcome: Literal["succeeded", "failed"]
    result: Json = NULL
    error: Json = NULL
    retryable: bool = True


def close(standing: Standing, presented: Presented, command: Close, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when the holder, or the late holder, closes its attempt.

    Raises:
        FenceLost: the fence gives no right to close; nothing of the close becomes visible.
    """
    draft = standing.draft()
    if _repeats(standing, presented, command):
        return draft
    late = late_holder(standing, presented)
    worker = _closer(standing, presented, late=late)
    draft.make_ambiguous()
    _close_into(draft, command, remains, now, late=late)
    draft.on_lease(LeaseReleased(fence=standing.lease.fence, worker=worker, cause="closed"))
    _follow_up(draft, command, remains, now)
    return draft


def _repeats(standing: Standing, presented: Presented, command: Close) -> bool:
    closed, lease = standing.known.closed, standing.lease
    if closed is None or presented.fence != closed.fence or isinstance(lease, Held | Reserved):
        return False
    same = (closed.outcome, closed.result, closed.error) == (command.outcome, command.result, command.error)
    same = same and (command.retryable or not closed.retried)
    last = lease.last
    return same and last is not None and last.fence == closed.fence and presented.may_be(last.worker)


def _closer(standing: Standing, presented: Presented, *, late: bool) -> str:
    last = standing.lease.last
    if late and last is not None:
        return last.worker
    return holder(standing, presented).worker


def _close_into(draft: RunDraft, command: Close, remains: Remains, now: Moment, *, late: bool) -> None:
    run, fence = draft.standing.known, draft.standing.lease.fence
    failed = _failed_attempts(run, command, fence)
    becomes = becomes_of(run, command, failed)
    settled = becomes in ("succeeded", "failed")
    if settled and command.result == NULL and not run.salvaged and remains.partial != NULL:
        draft.on_run(PartialSalvaged(fence=remains.partial_fence, partial=remains.partial))
    due_at = now.wall + timedelta(seconds=run.policy.backoff_s(failed)) if becomes == "queued" else None
    draft.on_run(
        RunClosed(
            attempt=run.attempt,
            fence=fence,
            outcome=command.outcome,
            state=None if becomes in ("paused", "cancelled", "lost") else becomes,  # type: ignore[arg-type]
            result=NULL if becomes == "paused" else command.result,
            error=command.error,
            failed_attempts=failed,
            due_at=due_at,
            late=late,
            work=remains.work,
            closed_at=now.wall,
        )
    )


def _follow_up(draft: RunDraft, command: Close, remains: Remains, now: Moment) -> None:
    """What a pending cancel or pause makes of a close that did not settle the run by itself."""
    run = draft.standing.known
    becomes = becomes_of(run, command, _failed_attempts(run, command, draft.standing.lease.fence))
    if becomes == "paused":
        draft.on_run(pause_now(now))
    elif becomes == "cancelled" and run.cancel is not None:
        settled = Settlement(
            state="cancelled",
            reason="cancelled",
            cites=(run.cancel.citation, draft.last(RunClosed)),
            error=command.error,
        )
        settle_into(draft, settled, _left(command, remains), now)
    elif becomes == "lost":
        cites = (draft.last(RunClosed),)
        lost = Settlement(state="lost", reason=EXIT_UNKNOWN, cites=cites, error=command.error)
        settle_into(draft, lost, _left(command, remains), now)
    elif becomes in ("succeeded", "failed"):
        release_after(draft, "closed", now)


def _left(command: Close, remains: Remains) -> Remains:
    """What may be salvaged: nothing beside a result."""
    return remains if command.result == NULL else Remains()


def _failed_attempts(run: Run, command: Close, fence: int) -> int:
    counted_already = run.counted_fence == fence
    return run.failed_attempts + (1 if command.outcome == "failed" and not counted_already else 0)


def becomes_of(run: Run, command: Close, failed_attempts: int) -> Becomes:
    """What a close with this outcome makes of the run, ``failed_attempts`` being the count after it."""
    by_leader = run.policy.verdict_by == "leader"
    if command.outcome == "succeeded":
        return "waiting_verdict" if by_leader else "succeeded"
    if run.cancel is not None:
        return "cancelled"
    if command.retryable and failed_attempts < run.policy.max_attempts:
        return "paused" if run.pause_asked else "queued"
    if by_leader:
        return "waiting_verdict"
    return "lost" if code_of(command.error) == EXIT_UNKNOWN else "failed"


def code_of(error: Json) -> str:
    """What an error is called: a text error itself, or an object's ``code``; empty when it has no name."""
    value = of_json(error)
    if isinstance(value, dict):
        value = value.get("code")
    return value if isinstance(value, str) else ""
