"""Failing an attempt from outside: it ends counted, by evidence or by its run's own policy, and its lease is revoked.

The run is queued from an instant that the caller names, unless something else is owed to it: a pending cancel settles
it, the last attempt spent aborts it, a pending pause makes it paused.
"""

from datetime import datetime

from domain.lease import LeaseReleased, LeaseRevoked, holder_of
from domain.run_facts import EndOutcome
from domain.settling import Settlement, cancelled_by, settle_into
from domain.standing import Ending, Remains, RunDraft, end_attempt, pause_now
from domain.values import Moment, Value


class Failed(Value, frozen=True, kw_only=True):
    """How the attempt fails, on which facts, and when the run may be claimed again."""

    outcome: EndOutcome
    cites: tuple[str, ...]
    due_at: datetime


def fail_attempt(draft: RunDraft, failed: Failed, remains: Remains, now: Moment) -> None:
    """Put down that the running attempt failed, and what becomes of its run."""
    run = draft.standing.known
    exhausted = run.failed_attempts + 1 >= run.policy.max_attempts
    goes_on = run.cancel is None and not exhausted and not run.pause_asked
    ending = Ending(outcome=failed.outcome, cites=failed.cites, counted=True, due_at=failed.due_at if goes_on else None)
    ended = end_attempt(draft, ending, remains.work, now)
    if run.cancel is not None:
        settle_into(draft, cancelled_by(run, ended), remains, now)
    elif exhausted:
        spent = Settlement(state="aborted", reason="attempts_exhausted", cites=(*failed.cites, ended))
        settle_into(draft, spent, remains, now)
    else:
        revoke(draft, failed.outcome)
        if run.pause_asked:
            draft.on_run(pause_now(now))


def revoke(draft: RunDraft, cause: str) -> None:
    """Put down that the lease is taken away without settling, a late close included; nothing when it was given up."""
    lease = draft.standing.lease
    worker = holder_of(lease)
    given_up = any(isinstance(fact, LeaseReleased) for _, fact in draft.entries)
    if worker is not None and not given_up:
        draft.on_lease(LeaseRevoked(fence=lease.fence, worker=worker, cause=cause))
