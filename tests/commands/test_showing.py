"""Showing: a run as everybody sees it, with what is not a fact joined in, and why nobody takes it."""

from typing import Any

import pytest

from commands import blocking, explaining, showing, turns, workers
from domain.refusal import RunUnknown
from tests.commands.test_claiming_by_id import park
from tests.commands.test_claiming_by_queue import limited
from tests.commands.test_effects import claim_effect, finish
from tests.commands.test_poison import poisoned
from tests.commands.test_reservations import reserved
from tests.commands.test_turns import admitted, named
from tests.commands.world import ADMIN, World, plain

FIELDS = {
    "run_id", "queue", "name", "tags", "labels", "priority", "run_after", "concurrency_key", "state", "reason",
    "leader_id", "revision", "fence", "attempt", "failed_attempts", "owner", "due_at", "payload", "policy", "question",
    "answers", "partial", "result", "error", "retry_of", "workspaces", "evidence", "submitted_at",
    "settled_at", "position",
}  # fmt: skip


async def test_a_run_is_shown_with_exactly_the_fields_of_the_wire(each_world: World) -> None:
    run_id = await each_world.submit()
    document = await each_world.show(run_id)

    assert set(document) == FIELDS
    assert {"last_renewed_at", "lease_deadline", "last_activity_at", "quiet_since", "unknown_since"} == set(
        document["evidence"]
    )


async def test_a_run_shows_its_open_turns_and_none_that_is_over(world: World) -> None:
    run_id, fence = await world.held("w1")
    over, still = [await admitted(world, run_id, fence) for _ in range(2)]
    await turns.fail(world.desk, ADMIN, named(run_id, fence, over), "gave_up", None)
    (turn,) = (await world.show(run_id))["turns"]

    assert (still, "admitted", None, None) == (turn["turn"], turn["state"], turn["workspace_id"], turn["mark"])


