"""The effect ledger through its commands: what stops a resumed run from repeating what its predecessor began."""

from typing import Any

import pytest

from commands import effects, ending, showing
from commands.desk import Caller, NotAllowed
from domain.effects import EffectFrozen, EffectNotAmbiguous, EffectUnknown
from domain.handing import Park
from domain.lease import FenceLost
from domain.run import WrongState
from tests.commands.world import ADMIN, World, command, leader, plain, text, worker_key


async def claim_effect(
    world: World, held: tuple[str, int | None], key: str, payload: object = None, caller: Caller = ADMIN
) -> dict[str, Any]:
    """What the ledger says to a worker that is about to do this."""
    run_id, fence = held
    done = await effects.claim_effect(world.desk, caller, run_id, fence, (key, text(payload)))
    return dict(plain(done.answer))


async def finish(world: World, run_id: str, fence: int | None, key: str, outcome: object = None) -> None:
    """It happened."""
    await effects.finish_effect(world.desk, ADMIN, run_id, fence, (key, "completed", text(outcome)))


async def fail(world: World, run_id: str, fence: int | None, key: str) -> None:
    """It did not happen."""
    await effects.finish_effect(world.desk, ADMIN, run_id, fence, (key, "failed", text("no")))


async def reconcile(
    world: World, held: tuple[str, int | None], key: str, resolution: Any, caller: Caller = ADMIN
) -> None:
    """Somebody found out."""
    run_id, fence = held
    await effects.reconcile_effect(world.desk, caller, run_id, fence, (key, resolution, text("found")))


def states(world: World, run_id: str) -> dict[str, str]:
    """Every effect of the run and how far it is known to have come."""
    return {effect["key"]: effect["state"] for effect in showing.show_effects(world.desk, ADMIN, run_id)}


@pytest.mark.origin("B25")
async def test_the_four_answers_of_the_ledger(each_world: World) -> None:
    world = each_world
    held = await world.held("w1")

    assert {"answer": "claimed", "outcome": None} == await claim_effect(world, held, "k", {"a": 1, "b": 2})
    assert "ambiguous" == (await claim_effect(world, held, "k", {"b": 2, "a": 1}))["answer"]
    assert "mismatch" == (await claim_effect(world, held, "k", {"a": 2}))["answer"]
    await finish(world, *held, "k", "sent")
    assert {"answer": "existing", "outcome": "sent"} == await claim_effect(world, held, "k", {"a": 1, "b": 2})


