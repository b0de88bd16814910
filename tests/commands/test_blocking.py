"""What stands in the way of a queued run: everything that can, with its values and who has what is used up."""

from collections.abc import Awaitable, Callable
from typing import Any, get_args

import pytest

from commands import claims, explaining, workers
from projections.outlook import BlockedCode
from tests.commands.lives import explained, held, set_aside
from tests.commands.test_claiming_by_queue import limited
from tests.commands.test_poison import poisoned
from tests.commands.world import ADMIN, World, leader, plain, worker_key


async def nobody_there(world: World) -> str:
    return await world.submit()


async def not_due(world: World) -> str:
    return await world.submit(run_after=world.clock().after(60).wall)


async def queue_full(world: World) -> str:
    await world.held("w1")
    await limited(world, most=1)
    return await world.submit()


async def key_full(world: World) -> str:
    await world.held("w1", concurrency_key="k")
    return await world.submit(concurrency_key="k")


async def tenant_full(world: World) -> str:
    await world.held("w1")
    world.desk.live.limits.tenant_max = 1
    return await world.submit()


async def near_misses(world: World) -> str:
    await world.worker("far")
    await world.worker("near", gpu="t4", zone="x")
    await world.worker("nearer", gpu="a100", zone="y")
    return await world.submit(labels={"gpu": "a100", "zone": "x"})


async def draining(world: World) -> str:
    await world.worker("w2")
    await workers.drain_worker(world.desk, ADMIN, "w2")
    await poisoned(world, "w1")
    return await world.submit()


async def no_slot(world: World) -> str:
    await world.held("w1")
    await world.worker("w1", slots=1)
    return await world.submit()


async def behind(world: World) -> str:
    await world.worker("w1")
    await world.submit(priority=1)
    await world.submit(priority=9, run_after=world.clock().after(60).wall)  # not due, so not before it
    return await world.submit()


async def unasked(world: World) -> str:
    await world.worker("w1")
    return await world.submit()


IN_THE_WAY: dict[str, tuple[Callable[[World], Awaitable[str]], list[str], dict[str, Any]]] = {
    "reserved": (set_aside, ["reserved"], {"worker": "w1"}),
    "not_due": (not_due, ["not_due"], {"reason": "submitted"}),
    "queue_full": (queue_full, ["queue_full", "nobody_asks"], {"queue": "default", "limit": 1}),
    "key_full": (key_full, ["key_full", "nobody_asks"], {"concurrency_key": "k", "limit": 1}),
    "tenant_full": (tenant_full, ["tenant_full", "nobody_asks"], {"limit": 1}),
    "no_worker": (nobody_there, ["no_worker", "nobody_asks"], {}),
    "labels_missing": (near_misses, ["labels_missing", "nobody_asks"], {"wanted": {"gpu": "a100", "zone": "x"}}),
    "workers_unwilling": (draining, ["workers_unwilling", "nobody_asks"], {"count": 2}),
    "slots_used": (no_slot, ["slots_used", "nobody_asks"], {"count": 1}),
    "behind": (behind, ["behind", "nobody_asks"], {"ahead": 1}),
    "nobody_asks": (unasked, ["nobody_asks"], {"queue": "default"}),
}


@pytest.mark.parametrize("code", IN_THE_WAY)
@pytest.mark.origin("H17")
async def test_everything_in_the_way_of_a_queued_run_is_named_with_its_values(world: World, code: str) -> None:
    live, codes, details = IN_THE_WAY[code]
    why = explained(world, await live(world))
    (block,) = [block for block in why["waiting_for"] if block["code"] == code]

    assert codes == [block["code"] for block in why["waiting_for"]]
    assert details == {name: block["details"].get(name) for name in details}
    assert block["because"]
    assert block["until"]


async def test_a_run_ahead_is_not_told_as_what_comes_next_while_nobody_asks_for_either(world: World) -> None:
    told = explained(world, await behind(world))["next"]

    assert "the next worker that claims queue 'default' gets it in its turn" in told
    assert "comes before it" not in told


async def test_whoever_has_what_is_used_up_is_named(world: World) -> None:
    run_id, _ = await world.held("w1", concurrency_key="k")
    (block, _) = explained(world, await world.submit(concurrency_key="k"))["waiting_for"]

    assert [{"run_id": run_id, "worker": "w1"}] == block["details"]["held_by"]
    assert f"run {run_id!r} has one, with worker 'w1'" in block["because"]


