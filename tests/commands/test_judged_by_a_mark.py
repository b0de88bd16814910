"""Judged by a mark: what is said while the fact that follows from a mark is on its way is before it, or answered by it.

An assertion, a sign of work, a renewal or a worker's word that was acknowledged is never ignored by a fact that was
decided on before it. And what fails on its way leaves the mark as it was, whatever storage can still tell.
"""

from typing import Any

import pytest

from commands import holding, workers, workspaces
from commands.desk import Desk
from commands.holding import Progress
from domain.lease import FenceLost
from domain.worker import WorkerUnknown
from domain.workspace_refusals import WorkspaceOver
from tests.commands.ground import shown, standing
from tests.commands.test_heartbeats import said
from tests.commands.world import ADMIN, World


def unreadable(name: str) -> Any:
    """What reading a stream comes to while the disk is away."""
    message = f"{name} cannot be read"
    raise OSError(message)


async def promise_fails(world: World, *, unread: bool = False) -> None:
    """What is due now fails with its append, and storage cannot be read for a moment either."""
    store: Any = world.journal.store
    reading = store.stream
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        gate.fails()
        if unread:
            store.stream = unreadable
    await keeping
    store.stream = reading


# Leases


@pytest.mark.origin("D20", "D38")
async def test_an_expiry_that_fails_where_nothing_can_be_read_either_is_tried_again(each_world: World) -> None:
    world = each_world
    run_id, _ = await world.held("w1", ttl=10)
    before = world.desk.evidence.leases.get(run_id)
    world.go(10)
    await promise_fails(world, unread=True)
    assert before == world.desk.evidence.leases.get(run_id)
    assert "expire_lease" in str(world.manager.first_error)
    await world.later(1)

    assert ("queued", None) == (world.state(run_id), world.manager.first_error)


