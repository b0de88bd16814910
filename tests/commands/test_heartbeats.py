"""Heartbeats: one of three answers for each lease, and none of them a fact."""

from typing import Any

import pytest

from commands import ending, holding, steering, workers
from commands.desk import Caller, NotAllowed
from domain.refusal import InvalidCommand
from domain.worker import WorkerUnknown
from tests.commands.test_claiming_by_id import park
from tests.commands.world import ADMIN, World, worker_key

STOP = {"kind": "stop", "reason": "lease_expired", "data": {"stop_within_s": 10}}


async def test_a_renewal_answers_exactly_what_the_wire_says_and_appends_nothing(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10, hold=100)
    world.go(4)
    before = world.journal.position
    answer = await world.beats("w1", run_id, fence)

    assert {
        "run_id": run_id, "fence": 1, "outcome": "renewed", "current": 1, "holder": "w1", "reason": None,
        "ttl_s": 10, "slice_ends_in_s": 96, "instructions": [],
    } == answer  # fmt: skip
    assert before == world.journal.position


async def test_a_lost_lease_answers_exactly_what_the_wire_says(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    await world.worker("w2")
    await world.claimed("w2")
    answer = await world.beats("w1", run_id, fence)

    assert {
        "run_id": run_id, "fence": 1, "outcome": "lost", "current": 2, "holder": "w2", "reason": "lease_expired",
        "ttl_s": None, "slice_ends_in_s": None, "instructions": [STOP],
    } == answer  # fmt: skip


@pytest.mark.origin("B6")
async def test_an_ended_slice_answers_exactly_what_the_wire_says(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=15)
    await world.later(9)
    await world.beats("w1", run_id, fence)
    await world.later(6)
    world.go(4)
    answer = await world.beats("w1", run_id, fence)

    assert {
        "run_id": run_id, "fence": 1, "outcome": "slice_ended", "current": 1, "holder": "w1",
        "reason": "slice_ended", "ttl_s": 6, "slice_ends_in_s": 0, "instructions": [],
    } == answer  # fmt: skip


@pytest.mark.origin("B4", "K3")
async def test_a_renewal_at_the_deadline_itself_is_lost_and_revives_nothing(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    world.go(10)

    assert ("lost", "lease_expired") == said(await world.beats("w1", run_id, fence))
    assert ("lost", "lease_expired") == said(await world.beats("w1", run_id, fence))
    await world.keep()
    assert "queued" == world.state(run_id)


async def test_a_renewal_just_before_the_deadline_gives_a_full_ttl(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(9.999)
    await world.beats("w1", run_id, fence)
    await world.later(9.999)

    assert "running" == world.state(run_id)
    await world.later(0.001)
    assert "queued" == world.state(run_id)


async def test_a_renewed_lease_outlives_many_ttls(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    for _ in range(50):
        await world.later(9)
        assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]

    assert 1 == len([due for due in world.desk.live.deadlines.all() if due.kind == "lease"])


def said(answer: dict[str, Any]) -> tuple[str, str]:
    """The outcome and the reason of one answer."""
    return answer["outcome"], answer["reason"]


@pytest.mark.origin("D51", "R27", "K3")
async def test_a_renewal_while_the_expiry_is_on_its_way_waits_and_is_answered_from_the_journal(
    each_world: World,
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    world.go(10)
    async with world.gate.closed() as gate:
        keeping = world.start(world.keep())
        await gate.reached()
        beat = world.start(world.beats("w1", run_id, fence))
        await world.settle()
        assert not beat.done()
        assert "running" == world.state(run_id)
    answer = await beat
    await keeping

    assert ("lost", "lease_expired") == said(answer)
    assert None is answer["holder"]
    assert "queued" == world.state(run_id)


@pytest.mark.origin("D20")
async def test_an_expiry_that_fails_puts_the_mark_back_as_it_was_and_is_tried_again(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    before = world.desk.evidence.leases.get(run_id)
    world.go(10)
    world.gate.fails()
    await world.keep()

    assert before == world.desk.evidence.leases.get(run_id)
    assert "running" == world.state(run_id)
    assert ("lost", "lease_expired") == said(await world.beats("w1", run_id, fence))
    assert "expire_lease" in str(world.manager.first_error)
    await world.later(1)
    assert "queued" == world.state(run_id)
    assert world.manager.first_error is None


async def test_a_guarded_write_after_an_expiry_that_failed_is_accepted(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    world.go(10)
    world.gate.fails()
    await world.keep()
    await world.partial(run_id, fence, {"kept": 1})

    assert {"kept": 1} == (await world.show(run_id))["partial"]
    assert "succeeded" == (await world.close(run_id, fence))["state"]
    assert 0 == world.desk.evidence.sizes()["leases"]


async def test_an_expiry_that_landed_in_spite_of_an_error_leaves_no_mark(each_world: World) -> None:
    world = each_world
    run_id, _ = await world.held("w1", ttl=10)
    world.go(10)
    world.gate.fails(after_all=True)
    await world.keep()

    assert "queued" == world.state(run_id)
    assert 0 == world.desk.evidence.sizes()["leases"]
    assert world.manager.first_error is None


async def test_an_expiry_whose_keeper_is_stopped_in_the_middle_leaves_no_mark_behind(each_world: World) -> None:
    world = each_world
    run_id, _ = await world.held("w1", ttl=10)
    world.go(10)
    async with world.gate.closed() as gate:
        keeping = world.start(world.keep())
        await gate.reached()
        keeping.cancel()
        await world.settle()
    await world.journal.drain()
    await world.settle()

    assert "queued" == world.state(run_id)
    assert 0 == world.desk.evidence.sizes()["leases"]


async def test_a_slow_expiry_of_one_lease_does_not_let_another_live_longer(each_world: World) -> None:
    world = each_world
    slow, first = await world.held("w1", ttl=10)
    other, second = await world.held("w1", ttl=12)
    world.go(10)
    async with world.gate.closed() as gate:
        keeping = world.start(world.keep())
        await gate.reached()
        world.go(2)
        beat = world.start(world.beat("w1", (slow, first), (other, second)))
        await world.settle()
    answers = await beat
    await keeping

    assert ["lost", "lost"] == [answer["outcome"] for answer in answers]


async def test_a_missing_mark_is_made_as_now_and_expires_like_any_other(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    world.desk.evidence.leases.drop(run_id)
    await world.later(9)
    assert "running" == world.state(run_id)
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.later(10)

    assert "queued" == world.state(run_id)


# Whose lease


async def test_a_worker_that_is_not_registered_must_register_first(world: World) -> None:
    run_id, fence = await world.held("w1")

    assert isinstance(await world.refused_or(world.beat("nobody", (run_id, fence))), WorkerUnknown)
    assert 1 == world.desk.evidence.sizes()["workers"]


async def test_a_foreign_run_is_lost_naming_its_holder_and_is_not_renewed(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w2")
    world.go(9)
    answer = await world.beats("w2", run_id, fence)

    assert ("lost", "other_holder", "w1") == (*said(answer), answer["holder"])
    await world.later(1)
    assert "queued" == world.state(run_id)


@pytest.mark.parametrize("presented", [0, 2, 99, -1])
async def test_a_fence_that_is_not_the_one_in_force_is_lost(world: World, presented: int) -> None:
    run_id, _ = await world.held("w1")
    answer = await world.beats("w1", run_id, presented)

    assert ("lost", presented, 1) == (answer["outcome"], answer["fence"], answer["current"])
    assert ("never_granted" if presented > 1 else "taken_over") == answer["reason"]


async def test_a_run_that_does_not_exist_or_is_another_tenants_is_unknown_and_tells_nothing(world: World) -> None:
    run_id, fence = await world.held("w1")
    stranger = Caller(tenant="other", principal="p", role="admin")
    await workers.register_worker(world.desk, stranger, "w1", workers.Ability({}, 1))

    for caller, run in ((ADMIN, "r0"), (stranger, run_id)):
        (answer,) = await world.beat("w1", (run, fence), caller=caller)
        assert ("lost", "run_unknown", 0, None) == (*said(answer), answer["current"], answer["holder"])


async def test_a_key_of_another_worker_may_not_beat_for_this_one(world: World) -> None:
    run_id, fence = await world.held("w1")

    assert isinstance(await world.refused_or(world.beat("w1", (run_id, fence), caller=worker_key("w2"))), NotAllowed)
    assert 1 == len(await world.beat("w1", (run_id, fence), caller=worker_key("w1", "w2")))


async def test_many_leases_are_answered_in_order_each_by_itself(world: World) -> None:
    leases = [await world.held("w1", ttl=10) for _ in range(5)]
    await world.close(*leases[1])
    await park(world, *leases[3])
    answers = await world.beat("w1", *leases)

    assert [run_id for run_id, _ in leases] == [answer["run_id"] for answer in answers]
    assert ["renewed", "lost", "renewed", "lost", "renewed"] == [answer["outcome"] for answer in answers]
    assert [None, "closed", None, "parked", None] == [answer["reason"] for answer in answers]


async def test_more_leases_than_the_bound_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "LEASES_MAX", 2)
    await world.worker("w1")

    assert 2 == len(await world.beat("w1", ("a", 1), ("b", 1)))
    assert isinstance(await world.refused_or(world.beat("w1", ("a", 1), ("b", 1), ("c", 1))), InvalidCommand)


async def test_a_heartbeat_without_leases_keeps_the_worker(world: World) -> None:
    await world.worker("w1")
    for _ in range(5):
        await world.later(59)
        assert [] == await world.beat("w1")

    assert ("default", "w1") in world.desk.live.workers


@pytest.mark.origin("D51")
async def test_a_worker_that_only_renews_by_writing_is_not_given_up_while_it_holds_a_lease(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=30)
    for second in range(10):
        await world.later(29)
        await world.output(run_id, fence, second, "x")

    assert ("default", "w1") in world.desk.live.workers
    await world.close(run_id, fence)
    await world.later(60)
    assert ("default", "w1") not in world.desk.live.workers


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("close", "closed"),
        ("hand_back", "handed_back"),
        ("cancel", "cancelled"),
        ("late", "lease_expired"),
    ],
)
async def test_the_reason_says_how_the_lease_ended(world: World, end: str, reason: str) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    if end == "close":
        await world.close(run_id, fence)
    elif end == "hand_back":
        await ending.hand_back(world.desk, ADMIN, run_id, fence)
    elif end == "cancel":
        await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
        await world.later(9)
        await world.beats("w1", run_id, fence)
        await world.later(1)
    else:
        await world.later(10)
    answer = await world.beats("w1", run_id, fence)

    assert ("lost", reason) == said(answer)
    assert [{"kind": "stop", "reason": reason, "data": {"stop_within_s": 10}}] == answer["instructions"]
