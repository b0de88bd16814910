"""Many runs cancelled by one command: what it chose the first time is what every repeat of it is about."""

import asyncio
from typing import Any

import pytest

from commands import steering
from commands.desk import Caller
from commands.steering import Filter
from domain.refusal import InvalidCommand
from journal.errors import IdempotencyMismatch, OutcomeUnknown
from tests.commands.world import ADMIN, World, command, plain

MANY = 1_000


async def cancel(world: World, caller: Caller = ADMIN, limit: int = MANY, **wanted: Any) -> dict[str, Any]:
    done = await steering.cancel_many(world.desk, caller, Filter(**wanted), dry_run=False, limit=limit)
    return dict(plain(done))


async def test_a_repeat_cancels_no_run_that_has_come_to_match_since(each_world: World) -> None:
    world = each_world
    runs = [await world.submit() for _ in range(3)]
    first = await cancel(world, command("c1"))
    later = await world.submit()
    position = world.journal.position

    again = await cancel(world, command("c1"))

    assert {"matching": 3, "runs": [{"run_id": one, "state": "cancelled"} for one in runs]} == first == again
    assert (position, "queued") == (world.journal.position, world.state(later))
    assert [later] == [each["run_id"] for each in (await cancel(world, command("c2")))["runs"]]


async def test_a_repeat_beyond_the_limit_leaves_what_the_first_had_left(world: World) -> None:
    runs = [await world.submit() for _ in range(3)]

    done = [await cancel(world, command("c1"), limit=2) for _ in range(2)]

    assert done[0] == done[1]
    assert ["cancelled", "cancelled", "queued"] == [world.state(one) for one in runs]


async def test_a_repeat_completes_what_the_first_had_chosen_when_it_was_broken_off(each_world: World) -> None:
    world = each_world
    runs = [await world.submit() for _ in range(3)]
    async with world.gate.closed() as gate:
        broken = world.start(cancel(world, command("c1")))
        await gate.reached()
        broken.cancel()
    await asyncio.wait([broken])
    await world.journal.quiet(runs[0])
    states = [world.state(one) for one in runs]
    later = await world.submit()

    done = await cancel(world, command("c1"))

    assert ["cancelled", "queued", "queued"] == states
    assert ["cancelled", "cancelled", "cancelled", "queued"] == [world.state(one) for one in (*runs, later)]
    assert runs == [each["run_id"] for each in done["runs"]]


@pytest.mark.parametrize("after_all", [False, True])
async def test_an_unknown_outcome_is_cleared_by_the_repeat(each_world: World, *, after_all: bool) -> None:
    world = each_world
    runs = [await world.submit() for _ in range(2)]
    world.gate.fails(after_all=after_all)
    if after_all:
        await cancel(world, command("c1"))
    else:
        with pytest.raises(OutcomeUnknown):
            await cancel(world, command("c1"))

    done = await cancel(world, command("c1"))

    assert runs == [each["run_id"] for each in done["runs"]]
    assert ["cancelled"] * 2 == [world.state(one) for one in runs]


async def test_a_command_that_found_nothing_to_cancel_is_decided_anew(world: World) -> None:
    assert {"matching": 0, "runs": []} == await cancel(world, command("c1"))
    run_id = await world.submit()

    assert [run_id] == [each["run_id"] for each in (await cancel(world, command("c1")))["runs"]]


async def test_another_filter_under_the_same_key_is_refused_and_cancels_nothing(world: World) -> None:
    await world.submit()
    await cancel(world, command("c1"))
    run_id = await world.submit(queue="other")

    with pytest.raises(IdempotencyMismatch):
        await cancel(world, command("c1", digest="another body"), queue="other")
    assert "queued" == world.state(run_id)


async def test_without_a_key_each_request_looks_anew(world: World) -> None:
    first, _ = await world.submit(), await cancel(world)
    later = await world.submit()

    assert [later] == [each["run_id"] for each in (await cancel(world))["runs"]]
    assert ["cancelled"] * 2 == [world.state(one) for one in (first, later)]


@pytest.mark.parametrize("limit", [0, steering.CANCEL_MANY_MAX + 1])
async def test_a_command_for_no_run_or_for_too_many_is_refused_with_the_bounds(world: World, limit: int) -> None:
    run_id = await world.submit()
    refused = await world.refused_or(cancel(world, limit=limit))

    assert isinstance(refused, InvalidCommand)
    assert ("limit", limit) == (refused.field, refused.value)
    assert "queued" == world.state(run_id)
    assert 1 == len((await cancel(world, limit=steering.CANCEL_MANY_MAX))["runs"])
