"""The promises about workspaces: budgets, idleness, observers; each at its very instant and not before."""

from pathlib import Path
from typing import Any

import pytest

from commands import steering, turns, workers, workspaces
from commands.desk import Timers
from domain.refusal import SettledOtherwise
from policies import assertion, harness_restart, observer_gone, provisioning
from tests.commands.absent import GRACE_S, dropped
from tests.commands.ground import SCOPE, attached, ground, observer, placed, report, saw, see, standing
from tests.commands.world import ADMIN, World, opened
from tests.policies.kit import reminder, scene, stale, told

BUDGET_S, IDLE_S, ADMISSION_S = 120.0, 1800.0, 90.0
LONG: dict[str, Any] = {"ttl": 3600, "quiet_after_s": 0, "total_after_s": 0}


@pytest.mark.origin("C30")
async def test_a_body_that_takes_its_whole_budget_is_a_fault_that_its_run_is_told_first(each_world: World) -> None:
    run_id, fence = await each_world.held(**LONG)
    workspace_id = await placed(each_world, run_id, fence)

    await each_world.later(BUDGET_S - 0.1)
    before = ground(each_world, workspace_id).phase
    await each_world.later(0.1)
    names = each_world.names(run_id)

    assert ("provisioning", "provision_failed") == (before, ground(each_world, workspace_id).phase)
    assert names.index("WorkerTimeout") < names.index("ProvisionFaulted") < names.index("AttemptEnded")
    assert ("queued", 1) == (each_world.state(run_id), (await each_world.show(run_id))["failed_attempts"])


