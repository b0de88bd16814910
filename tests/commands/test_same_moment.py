"""In the same moment: a grant meets a cancel, a drain, a quarantine, a lower limit, or itself."""

import asyncio
from typing import Any

import pytest

from commands import claims, ending, steering, workers
from domain.claiming import LimitReached
from domain.handing import Park
from domain.lease import LeaseHeld
from domain.worker import LeasesHeld, WorkerDraining, WorkerInQuarantine
from tests.commands.books import leftovers
from tests.commands.test_claiming_by_queue import limited
from tests.commands.test_grants_in_flight import fences
from tests.commands.world import ADMIN, World, command


@pytest.mark.origin("R6", "D12", "D34b")
@pytest.mark.parametrize("by_id", [True, False])
async def test_a_run_that_is_cancelled_while_its_grant_is_in_flight_is_either_granted_or_cancelled(
    each_world: World, *, by_id: bool
) -> None:
    world = each_world
    run_id = await world.submit()
    other = await world.submit()
    await world.worker("w1", slots=2)
    async with world.gate.closed() as gate:
        cancelling = world.start(steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False))
        await gate.reached()
        claim: Any = world.start(world.claim_run(run_id, "w1") if by_id else world.claim("w1", most=1))
        await world.settle()
    await cancelling
    found = await world.refused_or(claim)

    assert "cancelled" == world.state(run_id)
    assert [] == [fence for fence in fences(world) if fence[0] == run_id]
    if not by_id:
        assert isinstance(found, list)
        assert [other] == [granted["run_id"] for granted in found]
    assert world.desk.live.limits.total() == (0 if by_id else 1)


@pytest.mark.origin("R6")
async def test_a_cancel_that_meets_a_grant_in_flight_asks_the_holder_first(each_world: World) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    async with world.gate.closed() as gate:
        claim = world.start(world.claimed("w1"))
        await gate.reached()
        cancelling = world.start(steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False))
        await world.settle()
    await asyncio.gather(claim, cancelling)

    assert "running" == world.state(run_id)
    assert ["cancel"] == [asked["kind"] for asked in (await world.beats("w1", run_id, 1))["instructions"]]


@pytest.mark.origin("D12", "D53")
async def test_a_worker_that_drains_in_the_same_moment_is_granted_nothing(each_world: World) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    async with world.gate.closed() as gate:
        draining = world.start(workers.drain_worker(world.desk, ADMIN, "w1"))
        await gate.reached()
        claim = world.start(world.claim("w1"))
        await world.settle()
    await draining

    assert isinstance(await world.refused_or(claim), WorkerDraining)
    assert [] == fences(world)
    await world.worker("w2")
    assert run_id == (await world.claimed("w2"))["run_id"]


@pytest.mark.origin("D50")
async def test_a_worker_that_is_quarantined_in_the_same_moment_is_granted_nothing(each_world: World) -> None:
    world = each_world
    poisoned, fence = await world.held("w1")
    run_id = await world.submit()
    async with world.gate.closed() as gate:
        closing = world.start(world.close(poisoned, fence, "failed", error="ssh_timeout: x", retryable=False))
        await gate.reached()
        by_queue = world.start(world.claim("w1"))
        by_id = world.start(world.claim_run(run_id, "w1"))
        await world.settle()
    await closing

    assert isinstance(await world.refused_or(by_queue), WorkerInQuarantine)
    assert isinstance(await world.refused_or(by_id), WorkerInQuarantine)
    assert 0 == world.desk.live.limits.total()
    await world.worker("w2")
    assert run_id == (await world.claimed("w2"))["run_id"]


async def test_a_worker_with_a_grant_in_flight_may_not_leave(each_world: World) -> None:
    world = each_world
    await world.submit()
    await world.worker("w1")
    async with world.gate.closed() as gate:
        claim = world.start(world.claim("w1"))
        await gate.reached()
        leaving = await world.refused_or(workers.leave_worker(world.desk, ADMIN, "w1"))
    await claim

    assert isinstance(leaving, LeasesHeld)


async def test_a_run_that_parks_while_it_is_claimed_by_id_is_not_taken(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.worker("w2")
    async with world.gate.closed() as gate:
        parking = world.start(
            ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=True))
        )
        await gate.reached()
        claim = world.start(world.claim_run(run_id, "w2"))
        await world.settle()
    await parking

    assert isinstance(await world.refused_or(claim), LeaseHeld)


@pytest.mark.origin("D61", "R7")
async def test_the_same_claim_sent_twice_at_once_is_one_grant_and_one_answer(each_world: World) -> None:
    world = each_world
    await world.submit()
    await world.submit()
    await world.worker("w1", slots=5)
    ask = claims.Ask(worker_id="w1")
    async with world.gate.closed():
        both = [world.start(claims.claim(world.desk, command("c"), ask)) for _ in range(2)]
        await world.settle()
    first, second = [one.result() if one.done() else await one for one in both]

    assert [c["run_id"] for c in first.answer["claims"]] == [c["run_id"] for c in second.answer["claims"]]
    assert 1 == len(fences(world))
    assert 1 == world.desk.live.limits.total()


async def test_nothing_is_left_of_grants_that_were_refused_failed_or_cancelled(world: World) -> None:
    await world.worker("w1", slots=100)
    for number in range(20):
        await world.submit()
        async with world.gate.closed() as gate:
            claim = world.start(world.claim("w1"))
            await gate.reached()
            if number % 2:
                claim.cancel()
            if number % 3:
                gate.fails()
            await world.settle()
        await asyncio.gather(claim, return_exceptions=True)
        await world.settle()
    for granted in await world.claim("w1", most=100):
        await world.close(granted["run_id"], granted["fence"])
    for run_id in list(world.desk.live.cards):
        await world.close(run_id, 1)
    await workers.leave_worker(world.desk, ADMIN, "w1")

    assert {} == leftovers(world.desk)


@pytest.mark.origin("D61", "D34b")
@pytest.mark.parametrize("by_id", [True, False])
async def test_a_limit_that_is_lowered_in_the_same_moment_is_not_exceeded(each_world: World, *, by_id: bool) -> None:
    world = each_world
    await world.held("w1")
    run_id = await world.submit()
    async with world.gate.closed() as gate:
        lowering = world.start(limited(world, most=1))
        await gate.reached()
        claim: Any = world.start(world.claim_run(run_id, "w1") if by_id else world.claim("w1"))
        await world.settle()
    await lowering
    found = await world.refused_or(claim)

    assert isinstance(found, LimitReached) if by_id else found == []
    assert 1 == world.desk.live.limits.total()
