"""Facts with the values that most tests do not care about: what was recorded before the test begins.

Each function gives the facts of one decision, in the order in which the service records them, for the run of the kit.
Instants are seconds after noon; the fence of an attempt is also its number unless the test says otherwise.
"""

from typing import Any, Literal

from domain.effects import EffectCompleted, EffectFailed, EffectIntended, EffectReconciled, EffectsMadeAmbiguous
from domain.lease import (
    FenceBumped,
    LeaseBound,
    LeaseExpired,
    LeaseReleased,
    LeaseReserved,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
    SliceEnded,
)
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    EndOutcome,
    ParkKind,
    PauseRequested,
    RunClosed,
    RunParked,
    RunResumed,
    RunSettled,
    RunSubmitted,
    Terminal,
    VerdictRendered,
    Work,
    WorkerTimeout,
)
from domain.submission import Policy
from domain.values import NULL, Fact, digest
from tests.domain.kit import RUN, noon, run_citation, text

LEADER = "lea"
TOKEN = "t1"


def submitted(due: float = 0.0, **policy: Any) -> RunSubmitted:
    """Wanted by lea, due at that second, under this policy."""
    return RunSubmitted(
        run_id=RUN,
        tenant="default",
        queue="default",
        name=None,
        tags={},
        payload=text({"work": 1}),
        leader_id=LEADER,
        labels={},
        priority=0,
        run_after=noon(due) if due else None,
        due_at=noon(due),
        concurrency_key=None,
        policy=Policy(**policy),
        retry_of=None,
        body_digest=None,
        submitted_at=noon(),
    )


def granted(
    worker: str = "ada", fence: int = 1, at: float = 0.0, ttl_s: float = 60.0, slice_ends: float | None = None
) -> list[Fact]:
    """The worker holds the run under that fence, since that second."""
    return [
        FenceBumped(
            fence=fence,
            worker=worker,
            ttl_s=ttl_s,
            granted_at=noon(at),
            slice_ends_at=None if slice_ends is None else noon(slice_ends),
            cause="queue",
        ),
        AttemptStarted(attempt=fence, fence=fence, worker=worker, started_at=noon(at)),
    ]


def reserved(worker: str = "ada", fence: int = 1, token: str = TOKEN, lapses: float = 120.0) -> LeaseReserved:
    """The run is granted ahead to a worker that is not ready."""
    return LeaseReserved(fence=fence, token=token, worker=worker, lapses_at=noon(lapses))


def bound(worker: str = "ada", fence: int = 1, at: float = 0.0) -> list[Fact]:
    """The reserving worker became ready."""
    return [
        LeaseBound(fence=fence, worker=worker, ttl_s=60.0, granted_at=noon(at), slice_ends_at=None),
        AttemptStarted(attempt=fence, fence=fence, worker=worker, started_at=noon(at)),
    ]


def unreserved(fence: int = 1, token: str = TOKEN) -> ReservationCancelled:
    """The reservation was given back."""
    return ReservationCancelled(fence=fence, token=token, worker="ada", cause="asked_by_worker")


def lapsed(fence: int = 1, token: str = TOKEN) -> ReservationLapsed:
    """The reservation was not bound in time."""
    return ReservationLapsed(fence=fence, token=token, worker="ada", lapses_at=noon(120))


def sliced(fence: int = 1, at: float = 30.0) -> SliceEnded:
    """The holder's slice ended."""
    return SliceEnded(fence=fence, worker="ada", slice_ends_at=noon(at))


def ended(outcome: EndOutcome, fence: int = 1, failed: int = 0, due: float | None = None) -> AttemptEnded:
    """The attempt ended without a close."""
    return AttemptEnded(
        attempt=fence,
        fence=fence,
        outcome=outcome,
        cites=(),
        failed_attempts=failed,
        due_at=None if due is None else noon(due),
        work=Work(),
        ended_at=noon(60),
    )


def expired(fence: int = 1, failed: int = 1, at: float = 60.0, *, detached: bool = False) -> list[Fact]:
    """The holder fell silent: counted, and queued at once."""
    return [
        lease_expired(fence, at, detached=detached),
        WorkerTimeout(
            kind="detached" if detached else "lease_expired", fence=fence, worker="ada", marks={}, cites=()
        ),
        ended("detached" if detached else "expired", fence, failed, at),
    ]  # fmt: skip


