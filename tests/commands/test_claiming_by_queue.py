"""Claiming by queue: who is granted which run, in which order, and within which limits."""

from datetime import timedelta
from typing import Any

import pytest

from commands import claims, queues, steering, workers
from domain.lease import FenceBumped
from domain.refusal import InvalidCommand
from domain.run_facts import AttemptStarted
from domain.worker import WorkerDraining, WorkerUnknown
from tests.commands.world import ADMIN, World


async def _order(world: World, *names: str, most: int = 10, worker_id: str = "w1") -> list[str]:
    granted = await world.claim(worker_id, *names, most=most)
    return [str(claim["payload"]) for claim in granted]


async def limited(world: World, queue: str = "default", *, most: int | None = None, per_key: int = 1) -> None:
    """The queue has these limits from now on."""
    await queues.configure_queue(world.desk, ADMIN, queue, most, per_key)


@pytest.mark.origin("B3", "B9", "R7")
async def test_a_grant_is_a_fence_and_an_attempt_in_one_append(each_world: World) -> None:
    run_id = await each_world.submit(payload={"x": 1}, ttl=10)
    await each_world.worker("w1")
    before = each_world.journal.position
    claim = await each_world.claimed("w1")

    assert {
        "run_id": run_id, "fence": 1, "attempt": 1, "lease_ttl_s": 10, "payload": {"x": 1}, "partial": None,
        "answers": [], "effects": [],
    } == claim  # fmt: skip
    bumped, started = each_world.facts()[before:]
    assert isinstance(bumped, FenceBumped)
    assert isinstance(started, AttemptStarted)
    assert ("w1", 1) == (bumped.worker, bumped.fence) == (started.worker, started.fence)


async def test_high_priority_goes_first_then_the_due_instant_then_submission(each_world: World) -> None:
    world, noon = each_world, each_world.clock().wall
    await world.worker("w1", slots=10)
    await world.submit(payload="later", run_after=noon + timedelta(seconds=5))
    await world.submit(payload="first of its instant", run_after=noon + timedelta(seconds=4))
    await world.submit(payload="second of its instant", run_after=noon + timedelta(seconds=4))
    await world.submit(payload="low", priority=-1)
    await world.submit(payload="high", priority=1, run_after=noon + timedelta(seconds=6))
    await world.later(6)

    assert ["high", "first of its instant", "second of its instant", "later", "low"] == await _order(world)


async def test_a_run_is_granted_from_its_due_instant_on_and_not_before(world: World) -> None:
    await world.submit(run_after=world.clock().wall + timedelta(seconds=10))
    await world.worker("w1")
    world.go(9.999)
    assert [] == await world.claim("w1")
    world.go(0.001)
    assert 1 == len(await world.claim("w1"))


async def test_the_labels_of_a_run_must_be_a_subset_of_the_workers(world: World) -> None:
    gpu = await world.submit(labels={"gpu": "a100"})
    both = await world.submit(labels={"gpu": "a100", "zone": "x"})
    plain = await world.submit()
    await world.worker("none", slots=5)
    await world.worker("other", slots=5, gpu="h100", zone="x")
    await world.worker("all", slots=5, gpu="a100", zone="x", more="yes")

    assert [plain] == [claim["run_id"] for claim in await world.claim("none", most=5)]
    assert [] == await world.claim("other", most=5)
    assert [gpu, both] == [claim["run_id"] for claim in await world.claim("all", most=5)]


async def test_only_the_queues_that_are_asked_for_are_looked_into(world: World) -> None:
    await world.submit(queue="a", payload="a")
    await world.submit(queue="b", payload="b", priority=1)
    await world.submit(queue="c", payload="c", priority=2)
    await world.worker("w1", slots=5)

    assert ["b", "a"] == await _order(world, "a", "b", "a", "nothing-here")


async def test_a_claim_is_granted_at_most_what_it_asks_for(world: World) -> None:
    for _ in range(5):
        await world.submit()
    await world.worker("w1", slots=10)

    assert 2 == len(await world.claim("w1", most=2))
    assert 3 == len(await world.claim("w1", most=claims.CLAIMS_MAX))


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        ({"most": 0}, "max"),
        ({"most": claims.CLAIMS_MAX + 1}, "max"),
        ({"wait_s": -0.1}, "wait_s"),
        ({"wait_s": claims.WAIT_MAX_S + 0.1}, "wait_s"),
    ],
)
async def test_an_ask_beyond_its_bounds_is_refused_naming_the_field(
    world: World, ask: dict[str, Any], field: str
) -> None:
    await world.worker("w1")
    refused = await world.refused_or(world.claim("w1", **ask))

    assert isinstance(refused, InvalidCommand)
    assert field == refused.field