async def test_the_answer_of_a_command_is_what_a_look_shows_but_for_its_position(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.partial(run_id, fence, {"at": 1})
    shown = await world.close(run_id, fence, "failed", error="e")
    document = await world.show(run_id)

    assert shown == {name: value for name, value in document.items() if name != "position"}


async def test_the_position_is_that_of_the_runs_own_last_fact(each_world: World) -> None:
    world = each_world
    run_id = await world.submit()
    await world.submit()
    assert 1 == (await world.show(run_id))["position"]
    await world.worker("w1")
    await world.claim_run(run_id, "w1")

    assert world.journal.position == (await world.show(run_id))["position"]


async def test_the_marks_of_a_held_run_are_shown_and_are_gone_with_its_lease(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    world.go(3)
    await world.beats("w1", run_id, fence)
    world.go(1)
    await world.output(run_id, fence, 0, "x")
    evidence = (await world.show(run_id))["evidence"]
    assert {
        "last_renewed_at": "2026-01-01T12:00:04Z",
        "lease_deadline": "2026-01-01T12:00:14Z",
        "last_activity_at": "2026-01-01T12:00:04Z",
        "quiet_since": "2026-01-01T12:00:04Z",
        "unknown_since": None,
    } == evidence
    await world.close(run_id, fence)

    assert {None} == set((await world.show(run_id))["evidence"].values())


async def test_a_run_that_does_not_exist_is_not_shown(world: World) -> None:
    with pytest.raises(RunUnknown):
        showing.show_run(world.desk, ADMIN, "r0")
    with pytest.raises(RunUnknown):
        showing.show_effects(world.desk, ADMIN, "r0")
    with pytest.raises(RunUnknown):
        explaining.explain(world.desk, ADMIN, "r0")


async def test_effects_are_shown_in_the_order_in_which_they_were_claimed(world: World) -> None:
    run_id, fence = await world.held("w1")
    for key in "cab":
        await claim_effect(world, (run_id, fence), key)
    await finish(world, run_id, fence, "a", 7)

    assert [("c", "intended", None), ("a", "completed", 7), ("b", "intended", None)] == [
        (effect["key"], effect["state"], effect["outcome"])
        for effect in plain(showing.show_effects(world.desk, ADMIN, run_id))
    ]


async def test_nothing_is_visible_before_it_is_durable(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    before = await world.show(run_id)
    async with world.gate.closed() as gate:
        doing = [
            world.start(world.output(run_id, fence, 0, "x")),
            world.start(world.close(run_id, fence, result=1)),
            world.start(world.submit()),
        ]
        await gate.reached()
        await world.settle()
        assert before == await world.show(run_id)
        assert [run_id] == list(world.desk.live.cards)
        assert [] == world.journal.feed.after(world.journal.position)
    for one in doing:
        await one

    assert "succeeded" == world.state(run_id)


# Why nobody takes it


def blocked(world: World, run_id: str) -> Any:
    """What stands in the way of a queued run, in words; nobody asks for anything here, so that is left out."""
    found = blocking.blocks(world.desk, world.desk.standing(ADMIN, run_id), world.clock(), ADMIN)
    return next((block.because for block in found if block.code != "nobody_asks"), None)


async def test_without_a_worker_that_is_what_is_missing(world: World) -> None:
    assert "no worker is registered" == blocked(world, await world.submit())


async def test_missing_labels_are_named(world: World) -> None:
    await world.worker("w1", zone="x")

    assert "no registered worker has the labels gpu=yes: worker 'w1' lacks gpu=yes" == blocked(
        world, await world.submit(labels={"gpu": "yes"})
    )


@pytest.mark.parametrize("how", ["draining", "quarantined"])
async def test_workers_that_take_nothing_are_told(world: World, how: str) -> None:
    if how == "draining":
        await world.worker("w1")
        await workers.drain_worker(world.desk, ADMIN, "w1")
    else:
        await poisoned(world)

    told = blocked(world, await world.submit())
    assert told.startswith(f"every worker that has its labels is draining or quarantined; worker 'w1' is {how} ")


async def test_used_up_slots_are_told(world: World) -> None:
    await world.held("w1")
    await world.worker("w1", slots=1)

    assert "every worker that has its labels has all its slots in use" == blocked(world, await world.submit())


async def test_a_limit_that_is_used_up_is_told(world: World) -> None:
    held, _ = await world.held("w1", concurrency_key="k")
    has_it = f"; run {held!r} has one, with worker 'w1'"
    same = await world.submit(concurrency_key="k")
    assert f"concurrency key 'k' has reached its limit of 1 lease in queue 'default'{has_it}" == blocked(world, same)
    other = await world.submit()
    await limited(world, most=1)
    assert f"queue 'default' has reached its limit of 1 lease{has_it}" == blocked(world, other)
    await limited(world)
    world.desk.live.limits.tenant_max = 1
    assert "tenant 'default' has reached its limit of 1 lease" == blocked(world, other)


async def test_runs_that_come_before_are_counted(world: World) -> None:
    await world.worker("w1")
    await world.submit(priority=1)
    first = await world.submit()
    second = await world.submit()

    assert ("1 run of its queue comes before it", "2 runs of its queue come before it") == (
        blocked(world, first), blocked(world, second),
    )  # fmt: skip


async def test_a_run_that_nothing_is_in_the_way_of_or_that_is_not_waiting_says_nothing(world: World) -> None:
    await world.worker("w1", slots=9)
    free = await world.submit()
    assert None is blocked(world, free)
    await world.claimed("w1")
    assert None is blocked(world, free)
    set_aside, _ = await reserved(world)
    assert "worker 'w1' has reserved it" == blocked(world, set_aside)
    parked, fence = await world.held("w1")
    await park(world, parked, fence)
    assert None is blocked(world, parked)
    later = await world.submit(run_after=world.clock().after(60).wall)

    assert "it is not due yet" == blocked(world, later)


@pytest.mark.origin("H17")
async def test_an_explanation_names_the_state_the_facts_the_fence_and_what_comes_next(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    told = plain(explaining.explain(world.desk, ADMIN, run_id))

    assert ("queued", fence) == (told["state"], told["fence"])
    assert "lease.expired.v1" in [fact["topic"] for fact in told["because"]]
    assert told["next"]
