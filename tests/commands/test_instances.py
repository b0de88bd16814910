"""Two processes under one worker's id: the second is refused while the first is heard, else the first is replaced."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from commands import claims, holding, workers
from commands.desk import Caller
from commands.workers import Ability
from domain.instance import WorkerInUse
from tests.commands.world import ADMIN, World

SILENT_S = 30.0
FIRST = msgspec.structs.replace(ADMIN, instance="first")
SECOND = msgspec.structs.replace(ADMIN, instance="second")


async def register(world: World, caller: Caller, where: str | None = None) -> None:
    await workers.register_worker(world.desk, caller, "w1", Ability({}, 2, where))


def instance(world: World) -> str | None:
    known = workers.instance_of(world.desk, ADMIN, "w1")
    return None if known is None else known.id


async def test_a_second_process_is_refused_while_the_first_is_heard_and_told_of_it(world: World) -> None:
    await register(world, FIRST, "here")
    since = world.clock().wall.isoformat()
    world.go(10)
    await holding.heartbeat(world.desk, FIRST, "w1", [])
    seen = world.clock().wall.isoformat()
    world.go(SILENT_S - 1)

    with pytest.raises(WorkerInUse) as refusal:
        await register(world, SECOND, "there")

    assert {
        "worker_id": "w1", "where": "here", "since": since, "last_seen_at": seen, "retry_after_s": 1.0,
    } == refusal.value.fields()  # fmt: skip
    assert "first" == instance(world)


async def test_a_process_that_was_silent_is_taken_over_and_it_is_the_one_that_is_refused_then(world: World) -> None:
    await register(world, FIRST)
    world.go(SILENT_S)
    await register(world, SECOND, "there")

    for ask in AS_A_WORKER.values():
        with pytest.raises(WorkerInUse) as refusal:
            await ask(world, FIRST)
        assert "there" == refusal.value.where
    assert "second" == instance(world)
    await holding.heartbeat(world.desk, SECOND, "w1", [])


async def test_a_process_whose_last_stream_broke_is_taken_over_at_once(world: World) -> None:
    await register(world, FIRST)
    await workers.detached(world.desk, FIRST, "w1")

    await register(world, SECOND)

    assert "second" == instance(world)


async def test_a_process_that_was_heard_after_its_stream_broke_is_there(world: World) -> None:
    await register(world, FIRST)
    await workers.detached(world.desk, FIRST, "w1")
    await holding.heartbeat(world.desk, FIRST, "w1", [])

    with pytest.raises(WorkerInUse):
        await register(world, SECOND)


async def test_the_same_instance_starts_again_whenever_it_likes(world: World) -> None:
    await register(world, FIRST, "here, process 1")
    await register(world, FIRST, "here, process 2")

    known = workers.instance_of(world.desk, ADMIN, "w1")
    assert known is not None
    assert ("first", "here, process 2") == (known.id, known.where)


async def test_whoever_left_or_is_gone_keeps_no_name(world: World) -> None:
    await register(world, FIRST)
    await workers.leave_worker(world.desk, FIRST, "w1")
    await register(world, SECOND)
    await world.later(world.desk.timers.worker_gone_s)

    await register(world, FIRST)

    assert "first" == instance(world)


async def test_after_a_boot_everybody_is_as_good_as_heard(world: World) -> None:
    await register(world, FIRST)
    world.go(SILENT_S)
    world.desk.live.heard(("default", "w1"), world.clock())

    with pytest.raises(WorkerInUse):
        await register(world, SECOND)


async def test_the_stream_of_a_process_that_was_taken_over_says_nothing_about_the_other(world: World) -> None:
    await register(world, FIRST)
    world.go(SILENT_S)
    await register(world, SECOND)
    run_id = await world.submit()
    await claims.claim(world.desk, SECOND, claims.Ask(worker_id="w1", queues=("default",)))
    before = world.journal.position

    await workers.detached(world.desk, FIRST, "w1")

    assert before == world.journal.position
    mark = world.desk.evidence.leases.get(run_id)
    assert mark is not None
    assert not mark.detached


async def test_operators_and_whoever_names_no_instance_are_nobody_else(world: World) -> None:
    await register(world, FIRST)

    await register(world, ADMIN)
    for name, ask in AS_A_WORKER.items():
        if name not in ("leave", "drain"):
            await ask(world, ADMIN)
    await workers.quarantine_worker(world.desk, SECOND, "w1", "looked at")
    await workers.release_worker(world.desk, SECOND, "w1")

    assert "first" == instance(world)


AS_A_WORKER: dict[str, Callable[[World, Caller], Awaitable[Any]]] = {
    "heartbeat": lambda world, caller: holding.heartbeat(world.desk, caller, "w1", []),
    "claim": lambda world, caller: claims.claim(world.desk, caller, claims.Ask(worker_id="w1", queues=("default",))),
    "register": register,
    "drain": lambda world, caller: workers.drain_worker(world.desk, caller, "w1"),
    "leave": lambda world, caller: workers.leave_worker(world.desk, caller, "w1"),
}
