"""Cancelling: asked of the holder first, settled when its grace is over, and told to whoever still acts."""

from typing import Any

import pytest

from commands import ending, steering
from domain.lease import FenceLost
from domain.run import SettledOtherwise, WrongState
from domain.run_facts import RunSettled
from tests.commands.books import leftovers
from tests.commands.ground import ground, standing
from tests.commands.test_claiming_by_id import park
from tests.commands.world import ADMIN, World, leader, plain, text, worker_key


async def cancel(world: World, run_id: str, *, keep: bool = False) -> dict[str, Any]:
    """The run after somebody wanted it cancelled."""
    return dict(plain((await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=keep)).answer))


async def report(world: World, run_id: str, fence: int, said: Any = "saved", caller: Any = ADMIN) -> None:
    """A worker that had to stop tells whether it saved."""
    await ending.stop_report(world.desk, caller, run_id, fence, said)


@pytest.mark.origin("A21")
async def test_a_run_that_nobody_holds_is_cancelled_at_once(each_world: World) -> None:
    world = each_world
    run_id = await world.submit()
    shown = await cancel(world, run_id)

    assert ("cancelled", "cancelled", 1) == (shown["state"], shown["reason"], shown["fence"])
    assert ["RunSubmitted", "CancelRequested", "RunSettled", "LeaseRevoked"] == world.names(run_id)
    assert {} == leftovers(world.desk)


