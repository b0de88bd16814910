"""Each promise by itself: at its instant, before it, and when what it was about has changed meanwhile."""

import pytest

from commands import steering, workers
from policies import (
    cool_down,
    end_slices,
    expire_leases,
    find_out_grants,
    give_up_workers,
    lapse_reservations,
    retry_when_due,
    settle_cancels,
)
from tests.commands.test_claiming_by_id import park
from tests.commands.test_poison import poisoned
from tests.commands.test_reservations import bind, reserved
from tests.commands.world import ADMIN, World
from tests.policies.kit import reminder, scene, stale, told

# Leases


async def test_a_lease_that_was_not_renewed_is_expired_at_its_deadline(world: World) -> None:
    await world.held("w1", ttl=10)
    due = reminder(world, "lease")
    assert 1010 == due.mono
    world.go(10)

    assert "expire_lease" == told(expire_leases.react(due, scene(world)))


async def test_a_lease_that_was_renewed_is_looked_at_again_at_its_new_deadline(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    due = reminder(world, "lease")
    world.go(6)
    await world.beats("w1", run_id, fence)
    world.go(4)

    assert 1016 == told(expire_leases.react(due, scene(world)))


@pytest.mark.origin("R26", "D31")
async def test_a_reminder_of_a_lease_that_ended_or_was_granted_anew_is_nothing(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    old = reminder(world, "lease")
    await world.close(run_id, fence, "failed")
    world.go(10)
    assert None is told(expire_leases.react(old, scene(world)))
    await world.claimed("w1")
    world.go(10)

    assert None is told(expire_leases.react(old, scene(world)))
    assert "expire_lease" == told(expire_leases.react(reminder(world, "lease"), scene(world)))


async def test_a_lease_whose_expiry_is_on_its_way_is_left_to_it(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    due = reminder(world, "lease")
    world.go(10)
    world.desk.evidence.leases.take(run_id)

    assert None is told(expire_leases.react(due, scene(world)))


async def test_a_detached_lease_is_expired_after_the_window_unless_that_spends_the_last_attempt(world: World) -> None:
    first, _ = await world.held("w1", ttl=60)
    last, _ = await world.held("w1", ttl=60, attempts=1)
    await workers.detached(world.desk, ADMIN, "w1")
    world.go(1)

    assert "expire_lease" == told(expire_leases.react(stale(world, "lease", (first,), "1"), scene(world)))
    assert 1060 == told(expire_leases.react(stale(world, "lease", (last,), "1"), scene(world)))


# Slices


async def test_a_slice_is_ended_under_the_fence_that_it_belongs_to(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=60, hold=20)
    due = reminder(world, "slice")
    assert 1020 == due.mono
    world.go(20)

    assert "end_slice" == told(end_slices.react(due, scene(world)))
    assert None is told(end_slices.react(stale(world, "slice", (run_id,), "7"), scene(world)))


@pytest.mark.origin("R26")
async def test_a_reminder_of_a_slice_whose_lease_has_ended_is_nothing(world: World) -> None:
    run_id, fence = await world.held("w1", hold=20)
    old = reminder(world, "slice")
    await world.close(run_id, fence, "failed")
    world.go(20)

    assert None is told(end_slices.react(old, scene(world)))


# Reservations


@pytest.mark.origin("D42")
async def test_a_reservation_is_lapsed_while_it_is_in_force_under_this_token(world: World) -> None:
    _, token = await reserved(world)
    due = reminder(world, "reservation")
    assert (1120, token) == (due.mono, due.mark)
    assert "lapse_reservation" == told(lapse_reservations.react(due, scene(world)))
    await bind(world, token)
    world.go(120)

    assert None is told(lapse_reservations.react(due, scene(world)))


@pytest.mark.origin("R21", "R26")
async def test_a_reminder_of_a_reservation_that_was_made_anew_is_nothing(world: World) -> None:
    await reserved(world)
    old = reminder(world, "reservation")
    await world.later(120)
    await world.worker("w1", slots=9)
    await world.claimed("w1", reserve=True)

    assert None is told(lapse_reservations.react(old, scene(world)))


# Cancels


async def test_a_cancel_is_settled_when_its_grace_is_over_and_its_run_is_open(world: World) -> None:
    run_id, fence = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    due = reminder(world, "cancel")
    assert 1010 == due.mono
    world.go(10)
    assert "settle_cancel" == told(settle_cancels.react(due, scene(world)))
    await world.close(run_id, fence)

    assert None is told(settle_cancels.react(due, scene(world)))


# Workers


async def test_a_worker_that_is_unheard_and_holds_nothing_is_given_up(world: World) -> None:
    await world.worker("w1")
    due = reminder(world, "worker")
    world.go(59.999)
    assert 1060 == told(give_up_workers.react(due, scene(world), gone_s=60))
    world.go(0.001)

    assert "give_up_worker" == told(give_up_workers.react(due, scene(world), gone_s=60))


async def test_a_worker_that_was_heard_is_looked_for_again_when_it_may_be_gone(world: World) -> None:
    await world.worker("w1")
    world.go(30)
    await world.beat("w1")
    world.go(30)

    assert 1090 == told(give_up_workers.react(stale(world, "worker", ("default", "w1"), ""), scene(world), gone_s=60))


@pytest.mark.origin("D51")
async def test_a_worker_with_a_lease_or_a_waiting_claim_is_looked_for_again_later(world: World) -> None:
    await world.held("holds", ttl=1_000)
    await world.worker("waits")
    world.start(world.claim("waits", "q", wait_s=60))
    await world.settle()
    world.clock.go(59.5)
    now = world.clock().mono

    for worker_id in ("holds", "waits"):
        due = stale(world, "worker", ("default", worker_id), "")
        assert now + 59 == told(give_up_workers.react(due, scene(world), gone_s=59.0))


@pytest.mark.origin("R26")
async def test_a_reminder_of_a_worker_that_left_is_nothing(world: World) -> None:
    await world.worker("w1")
    due = reminder(world, "worker")
    await workers.leave_worker(world.desk, ADMIN, "w1")
    world.go(60)

    assert None is told(give_up_workers.react(due, scene(world), gone_s=60))


# Quarantines


async def test_a_quarantine_cools_down_at_its_end(world: World) -> None:
    await poisoned(world)
    due = reminder(world, "quarantine")

    assert 1300 == due.mono
    assert "cool_down" == told(cool_down.react(due, scene(world)))


@pytest.mark.origin("R26")
async def test_a_reminder_of_a_quarantine_that_was_released_or_begun_anew_is_nothing(world: World) -> None:
    await poisoned(world)
    old = reminder(world, "quarantine")
    await workers.release_worker(world.desk, ADMIN, "w1")
    assert None is told(cool_down.react(old, scene(world)))
    world.go(1)
    await poisoned(world)

    assert None is told(cool_down.react(old, scene(world)))


async def test_a_quarantine_that_is_released_while_it_cools_down_leaves_nothing(world: World) -> None:
    await poisoned(world)
    do = cool_down.react(reminder(world, "quarantine"), scene(world))
    await workers.release_worker(world.desk, ADMIN, "w1")
    await do.command(world.desk)  # type: ignore[union-attr]

    assert set() == world.desk.live.fleet.cooled


# Grants in doubt


async def test_a_grant_that_is_not_in_doubt_is_left_alone(world: World) -> None:
    await world.worker("w1")

    assert None is told(find_out_grants.react(stale(world, "grant", ("r1", "default", "w1"), ""), scene(world)))


# Due runs


@pytest.mark.origin("D31", "R26")
async def test_a_run_whose_schedule_was_replaced_is_offered_once_and_at_its_new_instant(world: World) -> None:
    run_id = await world.submit(run_after=world.clock().after(10).wall)
    await world.worker("w1")
    await world.claim_run(run_id, "w1")
    await park(world, run_id, 1)
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    again = await world.submit(run_after=world.clock().after(20).wall)
    world.go(10)
    assert 0 == retry_when_due.offer_due(world.desk.live, world.clock())
    assert 10 == retry_when_due.next_in_s(world.desk.live, world.clock())
    world.go(10)

    assert 1 == retry_when_due.offer_due(world.desk.live, world.clock())
    assert again == (await world.claimed("w1"))["run_id"]


async def test_without_a_run_that_waits_there_is_no_next_instant(world: World) -> None:
    await world.submit()

    assert None is retry_when_due.next_in_s(world.desk.live, world.clock())


async def test_an_instant_that_has_passed_is_due_now(world: World) -> None:
    await world.submit(run_after=world.clock().after(10).wall)
    world.go(60)

    assert 0 == retry_when_due.next_in_s(world.desk.live, world.clock())
