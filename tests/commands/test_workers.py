"""Workers and queues: registered, heard, drained, gone; limits set and shown."""

from typing import Any

import pytest

from commands import queues, workers
from domain.refusal import InvalidCommand
from domain.worker import LeasesHeld, WorkerGone, WorkerUnknown
from tests.commands.books import leftovers
from tests.commands.test_claiming_by_queue import limited
from tests.commands.world import ADMIN, World, plain, worker_key


def shown(world: World, worker_id: str = "w1") -> dict[str, Any]:
    """The worker as anybody is shown it."""
    return dict(plain(workers.show_worker(world.desk, ADMIN, worker_id)))


def gone(world: World) -> list[WorkerGone]:
    """The workers that were given up, as recorded."""
    return [fact for fact in world.facts() if isinstance(fact, WorkerGone)]


async def test_a_worker_is_shown_with_its_labels_its_slots_and_what_it_holds(each_world: World) -> None:
    world = each_world
    await world.worker("w1", slots=3, gpu="yes")
    run_id, _ = await world.held("w1")
    world.go(5)
    await world.beat("w1")
    worker = shown(world)

    assert ({"gpu": "yes"}, 3, [run_id]) == (worker["labels"], worker["slots"], worker["holding"])
    assert "2026-01-01T12:00:05Z" == worker["last_seen_at"]


async def test_the_same_registration_again_is_success_and_no_fact(world: World) -> None:
    await world.worker("w1", slots=2)
    await world.worker("w1", slots=2)
    assert 1 == world.journal.position
    await world.worker("w1", slots=3)

    assert 2 == world.journal.position


@pytest.mark.parametrize("slots", [0, 10_001])
async def test_slots_have_bounds(world: World, slots: int) -> None:
    assert isinstance(await world.refused_or(world.worker("w1", slots=slots)), InvalidCommand)


@pytest.mark.origin("D5", "D51")
async def test_a_worker_that_is_unheard_for_a_minute_and_holds_nothing_is_gone(each_world: World) -> None:
    world = each_world
    await world.worker("w1")
    await world.later(30)
    await world.beat("w1")
    await world.later(59.999)
    assert [] == gone(world)
    await world.later(0.001)

    assert ["2026-01-01T12:00:30+00:00"] == [fact.last_seen_at.isoformat() for fact in gone(world)]
    assert isinstance(await world.refused_or(world.beat("w1")), WorkerUnknown)
    assert {} == leftovers(world.desk)


@pytest.mark.origin("D51")
async def test_a_worker_with_a_live_lease_is_not_gone_and_its_lease_is_not_shortened(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=100)
    await world.later(99)
    assert [] == gone(world)
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.later(100)
    assert "queued" == world.state(run_id)
    await world.later(60)

    assert 1 == len(gone(world))


async def test_a_worker_that_is_heard_as_it_is_given_up_stays_and_is_given_up_later(each_world: World) -> None:
    world = each_world
    await world.worker("w1")
    world.go(60)
    async with world.gate.closed() as gate:
        draining = world.start(workers.drain_worker(world.desk, ADMIN, "w1"))
        await gate.reached()
        keeping = world.start(world.keep())
        await world.settle()
        await world.beat("w1")
    await draining
    await keeping
    assert [] == gone(world)
    await world.later(60)

    assert 1 == len(gone(world))


async def test_a_worker_that_is_gone_may_come_back(world: World) -> None:
    await world.worker("w1")
    await world.later(60)
    await world.worker("w1")
    await world.submit()

    assert 1 == len(await world.claim("w1"))
    assert 2 == world.names().count("WorkerRegistered")


async def test_a_grant_that_meets_the_giving_up_of_its_worker_is_refused(each_world: World) -> None:
    world = each_world
    await world.worker("w1")
    run_id = await world.submit()
    world.go(60)
    async with world.gate.closed() as gate:
        keeping = world.start(world.keep())
        await gate.reached()
        claim = world.start(world.claim("w1"))
        await world.settle()
    await keeping

    assert isinstance(await world.refused_or(claim), WorkerUnknown)
    await world.worker("w2")
    assert run_id == (await world.claimed("w2"))["run_id"]


async def test_a_worker_does_not_leave_with_leases_and_is_told_which(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    refused = await world.refused_or(workers.leave_worker(world.desk, worker_key("w1"), "w1"))
    assert isinstance(refused, LeasesHeld)
    assert [run_id] == refused.run_ids
    await world.close(run_id, fence)
    await workers.leave_worker(world.desk, worker_key("w1"), "w1")
    await workers.leave_worker(world.desk, worker_key("w1"), "w1")

    assert 1 == world.names().count("WorkerLeft")
    assert {} == leftovers(world.desk)


@pytest.mark.origin("D53")
async def test_draining_twice_is_draining_once(world: World) -> None:
    await world.worker("w1")
    for _ in range(2):
        await workers.drain_worker(world.desk, ADMIN, "w1")

    assert 1 == world.names().count("WorkerDrained")
    assert isinstance(await world.refused_or(workers.drain_worker(world.desk, ADMIN, "w2")), WorkerUnknown)


async def test_workers_are_listed_by_id_within_their_tenant(world: World) -> None:
    for worker_id in ("b", "a"):
        await world.worker(worker_id)

    assert ["a", "b"] == [worker["worker_id"] for worker in workers.list_workers(world.desk, ADMIN)]
    with pytest.raises(WorkerUnknown):
        workers.show_worker(world.desk, ADMIN, "c")


# Queues


async def test_a_queue_shows_its_limits_and_what_is_in_it(each_world: World) -> None:
    world = each_world
    await limited(world, "q", most=5, per_key=2)
    await world.submit(queue="q")
    await world.submit(queue="q", run_after=world.clock().after(60).wall)
    await world.held("w1", queue="q")

    assert {"queue": "q", "max_leases": 5, "max_per_key": 2, "queued": 2, "leases": 1} == {
        name: value
        for name, value in queues.show_queue(world.desk, ADMIN, "q").items()
        if name in ("queue", "max_leases", "max_per_key", "queued", "leases")
    }


async def test_the_same_limits_again_are_success_and_no_fact(world: World) -> None:
    await limited(world, most=5)
    await limited(world, most=5)

    assert 1 == world.journal.position


@pytest.mark.parametrize(("most", "per_key"), [(-1, 1), (None, 0), (1_000_001, 1)])
async def test_limits_have_bounds(world: World, most: int | None, per_key: int) -> None:
    assert isinstance(await world.refused_or(limited(world, most=most, per_key=per_key)), InvalidCommand)


async def test_queues_are_listed_that_have_limits_leases_or_runs(world: World) -> None:
    await limited(world, "limited", most=5)
    await world.submit(queue="queued")
    run_id, fence = await world.held("w1", queue="held")
    assert ["held", "limited", "queued"] == [q["queue"] for q in queues.list_queues(world.desk, ADMIN)]
    await world.close(run_id, fence)

    assert ["limited", "queued"] == [q["queue"] for q in queues.list_queues(world.desk, ADMIN)]
