"""Principals: a leader steers its runs, a worker acts as itself, and whoever may not is told who may."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from commands import claims, ending, holding, showing, steering, submitting, workers
from commands.desk import Caller, NotAllowed, system_caller
from domain.lease import FenceLost
from domain.refusal import InvalidCommand, RunUnknown
from tests.commands.test_claiming_by_id import park
from tests.commands.test_effects import claim_effect
from tests.commands.world import ADMIN, World, leader, text, wished, worker_key

READER = Caller(principal="r", role="reader")
OPERATOR = Caller(principal="op", role="operator")
ADA, BOB = leader("ada"), leader("bob")

Steer = Callable[[World, Caller, str], Awaitable[Any]]

STEERING: dict[str, Steer] = {
    "answer": lambda world, caller, run: steering.answer(world.desk, caller, run, text("yes")),
    "resume": lambda world, caller, run: steering.resume(world.desk, caller, run),
    "pause": lambda world, caller, run: steering.pause(world.desk, caller, run),
    "cancel": lambda world, caller, run: steering.cancel(world.desk, caller, run, keep_workspaces=False),
    "verdict": lambda world, caller, run: steering.verdict(world.desk, caller, run, "succeeded", text(None)),
    "retry": lambda world, caller, run: submitting.retry(world.desk, caller, run),
}


async def steerable(world: World, action: str) -> str:
    """A run of ada's that may be steered in this way."""
    run_id, fence = await world.held("w1", leader_id="ada", judge="leader" if action == "verdict" else "worker")
    if action == "answer":
        await park(world, run_id, fence)
    if action == "resume":
        await park(world, run_id, fence, "waiting_takeover")
    if action == "verdict":
        await world.close(run_id, fence)
    return run_id


@pytest.mark.parametrize("action", STEERING)
@pytest.mark.parametrize(
    "caller", [BOB, READER, worker_key("w1"), leader()], ids=["bob", "reader", "worker", "leader of nobody"]
)
@pytest.mark.origin("A39", "A25")
async def test_nobody_but_its_leader_or_above_steers_a_run(world: World, action: str, caller: Caller) -> None:
    run_id = await steerable(world, action)
    before = world.journal.position
    refused = await world.refused_or(STEERING[action](world, caller, run_id))

    assert isinstance(refused, NotAllowed)
    assert (caller.principal, "leader 'ada' or an operator") == (refused.principal, refused.allowed)
    assert before == world.journal.position


@pytest.mark.parametrize("action", STEERING)
@pytest.mark.parametrize("caller", [ADA, leader("bob", "ada"), OPERATOR, ADMIN, Caller(principal="any", role="leader")])
@pytest.mark.origin("A39")
async def test_its_leader_an_operator_and_an_administrator_steer_a_run(
    world: World, action: str, caller: Caller
) -> None:
    run_id = await steerable(world, action)
    before = world.journal.position
    await STEERING[action](world, caller, run_id)

    found = world.journal.store.facts_after(before, 10)
    assert {caller.principal} == {recorded.meta.principal for recorded in found}


async def test_a_run_without_a_leader_is_steered_by_operators_only(world: World) -> None:
    run_id = await world.submit()

    assert isinstance(await world.refused_or(STEERING["cancel"](world, ADA, run_id)), NotAllowed)
    await STEERING["cancel"](world, OPERATOR, run_id)
    assert "cancelled" == world.state(run_id)


@pytest.mark.origin("A39")
async def test_a_run_of_another_tenant_does_not_exist(world: World) -> None:
    run_id = await world.submit()
    stranger = Caller(tenant="other", principal="p", role="admin")

    for steer in STEERING.values():
        assert isinstance(await world.refused_or(steer(world, stranger, run_id)), RunUnknown)
    with pytest.raises(RunUnknown):
        showing.show_run(world.desk, stranger, run_id)
    await workers.register_worker(world.desk, stranger, "w1", workers.Ability({}, 1))
    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1", caller=stranger)), RunUnknown)
    assert [] == await world.claim("w1", caller=stranger)


# Workers

ACTS: dict[str, Callable[[World, Caller, str, int], Awaitable[Any]]] = {
    "output": lambda world, caller, run, fence: world.output(run, fence, 0, "x", caller),
    "partial": lambda world, caller, run, fence: world.partial(run, fence, "x", caller),
    "progress": lambda world, caller, run, fence: holding.progress(
        world.desk, caller, run, fence, holding.Progress(message="m")
    ),
    "close": lambda world, caller, run, fence: world.close(run, fence, caller=caller),
    "hand_back": lambda world, caller, run, fence: ending.hand_back(world.desk, caller, run, fence),
    "effect": lambda world, caller, run, fence: claim_effect(world, (run, fence), "k", caller=caller),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    "caller", [worker_key("w2"), worker_key(), ADA, READER], ids=["another worker", "nobody", "its leader", "a reader"]
)
@pytest.mark.origin("D43", "B4", "A39")
async def test_the_right_fence_is_of_no_use_to_anybody_but_the_holder(world: World, act: str, caller: Caller) -> None:
    run_id, fence = await world.held("w1", leader_id="ada")
    before = world.journal.position
    refused = await world.refused_or(ACTS[act](world, caller, run_id, fence))

    assert isinstance(refused, FenceLost)
    assert "w1" == refused.holder
    assert before == world.journal.position


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("caller", [worker_key("w1"), worker_key("w2", "w1"), ADMIN])
async def test_the_holder_acts_by_any_key_that_names_it(world: World, act: str, caller: Caller) -> None:
    run_id, fence = await world.held("w1")

    assert not isinstance(await world.refused_or(ACTS[act](world, caller, run_id, fence)), Exception)