async def test_a_missing_mark_is_made_as_now_though_nobody_asks_for_it(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    world.desk.evidence.leases.drop(run_id)
    await world.later(10)
    await world.later(9.999)
    assert "running" == world.state(run_id)
    await world.later(0.001)

    assert "queued" == world.state(run_id)


async def test_a_missing_mark_of_a_lease_whose_slice_has_ended_is_made_once(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=5)
    await world.later(5)
    world.desk.evidence.leases.drop(run_id)
    for left_s in (10, 4):
        answer = await world.beats("w1", run_id, fence)
        assert ("slice_ended", left_s) == (answer["outcome"], answer["ttl_s"])
        await world.later(6)

    assert "queued" == world.state(run_id)


@pytest.mark.parametrize("first", ["expired", "live"])
async def test_an_expiry_under_way_does_not_keep_the_other_leases_of_a_heartbeat(each_world: World, first: str) -> None:
    world = each_world
    expired, live = await world.held("w1", ttl=10), await world.held("w1", ttl=20)
    leases = [expired, live] if first == "expired" else [live, expired]
    world.go(10)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        beat = world.start(world.beat("w1", *leases))
        await world.settle()
        world.go(10)
        await world.settle()
    await keeping
    await world.keep()
    answers = {answer["run_id"]: answer["outcome"] for answer in await beat}

    assert {expired[0]: "lost", live[0]: "renewed"} == answers
    assert "running" == world.state(live[0])


async def test_a_heartbeat_is_answered_while_the_disk_hangs_with_what_is_certain(each_world: World) -> None:
    world = each_world
    (run_id, fence), live = await world.held("w1", ttl=10), await world.held("w1", ttl=20)
    world.go(10)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        beat = world.start(world.beat("w1", (run_id, fence), live))
        await world.settle()
        world.go(holding.FOUND_OUT_S - 0.001)
        await world.settle()
        assert not beat.done()
        world.go(0.001)
        await world.settle()
        assert [("lost", "lease_expired"), ("renewed", None)] == [said(answer) for answer in beat.result()]
        assert (fence, "running") == (beat.result()[0]["current"], world.state(run_id))
    await keeping

    assert "queued" == world.state(run_id)


# Streams that broke


@pytest.mark.parametrize(("heard_s", "state"), [(0.0, "queued"), (0.001, "running")])
async def test_a_break_that_lands_late_counts_from_the_break_and_only_for_who_was_not_heard_since(
    each_world: World, heard_s: float, state: str
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=60)
    async with world.gate.closed() as gate:
        breaking = world.start(workers.detached(world.desk, ADMIN, "w1"))
        await gate.reached()
        world.go(heard_s)
        assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
        world.go(30)
    await breaking
    await world.keep()

    assert state == world.state(run_id)
    assert 0 == world.desk.evidence.sizes()["under way"]


async def test_two_breaks_on_their_way_at_once_count_each_from_its_own_moment(each_world: World) -> None:
    world = each_world
    first, fence = await world.held("w1", ttl=60)
    silent, _ = await world.held("w1", ttl=60)
    async with world.gate.closed() as gate:
        one = world.start(workers.detached(world.desk, ADMIN, "w1"))
        await gate.reached()
        world.go(2)
        await world.beats("w1", first, fence)
        other = world.start(workers.detached(world.desk, ADMIN, "w1"))
        await world.settle()
    await one
    await world.keep()
    assert ("running", "queued") == (world.state(first), world.state(silent))
    await other
    await world.later(1)

    assert "queued" == world.state(first)


async def test_a_break_that_could_not_be_recorded_shortens_nothing_and_leaves_nothing(each_world: World) -> None:
    world = each_world
    run_id, _ = await world.held("w1", ttl=60)
    world.gate.fails()
    assert isinstance(await world.refused_or(workers.detached(world.desk, ADMIN, "w1")), Exception)
    await world.later(59)

    assert "running" == world.state(run_id)
    assert 0 == world.desk.evidence.sizes()["under way"]


# Workspaces


async def idle(world: World) -> tuple[str, str]:
    """A run and its workspace, which nobody asserted until it is due to be reaped just now."""
    run_id, _, workspace_id = await standing(world, ttl=3600, quiet_after_s=0, total_after_s=0)
    world.go(1800)
    return run_id, workspace_id


async def test_an_assertion_while_the_reap_is_on_its_way_waits_and_is_refused_when_it_is_there(
    each_world: World,
) -> None:
    world = each_world
    _, workspace_id = await idle(world)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        asserting = world.start(workspaces.assert_needed(world.desk, ADMIN, workspace_id))
        await world.settle()
        assert not asserting.done()
    await keeping

    assert isinstance(await world.refused_or(asserting), WorkspaceOver)
    assert "teardown" == shown(world, workspace_id)["phase"]
    assert 0 == world.desk.evidence.sizes()["under way"]


async def test_an_assertion_while_a_reap_is_on_its_way_that_fails_keeps_the_body(each_world: World) -> None:
    world = each_world
    run_id, workspace_id = await idle(world)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        asserting = world.start(workspaces.assert_needed(world.desk, ADMIN, workspace_id))
        gate.fails()
        await world.settle()
    await keeping
    assert 1800 == (await asserting)["idle_reap_s"]
    await world.beats("w1", run_id, 1)
    await world.later(1799.9)
    assert "running" == shown(world, workspace_id)["phase"]
    await world.later(0.1)

    assert "teardown" == shown(world, workspace_id)["phase"]


async def test_an_assertion_waits_for_a_reap_also_when_its_keeper_was_stopped_in_the_middle(each_world: World) -> None:
    world = each_world
    _, workspace_id = await idle(world)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        for going in list(world.manager._going):
            going.cancel()
        await world.settle()
        asserting = world.start(workspaces.assert_needed(world.desk, ADMIN, workspace_id))
        await world.settle()
        assert not asserting.done()
    await keeping

    assert isinstance(await world.refused_or(asserting), WorkspaceOver)
    await world.settle()
    assert (0, set()) == (world.desk.evidence.sizes()["under way"], world.desk.unfinished)


async def test_a_reap_that_fails_where_nothing_can_be_read_either_is_tried_again(each_world: World) -> None:
    world = each_world
    _, workspace_id = await idle(world)
    await promise_fails(world, unread=True)
    assert "running" == shown(world, workspace_id)["phase"]
    await world.later(1)

    assert "teardown" == shown(world, workspace_id)["phase"]


# Silence


async def sign_of_work(desk: Desk, run_id: str, fence: int) -> None:
    """The holder says that it is at work."""
    await holding.progress(desk, ADMIN, run_id, fence, Progress(message="still here"))


async def test_a_sign_of_work_while_the_stall_is_on_its_way_waits_and_is_refused_when_it_is_there(
    each_world: World,
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=3600, on_quiet="fail_attempt", quiet_after_s=300)
    world.go(300)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        working = world.start(sign_of_work(world.desk, run_id, fence))
        await world.settle()
        assert not working.done()
        assert (await world.show(run_id))["evidence"]["last_activity_at"] is not None
    await keeping

    assert isinstance(await world.refused_or(working), FenceLost)
    assert ("queued", 0) == (world.state(run_id), world.desk.evidence.sizes()["under way"])


async def test_a_sign_of_work_while_a_stall_is_on_its_way_that_fails_begins_a_new_stretch(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=3600, on_quiet="fail_attempt", quiet_after_s=300)
    world.go(300)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        working = world.start(sign_of_work(world.desk, run_id, fence))
        gate.fails()
        await world.settle()
    await keeping
    await working
    await world.later(299.9)
    assert "running" == world.state(run_id)
    await world.later(0.1)

    assert "queued" == world.state(run_id)


async def test_a_sign_of_work_while_the_silence_is_being_told_begins_a_stretch_that_is_told_again(
    each_world: World,
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=3600, quiet_after_s=300, total_after_s=0)
    world.go(300)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        working = world.start(sign_of_work(world.desk, run_id, fence))
        await world.settle()
    await keeping
    await working
    await world.later(300)

    assert 2 == world.names(run_id).count("WorkerTimeout")


# Workers


async def test_a_word_of_a_worker_that_is_being_given_up_waits_and_is_answered_by_what_came_of_it(
    each_world: World,
) -> None:
    world = each_world
    await world.worker("w1")
    world.go(60)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        beat = world.start(world.beat("w1"))
        await world.settle()
        assert not beat.done()
    await keeping

    assert isinstance(await world.refused_or(beat), WorkerUnknown)
    assert (0, 0) == (world.desk.evidence.sizes()["workers"], world.desk.evidence.sizes()["under way"])


async def test_a_word_of_a_worker_that_was_nearly_given_up_is_heard(each_world: World) -> None:
    world = each_world
    await world.worker("w1")
    world.go(60)
    async with world.gate.closed() as gate:
        keeping = world.start(world.manager.step())
        await gate.reached()
        beat = world.start(world.beat("w1"))
        gate.fails()
        await world.settle()
    await keeping
    assert [] == await beat
    await world.later(59.9)
    assert ("default", "w1") in world.desk.live.workers
    await world.later(0.1)

    assert ("default", "w1") not in world.desk.live.workers
