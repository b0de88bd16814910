"""Workers that are gone: what only they could see is unknown since they were last heard, whatever their leases do."""

import pytest

from commands import watching, workers
from tests.commands.books import leftovers
from tests.commands.ground import attached, ground, placed, saw, see, standing
from tests.commands.test_claiming_by_id import park
from tests.commands.world import ADMIN, World

DIRECTORY = {"provider": "directory"}


async def parked_on(world: World, worker_id: str = "w1") -> tuple[str, str]:
    """A run that waits without a lease, and the directory on its last worker's machine that it stands on."""
    run_id, fence, workspace_id = await standing(world, worker_id, ttl=60, **DIRECTORY)
    await park(world, run_id, fence)
    return run_id, workspace_id


@pytest.mark.origin("H14", "K3")
@pytest.mark.parametrize("provider", ["directory", "process", "external"])
async def test_what_stands_under_a_last_attempt_is_unknown_when_its_worker_is_not_heard_again(
    each_world: World, provider: str
) -> None:
    world = each_world
    run_id, fence, workspace_id = await standing(world, ttl=60, attempts=1, provider=provider)
    world.go(4)
    await world.beats("w1", run_id, fence)
    heard_at = world.clock().wall
    world.go(3)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(0.999)
    before = ground(world, workspace_id).unknown_since
    await world.later(0.001)
    after = ground(world, workspace_id)

    assert before is None
    assert ("observer_gone", heard_at) == (after.unknown_cause, after.unknown_since)
    assert "running" == world.state(run_id)


async def test_a_worker_that_is_heard_within_the_window_still_sees_everything(each_world: World) -> None:
    world = each_world
    run_id, fence, workspace_id = await standing(world, ttl=60, attempts=1, **DIRECTORY)
    await workers.detached(world.desk, ADMIN, "w1")
    world.go(0.5)
    await world.beats("w1", run_id, fence)
    await world.later(0.5)
    await world.later(30)

    assert ground(world, workspace_id).unknown_since is None


async def test_a_worker_that_is_heard_while_its_end_is_being_put_down_still_sees_everything(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, ttl=60, attempts=1, **DIRECTORY)
    await workers.detached(world.desk, ADMIN, "w1")
    heard_at, broke_from = world.clock().wall, world.clock().mono
    world.go(1)
    await world.beats("w1", run_id, fence)

    assert not await watching.worker_unheard(world.desk, ("default", "w1"), broke_from, heard_at)
    assert ground(world, workspace_id).unknown_since is None


@pytest.mark.origin("H14")
@pytest.mark.parametrize("end", ["detached", "left", "given up"])
async def test_what_a_parked_run_stands_on_is_unknown_once_the_worker_there_is_gone(
    each_world: World, end: str
) -> None:
    world = each_world
    run_id, workspace_id = await parked_on(world)
    heard_at = world.clock().wall
    if end == "detached":
        await workers.detached(world.desk, ADMIN, "w1")
    elif end == "left":
        await workers.leave_worker(world.desk, ADMIN, "w1")
    await world.later(60 if end == "given up" else 1)

    assert ("observer_gone", heard_at) == (
        ground(world, workspace_id).unknown_cause,
        ground(world, workspace_id).unknown_since,
    )
    assert "waiting_input" == world.state(run_id)


async def test_a_directory_is_seen_by_the_worker_on_whose_machine_it_is_and_by_no_holder_elsewhere(
    each_world: World,
) -> None:
    world = each_world
    run_id, workspace_id = await parked_on(world, "w1")
    await world.worker("w2")
    await world.claim_run(run_id, "w2")
    await workers.detached(world.desk, ADMIN, "w2")
    await world.later(5)
    under_the_other = ground(world, workspace_id).unknown_since
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(1)

    assert under_the_other is None
    assert ground(world, workspace_id).unknown_since is not None


async def test_an_end_that_the_leases_expiry_tells_is_told_once_and_there(each_world: World) -> None:
    world = each_world
    run_id, _, workspace_id = await standing(world, ttl=60, **DIRECTORY)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(1)

    assert "holder_gone" == ground(world, workspace_id).unknown_cause
    assert 1 == world.names(run_id).count("ContinuityUnknown")
    assert "queued" == world.state(run_id)


async def test_what_nobody_has_to_see_any_more_is_not_unknown_when_its_worker_goes(world: World) -> None:
    run_id, fence, ended = await standing(world, ttl=60, **DIRECTORY)
    await world.close(run_id, fence)
    run_id, fence = await world.held("w1", ttl=60, attempts=1)
    making = await placed(world, run_id, fence, provider="directory")
    watched = await placed(world, run_id, fence, scope="cluster-1")
    await attached(world, watched)
    unseen = await placed(world, run_id, fence, provider="directory")
    await attached(world, unseen)
    await see(world, unseen, saw("watch_dropped"))
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(1)

    found = [ground(world, each) for each in (ended, making, watched, unseen)]
    assert [None, None, None, "watch_dropped"] == [each.unknown_cause for each in found]


async def test_a_worker_that_is_back_says_that_it_sees_its_directory_again(each_world: World) -> None:
    world = each_world
    run_id, fence, workspace_id = await standing(world, ttl=60, attempts=1, **DIRECTORY)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(1)
    await world.beats("w1", run_id, fence)
    seen = await see(world, workspace_id, saw("present", identity="body-1"), saw("synced"))

    assert None is seen["unknown_since"]
    assert "running" == world.state(run_id)


async def test_no_reminder_is_left_of_a_worker_that_had_nothing_to_see(world: World) -> None:
    await world.worker("w1")
    before = leftovers(world.desk)["deadlines"]
    await workers.detached(world.desk, ADMIN, "w1")

    assert before == leftovers(world.desk)["deadlines"]