WORKERS: dict[str, Callable[[World, Caller], Awaitable[Any]]] = {
    "claim": lambda world, caller: world.claim("w1", caller=caller),
    "reserve": lambda world, caller: claims.reserve(world.desk, caller, claims.Ask(worker_id="w1")),
    "claim_run": lambda world, caller: world.claim_run(next(iter(world.desk.live.cards)), "w1", caller),
    "heartbeat": lambda world, caller: world.beat("w1", caller=caller),
    "register": lambda world, caller: workers.register_worker(world.desk, caller, "w1", workers.Ability({}, 2)),
    "drain": lambda world, caller: workers.drain_worker(world.desk, caller, "w1"),
    "leave": lambda world, caller: workers.leave_worker(world.desk, caller, "w1"),
}


@pytest.mark.parametrize("act", WORKERS)
@pytest.mark.parametrize("caller", [worker_key("w2"), ADA, READER, Caller(principal="any", role="leader")])
async def test_nobody_speaks_for_a_worker_but_its_key(world: World, act: str, caller: Caller) -> None:
    await world.submit()
    await world.worker("w1")
    before = world.journal.position
    refused = await world.refused_or(WORKERS[act](world, caller))

    assert isinstance(refused, NotAllowed)
    assert "worker 'w1'" == refused.allowed
    assert before == world.journal.position


@pytest.mark.parametrize("act", WORKERS)
@pytest.mark.parametrize("caller", [worker_key("w1"), Caller(principal="any", role="worker"), ADMIN])
async def test_a_worker_speaks_for_itself(world: World, act: str, caller: Caller) -> None:
    await world.submit()
    await world.worker("w1")

    assert not isinstance(await world.refused_or(WORKERS[act](world, caller)), Exception)


# Submitting


async def test_a_leader_submits_as_one_of_its_leaders_only(world: World) -> None:
    refused = await world.refused_or(submitting.submit(world.desk, ADA, wished(leader_id="bob")))

    assert isinstance(refused, NotAllowed)
    for wish in (wished(leader_id="ada"), wished()):
        await submitting.submit(world.desk, ADA, wish)
    assert 2 == len(world.desk.live.cards)


@pytest.mark.origin("H17")
async def test_every_fact_says_who_asked_for_it_and_the_services_own_say_so(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10, caller=ADA, leader_id="ada")
    await world.later(10)
    found = {
        recorded.topic: (recorded.meta.principal, recorded.meta.tenant)
        for recorded in world.journal.store.facts_of(run_id, 0, 100)
    }

    assert (ADA.principal, "default") == found["run.submitted.v1"]
    assert ("jackline", "default") == found["lease.expired.v1"] == found["run.attempt_ended.v1"]
    assert "jackline" == system_caller("default").principal


async def test_each_fact_of_a_decision_names_the_one_before_as_its_cause(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    await world.later(10)
    ids = [(r.meta.fact_id, r.meta.causation_id, r.topic) for r in world.journal.store.facts_of(run_id, 0, 100)]
    causes = {topic: cause for _, cause, topic in ids}

    assert None is causes["lease.expired.v1"]
    assert next(fact_id for fact_id, _, topic in ids if topic == "lease.expired.v1") == causes["run.worker_timeout.v1"]


async def test_whoever_may_be_one_leader_submits_as_that_one_and_sees_the_run(world: World) -> None:
    run_id = await world.submit(caller=ADA)

    assert "ada" == showing.show_run(world.desk, ADA, run_id)["leader_id"]


async def test_whoever_may_be_several_leaders_is_asked_which_and_nothing_is_submitted(world: World) -> None:
    with pytest.raises(InvalidCommand) as refused:
        await world.submit(caller=leader("bob", "ada"))
    named = await world.submit(caller=leader("bob", "ada"), leader_id="bob")

    assert "leader_id is null, and must be one of the leaders of this key: 'ada', 'bob'" == str(refused.value)
    assert [named] == list(world.desk.live.cards)


async def test_a_run_without_a_leader_is_an_operators_and_nobody_is_called_none(world: World) -> None:
    run_id = await world.submit()
    with pytest.raises(NotAllowed) as refused:
        await steering.cancel(world.desk, ADA, run_id, keep_workspaces=False)

    assert "an operator" == refused.value.fields()["allowed"]
