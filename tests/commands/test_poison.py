"""Poison: outcomes that point at the worker quarantine it; a probing run, or an operator, ends that."""

from typing import Any

import msgspec
import pytest

from commands import ending, steering, workers
from domain.claiming import LimitReached
from domain.handing import Park
from domain.worker import POISON_CLASSES, WorkerInQuarantine, WorkerQuarantined, WorkerReleased, WorkerUnknown
from tests.commands.test_reservations import bind, reserved
from tests.commands.world import ADMIN, World, closing


def quarantine_of(world: World, worker_id: str = "w1") -> Any:
    """The quarantine in force, if there is one."""
    return world.desk.worker(ADMIN, worker_id).quarantine


async def poisoned(world: World, worker_id: str = "w1", error: object = "ssh_timeout: no answer") -> str:
    """A run whose worker is quarantined for how it failed there."""
    run_id, fence = await world.held(worker_id)
    await world.close(run_id, fence, "failed", error=error, retryable=False)
    return run_id


@pytest.mark.parametrize("poison", POISON_CLASSES)
@pytest.mark.parametrize("as_code", [True, False])
@pytest.mark.origin("D50", "D29")
async def test_a_poison_class_quarantines_the_worker_in_the_same_append(
    each_world: World, poison: str, *, as_code: bool
) -> None:
    world = each_world
    error: object = {"code": f"{poison}: x", "detail": 1} if as_code else f"{poison} happened"
    before = len(world.facts()) + 4
    run_id = await poisoned(world, error=error)
    facts = world.facts()[before:]

    assert ["RunClosed", "LeaseReleased", "WorkerQuarantined"] == [type(fact).__name__ for fact in facts]
    quarantined = facts[-1]
    assert isinstance(quarantined, WorkerQuarantined)
    assert (poison, 1) == (quarantined.reason, len(quarantined.cites))
    assert run_id in quarantined.cites[0]
    assert 300 == (quarantined.until - quarantined.quarantined_at).total_seconds()


@pytest.mark.parametrize(
    "error", [None, "it failed: ssh_timeout", {"code": "other"}, {"error": "ssh_timeout"}, ["ssh_timeout"], 7]
)
@pytest.mark.origin("D50")
async def test_anything_else_is_the_runs_own_failure(world: World, error: object) -> None:
    await poisoned(world, error=error)

    assert None is quarantine_of(world)


async def test_a_success_is_never_poison(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, "succeeded", error="ssh_timeout")

    assert None is quarantine_of(world)