def lease_expired(fence: int = 1, at: float = 60.0, *, detached: bool = False) -> LeaseExpired:
    """The deadline passed."""
    return LeaseExpired(
        fence=fence, worker="ada", last_renewed_at=noon(), renewals=0, detached=detached, expired_at=noon(at)
    )


def parked(kind: ParkKind = "waiting_input", *, kept: bool = False, fence: int = 1) -> list[Fact]:
    """The holder parked the run, with its lease kept or given up."""
    waits = RunParked(
        kind=kind,
        question=text("which one?" if kind == "waiting_input" else None),
        lease_kept=kept,
        reason="asked_by_worker",
        parked_at=noon(10),
    )
    if kept:
        return [waits]
    return [ended("parked", fence), LeaseReleased(fence=fence, worker="ada", cause="parked"), waits]


def paused() -> list[Fact]:
    """The leader paused a run that nobody acts for."""
    return [
        pause_asked(),
        RunParked(kind="paused", question=NULL, lease_kept=False, reason="asked_by_principal", parked_at=noon(5)),
    ]


def pause_asked() -> PauseRequested:
    """The leader wants a pause."""
    return PauseRequested(by=LEADER, requested_at=noon(5))


def resumed(due: float | None = 0.0, fence: int | None = None) -> RunResumed:
    """The wait is over."""
    return RunResumed(by=LEADER, fence=fence, due_at=None if due is None else noon(due))


def cancel_asked(at: float = 5.0) -> CancelRequested:
    """The leader wants the run cancelled; the holder may save until ten seconds later."""
    return CancelRequested(by=LEADER, keep_workspaces=False, requested_at=noon(at), settles_at=noon(at + 10))


def closed(
    outcome: Literal["succeeded", "failed"] = "succeeded",
    becomes: Literal["succeeded", "failed", "waiting_verdict", "queued"] = "succeeded",
    fence: int = 1,
    result: object = None,
    failed: int = 0,
) -> list[Fact]:
    """The holder closed its attempt."""
    return [
        RunClosed(
            attempt=fence,
            fence=fence,
            outcome=outcome,
            state=becomes,
            result=text(result),
            error=NULL,
            failed_attempts=failed,
            due_at=noon(30) if becomes == "queued" else None,
            late=False,
            work=Work(),
            closed_at=noon(20),
        ),
        LeaseReleased(fence=fence, worker="ada", cause="closed"),
    ]


def handed_back(fence: int = 1) -> list[Fact]:
    """The holder gave the run back unfinished."""
    return [LeaseReleased(fence=fence, worker="ada", cause="handed_back"), ended("handed_back", fence, due=11)]


def settled(state: Terminal, reason: str, fence: int = 2, worker: str | None = None) -> list[Fact]:
    """The run ended, and the fence rose."""
    return [
        RunSettled(state=state, reason=reason, cites=(run_citation(1),), error=NULL, settled_at=noon(20)),
        LeaseRevoked(fence=fence, worker=worker, cause=reason),
    ]


def judged(verdict: Literal["succeeded", "failed"] = "succeeded", fence: int = 2, result: object = None) -> list[Fact]:
    """The leader judged."""
    return [
        VerdictRendered(verdict=verdict, result=text(result), by=LEADER, rendered_at=noon(30)),
        LeaseRevoked(fence=fence, worker=None, cause="verdict"),
    ]


def intended(key: str = "mail", fence: int = 1, payload: object = 1, command_id: str | None = None) -> EffectIntended:
    """A worker is about to do this."""
    return EffectIntended(
        key=key, payload_digest=digest(text(payload)), fence=fence, command_id=command_id, intended_at=noon(1)
    )


def completed(key: str = "mail", outcome: object = "sent", fence: int = 1) -> EffectCompleted:
    """It happened."""
    return EffectCompleted(key=key, fence=fence, outcome=text(outcome))


def effect_failed(key: str = "mail", outcome: object = "refused", fence: int = 1) -> EffectFailed:
    """It did not happen."""
    return EffectFailed(key=key, fence=fence, outcome=text(outcome))


def made_ambiguous(*keys: str, fence: int = 1) -> EffectsMadeAmbiguous:
    """Nobody knows whether these happened."""
    return EffectsMadeAmbiguous(keys=keys or ("mail",), fence=fence)


def reconciled(resolution: Literal["done", "not_done"], key: str = "mail", outcome: object = None) -> EffectReconciled:
    """Somebody found out."""
    return EffectReconciled(key=key, resolution=resolution, outcome=text(outcome), by=LEADER)
