"""The commands on one run in the words of the tests: each gives a decision for `when`.

A writer presents fence 1 unless the test says otherwise, and may be any worker unless `by` names the only one that it
may be.
"""

from typing import Literal

from domain import absence, claiming, closing, handing, quiet, settling, steering
from domain.absence import Absence
from domain.claiming import Grant
from domain.closing import Close
from domain.handing import Park
from domain.quiet import Overdue
from domain.run_facts import ParkKind
from domain.settling import Cancel, Verdict
from domain.standing import Presented, Remains, RunDraft, Standing, holder
from domain.values import Moment
from tests.domain.facts import LEADER, TOKEN
from tests.domain.kit import Decide, noon, text

Outcome = Literal["succeeded", "failed"]


def presented(fence: int | None = 1, by: str | None = None) -> Presented:
    """What a writer shows."""
    return Presented(fence=fence, workers=None if by is None else frozenset({by}))


def claim(worker: str = "bob", cause: Literal["queue", "id"] = "id", token: str | None = None) -> Decide:
    """The worker is to be granted the run, or to have it reserved when there is a token."""
    grant = Grant(worker=worker, cause=cause, token=token)
    return lambda standing, remains, now: claiming.claim(standing, grant, remains.work, now)


def reserve(worker: str = "bob", token: str = TOKEN, cause: Literal["queue", "id"] = "id") -> Decide:
    """The run is to be granted ahead."""
    return claim(worker, cause, token)


def bind(token: str = TOKEN) -> Decide:
    """The reserving worker is ready."""
    return lambda standing, remains, now: claiming.bind(standing, token, now)


def cancel_reservation(token: str = TOKEN) -> Decide:
    """The reservation is given back."""
    return lambda standing, remains, now: claiming.cancel_reservation(standing, token, "asked_by_worker")


def lapse(token: str = TOKEN) -> Decide:
    """The reservation's time is over."""
    return lambda standing, remains, now: claiming.lapse(standing, token)


def park(
    kind: ParkKind = "waiting_input", fence: int | None = 1, by: str | None = None, *, keep: bool = False
) -> Decide:
    """The holder waits for somebody."""
    command = Park(kind=kind, question=text("which one?" if kind == "waiting_input" else None), keep_lease=keep)
    return lambda standing, remains, now: handing.park(standing, presented(fence, by), command, remains, now)


def hand_back(fence: int | None = 1, by: str | None = None) -> Decide:
    """The holder gives the run back unfinished."""
    return lambda standing, remains, now: handing.hand_back(standing, presented(fence, by), remains, now)


def expire() -> Decide:
    """The lease's deadline is looked at."""
    return lambda standing, remains, now: handing.expire(standing, remains, now)


def end_slice() -> Decide:
    """The slice is over."""
    return lambda standing, remains, now: handing.end_slice(standing)


def close(  # noqa: PLR0913  (one for each field of a close)
    outcome: Outcome = "succeeded",
    fence: int | None = 1,
    by: str | None = None,
    *,
    result: object = None,
    error: object = None,
    retryable: bool = True,
) -> Decide:
    """The holder says how its attempt ended."""
    command = Close(outcome=outcome, result=text(result), error=text(error), retryable=retryable)
    return lambda standing, remains, now: closing.close(standing, presented(fence, by), command, remains, now)


def cancel(grace_s: float = 10.0) -> Decide:
    """The leader wants the run cancelled."""
    return lambda standing, remains, now: settling.cancel(standing, Cancel(by=LEADER, grace_s=grace_s), remains, now)


def cancel_due() -> Decide:
    """The grace of a cancel is over."""
    return lambda standing, remains, now: settling.cancel_due(standing, remains, now)


def verdict(judged: Outcome = "succeeded", result: object = None) -> Decide:
    """The leader judges."""
    command = Verdict(verdict=judged, by=LEADER, result=text(result))
    return lambda standing, remains, now: settling.verdict(standing, command, remains, now)


def report_stop(
    report: Literal["saved", "ignored"] = "saved", fence: int | None = 1, by: str | None = None
) -> Decide:  # fmt: skip
    """A worker that was told to stop says whether it saved."""
    return lambda standing, remains, now: settling.report_stop(standing, presented(fence, by), report)


def answer(given: object = "this one") -> Decide:
    """The leader gives the run its input."""
    return lambda standing, remains, now: steering.answer(standing, text(given), LEADER, remains, now)


def resume() -> Decide:
    """The leader ends the wait."""
    return lambda standing, remains, now: steering.resume(standing, LEADER, remains, now)


def pause() -> Decide:
    """The leader wants a pause."""
    return lambda standing, remains, now: steering.pause(standing, LEADER, now)


def write(fence: int | None = 1, by: str | None = None, *, required: bool = True) -> Decide:
    """Any guarded write that appends nothing by itself: only the right to it is asked."""

    def decide(standing: Standing, remains: Remains, now: Moment) -> RunDraft:
        workers = None if by is None else frozenset({by})
        holder(standing, Presented(fence=fence, workers=workers, fence_required=required))
        return standing.draft()

    return decide


def leader_gone(grace_s: float = 60.0) -> Decide:
    """The run's leader has been absent for its grace."""
    away = Absence(leader_id=LEADER, zero_since=noon(-grace_s), grace_s=grace_s, cites=("presence-default:lea@7",))
    return lambda standing, remains, now: absence.leader_gone(standing, away, remains, now)


def tell(kind: Literal["inactivity", "total"] = "inactivity") -> Decide:
    """A clock about the run's work has run out."""
    overdue = Overdue(kind=kind, since=noon().isoformat(), after_s=300)
    return lambda standing, remains, now: quiet.tell(standing, overdue, remains, now)


def acknowledge(answer: Literal["extend", "abort"] = "extend", timeout: str = "run-r1@9") -> Decide:
    """The leader answers a timeout."""
    return lambda standing, remains, now: quiet.acknowledge(standing, timeout, answer, LEADER, (remains, now))


def reassign(leader_id: str = "leo", revision: int = 1) -> Decide:
    """Another leader takes the run over."""
    return lambda standing, remains, now: quiet.reassign(standing, leader_id, revision, LEADER, now)