@pytest.mark.origin("B25", "R9")
async def test_only_what_did_not_happen_may_be_claimed_again(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await claim_effect(world, (run_id, fence), "k")
    await fail(world, run_id, fence, "k")

    assert "claimed" == (await claim_effect(world, (run_id, fence), "k"))["answer"]


async def test_the_repeated_claim_of_an_effect_is_claimed_again_and_recorded_once(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    first = await claim_effect(world, (run_id, fence), "k", caller=command("c"))
    again = await claim_effect(world, (run_id, fence), "k", caller=command("c"))

    assert {"answer": "claimed", "outcome": None} == first == again
    assert 1 == world.names(run_id).count("EffectIntended")


@pytest.mark.origin("B21", "B26", "R9")
async def test_what_a_dead_attempt_had_begun_is_ambiguous_for_the_next_until_it_is_reconciled(
    each_world: World,
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await claim_effect(world, (run_id, fence), "begun")
    await claim_effect(world, (run_id, fence), "done")
    await finish(world, run_id, fence, "done", 7)
    await world.later(10)
    await world.worker("w2")
    claim = await world.claimed("w2")

    assert [("begun", "ambiguous"), ("done", "completed")] == [(e["key"], e["state"]) for e in claim["effects"]]
    assert "ambiguous" == (await claim_effect(world, (run_id, 2), "begun"))["answer"]
    assert {"answer": "existing", "outcome": 7} == await claim_effect(world, (run_id, 2), "done")
    await reconcile(world, (run_id, 2), "begun", "not_done")
    assert "claimed" == (await claim_effect(world, (run_id, 2), "begun"))["answer"]


@pytest.mark.origin("D43", "D44", "R8")
async def test_a_zombie_may_neither_begin_nor_finish_nor_reconcile(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await claim_effect(world, (run_id, fence), "k")
    await world.later(10)
    await world.worker("w2")
    await world.claimed("w2")
    position = world.journal.position

    for write in (
        claim_effect(world, (run_id, fence), "other"),
        finish(world, run_id, fence, "k"),
        fail(world, run_id, fence, "k"),
        reconcile(world, (run_id, fence), "k", "done"),
    ):
        assert isinstance(await world.refused_or(write), FenceLost)
    assert position == world.journal.position


async def test_a_late_holder_may_finish_and_reconcile_what_it_began_until_somebody_is_granted(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    for key in "abc":
        await claim_effect(world, (run_id, fence), key)
    await world.later(10)
    await finish(world, run_id, fence, "a")
    await fail(world, run_id, fence, "b")
    await reconcile(world, (run_id, fence), "c", "done", caller=worker_key("w1"))

    assert {"a": "completed", "b": "failed", "c": "reconciled"} == states(world, run_id)
    assert isinstance(await world.refused_or(claim_effect(world, (run_id, fence), "d")), FenceLost)


async def test_while_parked_effects_may_be_finished_and_not_begun(world: World) -> None:
    run_id, fence = await world.held("w1")
    await claim_effect(world, (run_id, fence), "k")
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=True))

    assert isinstance(await world.refused_or(claim_effect(world, (run_id, fence), "other")), WrongState)
    await finish(world, run_id, fence, "k")
    assert {"k": "completed"} == states(world, run_id)


@pytest.mark.origin("B21")
async def test_a_success_leaves_no_effect_intended(world: World) -> None:
    run_id, fence = await world.held("w1")
    await claim_effect(world, (run_id, fence), "k")
    await world.close(run_id, fence)

    assert {"k": "ambiguous"} == states(world, run_id)


async def test_after_the_end_the_leader_and_an_operator_still_reconcile(world: World) -> None:
    run_id, fence = await world.held("w1", leader_id="ada")
    await claim_effect(world, (run_id, fence), "a")
    await claim_effect(world, (run_id, fence), "b")
    await world.close(run_id, fence)
    await reconcile(world, (run_id, None), "a", "done", caller=leader("ada"))
    await reconcile(world, (run_id, None), "b", "not_done", caller=Caller(principal="op", role="operator"))

    assert {"a": "reconciled", "b": "reconciled"} == states(world, run_id)
    assert "succeeded" == world.state(run_id)


@pytest.mark.parametrize(
    "caller", [leader("bob"), Caller(principal="r", role="reader")], ids=["another leader", "a reader"]
)
async def test_nobody_else_reconciles(world: World, caller: Caller) -> None:
    run_id, fence = await world.held("w1", leader_id="ada")
    await claim_effect(world, (run_id, fence), "k")
    await world.close(run_id, fence)

    assert isinstance(await world.refused_or(reconcile(world, (run_id, None), "k", "done", caller=caller)), NotAllowed)
    assert {"k": "ambiguous"} == states(world, run_id)


async def test_a_leaders_reconciling_is_no_sign_of_life_of_the_holder(world: World) -> None:
    first, fence = await world.held("w1", ttl=10, leader_id="ada")
    await claim_effect(world, (first, fence), "k")
    await world.later(10)
    await world.claimed("w1")
    active = (await world.show(first))["evidence"]
    world.go(9)
    await reconcile(world, (first, None), "k", "done", caller=leader("ada"))

    assert active == (await world.show(first))["evidence"]
    await world.later(1)
    assert "queued" == world.state(first)
    assert {} == world.desk.unfenced


async def test_an_effect_that_is_intended_or_settled_is_not_reconciled(world: World) -> None:
    run_id, fence = await world.held("w1")
    await claim_effect(world, (run_id, fence), "k")
    assert isinstance(await world.refused_or(reconcile(world, (run_id, None), "k", "done")), EffectNotAmbiguous)
    await finish(world, run_id, fence, "k")

    assert isinstance(await world.refused_or(reconcile(world, (run_id, None), "k", "done")), EffectFrozen)
    assert isinstance(await world.refused_or(reconcile(world, (run_id, None), "x", "done")), EffectUnknown)
    assert isinstance(await world.refused_or(finish(world, run_id, fence, "x")), EffectUnknown)


async def test_an_effect_write_renews_the_lease_and_counts_as_activity(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(9)
    await claim_effect(world, (run_id, fence), "k")
    await world.later(9)

    assert "running" == world.state(run_id)
    assert "2026-01-01T12:00:09Z" == (await world.show(run_id))["evidence"]["last_activity_at"]


@pytest.mark.origin("R9", "D34b")
async def test_an_effect_that_is_claimed_as_its_lease_is_taken_over_is_never_claimed_for_both(
    each_world: World,
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w2")
    world.go(10)
    async with world.gate.closed() as gate:
        taking_over = world.start(world.claim_run(run_id, "w2"))
        await gate.reached()
        claiming = world.start(claim_effect(world, (run_id, fence), "k"))
        await world.settle()
    await taking_over

    assert isinstance(await world.refused_or(claiming), FenceLost)
    assert {} == states(world, run_id)


@pytest.mark.origin("R9", "B26")
async def test_an_effect_whose_claim_came_before_the_take_over_is_ambiguous_to_the_next(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w2")
    world.go(10)
    async with world.gate.closed() as gate:
        claiming = world.start(claim_effect(world, (run_id, fence), "k"))
        await gate.reached()
        taking_over = world.start(world.claim_run(run_id, "w2"))
        await world.settle()

    assert "claimed" == (await claiming)["answer"]
    assert [("k", "ambiguous")] == [(e["key"], e["state"]) for e in (await taking_over)["effects"]]


async def test_a_holders_reconciling_is_a_sign_of_life_and_is_counted_without_a_fence(world: World) -> None:
    world.desk.fence_required = "off"
    run_id, fence = await world.held("w1", ttl=10)
    await claim_effect(world, (run_id, fence), "k")
    await world.later(10)
    await world.claimed("w1")
    await world.later(9)
    await reconcile(world, (run_id, None), "k", "done", worker_key("w1"))
    await world.later(9)

    assert "running" == world.state(run_id)
    assert {"effects": 1} == world.desk.unfenced