async def test_more_queues_than_the_bound_are_refused(world: World) -> None:
    await world.worker("w1")
    names = [f"q{number}" for number in range(claims.QUEUES_MAX + 1)]

    assert [] == await world.claim("w1", *names[:-1])
    assert isinstance(await world.refused_or(world.claim("w1", *names)), InvalidCommand)


@pytest.mark.origin("D5")
async def test_a_worker_that_is_not_registered_is_granted_nothing_and_leaves_no_mark(world: World) -> None:
    run_id = await world.submit()

    assert isinstance(await world.refused_or(world.claim("nobody")), WorkerUnknown)
    assert isinstance(await world.refused_or(world.claim_run(run_id, "nobody")), WorkerUnknown)
    assert 0 == world.desk.evidence.sizes()["workers"]


@pytest.mark.origin("D53")
async def test_a_draining_worker_is_granted_nothing_until_it_registers_again(world: World) -> None:
    run_id = await world.submit()
    await world.worker("w1")
    await workers.drain_worker(world.desk, ADMIN, "w1")

    assert isinstance(await world.refused_or(world.claim("w1")), WorkerDraining)
    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1")), WorkerDraining)
    await world.worker("w1")
    assert 1 == len(await world.claim("w1"))


# Limits


@pytest.mark.origin("K15", "D61")
async def test_a_worker_holds_no_more_leases_than_it_has_slots(each_world: World) -> None:
    world = each_world
    for _ in range(3):
        await world.submit()
    await world.worker("w1", slots=2)
    held = await world.claim("w1", most=3)

    assert 2 == len(held)
    assert [] == await world.claim("w1")
    await world.close(held[0]["run_id"], 1)
    assert 1 == len(await world.claim("w1", most=3))


async def test_fewer_slots_revoke_nothing_and_only_stop_grants(world: World) -> None:
    for _ in range(4):
        await world.submit()
    await world.worker("w1", slots=3)
    held = await world.claim("w1", most=3)
    await world.worker("w1", slots=1)

    await world.close(held[0]["run_id"], 1)
    await world.close(held[1]["run_id"], 1)
    assert [] == await world.claim("w1")
    assert "renewed" == (await world.beats("w1", held[2]["run_id"], 1))["outcome"]
    await world.close(held[2]["run_id"], 1)
    assert 1 == len(await world.claim("w1"))


async def test_a_queue_has_no_more_leases_than_its_limit(world: World) -> None:
    await limited(world, most=2)
    for _ in range(4):
        await world.submit()
    await world.submit(queue="other")
    await world.worker("w1", slots=10)

    held = await world.claim("w1", "default", "other", most=10)
    assert 3 == len(held)
    await world.close(held[0]["run_id"], 1)
    assert 1 == len(await world.claim("w1", most=10))


async def test_a_queue_that_is_closed_by_its_limit_grants_nothing(world: World) -> None:
    await limited(world, most=0)
    await world.submit()
    await world.worker("w1")

    assert [] == await world.claim("w1")
    await limited(world, most=1)
    assert 1 == len(await world.claim("w1"))


async def test_lowering_a_queues_limit_revokes_nothing(world: World) -> None:
    for _ in range(4):
        await world.submit()
    await world.worker("w1", slots=10)
    held = await world.claim("w1", most=3)
    await limited(world, most=1)

    for claim in held:
        assert "renewed" == (await world.beats("w1", claim["run_id"], 1))["outcome"]
    await world.close(held[0]["run_id"], 1)
    await world.close(held[1]["run_id"], 1)
    assert [] == await world.claim("w1")
    await world.close(held[2]["run_id"], 1)
    assert 1 == len(await world.claim("w1"))


async def test_a_tenant_has_no_more_leases_than_its_limit(world: World) -> None:
    world.desk.live.limits.tenant_max = 2
    for queue in "abc":
        await world.submit(queue=queue)
    await world.worker("w1", slots=10)

    held = await world.claim("w1", "a", "b", "c", most=10)
    assert 2 == len(held)
    await world.close(held[0]["run_id"], 1)
    assert 1 == len(await world.claim("w1", "a", "b", "c", most=10))


# Concurrency keys


@pytest.mark.origin("B17")
async def test_one_lease_of_a_concurrency_key_at_a_time_unless_the_queue_says_more(each_world: World) -> None:
    world = each_world
    for _ in range(4):
        await world.submit(concurrency_key="k")
    free = await world.submit(concurrency_key="other")
    await world.worker("w1", slots=10)

    first, other = await world.claim("w1", most=10)
    assert free == other["run_id"]
    assert [] == await world.claim("w1", most=10)
    await limited(world, per_key=3)
    assert 2 == len(await world.claim("w1", most=10))
    await world.close(first["run_id"], 1)
    assert 1 == len(await world.claim("w1", most=10))


