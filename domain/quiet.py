"""Silence and overlong work: told as facts, and by themselves nothing else.

*inactivity* is told once for each quiet stretch, parked runs included; *total* once, parked time excluded, until its
leader extends it. Silence is never evidence that a leader gave up or that a run is lost. One exception, by the run's
own policy: under ``on_quiet: fail_attempt`` a quiet stretch of a run that is being acted for ends the *attempt*, which
counts as failed and quarantines the worker; never a connected leader's claim to the run, and never its verdict.

The leader answers a timeout with *extend* (the run goes on; a total clock starts anew, whole, while of a silence that
was told nothing is told again: only activity opens another stretch) or *abort* (the run is aborted), once.
"""

from datetime import timedelta
from typing import Literal

from domain.failing import Failed, fail_attempt
from domain.grounds import judge_pending
from domain.lease import Held
from domain.refusal import Refusal
from domain.run import Parked, Queued, Run, Running, Settled, Timeout, WaitingVerdict
from domain.run_facts import RunReassigned, TimeoutAcknowledged, WorkerTimeout
from domain.settling import Settlement, end_into
from domain.standing import Ending, Remains, RunDraft, Standing, refuse_settled
from domain.submission import check_id
from domain.values import Moment, Value

TOOL_CEILING_S = 1800.0
"""How long a tool call in flight may hold the quiet clock still."""


class Overdue(Value, frozen=True, kw_only=True):
    """A clock that has run out: which, and since when it was running (for people, and to tell stretches apart)."""

    kind: Literal["inactivity", "total"]
    since: str
    after_s: float


class TimeoutUnknown(Refusal):
    """The run has no timeout under this id."""

    code = "timeout_unknown"

    def __init__(self, timeout: str) -> None:
        super().__init__(f"no timeout of this run is {timeout!r}", timeout=timeout)


class TimeoutAnswered(Refusal):
    """The timeout was acknowledged before."""

    code = "timeout_answered"

    def __init__(self, *, timeout: str, answer: str) -> None:
        super().__init__(f"timeout {timeout!r} was answered with {answer!r}", timeout=timeout, answer=answer)


class RevisionStale(Refusal):
    """The run was reassigned since the caller read it."""

    code = "revision_stale"

    def __init__(self, *, presented: int, current: int) -> None:
        super().__init__(
            f"revision {presented} is stale: the run is at revision {current}", presented=presented, current=current
        )


def tell(standing: Standing, overdue: Overdue, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when a clock about the run's work ran out; none when this stretch was told already."""
    draft, run = standing.draft(), standing.known
    if isinstance(run.phase, Settled) or _told(run, overdue) or not _counts(run, overdue):
        return draft
    told = draft.on_run(
        WorkerTimeout(
            kind=overdue.kind,
            fence=run.acting.fence if run.acting else None,
            worker=run.acting.worker if run.acting else None,
            marks={"since": overdue.since, "after_s": overdue.after_s},
            cites=(),
        )
    )
    stalls = overdue.kind == "inactivity" and run.policy.on_quiet == "fail_attempt"
    if stalls and isinstance(run.phase, Running) and isinstance(standing.lease, Held):
        _stall(draft, told, remains, now)
    return draft


def unanswered(run: Run) -> dict[str, Timeout]:
    """What was told to the run's leader and waits for an answer, by citation: the latest of each kind.

    An inactivity is about its attempt, and waits no longer than that is under way; a total about the run as a whole.
    """
    if isinstance(run.phase, Settled):
        return {}
    latest = {told.kind: citation for citation, told in run.timeouts.items()}
    found = ((citation, run.timeouts[citation]) for citation in latest.values())
    return {citation: told for citation, told in found if told.answer is None and _still_asked(run, told)}


def _still_asked(run: Run, told: Timeout) -> bool:
    acting = None if run.acting is None else run.acting.fence
    return told.kind == "total" or (told.fence == acting and not isinstance(run.phase, Queued))


def _counts(run: Run, overdue: Overdue) -> bool:
    """Nobody is quiet while nobody has it (*queued*), and nobody works while it waits (*parked*)."""
    if overdue.kind == "inactivity":
        return not isinstance(run.phase, Queued)
    return not isinstance(run.phase, Parked | WaitingVerdict)


def _told(run: Run, overdue: Overdue) -> bool:
    told = [timeout for timeout in run.timeouts.values() if timeout.kind == overdue.kind]
    if overdue.kind == "total":
        return bool(told) and told[-1].answer is None
    return any(timeout.mark == overdue.since for timeout in told)


def _stall(draft: RunDraft, told: str, remains: Remains, now: Moment) -> None:
    run = draft.standing.known
    due_at = now.wall + timedelta(seconds=run.policy.backoff_s(run.failed_attempts + 1))
    ending = judge_pending(draft, Ending(outcome="stalled", cites=(told,)), remains, now)
    if ending is not None:
        fail_attempt(draft, Failed(outcome="stalled", cites=ending.cites, due_at=due_at), remains, now)


def acknowledge(
    standing: Standing, timeout: str, answer: Literal["extend", "abort"], by: str, rest: tuple[Remains, Moment]
) -> RunDraft:
    """Facts that follow when the leader answers a timeout, once; none when it was answered like that before.

    Raises:
        TimeoutUnknown: no such timeout was told to this run.
        TimeoutAnswered: it was answered otherwise before.
        SettledOtherwise: the run has ended.
    """
    draft, run, (remains, now) = standing.draft(), standing.known, rest
    told = run.timeouts.get(timeout)
    if told is None:
        raise TimeoutUnknown(timeout)
    if told.answer == answer:
        return draft
    if told.answer is not None:
        raise TimeoutAnswered(timeout=timeout, answer=told.answer)
    refuse_settled(standing)
    said = draft.on_run(
        TimeoutAcknowledged(timeout=timeout, kind=told.kind, answer=answer, by=by, acknowledged_at=now.wall)
    )
    if answer == "abort":
        aborted = Settlement(state="aborted", reason="timeout_aborted", cites=(timeout, said))
        end_into(draft, aborted, remains, now)
    return draft


def reassign(standing: Standing, leader_id: str, revision: int, by: str, now: Moment) -> RunDraft:
    """Facts that follow when another leader takes the run over, or the same one after its session was lost.

    Raises:
        RevisionStale: the run was reassigned since that revision.
        SettledOtherwise: the run has ended.
    """
    draft, run = standing.draft(), standing.known
    check_id("leader_id", leader_id)
    refuse_settled(standing)
    if revision != run.revision:
        raise RevisionStale(presented=revision, current=run.revision)
    draft.on_run(RunReassigned(leader_id=leader_id, revision=revision + 1, by=by, reassigned_at=now.wall))
    return draft