async def test_the_budget_begins_with_the_making_and_not_with_the_wish(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    workspace_id = await placed(world, run_id, fence, provider="kubernetes")
    await world.later(1000)
    await workspaces.move(world.desk, ADMIN, workspace_id, workspaces.Step(phase="provisioning"))
    await world.later(BUDGET_S - 1)
    await workspaces.move(world.desk, ADMIN, workspace_id, workspaces.Step(phase="attaching", identity="uid"))
    making = ground(world, workspace_id).phase

    await world.later(1)

    assert ("attaching", "provision_failed") == (making, ground(world, workspace_id).phase)


async def test_the_budget_stands_still_while_nobody_can_see_the_body(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    workspace_id = await placed(world, run_id, fence, provider="kubernetes", scope=SCOPE)
    await see(world, workspace_id, saw("present", identity="uid"))
    world.go(100)
    await see(world, workspace_id, saw("watch_dropped"))
    await world.later(1000)
    await see(world, workspace_id, saw("present", identity="uid"), saw("synced"))

    await world.later(19.9)
    before = ground(world, workspace_id).phase
    await world.later(0.1)

    assert ("attaching", "provision_failed") == (before, ground(world, workspace_id).phase)


async def test_leader_gone_goes_before_a_budget_that_is_spent_at_the_same_instant(world: World) -> None:
    await dropped(world)
    run_id, fence = await world.held(leader_id="ada", **LONG)
    workspace_id = await placed(world, run_id, fence)
    world.go(BUDGET_S - GRACE_S)
    await dropped(world)

    await world.later(GRACE_S)

    assert ("cancelled", "leader_gone") == (world.state(run_id), (await world.show(run_id))["reason"])
    assert ground(world, workspace_id).phase in ("provisioning", "provision_failed")


async def test_a_detachment_does_not_decide_a_pending_loss_over_its_holders_head(each_world: World) -> None:
    run_id, _, workspace_id = await standing(each_world, ttl=30, attempts=5)
    await see(each_world, workspace_id, saw("ended", reason="ProcessExited", exit_code=1))
    await workers.detached(each_world.desk, ADMIN, "w1")

    await each_world.later(29.9)
    before = each_world.state(run_id)
    await each_world.later(0.1)

    assert ("running", "lost") == (before, each_world.state(run_id))


@pytest.mark.parametrize("lost_first", [False, True])
async def test_a_detached_holder_with_a_pending_loss_is_heard_again_and_closes(
    world: World, *, lost_first: bool
) -> None:
    run_id, fence, workspace_id = await standing(world, ttl=30, attempts=5)
    exited = saw("ended", reason="ProcessExited", exit_code=0)
    if lost_first:
        await see(world, workspace_id, exited)
    await workers.detached(world.desk, ADMIN, "w1")
    await see(world, workspace_id, exited)
    await world.later(20)
    await world.beats("w1", run_id, fence)

    await world.later(20)
    closed = await world.close(run_id, fence)

    assert "succeeded" == closed["state"]


@pytest.mark.origin("C12", "C16", "C17")
async def test_a_workspace_that_nobody_asserts_is_reaped_at_its_idle_time_and_not_before(each_world: World) -> None:
    world_start = each_world.clock()
    run_id, _, workspace_id = await standing(each_world, **LONG)
    each_world.go(1000)
    await workspaces.assert_needed(each_world.desk, ADMIN, workspace_id)

    await each_world.later(IDLE_S - 0.1)
    before = ground(each_world, workspace_id).phase
    await each_world.later(0.1)
    reaped = next(fact for fact in each_world.facts(run_id) if type(fact).__name__ == "WorkspaceReaped")

    assert ("running", "teardown") == (before, ground(each_world, workspace_id).phase)
    assert (IDLE_S, "running") == (getattr(reaped, "idle_s", 0), each_world.state(run_id))
    assert world_start.after(1000).wall == getattr(reaped, "last_asserted_at", None)


@pytest.mark.parametrize("reason", ["Evicted", "PodFailed"])
async def test_a_lost_workspace_stays_to_be_looked_into_until_its_idle_time(world: World, reason: str) -> None:
    _, _, workspace_id = await standing(world, **LONG)
    await see(world, workspace_id, saw("ended", reason=reason))
    await world.later(IDLE_S - 1)
    before = ground(world, workspace_id)

    await world.later(1)
    after = ground(world, workspace_id)

    assert ("lost", False, "lost", True) == (before.phase, before.teardown, after.phase, after.teardown)


async def test_a_kept_workspace_is_not_reaped_and_one_that_was_never_placed_is_destroyed(world: World) -> None:
    run_id, _, kept = await standing(world, **LONG)
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=True)
    await world.later(10)
    other_run, other_fence = await world.held(**LONG)
    unplaced = await placed(world, other_run, other_fence, provider="directory")

    await world.later(2 * IDLE_S)

    assert "running" == ground(world, kept).phase
    assert "destroyed" == ground(world, unplaced).phase


@pytest.mark.origin("C13")
async def test_the_service_asserts_what_it_provides_for_as_long_as_the_run_is_open(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    workspace_id = await placed(world, run_id, fence, provider="kubernetes", scope=SCOPE)
    await attached(world, workspace_id)
    await world.later(IDLE_S)
    await world.beats("w1", run_id, fence)
    await world.later(IDLE_S - 500)
    await world.beats("w1", run_id, fence)
    open_phase = ground(world, workspace_id).phase
    await world.close(run_id, fence)

    await world.later(IDLE_S - 1)
    aging = ground(world, workspace_id).phase
    await world.later(1)

    assert ("running", "running", "teardown") == (open_phase, aging, ground(world, workspace_id).phase)


async def test_what_only_a_blind_observer_could_assert_is_not_reaped_while_its_run_is_open(world: World) -> None:
    watch = await observer(world, ttl=60)
    run_id, fence, workspace_id = await standing(world, scope=SCOPE, **LONG)
    await report(world, watch, (workspace_id, saw("present")), synced=True)
    await world.later(60)
    assert ground(world, workspace_id).unknown_since is not None

    await world.later(IDLE_S)
    await world.beats("w1", run_id, fence)
    blind = ground(world, workspace_id).phase
    await world.close(run_id, fence)
    await world.later(2 * IDLE_S)

    assert ("running", "teardown") == (blind, ground(world, workspace_id).phase)


async def test_reminders_of_what_is_over_ask_for_nothing(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    at = scene(world)
    early = told(assertion.react(reminder(world, "idle"), at, idle_s=IDLE_S))
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id)
    watch = await observer(world)
    await report(world, watch)
    at = scene(world)

    assert world.clock().mono + IDLE_S == early
    assert None is assertion.react(stale(world, "idle", (workspace_id,), ""), at, idle_s=IDLE_S)
    assert None is provisioning.react(stale(world, "provision", (workspace_id,), ""), at)
    assert None is harness_restart.react(stale(world, "turn", (run_id, "7"), ""), at)
    assert None is observer_gone.react(stale(world, "observer", ("default", SCOPE), run_id), at)
    await world.close(run_id, fence)
    with pytest.raises(SettledOtherwise):
        await workspaces.assert_needed(world.desk, ADMIN, workspace_id)


@pytest.mark.origin("R29", "K5")
async def test_every_clock_about_ground_starts_anew_with_the_service(data_dir: Path) -> None:
    async with opened(data_dir) as world:
        run_id, fence = await world.held(**LONG)
        making = await placed(world, run_id, fence)
        _, _, idle = await standing(world, **LONG)
        parted_run, _, parted = await standing(world, **LONG)
        await turns.admit(world.desk, ADMIN, run_id, fence, None)
        world.go(80)
    world.clock.go(5000)
    async with opened(data_dir) as world:
        await world.later(ADMISSION_S - 1)
        before = (world.names(run_id).count("TurnFailed"), ground(world, making).phase)
        await world.later(BUDGET_S - ADMISSION_S)
        making_phase = ground(world, making).phase
        await workspaces.assert_needed(world.desk, ADMIN, idle)
        await world.later(IDLE_S - BUDGET_S)
        await world.later(1)

        assert (0, "provisioning", "provisioning") == (*before, making_phase)
        assert "TurnFailed" in world.names(run_id)
        assert "provision_failed" == ground(world, making).phase
        assert ("running", "teardown") == (ground(world, idle).phase, ground(world, parted).phase)
        reaped = next(fact for fact in world.facts(parted_run) if type(fact).__name__ == "WorkspaceReaped")
        assert (None, IDLE_S) == (getattr(reaped, "last_asserted_at", "missing"), getattr(reaped, "idle_s", 0))


async def test_every_length_is_a_timer_of_the_service() -> None:
    timers = Timers(provisioning_s=2.0, idle_reap_s=5.0)
    async with opened(timers=timers) as world:
        run_id, fence = await world.held(**LONG)
        making = await placed(world, run_id, fence)
        _, _, idle = await standing(world, **LONG)

        await world.later(2)
        making_phase = ground(world, making).phase
        await world.later(3)

        assert ("provision_failed", "teardown") == (making_phase, ground(world, idle).phase)
