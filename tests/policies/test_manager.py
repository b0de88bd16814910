"""The process manager's loop: it wakes in time, goes on whatever happens, and says what went wrong until it clears."""

import asyncio
import sqlite3
from typing import Any

import pytest

from commands import steering
from commands.desk import Desk
from domain.run_facts import AttemptEnded
from policies import expire_leases, manager, retry_when_due
from policies.manager import LONGEST_SLEEP_S, RETRY_S, SIDE_BY_SIDE, Manager
from policies.reaction import Do
from tests.commands.books import leftovers
from tests.commands.world import ADMIN, World
from tests.policies.kit import scene


def broken(*_: Any) -> Any:
    """A promise whose code is wrong."""
    message = "what is this?"
    raise ValueError(message)


# Waking


async def running(world: World) -> "asyncio.Task[None]":
    """The loop, which keeps promises by itself from now on."""
    keeping = world.start(world.manager.run())
    await world.settle()
    return keeping


async def until(world: World, run_id: str, state: str) -> float:
    """Seconds on the clock when the run has come to that state; time passes as it is waited for."""
    while world.state(run_id) != state:
        await world.passes(0.01)
    return round(world.clock().mono - 1_000, 2)


async def test_the_loop_wakes_at_a_deadline(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=30)
    await running(world)

    assert 30 <= await until(world, run_id, "queued") <= 30.01


@pytest.mark.origin("H13")
async def test_the_loop_wakes_earlier_when_a_nearer_deadline_appears(world: World) -> None:
    await world.held("w1", ttl=50)
    await running(world)
    await world.passes(1)
    run_id, _ = await world.held("w1", ttl=2)

    assert 3 <= await until(world, run_id, "queued") <= 3.02


async def test_the_loop_wakes_for_the_first_worker_that_is_only_heard_by_itself(world: World) -> None:
    await running(world)
    await world.worker("w1")
    world.desk.evidence.forget_worker(("default", "w1"))
    world.desk.live.deadlines.forget("worker", ("default", "w1"))
    world.desk.live.fleet.gone_s = 5.0
    await world.beat("w1")
    await world.settle()

    assert 5 == world.manager.next_in_s(world.clock())


async def test_the_loop_sleeps_no_longer_than_its_bound_and_does_nothing_without_a_reason(world: World) -> None:
    steps: list[float] = []
    begin = world.manager._begin

    def counted() -> int:
        steps.append(world.clock().mono)
        return begin()

    world.manager._begin = counted  # type: ignore[method-assign]
    await running(world)
    await world.passes(10 * LONGEST_SLEEP_S - 1)

    assert [1_000 + number * LONGEST_SLEEP_S for number in range(10)] == steps


async def test_the_loop_keeps_every_promise_in_its_time(world: World) -> None:
    expired, _ = await world.held("w1", ttl=7)
    cancelled, _ = await world.held("w1", ttl=60)
    sliced, _ = await world.held("w1", ttl=20, hold=12)
    later = await world.submit(queue="later", run_after=world.clock().after(15).wall)
    await steering.cancel(world.desk, ADMIN, cancelled, keep_workspaces=False)
    await running(world)

    assert 7 <= await until(world, expired, "queued") <= 7.01
    assert 10 <= await until(world, cancelled, "cancelled") <= 10.01
    while not world.desk.standing(ADMIN, sliced).lease.sliced:  # type: ignore[union-attr]
        await world.passes(0.01)
    assert 12 <= world.clock().mono - 1_000 <= 12.02
    assert later == (await world.claimed("w1", "later", wait_s=5))["run_id"]
    assert 32 <= await until(world, sliced, "queued") <= 32.02


async def test_the_loop_ends_when_it_is_cancelled(world: World) -> None:
    keeping = await running(world)
    keeping.cancel()
    await world.settle()

    assert keeping.cancelled()


# Failing


@pytest.mark.origin("A43", "D11", "D33", "D23")
async def test_a_promise_that_fails_is_counted_told_and_tried_again_until_it_is_kept(each_world: World) -> None:
    world = each_world
    run_id, _ = await world.held("w1", ttl=10)
    world.gate.fails(3)
    world.go(10)
    for count in (1, 2, 3):
        await world.keep()
        assert {"expire_lease": count} == world.manager.failures
        assert str(world.manager.first_error).startswith("expire_lease: OutcomeUnknown(")
        world.go(RETRY_S)
    await world.keep()

    assert ("queued", 1, None) == (
        world.state(run_id), world.manager.counts["expire_lease"], world.manager.first_error,
    )  # fmt: skip


