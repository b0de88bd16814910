"""Claiming runs for a worker: by queue, by id, and ahead of readiness.

A claim by queue picks its runs and counts them in every limit while its grant is on the way into the journal; if the
append fails they are given back, and nothing was granted. It is guarded by the streams of each run and of the worker,
so a run that was cancelled, or a worker that was quarantined, in the same moment is decided anew.

A claim that finds nothing may wait up to ``WAIT_MAX_S`` seconds for something to become ready. Cancelling it (the
client went away) leaves nothing behind and grants nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from commands.desk import Caller, Desk, entries_of, merged
from commands.showing import effects_of
from domain.claiming import Grant, LabelsMissing, bind, cancel_reservation
from domain.claiming import claim as claimed
from domain.decider import Draft
from domain.lease import Held, ReservationLost, Vacant
from domain.refusal import InvalidCommand, Refusal
from domain.run import run_stream
from domain.run_facts import Work
from domain.standing import Standing, lease_stream
from domain.values import Moment, Value
from domain.worker import Registered, may_be_granted, worker_stream
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
    desk.require_worker(caller, ask.worker_id, "claim for this worker")
    key = (caller.tenant, ask.worker_id)
    desk.live.heard(key, desk.clock())
    worker = _grantable(desk, caller, ask.worker_id)
    waiter = Waiter(key, tuple((caller.tenant, queue) for queue in ask.queues), labels_of(worker.labels))
    if ask.wait_s <= 0:
        return await _claim_now(desk, caller, ask)
    desk.live.bells.join(waiter)
    try:
        return await _claim_waiting(desk, caller, ask, waiter)
    finally:
        desk.live.bells.leave(waiter)
        if waiter.woken.is_set():
            _ring_on(desk, waiter)


async def _claim_waiting(desk: Desk, caller: Caller, ask: Ask, waiter: Waiter) -> Done[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    until = loop.time() + ask.wait_s
    while True:
        waiter.woken.clear()
        done = await _claim_now(desk, caller, ask)
        if done.answer["claims"] or desk.live.bells.closed:
            return done
        try:
            async with asyncio.timeout_at(until):
                await waiter.woken.wait()
        except TimeoutError:
            return done


def _ring_on(desk: Desk, waiter: Waiter) -> None:
    """What the bell was rung for may still be there for the next in line."""
    for queue in waiter.queues:
        for labels in desk.live.ready.lanes(queue):
            desk.live.bells.ring(queue, labels)


async def _claim_now(desk: Desk, caller: Caller, ask: Ask) -> Done[dict[str, Any]]:
    picked: list[str] = []

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        _give_back(desk, picked)
        return _grant_picked(desk, caller, ask, picked, now)

    try:
        done = await desk.execute(caller, (), decision)
    except BaseException:
        _give_back(desk, picked)
        raise
    if done.repeated:
        _give_back(desk, picked)
    return done


def _grant_picked(desk: Desk, caller: Caller, ask: Ask, picked: list[str], now: Moment) -> Decision[dict[str, Any]]:
    worker = _grantable(desk, caller, ask.worker_id)
    guards = [{worker_stream(caller.tenant, ask.worker_id): worker.version}]
    entries: list[Entry] = []
    claims: list[dict[str, Any]] = []
    for run_id in _pick(desk, caller, ask, worker, now):
        picked.append(run_id)
        standing = desk.standing(caller, run_id)
        try:
            draft = claimed(standing, _to(desk, ask, "queue"), _work(desk, standing), now)
        except Refusal as refusal:  # the index and the journal disagree about this run: leave it to the journal
            log.error("run %s was picked and refused: %s", run_id, refusal)
            desk.live.give_back(picked.pop())
            continue
        entries.extend(entries_of(draft.entries, run_id))
        guards.append(standing.versions)
        claims.append(_shown(desk, standing, draft))
    return Decision(entries, merged(guards), {"claims": claims})


def _pick(desk: Desk, caller: Caller, ask: Ask, worker: Registered, now: Moment) -> list[str]:
    key, live = (caller.tenant, ask.worker_id), desk.live
    live.ready.promote(now.wall)
    queues = [(caller.tenant, queue) for queue in dict.fromkeys(ask.queues)]
    labels = labels_of(worker.labels)
    room = min(ask.most, _slots(worker) - live.limits.count(key))
    picked: list[str] = []
    while len(picked) < room and (card := live.ready.pick(queues, labels)) is not None:
        live.ready.withdraw(card)
        live.limits.take(card, key)
        picked.append(card.run_id)
    return picked


def _slots(worker: Registered) -> int:
    return 1 if worker.quarantine is not None else worker.slots


def _give_back(desk: Desk, picked: list[str]) -> None:
    """These were not granted after all: whoever is next may have them."""
    now = desk.clock()
    for run_id in picked:
        card = desk.live.cards.get(run_id)
        if card is not None and isinstance(desk.journal.streams.load(lease_stream(run_id)), Vacant):
            desk.live.give_back(run_id)
            desk.live.requeue_if_queued(card, desk.journal.streams.load(run_stream(run_id)), now)
    picked.clear()


def _check(ask: Ask) -> None:
    if not 1 <= ask.most <= CLAIMS_MAX:
        raise InvalidCommand(field="max", value=ask.most, limit=f"between 1 and {CLAIMS_MAX}")
    if not 0 <= ask.wait_s <= WAIT_MAX_S:
        raise InvalidCommand(field="wait_s", value=ask.wait_s, limit=f"between 0 and {WAIT_MAX_S:g}")
    if not 1 <= len(ask.queues) <= QUEUES_MAX:
        raise InvalidCommand(field="queues", value=len(ask.queues), limit=f"1 to {QUEUES_MAX} queues")


def _grantable(desk: Desk, caller: Caller, worker_id: str) -> Registered:
    key = (caller.tenant, worker_id)
    return may_be_granted(
        desk.worker(caller, worker_id),
        worker_id,
        cooled=key in desk.live.cooled,
        holding=desk.live.limits.count(key),
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
    desk.require_worker(caller, worker_id, "claim for this worker")
    key = (caller.tenant, worker_id)
    desk.live.heard(key, desk.clock())
    picked: list[str] = []

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        _give_back(desk, picked)
        worker, standing = _grantable(desk, caller, worker_id), desk.standing(caller, run_id)
        draft = claimed(standing, Grant(worker=worker_id, cause="id"), _work(desk, standing), now)
        _take_by_id(desk, worker, standing, picked, key)
        guards = merged([standing.versions, {worker_stream(caller.tenant, worker_id): worker.version}])
        return Decision(entries_of(draft.entries, run_id), guards, _shown(desk, standing, draft))

    try:
        return await desk.execute(caller, (run_id,), decision)
    except BaseException:
        _give_back(desk, picked)
        raise


def _take_by_id(desk: Desk, worker: Registered, standing: Standing, picked: list[str], key: tuple[str, str]) -> None:
    wanted = standing.known.submission.labels
    missing = {name: value for name, value in wanted.items() if worker.labels.get(name) != value}
    if missing:
        raise LabelsMissing(worker_id=worker.worker_id, missing=missing)
    card = desk.live.cards[standing.run_id]
    desk.live.limits.refuse_one_more(card, key, _slots(worker))
    if not isinstance(standing.lease, Held):
        desk.live.ready.withdraw(card)
        desk.live.limits.take(card, key)
        picked.append(standing.run_id)


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
        "answers": [{"question": a.question, "answer": a.answer, "at": a.at} for a in run.answers],
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
    run_id = desk.live.reservations.get(token, "")

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        if not run_id:
            raise ReservationLost(token)
        standing = desk.standing(caller, run_id)
        desk.require_worker(caller, getattr(standing.lease, "worker", ""), "use this reservation")
        draft = decide(standing, now)
        return Decision(entries_of(draft.entries, run_id), standing.versions, _shown(desk, standing, draft))

    locks: Sequence[str] = (run_id,) if run_id else ()
    return await desk.execute(caller, locks, decision)
