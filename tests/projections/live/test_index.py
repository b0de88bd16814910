"""The live index: folded from facts, and what it says about the present after each of them."""

import pytest

from commands import steering, workers
from commands.boot import open_desk
from commands.desk import Timers
from evidence.memory import Evidence
from projections.live.deadlines import Graces
from projections.live.index import Live
from tests.commands.books import books, leftovers
from tests.commands.test_claiming_by_id import park
from tests.commands.test_reservations import reserved
from tests.commands.world import ADMIN, World

WORKER = ("default", "w1")


def reminders(world: World) -> dict[str, float]:
    """What falls due when about leases and workers, in seconds after noon."""
    others = ("leader", "quiet", "total")
    return {due.kind: round(due.mono - 1_000, 3) for due in world.desk.live.deadlines.all() if due.kind not in others}


async def test_a_new_index_knows_nothing_and_says_so() -> None:
    live = Live(Evidence(), Graces())

    assert (0, 0, None) == (len(live.cards), live.limits.total(), live.deadlines.next())


async def test_a_lease_has_one_reminder_and_one_mark_as_long_as_it_is_held(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=30)
    assert {"lease": 10, "slice": 30, "worker": 60} == reminders(world)
    assert 1 == world.desk.evidence.sizes()["leases"]
    await world.close(run_id, fence)

    assert {"worker": 60} == reminders(world)
    assert {"workers"} == {name for name, size in world.desk.evidence.sizes().items() if size}


async def test_the_end_of_a_slice_leaves_one_last_ttl_and_no_reminder_of_the_slice(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=15)
    await world.later(9)
    await world.beats("w1", run_id, fence)
    await world.later(6)

    assert "slice" not in reminders(world)
    mark = world.desk.evidence.leases.get(run_id)
    assert mark is not None
    assert 1_025 == mark.deadline
    await world.later(10)
    assert "queued" == world.state(run_id)


async def test_a_reservation_is_known_by_its_token_until_it_ends(world: World) -> None:
    run_id, token = await reserved(world)
    assert ({token: run_id}, 120) == (world.desk.live.reservations, reminders(world)["reservation"])
    await steering.pause(world.desk, ADMIN, run_id)

    assert {} == world.desk.live.reservations
    assert "reservation" not in reminders(world)


async def test_a_settled_run_leaves_nothing(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=30)
    await world.output(run_id, fence, 0, "x")
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    await world.later(9)
    await world.beats("w1", run_id, fence)
    await world.later(1)
    await workers.leave_worker(world.desk, ADMIN, "w1")

    assert {} == leftovers(world.desk)


async def test_a_run_that_waits_for_its_verdict_has_no_reminder(world: World) -> None:
    run_id, fence = await world.held("w1", judge="leader", leader_id="ada")
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    await world.close(run_id, fence)

    assert {"worker": 60} == reminders(world)
    assert [run_id] == list(world.desk.live.cards)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_parked_run_counts_while_its_lease_is_kept(world: World, *, kept: bool) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence, keep=kept)

    assert kept == (world.desk.live.limits.total() == 1) == (world.desk.evidence.sizes()["leases"] == 1)


async def test_a_detached_worker_shortens_what_it_holds_and_not_what_it_is_only_about_to_take(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=60)
    await world.worker("w2")
    card = world.desk.live.cards[run_id]
    earmark = world.desk.live.earmark(card, ("default", "w2"))
    await workers.detached(world.desk, ADMIN, "w2")
    assert 60 == reminders(world)["lease"]
    await workers.detached(world.desk, ADMIN, "w1")
    assert 1 == reminders(world)["lease"]
    world.desk.live.limits.unlend(run_id, earmark.worker)
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]


async def test_a_worker_is_heard_only_while_it_is_registered(world: World) -> None:
    world.desk.live.heard(WORKER, world.clock())
    assert 0 == world.desk.evidence.sizes()["workers"]
    await world.worker("w1")
    assert 1 == world.desk.evidence.sizes()["workers"]


async def test_a_worker_has_room_while_a_slot_is_free_and_in_quarantine_for_one(world: World) -> None:
    fleet = world.desk.live.fleet
    assert fleet.has_room(WORKER)
    await world.worker("w1", slots=2)
    assert fleet.has_room(WORKER)
    run_id, fence = await world.held("w1")
    other, _ = await world.held("w1")
    assert not fleet.has_room(WORKER)
    await world.close(run_id, fence, "failed", error="ssh_timeout", retryable=False)

    assert 1 == fleet.room(WORKER, 2)
    await world.close(other, 1)
    assert 1 == fleet.room(WORKER, 2)


async def test_folding_tells_the_process_manager_that_there_may_be_a_nearer_deadline(world: World) -> None:
    told: list[None] = []
    world.desk.live.on_deadline = lambda: told.append(None)
    await world.submit()
    assert 1 == len(told)
    await world.worker("w1")

    assert 1 < len(told)


async def test_two_desks_over_one_journal_agree_fact_by_fact(world: World) -> None:
    other = open_desk(world.journal, world.clock, world.mint, Timers())
    run_id, fence = await world.held("w1", ttl=10, hold=30, concurrency_key="k")
    await world.submit(concurrency_key="k", labels={"a": "b"})
    assert books(world.desk) == books(other)
    await world.close(run_id, fence, "failed")
    assert books(world.desk) == books(other)
    await world.later(10)
    await world.claim("w1")
    assert {**books(world.desk), "seen": 0} == {**books(other), "seen": 0}
