"""Workers: they register, stay, drain, leave, and are released from quarantine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from commands.desk import Caller, Desk
from domain.instance import Instance, is_other, named
from domain.values import Moment
from domain.worker import (
    Blame,
    Registered,
    Worker,
    WorkerFact,
    WorkerUnknown,
    detach,
    drain,
    leave,
    quarantine,
    register,
    release,
    require,
    worker_stream,
)
from domain.worker import evolve as after
from journal.commit import Decision, Done, Entry

Decide = Callable[[Worker, Moment], Sequence[WorkerFact]]


@dataclass(frozen=True, slots=True)
class Ability:
    """What a worker says when it registers: its labels, how many runs it takes at a time, and where it is."""

    labels: dict[str, str]
    slots: int
    where: str | None = None


async def register_worker(desk: Desk, caller: Caller, worker_id: str, ability: Ability) -> Done[dict[str, Any]]:
    """The worker is known with these labels and slots; fewer of either only stop grants.

    Raises:
        WorkerInUse: another process is registered under this id, and is heard.
    """
    desk.require_principal(caller, worker_id, "register this worker")

    def decide(worker: Worker, now: Moment) -> Sequence[WorkerFact]:
        if desk.evidence.hears_worker((caller.tenant, worker_id), now, desk.silent_s):
            desk.require_instance(caller, worker_id)
        instance = named(caller.instance, ability.where, now.wall)
        return register(worker, worker_id, ability.labels, ability.slots, instance)

    done = await _on_worker(desk, caller, worker_id, decide)
    desk.live.heard((caller.tenant, worker_id), desk.clock())
    return done


def instance_of(desk: Desk, caller: Caller, worker_id: str) -> Instance | None:
    """Which process the worker is, if it is registered and has said so."""
    worker = desk.worker(caller, worker_id)
    return worker.instance if isinstance(worker, Registered) else None


async def drain_worker(desk: Desk, caller: Caller, worker_id: str) -> Done[dict[str, Any]]:
    """The worker is granted no more runs; what it holds goes on."""
    desk.require_worker(caller, worker_id, "drain this worker")
    return await _on_worker(desk, caller, worker_id, lambda worker, _: drain(worker, worker_id, caller.principal))


async def leave_worker(desk: Desk, caller: Caller, worker_id: str) -> Done[dict[str, Any]]:
    """The worker is gone for good; refused while it holds leases."""
    desk.require_worker(caller, worker_id, "sign this worker off")
    key = (caller.tenant, worker_id)
    return await _on_worker(
        desk, caller, worker_id, lambda worker, _: leave(worker, worker_id, desk.live.limits.held_by(key))
    )


async def quarantine_worker(desk: Desk, caller: Caller, worker_id: str, reason: str) -> Done[dict[str, Any]]:
    """An operator puts the worker aside: it is granted nothing until the cool-down has passed, or it is released."""

    def decide(worker: Worker, now: Moment) -> Sequence[WorkerFact]:
        require(worker, worker_id)
        blame = Blame(worker_id=worker_id, reason=reason, cites=())
        return quarantine(worker, blame, now.wall, desk.timers.quarantine_s)

    return await _on_worker(desk, caller, worker_id, decide)


async def release_worker(desk: Desk, caller: Caller, worker_id: str) -> Done[dict[str, Any]]:
    """An operator ends the worker's quarantine."""
    return await _on_worker(
        desk, caller, worker_id, lambda worker, _: release(worker, worker_id, "operator", caller.principal)
    )


async def detached(desk: Desk, caller: Caller, worker_id: str) -> None:
    """The worker's last stream was closed by its side without a goodbye: its leases get the reconnect window.

    The deadlines become shorter as the fact becomes durable, and count from the break; a renewal on any road restores
    the full ttl, also one that came before the fact was there. A lease whose loss would spend the run's last attempt
    keeps its ttl. The stream of a process whose id another one has taken over says nothing about that one.
    """
    if is_other(instance_of(desk, caller, worker_id), caller.instance):
        return
    broke, window_s, key = desk.clock(), desk.timers.reconnect_s, (caller.tenant, worker_id)
    if key in desk.live.workers:
        desk.evidence.lost_worker(key)
    desk.evidence.broke(key, broke)
    try:
        await _on_worker(desk, caller, worker_id, lambda worker, _: detach(worker, worker_id, broke.wall, window_s))
    finally:
        desk.evidence.break_known(key, broke.wall)


async def _on_worker(desk: Desk, caller: Caller, worker_id: str, decide: Decide) -> Done[dict[str, Any]]:
    stream = worker_stream(caller.tenant, worker_id)

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        worker = desk.worker(caller, worker_id)
        facts = decide(worker, now)
        for fact in facts:
            worker = after(worker, fact)
        guards = {stream: worker.version - len(facts)}
        return Decision([Entry(stream, fact, None) for fact in facts], guards, _shown(desk, caller, worker_id, worker))

    return await desk.execute(caller, (stream,), decision)


def show_worker(desk: Desk, caller: Caller, worker_id: str) -> dict[str, Any]:
    """One worker, with what it holds and when it was last heard."""
    return _shown(desk, caller, worker_id, require(desk.worker(caller, worker_id), worker_id))


def list_workers(desk: Desk, caller: Caller) -> list[dict[str, Any]]:
    """The registered workers of the caller's tenant, by id."""
    known = sorted(worker_id for tenant, worker_id in desk.live.workers if tenant == caller.tenant)
    return [_shown(desk, caller, worker_id, desk.worker(caller, worker_id)) for worker_id in known]


def held_and_heard(desk: Desk, caller: Caller, worker_id: str) -> dict[str, Any]:
    """What a worker holds, when it was last heard, and which process it is: what the read model does not keep."""
    key = (caller.tenant, worker_id)
    seen, holding = desk.evidence.worker_seen(key), desk.live.limits.held_by(key)
    return {
        "holding": holding,
        "slots_used": len(holding),
        "last_seen_at": seen.wall if seen else None,
        "instance": instance_of(desk, caller, worker_id),
    }


def _shown(desk: Desk, caller: Caller, worker_id: str, worker: Worker) -> dict[str, Any]:
    key = (caller.tenant, worker_id)
    seen = desk.evidence.worker_seen(key)
    known = isinstance(worker, Registered)
    quarantine = worker.quarantine
    return {
        "worker_id": worker_id,
        "registered": known,
        "labels": worker.labels if isinstance(worker, Registered) else {},
        "slots": worker.slots if isinstance(worker, Registered) else 0,
        "draining": isinstance(worker, Registered) and worker.draining,
        "quarantine": quarantine,
        "instance": worker.instance if isinstance(worker, Registered) else None,
        "holding": desk.live.limits.held_by(key),
        "last_seen_at": seen.wall if seen else None,
    }


def check_known(desk: Desk, caller: Caller, worker_id: str) -> None:
    """Refuse a worker that is not registered."""
    if not isinstance(desk.worker(caller, worker_id), Registered):
        raise WorkerUnknown(worker_id)
