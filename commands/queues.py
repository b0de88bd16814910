"""Queues: their limits, and how much waits in them."""

from typing import Any

from commands.desk import Caller, Desk
from domain.queue import Queue, configure, queue_stream
from domain.values import Moment
from journal.commit import Decision, Done, Entry


async def configure_queue(
    desk: Desk, caller: Caller, queue: str, max_leases: int | None, max_per_key: int
) -> Done[dict[str, Any]]:
    """The limits of a queue from now on; lowering one revokes nothing."""
    stream = queue_stream(caller.tenant, queue)

    def decision(_: Moment) -> Decision[dict[str, Any]]:
        before: Queue = desk.journal.streams.load(stream)
        facts = configure(before, queue, max_leases, max_per_key)
        shown = {**show_queue(desk, caller, queue), "max_leases": max_leases, "max_per_key": max_per_key}
        return Decision([Entry(stream, fact, None) for fact in facts], {stream: before.version}, shown)

    return await desk.execute(caller, (stream,), decision)


def show_queue(desk: Desk, caller: Caller, queue: str) -> dict[str, Any]:
    """Limits in force, runs queued (due or not), leases out."""
    key = (caller.tenant, queue)
    most, per_key = desk.live.limits.of_queue(key)
    return {
        "queue": queue,
        "max_leases": most,
        "max_per_key": per_key,
        "queued": desk.live.ready.depth(key),
        "leases": desk.live.limits.queue_count(key),
    }


def list_queues(desk: Desk, caller: Caller) -> list[dict[str, Any]]:
    """The queues of the caller's tenant that have limits, leases or queued runs, by name."""
    named = desk.live.ready.queues(caller.tenant) | set(desk.live.limits.queues(caller.tenant))
    return [show_queue(desk, caller, queue) for queue in sorted(named)]