async def test_a_late_close_with_poison_quarantines_its_worker(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    await world.close(run_id, fence, "failed", error="ssh_timeout")

    assert "ssh_timeout" == quarantine_of(world).reason


@pytest.mark.origin("D50", "D51")
async def test_a_quarantined_worker_is_granted_nothing_and_keeps_what_it_has(each_world: World) -> None:
    world = each_world
    held, fence = await world.held("w1")
    await poisoned(world)
    run_id = await world.submit()

    assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1")), WorkerInQuarantine)
    assert isinstance(await world.refused_or(world.claim("w1", reserve=True)), WorkerInQuarantine)
    assert "renewed" == (await world.beats("w1", held, fence))["outcome"]
    assert "succeeded" == (await world.close(held, fence))["state"]


async def test_a_run_that_was_held_before_the_quarantine_does_not_end_it(world: World) -> None:
    before, fence = await world.held("w1")
    await poisoned(world)
    await world.close(before, fence)

    assert quarantine_of(world)


async def test_a_late_close_of_a_run_from_before_the_quarantine_does_not_end_it(world: World) -> None:
    before, fence = await world.held("w1", ttl=10)
    await world.later(10)
    await poisoned(world)
    await world.close(before, fence)

    assert quarantine_of(world)


async def test_a_reservation_from_before_the_quarantine_does_not_end_it_when_it_is_bound(world: World) -> None:
    run_id, token = await reserved(world)
    await poisoned(world)
    fence = (await bind(world, token))["fence"]
    await world.close(run_id, fence)

    assert quarantine_of(world)


@pytest.mark.origin("D50", "D61")
async def test_after_the_cool_down_one_probing_run_is_granted_and_its_good_end_releases_the_worker(
    each_world: World,
) -> None:
    world = each_world
    await poisoned(world)
    for _ in range(3):
        await world.submit()
    await world.later(299.999)
    await world.worker("w1", slots=9)
    assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
    await world.later(0.001)
    (probe,) = await world.claim("w1", most=9)
    assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
    await world.close(probe["run_id"], probe["fence"])

    assert None is quarantine_of(world)
    assert ["RunClosed", "LeaseReleased", "WorkerReleased"] == world.names()[-3:]
    assert 2 == len(await world.claim("w1", most=9))


@pytest.mark.origin("D50", "D61")
async def test_a_worker_that_holds_other_runs_is_probed_in_a_free_slot_and_with_one_run_at_a_time(
    each_world: World,
) -> None:
    world = each_world
    await world.worker("w1", slots=4)
    held = [await world.held("w1", ttl=3600) for _ in range(2)]
    await poisoned(world)
    assert "closed" != world.state(held[0][0])
    for _ in range(3):
        await world.submit()
    await world.later(300)
    await world.worker("w1", slots=4)
    (probe,) = await world.claim("w1", most=9)
    second = await world.refused_or(world.claim("w1", most=9))
    assert isinstance(second, WorkerInQuarantine)
    assert "until its one probing run ends without blame" in str(second)
    await world.close(*held[0])
    assert isinstance(await world.refused_or(world.claim("w1", most=9)), WorkerInQuarantine)
    await world.close(probe["run_id"], probe["fence"])

    assert None is quarantine_of(world)
    assert 2 == len(await world.claim("w1", most=9))


async def test_a_worker_without_a_free_slot_is_not_probed(world: World) -> None:
    await world.worker("w1", slots=2)
    held, fence = await world.held("w1", ttl=3600)
    await poisoned(world)
    await world.later(300)
    await world.worker("w1", slots=1)
    run_id = await world.submit()
    assert [] == await world.claim("w1")
    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1")), LimitReached)
    await world.close(held, fence)

    assert 1 == len(await world.claim("w1"))


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "handed back"])
async def test_a_run_from_before_the_quarantine_that_is_granted_anew_is_the_probe(world: World, *, lost: bool) -> None:
    await world.worker("w1", slots=4)
    run_id, fence = await world.held("w1", ttl=200)
    await poisoned(world)
    if not lost:
        await ending.hand_back(world.desk, ADMIN, run_id, fence)
    await world.later(300)
    await world.worker("w1", slots=4)
    (probe,) = await world.claim("w1", most=9)
    await world.submit()
    assert run_id == probe["run_id"]
    assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
    await world.close(run_id, probe["fence"])

    assert None is quarantine_of(world)


async def test_a_poisoned_probe_begins_a_new_cool_down(each_world: World) -> None:
    world = each_world
    await poisoned(world)
    await world.later(300)
    await world.worker("w1", slots=9)
    await world.submit()
    (probe,) = await world.claim("w1")
    await world.close(probe["run_id"], probe["fence"], "failed", error="ssh_timeout", retryable=False)
    await world.submit()
    await world.later(299)
    await world.worker("w1", slots=9)
    assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
    await world.later(1)

    assert 1 == len(await world.claim("w1"))


async def test_the_end_of_an_earlier_cool_down_does_not_shorten_a_later_one(world: World) -> None:
    first, one = await world.held("w1")
    second, two = await world.held("w1")
    await world.close(first, one, "failed", error="ssh_timeout", retryable=False)
    world.go(50)
    await world.close(second, two, "failed", error="ssh_timeout", retryable=False)
    await world.submit()
    await world.later(250)
    await world.worker("w1")
    assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
    await world.later(50)

    assert 1 == len(await world.claim("w1"))


async def test_a_worker_that_was_gone_when_its_cool_down_ended_is_probed_when_it_returns(world: World) -> None:
    await poisoned(world)
    await workers.leave_worker(world.desk, ADMIN, "w1")
    await world.later(300)
    await world.worker("w1", slots=9)
    await world.submit()

    assert 1 == len(await world.claim("w1"))


async def test_a_probe_that_dies_leaves_the_worker_quarantined_and_probed_again(world: World) -> None:
    await poisoned(world)
    await world.later(300)
    await world.worker("w1", slots=9)
    await world.submit(ttl=10)
    await world.claim("w1")
    await world.later(10)

    assert quarantine_of(world)
    (probe,) = await world.claim("w1")
    await world.close(probe["run_id"], probe["fence"], "failed", retryable=False)
    assert None is quarantine_of(world)


