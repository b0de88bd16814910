"""Fences rolled out in three steps: off, warn, required. A stale fence is refused in each; a missing one is counted."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from commands import ending, holding
from commands.desk import FenceMode
from domain.handing import Park
from domain.lease import FenceLost, FenceRequired
from tests.commands.test_effects import claim_effect, fail, finish
from tests.commands.world import ADMIN, World, closing, worker_key

Write = Callable[[World, str, int | None], Awaitable[Any]]

NOTE = holding.Progress(message="on it")
WRITES: dict[str, Write] = {
    "output": lambda world, run, fence: world.output(run, fence, 0, "x"),
    "partial": lambda world, run, fence: world.partial(run, fence, "x"),
    "progress": lambda world, run, fence: holding.progress(world.desk, ADMIN, run, fence, NOTE),
    "park": lambda world, run, fence: ending.park(world.desk, ADMIN, run, fence, Park(kind="waiting_input")),
    "hand-back": lambda world, run, fence: ending.hand_back(world.desk, ADMIN, run, fence),
    "close": lambda world, run, fence: world.close(run, fence),
    "effects": lambda world, run, fence: claim_effect(world, (run, fence), "k"),
}
MODES: tuple[FenceMode, ...] = ("off", "warn", "required")


def in_mode(world: World, mode: FenceMode) -> None:
    """The service runs in this mode."""
    world.desk.fence_required = mode


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.origin("B8", "B11", "H12")
async def test_where_fences_are_required_a_missing_one_is_an_error(world: World, write: str) -> None:
    run_id, _ = await world.held("w1")
    before = world.journal.position

    assert isinstance(await world.refused_or(WRITES[write](world, run_id, None)), FenceRequired)
    assert (before, {}) == (world.journal.position, world.desk.unfenced)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.origin("B8", "H12")
async def test_while_fences_are_off_a_missing_one_acts_under_the_one_in_force_and_is_counted(
    world: World, write: str, caplog: pytest.LogCaptureFixture
) -> None:
    in_mode(world, "off")
    run_id, _ = await world.held("w1")
    with caplog.at_level(logging.WARNING):
        await WRITES[write](world, run_id, None)

    assert {write: 1} == world.desk.unfenced
    assert [] == caplog.records


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.origin("B8", "H12")
async def test_while_fences_are_warned_about_a_missing_one_is_counted_and_logged(
    world: World, write: str, caplog: pytest.LogCaptureFixture
) -> None:
    in_mode(world, "warn")
    run_id, _ = await world.held("w1")
    with caplog.at_level(logging.WARNING):
        await WRITES[write](world, run_id, None)

    assert {write: 1} == world.desk.unfenced
    assert [f"{write} was accepted without a fence, which will be required"] == [r.message for r in caplog.records]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fence", [0, 2])
@pytest.mark.origin("B8", "K11")
async def test_a_fence_that_is_not_in_force_is_refused_in_every_mode(
    world: World, mode: FenceMode, write: str, fence: int
) -> None:
    in_mode(world, mode)
    run_id, _ = await world.held("w1")

    assert isinstance(await world.refused_or(WRITES[write](world, run_id, fence)), FenceLost)
    assert {} == world.desk.unfenced


@pytest.mark.parametrize("mode", MODES)
async def test_a_right_fence_is_not_counted_in_any_mode(world: World, mode: FenceMode) -> None:
    in_mode(world, mode)
    for write in WRITES.values():
        await write(world, *await world.held("w1"))

    assert {} == world.desk.unfenced


@pytest.mark.parametrize("mode", ["off", "warn"])
async def test_a_missing_fence_is_of_no_use_to_who_does_not_hold_the_run(world: World, mode: FenceMode) -> None:
    in_mode(world, mode)
    queued = await world.submit()
    run_id, fence = await world.held("w1")

    assert isinstance(await world.refused_or(world.output(run_id, None, 0, "x", worker_key("w2"))), FenceLost)
    assert isinstance(await world.refused_or(world.output(queued, None, 0, "x")), FenceLost)
    await world.close(run_id, fence)
    assert isinstance(await world.refused_or(world.output(run_id, None, 0, "x")), FenceLost)
    assert {} == world.desk.unfenced


async def test_the_three_ways_of_an_effect_count_alike(world: World) -> None:
    in_mode(world, "off")
    run_id, _ = await world.held("w1")
    await claim_effect(world, (run_id, None), "a")
    await finish(world, run_id, None, "a")
    await claim_effect(world, (run_id, None), "b")
    await fail(world, run_id, None, "b")

    assert {"effects": 4} == world.desk.unfenced


async def test_many_closes_count_those_that_were_accepted_without_a_fence(world: World) -> None:
    in_mode(world, "off")
    unfenced, _ = await world.held("w1")
    fenced, fence = await world.held("w1")
    batch = [closing(unfenced, None), closing(fenced, fence), closing("r0", None)]
    await ending.close_many(world.desk, ADMIN, batch)

    assert {"closes": 1} == world.desk.unfenced


async def test_a_write_that_is_decided_twice_is_counted_once(each_world: World) -> None:
    world = each_world
    in_mode(world, "off")
    run_id, _ = await world.held("w1", ttl=10)
    world.go(10)
    await world.worker("w2")
    async with world.gate.closed() as gate:
        taking_over = world.start(world.claim_run(run_id, "w2"))
        await gate.reached()
        writing = world.start(world.close(run_id, None))
        await world.settle()
    await taking_over

    assert "succeeded" == (await writing)["state"]
    assert {"close": 1} == world.desk.unfenced