async def test_the_same_key_in_another_queue_is_another_key(world: World) -> None:
    await world.submit(queue="a", concurrency_key="k")
    await world.submit(queue="b", concurrency_key="k")
    await world.worker("w1", slots=10)

    assert 2 == len(await world.claim("w1", "a", "b", most=10))


async def test_a_freed_key_brings_the_best_waiting_run_back(world: World) -> None:
    for priority in (1, 9, 5):
        await world.submit(payload=priority, concurrency_key="k", priority=priority)
    await world.worker("w1", slots=10)

    granted: list[str] = []
    for _ in range(3):
        (claim,) = await world.claim("w1", most=10)
        granted.append(str(claim["payload"]))
        await world.close(claim["run_id"], 1)
    assert ["9", "5", "1"] == granted


async def test_a_freed_key_brings_back_a_run_for_every_kind_of_worker(world: World) -> None:
    held = await world.submit(concurrency_key="k", priority=9)
    await world.worker("plain", slots=10)
    await world.worker("gpu", slots=10, gpu="yes")
    assert held == (await world.claimed("plain"))["run_id"]
    await world.submit(concurrency_key="k", priority=5, labels={"gpu": "yes"})
    low = await world.submit(concurrency_key="k", priority=1)
    assert [] == await world.claim("gpu", most=10)

    await world.close(held, 1)
    assert low == (await world.claimed("plain"))["run_id"]


async def test_a_run_that_was_brought_back_and_is_cancelled_lets_the_next_of_its_key_follow(world: World) -> None:
    held = await world.submit(concurrency_key="k", priority=9)
    second = await world.submit(concurrency_key="k", priority=5)
    third = await world.submit(concurrency_key="k", priority=1)
    await world.worker("w1", slots=10)
    assert held == (await world.claimed("w1", most=10))["run_id"]
    await world.close(held, 1)

    await steering.cancel(world.desk, ADMIN, second, keep_workspaces=False)
    assert third == (await world.claimed("w1", most=10))["run_id"]


async def test_a_run_that_was_brought_back_and_is_paused_lets_the_next_of_its_key_follow(world: World) -> None:
    held = await world.submit(concurrency_key="k", priority=9)
    second = await world.submit(concurrency_key="k", priority=5)
    third = await world.submit(concurrency_key="k", priority=1)
    await world.worker("w1", slots=10)
    await world.claimed("w1", most=10)
    await world.close(held, 1)
    await steering.pause(world.desk, ADMIN, second)

    assert third == (await world.claimed("w1", most=10))["run_id"]
    await steering.resume(world.desk, ADMIN, second)
    assert [] == await world.claim("w1", most=10)
    await world.close(third, 1)
    assert second == (await world.claimed("w1", most=10))["run_id"]


async def test_an_expired_lease_frees_its_key(world: World) -> None:
    first = await world.submit(concurrency_key="k", priority=9, ttl=10)
    second = await world.submit(concurrency_key="k", priority=1)
    await world.worker("w1", slots=10)
    await world.claimed("w1", most=10)
    await world.later(10)

    assert first == (await world.claimed("w1", most=10))["run_id"]
    assert "queued" == world.state(second)


async def test_a_later_run_of_a_key_does_not_keep_others_waiting(world: World) -> None:
    await world.submit(concurrency_key="k", priority=9)
    for _ in range(3):
        await world.submit(concurrency_key="k", priority=5)
    plain = await world.submit()
    await world.worker("w1", slots=10)

    assert plain in [claim["run_id"] for claim in await world.claim("w1", most=10)]


# History


@pytest.mark.origin("B18", "B31", "K6")
async def test_the_next_claim_of_a_run_whose_worker_died_has_the_next_fence_and_attempt(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.partial(run_id, fence, {"at": 7})
    await world.worker("w2")
    await world.later(10)
    claim = await world.claimed("w2")

    assert (run_id, 2, 2) == (claim["run_id"], claim["fence"], claim["attempt"])
    assert {"at": 7} == claim["partial"]


async def test_a_late_close_for_the_leaders_verdict_leaves_nothing_to_claim(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, judge="leader", leader_id="ada")
    await world.later(10)
    assert "queued" == world.state(run_id)
    await world.close(run_id, fence)

    assert "waiting_verdict" == world.state(run_id)
    assert 0 == world.desk.live.ready.depth(("default", "default"))
    assert [] == await world.claim("w1")