async def test_a_run_that_the_key_does_not_cover_is_not_named(world: World) -> None:
    run_id, _ = await world.held("w1", concurrency_key="k", leader_id="bea")
    waiting = await world.submit(concurrency_key="k", leader_id="ada")
    await world.worker("w1", slots=1)
    for caller, named in ((leader("ada"), None), (leader("ada", "bea"), run_id), (worker_key("w1"), run_id)):
        found = plain(explaining.explain(world.desk, caller, waiting))["waiting_for"]
        key_full, slots_used = found[0]["details"], found[1]["details"]

        assert [{"run_id": named, "worker": "w1"}] == key_full["held_by"]
        assert ([] if named is None else [named]) == slots_used["workers"][0]["runs"]
        assert (run_id in str(found)) == (named is not None)


async def test_the_worker_that_lacks_least_is_named_first_with_what_it_has_instead(world: World) -> None:
    (block, _) = explained(world, await near_misses(world))["waiting_for"]

    assert [
        {"worker": "near", "missing": {"gpu": "a100"}, "has": {"gpu": "t4"}},
        {"worker": "nearer", "missing": {"zone": "x"}, "has": {"zone": "y"}},
        {"worker": "far", "missing": {"gpu": "a100", "zone": "x"}, "has": {"gpu": None, "zone": None}},
    ] == block["details"]["near"]


async def test_a_run_that_a_waiting_claim_is_about_to_get_waits_for_nothing(world: World) -> None:
    await world.worker("w1", gpu="a100")
    asking = world.start(claims.claim(world.desk, ADMIN, claims.Ask(worker_id="w1", queues=("other",), wait_s=60)))
    await world.settle()
    elsewhere = explained(world, await world.submit())

    assert ["nobody_asks"] == [block["code"] for block in elsewhere["waiting_for"]]
    assert world.desk.live.bells.asked(("default", "other"), (("gpu", "a100"),))
    assert not world.desk.live.bells.asked(("default", "other"), (("gpu", "t4"),))
    asking.cancel()


async def test_workers_that_may_not_ask_are_named_when_nobody_asks(world: World) -> None:
    for worker_id in ("w1", "w2", "w3"):
        await world.worker(worker_id)
    await workers.drain_worker(world.desk, ADMIN, "w1")
    await workers.quarantine_worker(world.desk, ADMIN, "w2", "broken disk")
    (block,) = explained(world, await world.submit())["waiting_for"]

    assert "; worker 'w1' is draining until it registers again; worker 'w2' is quarantined for" in block["because"]
    assert "'broken disk' until 2026-01-01T12:05:00.000Z, then it may have one probing run" in block["because"]
    assert [("w1", "draining"), ("w2", "quarantined")] == [
        (each["worker"], each["state"]) for each in block["details"]["unwilling"]
    ]


async def test_a_worker_that_has_its_probing_run_says_what_ends_its_quarantine(world: World) -> None:
    await world.worker("w1", slots=9)
    await workers.quarantine_worker(world.desk, ADMIN, "w1", "broken disk")
    for _ in range(2):
        waiting = await world.submit()
    await world.later(300)
    await world.worker("w1", slots=9)
    await world.claimed("w1")

    block = explained(world, waiting)["waiting_for"][0]

    assert "workers_unwilling" == block["code"]
    assert "'w1' is quarantined for 'broken disk' until its one probing run ends without blame" in block["because"]


async def test_the_place_in_the_queue_counts_what_is_due_and_comes_before(world: World) -> None:
    runs = [await world.submit(priority=priority) for priority in (0, 5, 0, 9)]
    await world.submit(priority=9, run_after=world.clock().after(60).wall)
    places = [explained(world, run_id)["queue"] for run_id in runs]

    assert [2, 1, 3, 0] == [place["ahead"] for place in places]
    assert {("default", 5)} == {(place["name"], place["depth"]) for place in places}
    assert explained(world, await held(world))["queue"] is None


def test_everything_that_can_be_in_the_way_has_a_case() -> None:
    assert set(get_args(BlockedCode)) == set(IN_THE_WAY)
