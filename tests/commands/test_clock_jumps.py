"""Somebody sets the wall clock: no lease, slice, grace, reservation or quarantine ends for it; calendar instants do."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from commands import explaining, steering, workers
from domain.lease import LeaseHeld
from domain.values import Moment
from domain.worker import WorkerInQuarantine
from tests.commands.books import leftovers
from tests.commands.test_claiming_by_id import park
from tests.commands.test_poison import poisoned
from tests.commands.test_reservations import bind, reserved
from tests.commands.world import ADMIN, World, plain, text

HOUR_S = 3_600.0
JUMPS = pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S, -2.0, 2.0])


@JUMPS
@pytest.mark.origin("H3", "K14")
async def test_a_lease_ends_at_its_deadline_and_neither_sooner_nor_later(world: World, jump_s: float) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    world.go(4)
    world.clock.set_wall(jump_s)
    await world.later(5.9)
    assert "running" == world.state(run_id)
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.later(9.9)
    assert "running" == world.state(run_id)
    await world.later(0.1)

    assert "queued" == world.state(run_id)


@JUMPS
@pytest.mark.origin("K14")
async def test_a_live_lease_is_refused_with_what_is_really_left(world: World, jump_s: float) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    await world.worker("w2")
    world.go(4)
    world.clock.set_wall(jump_s)
    refused = await world.refused_or(world.claim_run(run_id, "w2"))

    assert isinstance(refused, LeaseHeld)
    assert 6 == refused.retry_after_s


@JUMPS
@pytest.mark.origin("K14")
async def test_an_expired_lease_is_taken_over_by_id(world: World, jump_s: float) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w2")
    world.go(10)
    world.clock.set_wall(jump_s)

    assert fence + 1 == (await world.claim_run(run_id, "w2"))["fence"]


@JUMPS
@pytest.mark.origin("K14")
async def test_a_slice_ends_when_it_was_held_so_long(world: World, jump_s: float) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=15)
    await world.later(9)
    world.clock.set_wall(jump_s)
    answer = await world.beats("w1", run_id, fence)
    assert ("renewed", 6) == (answer["outcome"], answer["slice_ends_in_s"])
    await world.later(5.9)
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.later(0.1)

    assert "slice_ended" == (await world.beats("w1", run_id, fence))["outcome"]


@JUMPS
@pytest.mark.origin("K14")
async def test_a_reservation_lapses_when_it_was_held_so_long(world: World, jump_s: float) -> None:
    run_id, _ = await reserved(world)
    world.clock.set_wall(jump_s)
    await world.later(119.9)
    assert "reserved" == world.state(run_id)
    await world.later(0.1)

    assert "queued" == world.state(run_id)


@JUMPS
@pytest.mark.origin("K14")
async def test_a_reservation_is_bound_whatever_the_wall_shows(world: World, jump_s: float) -> None:
    _, token = await reserved(world)
    world.go(119)
    world.clock.set_wall(jump_s)

    assert 1 == (await bind(world, token))["fence"]


@JUMPS
async def test_a_reserved_run_is_refused_with_what_is_really_left(world: World, jump_s: float) -> None:
    run_id, _ = await reserved(world)
    await world.worker("w2")
    world.go(90)
    world.clock.set_wall(jump_s)
    refused = await world.refused_or(world.claim_run(run_id, "w2"))
    assert isinstance(refused, LeaseHeld)
    explained = plain(explaining.explain(world.desk, ADMIN, run_id))
    (clock,) = [clock for clock in explained["clocks"] if clock["name"] == "reservation"]
    lapses_at = plain(world.clock().after(30).wall)

    assert 30 == refused.retry_after_s
    assert lapses_at == clock["due_at"] == explained["waiting_for"][0]["details"]["lapses_at"]
    assert "in 30 s" in explained["next"]


@JUMPS
async def test_a_lease_in_the_middle_of_its_slice_is_taken_over_and_one_at_its_end_is_left_to_it(
    world: World, jump_s: float
) -> None:
    middle, _ = await world.held("w1", ttl=10, hold=1800)
    end, _ = await world.held("w1", ttl=10, hold=10)
    await world.worker("w2", slots=2)
    world.go(10)
    world.clock.set_wall(jump_s)

    assert 2 == (await world.claim_run(middle, "w2"))["fence"]
    assert isinstance(await world.refused_or(world.claim_run(end, "w2")), LeaseHeld)
    await world.keep()
    assert "running" == world.state(end)
    assert 0 == (await world.show(end))["failed_attempts"]


@JUMPS
async def test_where_a_slice_ends_is_told_by_the_clock_that_ends_it(world: World, jump_s: float) -> None:
    run_id, _ = await world.held("w1", hold=1800)
    world.go(10)
    world.clock.set_wall(jump_s)
    (told,) = [c for c in explaining.explain(world.desk, ADMIN, run_id)["clocks"] if c["name"] == "slice"]

    assert world.clock().after(1790).wall == told["due_at"]


@JUMPS
@pytest.mark.origin("K14")
async def test_the_grace_of_a_cancel_is_as_long_as_it_was(world: World, jump_s: float) -> None:
    run_id, _ = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    world.clock.set_wall(jump_s)
    await world.later(9.9)
    assert "running" == world.state(run_id)
    await world.later(0.1)

    assert "cancelled" == world.state(run_id)


@JUMPS
@pytest.mark.origin("K14")
async def test_a_quarantine_is_as_long_as_it_was(world: World, jump_s: float) -> None:
    await poisoned(world)
    await world.submit()
    world.clock.set_wall(jump_s)
    await world.later(299.9)
    await world.worker("w1")
    assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
    await world.later(HOUR_S + 2)
    await world.worker("w1")
    (probe,) = await world.claim("w1")
    await world.close(probe["run_id"], probe["fence"])

    assert None is world.desk.worker(ADMIN, "w1").quarantine


@JUMPS
@pytest.mark.origin("K14", "D5")
async def test_a_worker_is_gone_when_it_was_unheard_so_long(world: World, jump_s: float) -> None:
    await world.worker("w1")
    world.clock.set_wall(jump_s)
    await world.later(59.9)
    assert ("default", "w1") in world.desk.live.workers
    await world.later(0.1)

    assert ("default", "w1") not in world.desk.live.workers


@JUMPS
@pytest.mark.origin("K14")
async def test_the_reconnect_window_is_as_long_as_it_was(world: World, jump_s: float) -> None:
    run_id, _ = await world.held("w1", ttl=60)
    await workers.detached(world.desk, ADMIN, "w1")
    world.clock.set_wall(jump_s)
    await world.later(0.9)
    assert "running" == world.state(run_id)
    await world.later(0.1)

    assert "queued" == world.state(run_id)


@JUMPS
@pytest.mark.origin("K14")
async def test_an_answer_reaches_the_holder_whose_kept_lease_is_live(world: World, jump_s: float) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await park(world, run_id, fence, keep=True)
    world.go(5)
    world.clock.set_wall(jump_s)
    await steering.answer(world.desk, ADMIN, run_id, text("yes"))

    assert "running" == world.state(run_id)


@JUMPS
@pytest.mark.parametrize("end", ["answer", "resume"])
async def test_a_wait_that_is_over_queues_its_run_at_once_and_in_front(world: World, jump_s: float, end: str) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await park(world, run_id, fence, "waiting_input" if end == "answer" else "waiting_takeover")
    behind = await world.submit()
    world.clock.set_wall(jump_s)
    if end == "answer":
        await steering.answer(world.desk, ADMIN, run_id, text("yes"))
    else:
        await steering.resume(world.desk, ADMIN, run_id)

    assert run_id == (await world.claimed("w1"))["run_id"]
    assert "queued" == world.state(behind)


@pytest.mark.parametrize("jump_s", [0.0, *JUMPS.args[1]])
async def test_a_run_for_later_that_was_paused_and_resumed_is_still_for_later(world: World, jump_s: float) -> None:
    run_id = await world.submit(run_after=world.clock().wall + timedelta(hours=3))
    await world.worker("w1")
    await steering.pause(world.desk, ADMIN, run_id)
    world.clock.set_wall(jump_s)
    await steering.resume(world.desk, ADMIN, run_id)
    assert [] == await world.claim("w1")
    world.clock.set_wall(3 * HOUR_S - jump_s)

    assert run_id == (await world.claimed("w1"))["run_id"]


# Calendar instants


@pytest.mark.origin("K14", "D32")
async def test_a_run_is_due_by_the_calendar(world: World) -> None:
    run_id = await world.submit(run_after=world.clock().wall + timedelta(hours=1))
    await world.worker("w1")
    world.clock.set_wall(HOUR_S - 1)
    assert [] == await world.claim("w1")
    world.clock.set_wall(1)

    assert run_id == (await world.claimed("w1"))["run_id"]


async def test_a_wall_clock_set_forth_makes_a_backoff_due(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, "failed")
    assert [] == await world.claim("w1")
    world.clock.set_wall(10)

    assert run_id == (await world.claimed("w1"))["run_id"]


@pytest.mark.parametrize("ask", [{}, {"most": 5}, {"reserve": True}])
async def test_a_run_that_was_due_and_is_not_any_more_waits_until_it_is_again(
    world: World, ask: dict[str, Any]
) -> None:
    run_id = await world.submit()
    await world.worker("w1", slots=9)
    world.clock.set_wall(-5)
    for _ in range(3):
        assert [] == await world.claim("w1", **ask)
    await world.later(4.9)
    assert [] == await world.claim("w1", **ask)
    await world.later(0.1)

    assert run_id == (await world.claimed("w1", **ask))["run_id"]


async def test_a_run_that_is_not_due_any_more_does_not_keep_a_due_one_waiting(world: World) -> None:
    late = await world.submit(priority=9)
    world.clock.set_wall(-5)
    early = await world.submit()
    await world.worker("w1", slots=9)

    assert early == (await world.claimed("w1"))["run_id"]
    await world.later(5)
    assert late == (await world.claimed("w1"))["run_id"]


async def test_a_run_that_becomes_due_while_it_is_refused_for_not_being_due_stays_in_its_queue(world: World) -> None:
    await world.worker("w1")
    run_id = await world.submit()
    world.clock.set_wall(-0.001)
    world.desk.clock = world.journal._clock = lambda: _a_moment_later(world)
    assert [] == await world.claim("w1")
    world.desk.clock = world.journal._clock = world.clock
    await world.keep()

    assert run_id == (await world.claimed("w1"))["run_id"]


def _a_moment_later(world: World) -> Moment:
    """Every reading of the clock takes a while, as on a busy machine."""
    now = world.clock()
    world.go(0.0004)
    return now


async def test_a_waiting_claim_is_told_when_a_run_is_due_again(world: World) -> None:
    run_id = await world.submit()
    await world.worker("w1")
    world.clock.set_wall(-5)
    world.start(world.manager.run())

    assert [run_id] == [granted["run_id"] for granted in await world.claim("w1", wait_s=60)]
    assert 1005 == world.clock().mono


async def test_a_waiting_claim_waits_as_long_as_it_was_asked_to(world: World) -> None:
    await world.worker("w1")
    claim = world.start(world.claim("w1", wait_s=10))
    await world.settle()
    world.clock.set_wall(-HOUR_S)
    await claim

    assert 1010 == world.clock().mono


STORIES: dict[str, Callable[[World], Awaitable[Any]]] = {
    "a lease": lambda world: world.held("w1", ttl=10, attempts=1),
    "a reservation": reserved,
    "a worker": lambda world: world.worker("w1"),
}


@JUMPS
@pytest.mark.parametrize("story", STORIES)
async def test_nothing_is_left_over_after_a_jump(world: World, story: str, jump_s: float) -> None:
    await STORIES[story](world)
    world.clock.set_wall(jump_s)
    await world.later(200)
    for run_id in list(world.desk.live.cards):
        await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    await world.later(60)

    assert {} == leftovers(world.desk)


@JUMPS
async def test_why_is_answered_on_both_sides_of_a_jump(world: World, jump_s: float) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    world.clock.set_wall(jump_s)
    assert "running" == explaining.explain(world.desk, ADMIN, run_id)["state"]
    await world.close(run_id, fence)

    assert "succeeded" == explaining.explain(world.desk, ADMIN, run_id)["state"]
