"""Whose silence about a workspace says that nobody needs it: each case at the very instant at which it begins to."""

from typing import Any

import pytest

from commands import ending, steering
from domain.handing import Park
from projections.live.needs import idle_due
from tests.commands.ground import SCOPE, ground, saw, see, standing
from tests.commands.world import ADMIN, World, text

IDLE_S = 1800.0
LONG: dict[str, Any] = {"ttl": 3600, "quiet_after_s": 0, "total_after_s": 0}

pytestmark = pytest.mark.origin("C12", "C17")


async def park(world: World, run_id: str, fence: int, *, keep: bool = False) -> None:
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=keep))


def runs_out(world: World, workspace_id: str) -> bool:
    """Whether a clock runs towards its end."""
    return idle_due(world.desk.live, world.desk.evidence, workspace_id) is not None


async def reaped_after(world: World, workspace_id: str) -> bool:
    """Whether it stays for the idle time from now to the last moment, and goes then."""
    await world.later(IDLE_S - 0.1)
    before = ground(world, workspace_id).teardown
    await world.later(0.1)
    return not before and ground(world, workspace_id).teardown


@pytest.mark.parametrize("provider", ["directory", "process", "external"])
async def test_what_a_parked_run_stands_on_is_reaped_by_no_clock_until_somebody_holds_it_again(
    each_world: World, provider: str
) -> None:
    run_id, fence, workspace_id = await standing(each_world, provider=provider, **LONG)
    await park(each_world, run_id, fence)
    await each_world.later(3 * IDLE_S)
    waiting = (ground(each_world, workspace_id).phase, runs_out(each_world, workspace_id))
    await each_world.worker()
    await each_world.claim_run(run_id)
    if provider != "external":  # its worker was away, and has yet to look
        assert not runs_out(each_world, workspace_id)
        await see(each_world, workspace_id, saw("present", identity="body-1"), saw("synced"))

    assert ("running", False) == waiting
    assert runs_out(each_world, workspace_id)
    assert await reaped_after(each_world, workspace_id)


async def test_an_observer_that_sees_the_body_of_a_parked_run_does_not_bring_its_clock_back(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, scope=SCOPE, **LONG)
    await see(world, workspace_id, saw("present", identity="body-1"), saw("synced"))
    await park(world, run_id, fence)
    await world.later(3 * IDLE_S)

    assert "running" == ground(world, workspace_id).phase


async def test_a_parked_run_whose_lease_is_kept_is_held_and_silence_about_its_ground_counts(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, **LONG)
    await park(world, run_id, fence, keep=True)

    assert await reaped_after(world, workspace_id)


async def test_what_a_run_stood_on_waits_for_the_next_worker_however_long_that_takes(world: World) -> None:
    run_id, _, workspace_id = await standing(world, provider="directory", **{**LONG, "ttl": 60}, attempts=5)
    await world.later(60)
    state = world.state(run_id)
    await world.later(3 * IDLE_S)

    assert ("queued", "running") == (state, ground(world, workspace_id).phase)


async def test_the_directory_of_a_worker_that_cannot_see_it_is_not_reaped_and_has_its_whole_time_once_it_does(
    world: World,
) -> None:
    run_id, fence, workspace_id = await standing(world, provider="directory", **LONG)
    await see(world, workspace_id, saw("watch_dropped"))
    await world.later(IDLE_S)
    await world.beats("w1", run_id, fence)
    await world.later(IDLE_S)
    await world.beats("w1", run_id, fence)
    unseen = (ground(world, workspace_id).phase, runs_out(world, workspace_id))
    await see(world, workspace_id, saw("present", identity="body-1"), saw("synced"))

    assert ("running", False) == unseen
    assert await reaped_after(world, workspace_id)


@pytest.mark.parametrize("provider", ["directory", "external"])
async def test_what_is_left_of_a_run_that_ended_while_it_waited_can_be_looked_into_for_the_whole_idle_time(
    world: World, provider: str
) -> None:
    wish = {"leader_id": "ada", "verdict_by": "leader", "on_leader_gone": "keep", **LONG}
    run_id, fence, workspace_id = await standing(world, provider=provider, **wish)
    await world.close(run_id, fence)
    await world.later(2 * IDLE_S)
    assert ("waiting_verdict", "running") == (world.state(run_id), ground(world, workspace_id).phase)
    await steering.verdict(world.desk, ADMIN, run_id, "succeeded", text(None))

    assert await reaped_after(world, workspace_id)