async def test_a_loop_that_is_asleep_wakes_to_try_a_failed_promise_again(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    world.gate.fails()
    await running(world)

    assert 10 + RETRY_S <= await until(world, run_id, "queued") <= 10 + RETRY_S + 0.02


@pytest.mark.origin("D11", "D33")
async def test_the_first_error_is_kept_while_others_follow_and_cleared_by_its_own_promise_only(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    other, _ = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, other, keep_workspaces=False)
    world.gate.fails()
    world.go(10)
    await world.keep()
    assert {"expire_lease": 1, "settle_cancel": 1} == world.manager.failures
    assert str(world.manager.first_error).startswith("expire_lease")
    await world.later(RETRY_S)

    assert ("queued", "cancelled") == (world.state(run_id), world.state(other))
    assert world.manager.first_error is None


async def test_an_operator_acknowledges_the_first_error_and_the_next_one_is_told_again(world: World) -> None:
    await world.held("w1", ttl=10)
    world.gate.fails(2)
    world.go(10)
    await world.keep()
    world.manager.acknowledge()
    assert world.manager.first_error is None
    await world.later(RETRY_S)

    assert world.manager.first_error is not None


@pytest.mark.origin("A43")
async def test_a_promise_whose_own_code_fails_costs_no_other_and_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    other, _ = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, other, keep_workspaces=False)
    world.manager._policies["lease"] = broken
    await world.later(10)
    assert ("running", "cancelled") == (world.state(run_id), world.state(other))
    assert "ValueError" in str(world.manager.first_error)
    world.manager._policies["lease"] = expire_leases.react
    await world.later(RETRY_S)

    assert "queued" == world.state(run_id)
    assert world.manager.first_error is None


async def test_the_loop_survives_a_step_that_fails_and_clears_its_error_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    monkeypatch.setattr(retry_when_due, "offer_due", broken)
    await running(world)
    await world.passes(5 * RETRY_S)
    assert "process_manager: ValueError" in str(world.manager.first_error)
    assert 5 <= world.manager.failures["process_manager"] <= 6
    monkeypatch.undo()

    assert 10 <= await until(world, run_id, "queued") <= 10 + RETRY_S
    assert world.manager.first_error is None


async def test_a_failing_promise_of_one_run_does_not_stop_the_others(world: World) -> None:
    runs = [(await world.held("w1", ttl=10))[0] for _ in range(5)]
    broken_one = runs[2]
    load = world.desk.journal.streams.load

    def unreadable(stream: str) -> Any:
        if stream == f"effects-{broken_one}":
            raise sqlite3.OperationalError(stream)
        return load(stream)

    world.desk.journal.streams.load = unreadable  # type: ignore[method-assign]
    await world.later(10)
    assert ["queued"] * 4 == [world.state(run_id) for run_id in runs if run_id != broken_one]
    world.desk.journal.streams.load = load  # type: ignore[method-assign]
    await world.later(RETRY_S)

    assert "queued" == world.state(broken_one)


# Bounds


async def test_commands_go_side_by_side_and_never_more_than_the_bound(each_world: World) -> None:
    world = each_world
    runs = [(await world.held("w1", ttl=10))[0] for _ in range(SIDE_BY_SIDE + 20)]
    world.go(10)
    most, acting = 0, 0
    carry_out = world.manager._carry_out

    async def counted(*args: Any) -> None:
        nonlocal most, acting
        acting += 1
        most = max(most, acting)
        await carry_out(*args)
        acting -= 1

    world.manager._carry_out = counted  # type: ignore[method-assign,assignment]
    async with world.gate.closed() as gate:
        keeping = world.start(world.keep())
        await gate.reached()
        await world.settle()
        assert SIDE_BY_SIDE == acting
        assert 1 < world.journal.queued <= SIDE_BY_SIDE
    await keeping

    assert SIDE_BY_SIDE == most
    assert {"queued"} == {world.state(run_id) for run_id in runs}


async def test_one_step_takes_no_more_than_its_batch_and_the_next_takes_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "BATCH", 3)
    for _ in range(5):
        await world.held("w1", ttl=10)
    world.go(10)

    assert [3, 2, 0] == [await world.manager.step() for _ in range(3)]


# At rest


@pytest.mark.origin("D2")
async def test_at_rest_nothing_is_left(each_world: World) -> None:
    world = each_world
    for _ in range(3):
        run_id, fence = await world.held("w1", ttl=10, hold=20)
        await world.output(run_id, fence, 0, "x")
        await world.close(run_id, fence)
    run_id, _ = await world.held("w1", ttl=10, attempts=1)
    await world.later(10)
    assert "aborted" == world.state(run_id)
    await world.later(60)

    assert {} == leftovers(world.desk)
    assert 0 == await world.keep()
    assert LONGEST_SLEEP_S == world.manager.next_in_s(world.clock())


async def test_a_command_that_finds_nothing_to_do_is_not_counted_as_kept(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    world.go(10)
    todo = expire_leases.react(world.desk.live.deadlines.all()[0], scene(world))
    await world.keep()
    assert isinstance(todo, Do)
    assert await todo.command(world.desk) is False

    assert {"expire_lease": 1} == world.manager.counts
    assert 1 == len([fact for fact in world.facts(run_id) if isinstance(fact, AttemptEnded)])


async def test_a_manager_of_its_own_keeps_the_promises_of_its_desk(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    desk: Desk = world.desk
    other = Manager(desk)
    world.go(10)
    await other.step()

    assert "queued" == world.state(run_id)


async def test_a_promise_whose_command_found_nothing_is_kept_while_there_is_something_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    asked: list[bool] = []
    expire = expire_leases.react

    def busy_at_first(due: Any, scene: Any) -> Any:
        do = expire(due, scene)
        if not isinstance(do, Do) or asked:
            return do

        async def nothing(_: Desk) -> int:
            asked.append(True)
            return 0

        return Do(do.name, nothing)

    monkeypatch.setitem(world.manager._policies, "lease", busy_at_first)
    world.go(10)
    await world.manager.step()
    assert ([True], "running") == (asked, world.state(run_id))
    await world.later(RETRY_S)

    assert "queued" == world.state(run_id)
