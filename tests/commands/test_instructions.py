"""Instructions: what a holder is asked to do comes with every renewal until it has been done."""

import msgspec

from commands import steering, workers
from tests.commands.test_claiming_by_id import park
from tests.commands.world import ADMIN, World, text


async def test_a_cancel_is_told_with_every_renewal_until_the_run_has_ended(world: World) -> None:
    run_id, fence = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=True)
    told = {
        "kind": "cancel",
        "reason": "asked_by_principal",
        "data": {"settles_at": "2026-01-01T12:00:10Z", "keep_workspaces": True},
    }

    for _ in range(2):
        assert [told] == (await world.beats("w1", run_id, fence))["instructions"]
    await world.close(run_id, fence)
    assert ["stop"] == [asked["kind"] for asked in (await world.beats("w1", run_id, fence))["instructions"]]


async def test_a_pause_is_told_until_the_holder_has_paused(world: World) -> None:
    run_id, fence = await world.held("w1")
    await steering.pause(world.desk, ADMIN, run_id)
    told = {"kind": "pause", "reason": "asked_by_principal", "data": {}}
    for _ in range(2):
        assert [told] == (await world.beats("w1", run_id, fence))["instructions"]
    await park(world, run_id, fence, "paused", keep=True)

    assert [] == (await world.beats("w1", run_id, fence))["instructions"]


async def test_a_drain_is_told_with_every_lease_until_it_is_given_up(world: World) -> None:
    leases = [await world.held("w1") for _ in range(2)]
    await workers.drain_worker(world.desk, ADMIN, "w1")
    answers = await world.beat("w1", *leases)

    assert [["drain"], ["drain"]] == [[asked["kind"] for asked in answer["instructions"]] for answer in answers]
    await world.worker("w1", slots=9)
    assert [] == (await world.beats("w1", *leases[0]))["instructions"]


async def test_an_answer_is_told_to_the_holder_that_kept_its_lease(world: World) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence, keep=True)
    await steering.answer(world.desk, ADMIN, run_id, text({"say": "yes"}))

    assert [
        {"kind": "answer", "reason": "answered", "data": {"number": 1, "question": None, "answer": {"say": "yes"}}}
    ] == (await world.beats("w1", run_id, fence))["instructions"]


async def test_of_many_answers_the_last_is_told_since_asking_anew_shows_that_the_others_came(world: World) -> None:
    run_id, fence = await world.held("w1")
    for number in range(3):
        await park(world, run_id, fence, keep=True)
        await steering.answer(world.desk, ADMIN, run_id, text(number))
    told = (await world.beats("w1", run_id, fence))["instructions"]

    assert [(3, 2)] == [(each["data"]["number"], each["data"]["answer"]) for each in told]


async def test_an_answer_to_an_earlier_holder_is_not_told_again(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await park(world, run_id, fence, keep=True)
    await steering.answer(world.desk, ADMIN, run_id, text("yes"))
    await world.later(10)
    await world.worker("w2")
    claim = await world.claimed("w2")

    assert ["yes"] == [given["answer"] for given in claim["answers"]]
    assert [] == (await world.beats("w2", run_id, claim["fence"]))["instructions"]


async def test_what_is_asked_is_told_in_the_last_ttl_of_a_slice_too(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=60, hold=10)
    await world.later(10)
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    answer = await world.beats("w1", run_id, fence)

    assert ("slice_ended", ["cancel"]) == (answer["outcome"], [asked["kind"] for asked in answer["instructions"]])


async def test_the_time_to_stop_is_the_services_kill_grace(world: World) -> None:
    world.desk.timers = msgspec.structs.replace(world.desk.timers, kill_grace_s=2.5)
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence)

    (asked,) = (await world.beats("w1", run_id, fence))["instructions"]
    assert {"stop_within_s": 2.5} == asked["data"]
