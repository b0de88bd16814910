"""Claiming runs for a worker: by queue, by id, and ahead of readiness.

A grant is guarded by the streams of each run and of the worker, so a run that was cancelled, or a worker that was
quarantined, in the same moment is decided anew.

A claim that finds nothing may wait up to ``WAIT_MAX_S`` seconds for something to become ready. Cancelling it while it
waits (the client went away) leaves nothing behind and grants nothing; a grant that is already on its way stands. One
whose worker lets a lease expire meanwhile ends with nothing: a frozen process would be granted its own run again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

from commands.desk import Caller, Desk, entries_of, merged
from commands.granting import Picks, grant
from commands.presence import settle_overdue, settle_wanted
from commands.showing import effects_of
from domain.claiming import Grant, LabelsMissing, bind, cancel_reservation
from domain.claiming import claim as claimed
from domain.decider import Draft
from domain.lease import Held, LeaseHeld, ReservationLost, Reserved
from domain.queue import queue_stream
from domain.refusal import InvalidCommand, Refusal
from domain.run_facts import Work
from domain.standing import Standing
from domain.values import Moment, Value
from domain.worker import Registered, may_be_granted, require, worker_stream
from journal.commit import Decision, Done, Entry
from projections.live.bells import Waiter
from projections.live.cards import labels_of

log = logging.getLogger(__name__)

CLAIMS_MAX = 1_000
WAIT_MAX_S = 60.0
QUEUES_MAX = 100


class Ask(Value, frozen=True, kw_only=True):
    """What a worker asks for: runs of these queues, at most so many, waiting at most so long."""

    worker_id: str
    queues: tuple[str, ...] = ("default",)
    most: int = 1
    wait_s: float = 0.0
    reserve: bool = False


async def claim(desk: Desk, caller: Caller, ask: Ask) -> Done[dict[str, Any]]:
    """Grants to the worker, at most ``most``, none when nothing is due; waits for something if it was asked to.

    Raises:
        WorkerUnknown, WorkerDraining, WorkerInQuarantine: the worker may be granted nothing.
    """
    _check(ask)
    worker = _asks(desk, caller, ask.worker_id)
    if ask.wait_s <= 0:
        return await _claim_now(desk, caller, ask)
    key = (caller.tenant, ask.worker_id)
    waiter = Waiter(key, tuple((caller.tenant, queue) for queue in ask.queues), labels_of(worker.labels))
    desk.live.bells.join(waiter)
    try:
        done = await _claim_waiting(desk, caller, ask, waiter)
        if not waiter.sent_away:
            desk.live.heard(key, desk.clock())
        return done
    finally:
        desk.live.bells.leave(waiter)
        _ring_on(desk, waiter)


async def _claim_waiting(desk: Desk, caller: Caller, ask: Ask, waiter: Waiter) -> Done[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    until = loop.time() + ask.wait_s
    while True:
        if waiter.sent_away:
            return Done({"claims": []})
        waiter.woken.clear()
        done = await _claim_now(desk, caller, ask)
        if done.answer["claims"] or desk.live.bells.closed:
            return done
        try:
            async with asyncio.timeout_at(until):
                await waiter.woken.wait()
        except TimeoutError:
            return done
        _refresh(desk, caller, waiter)


def _refresh(desk: Desk, caller: Caller, waiter: Waiter) -> None:
    """A worker that can take nothing, or no longer what it could, must not keep the bell."""
    worker, had = desk.worker(caller, waiter.worker[1]), waiter.has
    waiter.has = frozenset(labels_of(worker.labels) if isinstance(worker, Registered) else ())
    if not (waiter.has >= had and desk.live.fleet.has_room(waiter.worker)):
        _ring_on(desk, waiter)


def _ring_on(desk: Desk, waiter: Waiter) -> None:
    """What the bell was rung for may still be there for the next in line."""
    for queue in waiter.queues:
        for labels in desk.live.ready.lanes(queue):
            desk.live.bells.ring(queue, labels)


async def _claim_now(desk: Desk, caller: Caller, ask: Ask) -> Done[dict[str, Any]]:
    if desk.live.bells.closed:
        return Done({"claims": []})
    await settle_overdue(desk)
    key = (caller.tenant, ask.worker_id)
    return await grant(desk, caller, key, (), lambda picks, now: _grant_picked(desk, caller, ask, picks, now))


def _grant_picked(desk: Desk, caller: Caller, ask: Ask, picks: Picks, now: Moment) -> Decision[dict[str, Any]]:
    worker = _grantable(desk, caller, ask.worker_id)
    guards = [{worker_stream(caller.tenant, ask.worker_id): worker.version}]
    entries: list[Entry] = []
    claims: list[dict[str, Any]] = []
    for run_id in _picked(desk, ask, worker, picks, now):
        picks.earmark(desk.live.cards[run_id])
        try:
            standing = desk.standing(caller, run_id)
            draft = claimed(standing, _to(desk, ask, "queue"), _work(desk, standing), now)
        except Refusal as refusal:
            _pass_over(desk, picks, run_id, refusal, now)
            continue
        entries.extend(entries_of(draft.entries, run_id))
        guards += [standing.versions, _limits_read(desk, standing)]
        claims.append(_shown(desk, standing, draft))
    return Decision(entries, merged(guards), {"claims": claims})


def _limits_read(desk: Desk, standing: Standing) -> dict[str, int]:
    """The queue whose limits the grant was held against: lowered meanwhile, they are held against it again."""
    wish = standing.known.submission
    stream = queue_stream(wish.tenant, wish.queue)
    return {stream: desk.journal.streams.load(stream).version}


def _pass_over(desk: Desk, picks: Picks, run_id: str, refusal: Refusal, now: Moment) -> None:
    """Not granted after all: not due any more by a wall clock that was set back, or else a fault of the index.

    ``now`` is the moment of the refusal: by a later one the run may be due, and seem to have been refused for nothing.
    """
    card = desk.live.cards[run_id]
    due_later = isinstance(refusal, LeaseHeld) and card.due_at > now.wall
    if due_later:
        picks.drop_last(now)
    else:
        log.error("run %s was picked and refused: %s", run_id, refusal)
        picks.drop_last(now, requeue=False)


def _picked(desk: Desk, ask: Ask, worker: Registered, picks: Picks, now: Moment) -> Iterator[str]:
    """Runs to be granted, best first; each must be earmarked before the next is asked for."""
    live, tenant = desk.live, picks.worker[0]
    live.offer_due(now)
    queues = [(tenant, queue) for queue in dict.fromkeys(ask.queues)]
    labels = labels_of(worker.labels)
    room = min(ask.most, live.fleet.room(picks.worker, worker.slots))
    while len(picks) < room and (card := live.ready.pick(queues, labels)) is not None:
        yield card.run_id


def _check(ask: Ask) -> None:
    if not 1 <= ask.most <= CLAIMS_MAX:
        raise InvalidCommand(field="max", value=ask.most, limit=f"between 1 and {CLAIMS_MAX}")
    if not 0 <= ask.wait_s <= WAIT_MAX_S:
        raise InvalidCommand(field="wait_s", value=ask.wait_s, limit=f"between 0 and {WAIT_MAX_S:g}")
    if not 1 <= len(ask.queues) <= QUEUES_MAX:
        raise InvalidCommand(field="queues", value=len(ask.queues), limit=f"1 to {QUEUES_MAX} queues")


def _asks(desk: Desk, caller: Caller, worker_id: str) -> Registered:
    """The worker, if it may be granted one more run; it counts as heard, whatever the answer is."""
    desk.require_worker(caller, worker_id, "claim for this worker")
    require(desk.worker(caller, worker_id), worker_id)
    desk.live.heard((caller.tenant, worker_id), desk.clock())
    return _grantable(desk, caller, worker_id)


def _grantable(desk: Desk, caller: Caller, worker_id: str) -> Registered:
    key = (caller.tenant, worker_id)
    return may_be_granted(
        desk.worker(caller, worker_id),
        worker_id,
        cooled=key in desk.live.fleet.cooled,
        probing=desk.live.fleet.probing(key),
    )


def _to(desk: Desk, ask: Ask, cause: str) -> Grant:
    return Grant(
        worker=ask.worker_id,
        cause="id" if cause == "id" else "queue",
        token=desk.mint() if ask.reserve else None,
        reservation_s=desk.timers.reservation_s,
    )


async def claim_run(desk: Desk, caller: Caller, run_id: str, worker_id: str) -> Done[dict[str, Any]]:
    """One grant of a run by its id, within labels and limits.

    Raises:
        LeaseHeld: somebody holds or has reserved it; ``retry_after_s`` says when that may change.
        LabelsMissing, LimitReached: the worker lacks a label, or one more lease would exceed a limit.
    """
    _asks(desk, caller, worker_id)
    key = (caller.tenant, worker_id)
    await settle_wanted(desk, run_id)

    def decide(picks: Picks, now: Moment) -> Decision[dict[str, Any]]:
        worker, standing = _grantable(desk, caller, worker_id), desk.standing(caller, run_id)
        draft = claimed(standing, Grant(worker=worker_id, cause="id"), _work(desk, standing), now)
        _require_labels(worker, standing)
        card = desk.live.cards[run_id]
        desk.live.limits.refuse_one_more(card, key, worker.slots)
        picks.earmark(card)
        read = {worker_stream(caller.tenant, worker_id): worker.version}
        guards = merged([standing.versions, read, _limits_read(desk, standing)])
        return Decision(entries_of(draft.entries, run_id), guards, _shown(desk, standing, draft))

    return await grant(desk, caller, key, (run_id,), decide)


def _require_labels(worker: Registered, standing: Standing) -> None:
    wanted = standing.known.submission.labels
    missing = {name: value for name, value in wanted.items() if worker.labels.get(name) != value}
    if missing:
        raise LabelsMissing(worker_id=worker.worker_id, missing=missing)


def _work(desk: Desk, standing: Standing) -> Work:
    """What the attempt that may be taken over from has produced; nothing when there is none."""
    return desk.work(standing) if isinstance(standing.lease, Held) else Work()


def _shown(desk: Desk, standing: Standing, draft: Draft) -> dict[str, Any]:
    after = desk.after(standing, draft)
    run, lease = after.known, after.lease
    partial = desk.journal.registers.partial(run.run_id)
    shown = {
        "run_id": run.run_id,
        "fence": lease.fence,
        "attempt": run.attempt,
        "lease_ttl_s": run.policy.lease_ttl_s,
        "payload": run.submission.payload,
        "partial": partial.body if partial else None,
        "answers": [
            {"question": a.question, "answer": a.answer, "principal": a.principal, "at": a.at} for a in run.answers
        ],
        "effects": [{k: e[k] for k in ("key", "state", "outcome")} for e in effects_of(after)],
    }
    if not isinstance(lease, Held):
        shown["token"] = getattr(lease, "token", None)
        shown["lapses_at"] = getattr(lease, "lapses_at", None)
    return shown


async def reserve(desk: Desk, caller: Caller, ask: Ask) -> Done[dict[str, Any]]:
    """Reservations for a worker that still has to acquire what it needs; each is bound by its token."""
    return await claim(
        desk, caller, Ask(worker_id=ask.worker_id, queues=ask.queues, most=ask.most, wait_s=ask.wait_s, reserve=True)
    )


async def bind_token(desk: Desk, caller: Caller, token: str) -> Done[dict[str, Any]]:
    """The claim that a reservation becomes when its worker is ready.

    Raises:
        ReservationLost: the token belongs to no reservation in force.
    """
    return await _by_token(desk, caller, token, lambda standing, now: bind(standing, token, now))


async def cancel_token(desk: Desk, caller: Caller, token: str) -> Done[dict[str, Any]]:
    """The reservation is given back; the run is queued as it was and nothing was consumed."""
    return await _by_token(desk, caller, token, lambda standing, now: cancel_reservation(standing, token, "given_back"))


async def _by_token(
    desk: Desk, caller: Caller, token: str, decide: Callable[[Standing, Moment], Draft]
) -> Done[dict[str, Any]]:
    run_id = desk.live.reservations.get(token)

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = None if run_id is None else desk.standing_or_none(caller, run_id)
        if standing is None or not isinstance(standing.lease, Reserved) or standing.lease.token != token:
            raise ReservationLost(token)
        desk.require_worker(caller, standing.lease.worker, "use this reservation")
        draft = decide(standing, now)
        return Decision(entries_of(draft.entries, standing.run_id), standing.versions, _shown(desk, standing, draft))

    return await desk.execute(caller, () if run_id is None else (run_id,), decision)
