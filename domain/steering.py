"""Steering: what a leader may ask of a run that is under way or waits.

*answer* gives a parked run its input: the holder that kept a live lease goes on with it; otherwise the run is queued
again, due at its submission instant, so at the front of its queue. *resume* does the same without an answer, for
``waiting_takeover`` and ``paused``. *pause* stops a queued run at once (a reservation is cancelled) and asks the
holder of a running one. None of these consumes an attempt. *retry* makes a new run like the old one, linked by
``retry_of``; it never reopens the old one.
"""

from datetime import datetime

from domain.handing import expire_into, refuse_pending
from domain.lease import Held, ReservationCancelled, Reserved
from domain.run import Parked, Queued, Run, Running
from domain.run_facts import InputProvided, PauseRequested, RunResumed, RunSubmitted
from domain.standing import Remains, RunDraft, Standing, pause_now, refuse_settled, refuse_unless
from domain.submission import Submit
from domain.values import Json, Moment

ANSWERABLE = ("waiting_input", "waiting_peer")
RESUMABLE = ("waiting_takeover", "paused")


def submit(run_id: str, tenant: str, command: Submit, now: Moment) -> RunSubmitted:
    """The fact that somebody wants this run; due at once, or at ``run_after``."""
    return RunSubmitted(
        run_id=run_id,
        tenant=tenant,
        queue=command.queue,
        name=command.name,
        tags=command.tags,
        payload=command.payload,
        leader_id=command.leader_id,
        labels=command.labels,
        priority=command.priority,
        run_after=command.run_after,
        due_at=max(now.wall, command.run_after or now.wall),
        concurrency_key=command.concurrency_key,
        policy=command.policy,
        retry_of=command.retry_of,
        body_digest=command.body_digest,
        submitted_at=now.wall,
    )


def again(run: Run) -> Submit:
    """The submission of a new run like this one, linked to it and due at once, for the leader it has now."""
    old = run.submission
    return Submit(
        queue=old.queue,
        name=old.name,
        tags=old.tags,
        payload=old.payload,
        leader_id=run.leader_id,
        labels=old.labels,
        priority=old.priority,
        concurrency_key=old.concurrency_key,
        policy=old.policy,
        retry_of=old.run_id,
    )


def answer(standing: Standing, given: Json, by: str, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when a parked run gets its input.

    Raises:
        WrongState: it asks nothing.
        SettledOtherwise: it has ended.
        LeaseHeld: its kept lease ran out, and the loss or the cancel that was pending under it is yet to be settled.
    """
    run, phase = standing.known, standing.known.phase
    asks = isinstance(phase, Parked) and phase.kind in ANSWERABLE
    refuse_unless(standing, "waiting_input or waiting_peer", met=asks)
    assert isinstance(phase, Parked)
    refuse_pending(standing, now)
    draft, fence = standing.draft(), _live_fence(standing, now)
    due_at = None if fence is not None else _in_front(run, now)
    expire_into(draft, remains, now)
    draft.on_run(
        InputProvided(question=phase.question, answer=given, by=by, fence=fence, due_at=due_at, provided_at=now.wall)
    )
    if fence is None and run.pause_asked:
        draft.on_run(pause_now(now))
    return draft


def resume(standing: Standing, by: str, remains: Remains, now: Moment) -> RunDraft:
    """Facts that follow when a wait is over without an answer; none when it already is.

    Raises:
        WrongState: it is neither paused nor waits to be taken over.
        SettledOtherwise: it has ended.
        LeaseHeld: its kept lease ran out, and the loss or the cancel that was pending under it is yet to be settled.
    """
    run, phase = standing.known, standing.known.phase
    draft = standing.draft()
    if isinstance(phase, Queued) and phase.reason == "resumed":
        return draft
    met = isinstance(phase, Parked) and phase.kind in RESUMABLE
    refuse_unless(standing, "waiting_takeover or paused", met=met)
    refuse_pending(standing, now)
    fence = _live_fence(standing, now)
    expire_into(draft, remains, now)
    draft.on_run(RunResumed(by=by, fence=fence, due_at=None if fence is not None else _in_front(run, now)))
    if fence is None and run.pause_asked:
        draft.on_run(pause_now(now))
    return draft


def pause(standing: Standing, by: str, now: Moment) -> RunDraft:
    """Facts that follow when the leader wants a pause: at once when nobody acts, else asked of the holder."""
    draft, run = standing.draft(), standing.known
    refuse_settled(standing)
    if run.pause_asked or (isinstance(run.phase, Parked) and run.phase.kind == "paused"):
        return draft
    refuse_unless(standing, "queued, reserved or running", met=isinstance(run.phase, Queued | Running))
    draft.on_run(PauseRequested(by=by, requested_at=now.wall))
    if isinstance(standing.lease, Reserved):
        lease = standing.lease
        draft.on_lease(
            ReservationCancelled(fence=lease.fence, token=lease.token, worker=lease.worker, cause="asked_by_leader")
        )
    if isinstance(run.phase, Queued):
        draft.on_run(pause_now(now))
    return draft


def _in_front(run: Run, now: Moment) -> datetime:
    """The instant that puts a run in front of its queue: its submission, or now where the wall was set back before it.

    What was wanted for later by the calendar stays for later.
    """
    wish = run.submission
    return wish.due_at if wish.due_at > wish.submitted_at else min(wish.due_at, now.wall)


def _live_fence(standing: Standing, now: Moment) -> int | None:
    lease = standing.lease
    return lease.fence if isinstance(lease, Held) and standing.live(now) else None
