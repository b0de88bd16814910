"""Closing: how an attempt ends by its holder, one run at a time or many in one append."""

from typing import Any

import pytest

from commands import ending, steering, workers
from domain.lease import FenceLost
from domain.refusal import InvalidCommand, RunUnknown
from domain.run_facts import PartialSalvaged, RunClosed
from tests.commands.books import leftovers
from tests.commands.world import ADMIN, World, closing, command, leader, plain, text, worker_key


async def close_many(world: World, *closings: ending.CloseOf, caller: Any = ADMIN) -> list[dict[str, Any]]:
    """The answers to many closes in one append."""
    return list(plain((await ending.close_many(world.desk, caller, closings)).answer)["closes"])


@pytest.mark.origin("B10", "A34", "K8", "A35")
async def test_a_success_settles_the_run_and_frees_its_slot_in_one_append(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    shown = await world.close(run_id, fence, result={"ok": True})

    assert ("succeeded", {"ok": True}, None, fence, "closed") == tuple(
        shown[name] for name in ("state", "result", "owner", "fence", "reason")
    )
    assert ["RunClosed", "LeaseReleased"] == world.names(run_id)[-2:]
    assert 0 == world.desk.live.limits.total()
    assert (await world.show(run_id))["settled_at"]


@pytest.mark.origin("A35", "D22")
async def test_a_slot_is_free_only_once_the_close_is_durable(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.worker("w1", slots=1)
    await world.submit()
    async with world.gate.closed() as gate:
        doing = world.start(world.close(run_id, fence))
        await gate.reached()
        assert "running" == world.state(run_id)
        assert [] == await world.claim("w1")
    await doing

    assert 1 == len(await world.claim("w1"))


@pytest.mark.origin("D24", "D32", "D31")
async def test_a_failure_is_retried_with_a_doubling_backoff_until_the_attempts_are_spent(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", attempts=4, retry_base_s=10, retry_cap_s=25)
    waits: list[float] = []
    for _ in range(3):
        began = world.clock().wall
        await world.close(run_id, fence, "failed", error="no")
        due_at = world.desk.live.cards[run_id].due_at
        waits.append((due_at - began).total_seconds())
        await world.later(waits[-1] - 0.001)
        assert [] == await world.claim("w1")
        await world.later(0.001)
        fence = (await world.claimed("w1"))["fence"]
    shown = await world.close(run_id, fence, "failed", error="no")

    assert [10, 20, 25] == waits
    assert ("failed", 4, "no") == (shown["state"], shown["failed_attempts"], shown["error"])


async def test_a_failure_that_is_not_retryable_ends_the_run_and_salvages_the_partial(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.partial(run_id, fence, {"at": 9})
    shown = await world.close(run_id, fence, "failed", error={"code": "e"}, retryable=False)

    assert ("failed", {"at": 9}, {"code": "e"}) == (shown["state"], shown["result"], shown["error"])
    assert ["PartialSalvaged", "RunClosed", "LeaseReleased"] == world.names(run_id)[-3:]


@pytest.mark.origin("A4", "A33")
async def test_a_process_that_ended_nobody_knows_how_loses_its_run_once_nobody_tries_again(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", attempts=2)
    await world.partial(run_id, fence, "half")
    assert "queued" == (await world.close(run_id, fence, "failed", error={"code": "exit_unknown"}))["state"]
    await world.later(10)
    fence = (await world.claimed("w1"))["fence"]
    shown = await world.close(run_id, fence, "failed", error={"code": "exit_unknown"})
    await workers.leave_worker(world.desk, ADMIN, "w1")

    assert ("lost", "exit_unknown", "half", fence + 1) == tuple(
        shown[name] for name in ("state", "reason", "result", "fence")
    )
    assert {} == leftovers(world.desk)


@pytest.mark.origin("A34", "K8", "B13")
async def test_with_the_leader_as_judge_a_success_waits_for_its_verdict(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", judge="leader", leader_id="ada")
    assert "waiting_verdict" == (await world.close(run_id, fence, result=1))["state"]
    shown = plain((await steering.verdict(world.desk, leader("ada"), run_id, "succeeded", text(2))).answer)

    assert ("succeeded", 2, fence + 1) == (shown["state"], shown["result"], shown["fence"])
    assert {"deadlines": 1, "evidence of workers": 1} == leftovers(world.desk)


async def test_an_identical_close_again_is_success_and_no_fact(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, result=1)
    before = world.journal.position

    assert "succeeded" == (await world.close(run_id, fence, result=1))["state"]
    assert before == world.journal.position
    refused = await world.refused_or(world.close(run_id, fence, result=2))
    assert isinstance(refused, FenceLost)
    assert ("closed", None) == (refused.reason, refused.holder)


@pytest.mark.origin("R8", "D20", "D21", "B33")
async def test_a_zombies_close_is_refused_leaves_no_history_and_no_retry(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    await world.worker("w2")
    await world.claimed("w2")
    before = world.journal.position
    refused = await world.refused_or(world.close(run_id, fence, "failed", error="ssh_timeout"))

    assert isinstance(refused, FenceLost)
    assert (1, 2, "w2", "lease_expired") == (refused.presented, refused.current, refused.holder, refused.reason)
    assert (before, "running") == (world.journal.position, world.state(run_id))
    assert None is world.desk.worker(ADMIN, "w1").quarantine


@pytest.mark.origin("D48")
async def test_a_late_close_replaces_the_expiry_and_counts_nothing_again(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    assert 1 == (await world.show(run_id))["failed_attempts"]
    shown = await world.close(run_id, fence, "failed")

    assert ("queued", 1) == (shown["state"], shown["failed_attempts"])
    await world.later(10)
    assert 2 == (await world.claimed("w1"))["fence"]


async def test_a_late_success_ends_a_run_that_is_queued_again(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    assert "succeeded" == (await world.close(run_id, fence, result="late", caller=worker_key("w1")))["state"]

    assert [] == await world.claim("w1")
    assert 0 == world.desk.live.ready.depth(("default", "default"))
    assert next(f.late for f in world.facts(run_id) if isinstance(f, RunClosed))


async def test_a_late_close_is_of_the_late_holder_only(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)

    assert isinstance(await world.refused_or(world.close(run_id, fence, caller=worker_key("w2"))), FenceLost)


async def test_a_late_close_after_a_reservation_is_refused(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    await world.claimed("w1", reserve=True)

    assert isinstance(await world.refused_or(world.close(run_id, fence)), FenceLost)


@pytest.mark.origin("R7", "R8", "D34b")
@pytest.mark.parametrize("close_first", [True, False])
async def test_a_late_close_and_the_next_claim_in_one_moment_are_one_of_the_two(
    each_world: World, *, close_first: bool
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    await world.worker("w2")
    async with world.gate.closed() as gate:
        if close_first:
            first: Any = world.start(world.close(run_id, fence))
            await gate.reached()
            second: Any = world.start(world.claim("w2"))
        else:
            first = world.start(world.claim("w2"))
            await gate.reached()
            second = world.start(world.close(run_id, fence))
        await world.settle()
    await first
    found = await world.refused_or(second)

    if close_first:
        assert ("succeeded", []) == (world.state(run_id), found)
        assert 0 == world.desk.live.limits.total()
    else:
        assert isinstance(found, FenceLost)
        assert "running" == world.state(run_id)


# Many at once


async def test_many_closes_are_one_append_and_each_has_its_own_answer(each_world: World) -> None:
    world = each_world
    held = [await world.held("w1") for _ in range(4)]
    await world.close(*held[3])
    before = world.journal.position
    answers = await close_many(
        world,
        closing(*held[0]),
        closing(held[1][0], 9),
        closing(held[2][0], 1, "failed"),
        closing(*held[3]),
        closing("r0", 1),
    )

    assert [("succeeded", 1, None), ("queued", 1, "2026-01-01T12:00:10Z"), ("succeeded", 1, None)] == [
        (answer["state"], answer["fence"], answer["due_at"]) for answer in (answers[0], answers[2], answers[3])
    ]
    assert ("fence_lost", 9, 1, "w1") == tuple(answers[1][name] for name in ("code", "presented", "current", "holder"))
    assert ("run_unknown", "r0") == (answers[4]["code"], answers[4]["run_id"])
    assert before + 4 == world.journal.position
    assert 1 == world.desk.live.limits.total()


@pytest.mark.parametrize("count", [0, ending.CLOSES_MAX + 1])
async def test_a_batch_of_closes_has_bounds(world: World, count: int) -> None:
    batch = [closing(f"r{number}", 1) for number in range(count)]

    assert isinstance(await world.refused_or(close_many(world, *batch)), InvalidCommand)


async def test_a_batch_at_its_bound_is_answered(world: World) -> None:
    batch = [closing(f"r{number}", 1) for number in range(ending.CLOSES_MAX)]

    assert ["run_unknown"] * ending.CLOSES_MAX == [answer["code"] for answer in await close_many(world, *batch)]


async def test_a_run_is_named_once_in_a_batch(world: World) -> None:
    run_id, fence = await world.held("w1")
    refused = await world.refused_or(close_many(world, closing(run_id, fence), closing(run_id, fence)))

    assert isinstance(refused, InvalidCommand)
    assert (run_id, "running") == (refused.value, world.state(run_id))


async def test_a_batch_is_answered_as_the_first_time_when_it_is_repeated(each_world: World) -> None:
    world = each_world
    held = [await world.held("w1") for _ in range(2)]
    batch = [closing(*held[0]), closing(held[1][0], 7)]
    first = await close_many(world, *batch, caller=command("c"))
    again = await close_many(world, *batch, caller=command("c"))

    assert first == again
    assert 1 == world.names(held[0][0]).count("RunClosed")


async def test_closing_a_run_that_does_not_exist_is_refused(world: World) -> None:
    assert isinstance(await world.refused_or(world.close("r0", 1)), RunUnknown)


async def test_a_result_of_a_success_is_not_replaced_by_the_partial(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.partial(run_id, fence, "half")
    shown = await world.close(run_id, fence, result="whole")

    assert "whole" == shown["result"]
    assert [] == [fact for fact in world.facts(run_id) if isinstance(fact, PartialSalvaged)]


async def test_a_close_that_now_forbids_the_retry_is_no_repeat_of_one_that_was_retried(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, "failed", error="x")
    await world.close(run_id, fence, "failed", error="x")
    otherwise = world.close(run_id, fence, "failed", error="x", retryable=False)

    assert isinstance(await world.refused_or(otherwise), FenceLost)
    assert "queued" == world.state(run_id)