@pytest.mark.origin("A22", "D27", "K10", "A21")
async def test_a_holder_has_its_grace_and_is_then_revoked_by_a_higher_fence(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.partial(run_id, fence, "half")
    assert "running" == (await cancel(world, run_id))["state"]
    await world.later(9.999)
    assert "running" == world.state(run_id)
    await world.later(0.001)
    document = await world.show(run_id)

    assert ("cancelled", fence + 1, "half") == (document["state"], document["fence"], document["result"])
    answer = await world.beats("w1", run_id, fence)
    assert ("lost", "cancelled", fence + 1) == (answer["outcome"], answer["reason"], answer["current"])
    assert isinstance(await world.refused_or(world.output(run_id, fence, 0, "late")), FenceLost)
    assert isinstance(await world.refused_or(world.close(run_id, fence)), FenceLost)


async def test_a_success_within_the_grace_stands(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await cancel(world, run_id)
    world.go(9)
    assert "succeeded" == (await world.close(run_id, fence, result=1))["state"]
    await world.later(60)

    assert "succeeded" == world.state(run_id)
    assert {} == leftovers(world.desk)


@pytest.mark.parametrize("end", ["failed", "hand_back", "park", "expire"])
async def test_anything_else_within_the_grace_settles_it_cancelled(each_world: World, end: str) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=5)
    await cancel(world, run_id)
    if end == "failed":
        await world.close(run_id, fence, "failed", error="e")
    elif end == "hand_back":
        await ending.hand_back(world.desk, ADMIN, run_id, fence)
    elif end == "park":
        await park(world, run_id, fence)
    else:
        await world.later(5)

    assert "cancelled" == world.state(run_id)
    settled = next(fact for fact in world.facts(run_id) if isinstance(fact, RunSettled))
    assert 2 == len(settled.cites)


async def test_a_judged_run_whose_success_came_within_the_grace_waits_for_its_verdict(world: World) -> None:
    run_id, fence = await world.held("w1", judge="leader", leader_id="ada")
    await cancel(world, run_id)
    await world.close(run_id, fence)
    await world.later(59)

    assert "waiting_verdict" == world.state(run_id)
    assert "cancelled" == (await cancel(world, run_id))["state"]


async def test_a_second_cancel_adds_nothing_and_does_not_lengthen_the_grace(world: World) -> None:
    run_id, _ = await world.held("w1")
    await cancel(world, run_id)
    world.go(9)
    await cancel(world, run_id)
    await world.later(1)

    assert "cancelled" == world.state(run_id)
    assert 1 == world.names(run_id).count("CancelRequested")
    assert "cancelled" == (await cancel(world, run_id))["state"]


@pytest.mark.origin("R6", "A22")
async def test_a_run_that_ended_otherwise_is_not_cancelled(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence)
    refused = await world.refused_or(cancel(world, run_id))

    assert isinstance(refused, SettledOtherwise)
    assert "succeeded" == refused.state


@pytest.mark.origin("R6", "A22", "D34b")
async def test_a_close_that_meets_the_end_of_the_grace_is_one_of_the_two(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await cancel(world, run_id)
    world.go(10)
    async with world.gate.closed() as gate:
        doing = world.start(world.close(run_id, fence))
        await gate.reached()
        keeping = world.start(world.keep())
        await world.settle()
    await doing
    await keeping

    assert "succeeded" == world.state(run_id)
    assert 0 == world.names(run_id).count("RunSettled")


@pytest.mark.origin("D27", "R22", "K10")
async def test_a_settlement_that_fails_revokes_nothing_and_is_tried_again(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await cancel(world, run_id)
    world.go(10)
    world.gate.fails()
    await world.keep()

    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    assert "settle_cancel" in str(world.manager.first_error)
    await world.later(1)
    assert "cancelled" == world.state(run_id)
    assert world.manager.first_error is None


async def test_a_parked_run_with_a_kept_lease_is_asked_and_without_one_is_settled(world: World) -> None:
    kept, first = await world.held("w1")
    given_up, second = await world.held("w1")
    await park(world, kept, first, keep=True)
    await park(world, given_up, second)

    assert "waiting_input" == (await cancel(world, kept))["state"]
    assert "cancelled" == (await cancel(world, given_up))["state"]
    await world.later(10)
    assert "cancelled" == world.state(kept)


async def test_an_answer_that_comes_too_late_does_not_reopen_a_cancelled_run(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=5)
    await park(world, run_id, fence, keep=True)
    await cancel(world, run_id)
    world.go(5)
    late = await world.refused_or(steering.answer(world.desk, ADMIN, run_id, text("yes")))

    assert isinstance(late, SettledOtherwise)
    assert "cancelled" == world.state(run_id)


# Stop reports


@pytest.mark.origin("D27", "H9")
async def test_one_report_under_a_revoked_fence_is_accepted_and_moves_nothing(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await cancel(world, run_id)
    await world.later(10)
    before = await world.show(run_id)
    await report(world, run_id, fence, "saved", worker_key("w1"))
    await report(world, run_id, fence, "ignored", worker_key("w1"))
    after = await world.show(run_id)

    assert 1 == world.names(run_id).count("StopReported")
    assert {**before, "position": before["position"] + 1} == after


async def test_a_report_of_somebody_else_or_under_another_fence_is_refused(world: World) -> None:
    run_id, fence = await world.held("w1")
    assert isinstance(await world.refused_or(report(world, run_id, fence)), FenceLost)
    await cancel(world, run_id)
    await world.later(10)

    assert isinstance(await world.refused_or(report(world, run_id, fence, caller=worker_key("w2"))), FenceLost)
    assert isinstance(await world.refused_or(report(world, run_id, fence + 1)), FenceLost)


async def test_a_plain_expiry_is_no_revocation_to_report_on(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)

    assert isinstance(await world.refused_or(report(world, run_id, fence)), FenceLost)


# Verdicts


@pytest.mark.origin("A34")
async def test_a_verdict_is_for_a_run_whose_worker_has_closed(world: World) -> None:
    run_id, fence = await world.held("w1", judge="leader", leader_id="ada")
    judge = steering.verdict(world.desk, leader("ada"), run_id, "failed", text(None))
    assert isinstance(await world.refused_or(judge), WrongState)
    await world.partial(run_id, fence, "half")
    await world.close(run_id, fence)
    shown = plain((await steering.verdict(world.desk, leader("ada"), run_id, "failed", text(None))).answer)

    assert ("failed", "half", "verdict") == (shown["state"], shown["result"], shown["reason"])


async def test_a_second_cancel_that_keeps_the_workspaces_keeps_them_while_the_grace_lasts(each_world: World) -> None:
    world = each_world
    run_id, _, workspace_id = await standing(world, ttl=3600)
    await cancel(world, run_id)
    world.go(1)
    await cancel(world, run_id, keep=True)
    await cancel(world, run_id, keep=True)
    await cancel(world, run_id)
    await world.later(world.desk.timers.cancel_grace_s - 1.001)
    assert ("running", 2) == (world.state(run_id), world.names(run_id).count("CancelRequested"))
    await world.later(0.001)

    assert "cancelled" == world.state(run_id)
    assert not ground(world, workspace_id).awaits_teardown


async def test_a_cancel_that_keeps_the_workspaces_comes_too_late_once_they_are_let_go(world: World) -> None:
    run_id = await world.submit()
    await cancel(world, run_id)
    asked = steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=True)

    assert isinstance(await world.refused_or(asked), SettledOtherwise)
    assert "cancelled" == (await cancel(world, run_id))["state"]