async def ended(world: World, run_id: str, fence: int, how: str) -> None:
    """The run's holder comes to an end in this way, or does not."""
    match how:
        case "hand_back":
            await ending.hand_back(world.desk, ADMIN, run_id, fence)
        case "park" | "park, lease kept":
            await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=how != "park"))
        case "failed":
            await world.close(run_id, fence, "failed", error="e", retryable=False)
        case "cancelled":
            await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
            await world.later(10)
        case "slice":
            await world.later(2)
            await world.later(5)
        case _:
            assert "expired" == how
            await world.later(5)


@pytest.mark.parametrize(
    ("how", "free"),
    [
        ("hand_back", True),
        ("park", True),
        ("failed", True),
        ("slice", True),
        ("park, lease kept", False),
        ("expired", False),
        ("cancelled", False),
    ],
)
async def test_a_probe_that_its_holder_brings_to_an_end_without_poison_releases_the_worker(
    each_world: World, how: str, free: bool
) -> None:
    world = each_world
    await poisoned(world)
    await world.later(300)
    await world.worker("w1", slots=9)
    await world.submit(ttl=5, max_hold_s=2 if how == "slice" else None)
    (probe,) = await world.claim("w1", most=9)
    await ended(world, probe["run_id"], probe["fence"], how)

    assert free == (quarantine_of(world) is None)
    assert (["probe"] if free else []) == [fact.cause for fact in world.facts() if isinstance(fact, WorkerReleased)]


async def test_a_fleet_on_slices_gets_all_its_slots_back_by_one_probe(world: World) -> None:
    await poisoned(world)
    await world.later(300)
    await world.worker("w1", slots=9)
    for _ in range(3):
        await world.submit(ttl=60, max_hold_s=2)
    (probe,) = await world.claim("w1", most=9)
    await world.later(2)
    await ending.hand_back(world.desk, ADMIN, probe["run_id"], probe["fence"])
    await world.later(1)

    assert 3 == len(await world.claim("w1", most=9))


async def test_an_operator_releases_a_worker_at_once_and_its_reminder_is_gone(world: World) -> None:
    await poisoned(world)
    await workers.release_worker(world.desk, ADMIN, "w1")
    await world.submit()

    assert 1 == len(await world.claim("w1"))
    assert ["operator"] == [fact.cause for fact in world.facts() if isinstance(fact, WorkerReleased)]
    assert [] == [due for due in world.desk.live.deadlines.all() if due.kind == "quarantine"]
    await workers.release_worker(world.desk, ADMIN, "w1")
    assert 1 == len([fact for fact in world.facts() if isinstance(fact, WorkerReleased)])


async def test_an_operator_quarantines_a_worker_for_a_reason_of_its_own(world: World) -> None:
    await world.worker("w1")
    await world.submit()
    await workers.quarantine_worker(world.desk, ADMIN, "w1", "smells of smoke")
    refused = await world.refused_or(world.claim("w1"))

    assert isinstance(refused, WorkerInQuarantine)
    assert "smells of smoke" == refused.reason
    await world.later(300)
    await world.worker("w1")
    assert 1 == len(await world.claim("w1"))


async def test_a_worker_that_is_not_registered_is_not_quarantined(world: World) -> None:
    refused = await world.refused_or(workers.quarantine_worker(world.desk, ADMIN, "w1", "x"))

    assert isinstance(refused, WorkerUnknown)


async def test_a_batch_quarantines_each_worker_once_by_its_first_poison(each_world: World) -> None:
    world = each_world
    held = [(worker, *await world.held(worker)) for worker in ("w1", "w1", "w1", "w2", "w3")]
    errors = [None, "workspace_hook_failed", "ssh_timeout", "ssh_timeout", "fine"]
    batch = [
        closing(run_id, fence, "failed", error=error) for (_, run_id, fence), error in zip(held, errors, strict=True)
    ]
    await ending.close_many(world.desk, ADMIN, batch)

    assert ["workspace_hook_failed", "ssh_timeout"] == [
        fact.reason for fact in world.facts() if isinstance(fact, WorkerQuarantined)
    ]
    assert None is quarantine_of(world, "w3")


async def test_the_cool_down_is_the_services_setting(world: World) -> None:
    world.desk.timers = msgspec.structs.replace(world.desk.timers, quarantine_s=5.0)
    await poisoned(world)
    await world.submit()
    await world.later(5)

    assert 1 == len(await world.claim("w1"))
