"""The clocks of work: told exactly when one has run out, once, and standing still while they should."""

from typing import Any, Literal

import pytest

from commands import ending, holding, steering
from commands.holding import Progress, Tool
from domain.handing import Park
from domain.quiet import TOOL_CEILING_S
from policies import tell_when_overdue
from tests.commands.absent import connected
from tests.commands.world import ADMIN, World, text
from tests.policies.kit import reminder, scene, stale, told

LONG: dict[str, Any] = {"ttl": 3600, "quiet_after_s": 300, "total_after_s": 1_000}


def reaction(world: World, kind: Literal["quiet", "total"], run_id: str) -> object:
    """What the promise answers about this clock of the run when it is looked at now."""
    return told(tell_when_overdue.react(stale(world, kind, (run_id,), ""), scene(world)))


async def park(world: World, run_id: str, fence: int) -> None:
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=True))


async def tool(world: World, run_id: str, fence: int, state: Literal["started", "ended"]) -> None:
    note = Progress(message="", tool=Tool(id="t1", name="make", state=state))
    await holding.progress(world.desk, ADMIN, run_id, fence, note)


# Quiet


@pytest.mark.origin("A42")
async def test_a_quiet_run_is_told_exactly_at_its_bound_and_not_before(world: World) -> None:
    run_id, _ = await world.held(**LONG)
    assert 1300 == reminder(world, "quiet").mono
    world.go(299.999)
    assert 1300 == reaction(world, "quiet", run_id)
    world.go(0.001)

    assert "tell_overdue" == reaction(world, "quiet", run_id)


@pytest.mark.origin("A42")
async def test_a_quiet_stretch_that_was_told_is_not_told_again_until_there_is_activity(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    await world.later(300)
    world.go(600)
    assert None is reaction(world, "quiet", run_id)
    await world.output(run_id, fence, 0, "x")
    assert 2200 == reaction(world, "quiet", run_id)
    world.go(300)

    assert "tell_overdue" == reaction(world, "quiet", run_id)


@pytest.mark.origin("A42", "R26")
async def test_a_reminder_of_a_stretch_that_activity_has_ended_waits_for_the_next(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    old = reminder(world, "quiet")
    world.go(299)
    await world.output(run_id, fence, 0, "x")
    world.go(1)

    assert 1599 == told(tell_when_overdue.react(old, scene(world)))


async def test_a_tool_in_flight_holds_the_quiet_clock_still_up_to_its_ceiling(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    world.go(100)
    await tool(world, run_id, fence, "started")
    due = 1100 + TOOL_CEILING_S + 300
    world.go(TOOL_CEILING_S)
    assert due == reaction(world, "quiet", run_id)
    world.go(300)

    assert "tell_overdue" == reaction(world, "quiet", run_id)


async def test_a_tool_that_has_ended_holds_nothing_any_more(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    await tool(world, run_id, fence, "started")
    world.go(500)
    await tool(world, run_id, fence, "ended")
    assert 1800 == reaction(world, "quiet", run_id)
    world.go(300)

    assert "tell_overdue" == reaction(world, "quiet", run_id)


@pytest.mark.origin("A42")
async def test_a_parked_run_under_a_connected_leader_is_told_to_be_quiet_and_once(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada", **LONG)
    async with connected(world):
        await park(world, run_id, fence)
        world.go(300)
        assert "tell_overdue" == reaction(world, "quiet", run_id)
        await world.keep()
        world.go(600)

        assert None is reaction(world, "quiet", run_id)


async def test_a_run_that_nobody_has_is_nobodys_silence(world: World) -> None:
    waiting = await world.submit(**LONG)
    run_id, fence = await world.held(**LONG)
    await ending.hand_back(world.desk, ADMIN, run_id, fence)
    world.go(10_000)

    assert (None, None) == (reaction(world, "quiet", waiting), reaction(world, "quiet", run_id))


# Total


@pytest.mark.origin("A42")
async def test_the_total_is_told_exactly_at_its_bound_once_and_whatever_is_active(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    assert 2000 == reminder(world, "total").mono
    world.go(999)
    await world.output(run_id, fence, 0, "x")
    assert 2000 == reaction(world, "total", run_id)
    world.go(1)
    assert "tell_overdue" == reaction(world, "total", run_id)
    await world.keep()
    await world.output(run_id, fence, 1, "y")
    world.go(1_000)

    assert None is reaction(world, "total", run_id)


async def test_the_total_stands_still_while_the_run_is_parked(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    world.go(400)
    await park(world, run_id, fence)
    world.go(2_000)
    assert None is reaction(world, "total", run_id)
    await steering.answer(world.desk, ADMIN, run_id, text("go on"))
    assert 4000 == reaction(world, "total", run_id)
    world.go(600)

    assert "tell_overdue" == reaction(world, "total", run_id)


async def test_the_total_counts_from_the_first_attempt_and_not_from_the_submission(world: World) -> None:
    run_id = await world.submit(**LONG)
    world.go(500)
    assert None is reaction(world, "total", run_id)
    await world.worker("w1")
    await world.claim_run(run_id, "w1")

    assert 2500 == reaction(world, "total", run_id)


# Neither


async def test_a_clock_of_zero_seconds_is_none(world: World) -> None:
    run_id, _ = await world.held(ttl=3600, quiet_after_s=0, total_after_s=0)
    world.go(100_000)

    assert (None, None) == (reaction(world, "quiet", run_id), reaction(world, "total", run_id))


@pytest.mark.origin("R26")
async def test_a_reminder_of_a_run_that_has_ended_is_nothing(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    await world.close(run_id, fence)
    world.go(10_000)

    assert (None, None) == (reaction(world, "quiet", run_id), reaction(world, "total", run_id))
