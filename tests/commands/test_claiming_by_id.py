"""Claiming by id: one very run, in whatever state it is."""

from datetime import timedelta
from typing import Any

import pytest

from commands import claims, ending, steering
from domain.claiming import LabelsMissing, LimitReached, RunPaused, VerdictPending
from domain.effects import EffectsMadeAmbiguous
from domain.handing import Park
from domain.lease import FenceBumped, FenceLost, LeaseExpired, LeaseHeld
from domain.refusal import RunUnknown
from domain.run import SettledOtherwise
from domain.run_facts import AttemptEnded, AttemptStarted, WorkerTimeout
from tests.commands.test_claiming_by_queue import limited
from tests.commands.test_effects import claim_effect
from tests.commands.world import ADMIN, World


async def park(world: World, run_id: str, fence: int, kind: Any = "waiting_input", *, keep: bool = False) -> None:
    """The holder waits for somebody."""
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind=kind, keep_lease=keep))


async def test_a_queued_run_is_granted_before_it_is_due(world: World) -> None:
    run_id = await world.submit(run_after=world.clock().wall + timedelta(seconds=30))
    await world.worker("w1")

    assert 1 == (await world.claim_run(run_id, "w1"))["fence"]
    await world.later(30)
    assert [] == await world.claim("w1")


async def test_a_run_that_nobody_submitted_is_unknown(world: World) -> None:
    await world.worker("w1")

    assert isinstance(await world.refused_or(world.claim_run("r0", "w1")), RunUnknown)


async def test_a_live_lease_is_refused_naming_its_holder_its_fence_and_what_is_left(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w2")
    world.go(4)
    refused = await world.refused_or(world.claim_run(run_id, "w2"))

    assert isinstance(refused, LeaseHeld)
    assert ("w1", fence, 6) == (refused.holder, refused.fence, refused.retry_after_s)


async def test_a_live_lease_is_refused_to_its_own_holder_too(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)

    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1")), LeaseHeld)


@pytest.mark.origin("B3", "B18", "B22", "R9", "B21")
async def test_an_expired_lease_is_taken_over_in_one_append_with_the_expiry_first(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.output(run_id, fence, 0, "some")
    await world.partial(run_id, fence, {"at": 3})
    await claim_effect(world, (run_id, fence), "mail")
    await world.worker("w2")
    world.go(10)
    before = len(world.facts(run_id))
    claim = await world.claim_run(run_id, "w2")
    facts = world.facts(run_id)[before:]

    assert [LeaseExpired, WorkerTimeout, EffectsMadeAmbiguous, AttemptEnded, FenceBumped, AttemptStarted] == [
        type(fact) for fact in facts
    ]
    assert (2, 2, {"at": 3}) == (claim["fence"], claim["attempt"], claim["partial"])
    assert [("mail", "ambiguous")] == [(effect["key"], effect["state"]) for effect in claim["effects"]]
    ended = facts[3]
    assert isinstance(ended, AttemptEnded)
    assert (1, 1) == (ended.work.output_chunks, ended.work.partials)
    await world.later(10)
    assert "queued" == world.state(run_id)


async def test_the_holder_of_an_expired_lease_may_take_it_again_under_a_new_fence(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w1", slots=1)
    world.go(10)

    assert fence + 1 == (await world.claim_run(run_id, "w1"))["fence"]
    assert "lost" == (await world.beats("w1", run_id, fence))["outcome"]
    assert "renewed" == (await world.beats("w1", run_id, fence + 1))["outcome"]


@pytest.mark.origin("B20", "K7")
async def test_the_expiry_that_spends_the_last_attempt_is_not_the_claimants_to_write(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10, attempts=1)
    await world.worker("w2")
    world.go(10)
    refused = await world.refused_or(world.claim_run(run_id, "w2"))

    assert isinstance(refused, LeaseHeld)
    assert 0 == refused.retry_after_s
    await world.keep()
    assert "aborted" == world.state(run_id)
    assert isinstance(await world.refused_or(world.claim_run(run_id, "w2")), SettledOtherwise)


@pytest.mark.parametrize("kind", ["waiting_input", "waiting_peer", "waiting_takeover"])
async def test_a_run_that_waits_without_a_lease_is_granted(world: World, kind: str) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence, kind)
    claim = await world.claim_run(run_id, "w1")

    assert (fence + 1, 0) == (claim["fence"], (await world.show(run_id))["failed_attempts"])


async def test_a_run_that_waits_with_a_live_lease_is_refused_and_granted_once_it_is_over(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await park(world, run_id, fence, keep=True)
    await world.worker("w2", slots=1)

    assert isinstance(await world.refused_or(world.claim_run(run_id, "w2")), LeaseHeld)
    world.go(10)
    claim = await world.claim_run(run_id, "w2")
    assert fence + 1 == claim["fence"]
    assert 0 == (await world.show(run_id))["failed_attempts"]
    assert 1 == world.desk.live.limits.total()


async def test_a_paused_run_is_refused_until_it_is_resumed(world: World) -> None:
    run_id = await world.submit()
    await world.worker("w1")
    await steering.pause(world.desk, ADMIN, run_id)

    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1")), RunPaused)
    await steering.resume(world.desk, ADMIN, run_id)
    assert 1 == (await world.claim_run(run_id, "w1"))["fence"]


async def test_a_run_that_waits_for_its_verdict_is_refused(world: World) -> None:
    run_id, fence = await world.held("w1", judge="leader", leader_id="ada")
    await world.close(run_id, fence)

    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1")), VerdictPending)


async def test_a_reserved_run_is_refused_with_the_time_until_it_lapses(world: World) -> None:
    run_id = await world.submit()
    await world.worker("w1")
    await world.worker("w2")
    await world.claimed("w1", reserve=True)
    world.go(20)
    refused = await world.refused_or(world.claim_run(run_id, "w2"))

    assert isinstance(refused, LeaseHeld)
    assert ("w1", 100) == (refused.holder, refused.retry_after_s)


async def test_missing_labels_are_named(world: World) -> None:
    run_id = await world.submit(labels={"gpu": "a100", "zone": "x"})
    await world.worker("w1", gpu="h100", zone="x")
    refused = await world.refused_or(world.claim_run(run_id, "w1"))

    assert isinstance(refused, LabelsMissing)
    assert {"gpu": "a100"} == refused.missing


@pytest.mark.parametrize("limit", ["slots", "max_leases", "max_per_key", "tenant_max_leases"])
async def test_a_limit_that_is_used_up_is_named(world: World, limit: str) -> None:
    await world.held("w1", concurrency_key="k")
    await world.worker("w1", slots=1 if limit == "slots" else 9)
    run_id = await world.submit(concurrency_key="k" if limit == "max_per_key" else None)
    if limit == "max_leases":
        await limited(world, most=1)
    if limit == "tenant_max_leases":
        world.desk.live.limits.tenant_max = 1
    refused = await world.refused_or(world.claim_run(run_id, "w1"))

    assert isinstance(refused, LimitReached)
    assert (limit, 1) == (refused.limit, refused.value)


async def test_a_take_over_counts_once_in_the_limits_of_its_queue_and_key(world: World) -> None:
    await limited(world, most=1)
    run_id, fence = await world.held("w1", ttl=10, concurrency_key="k")
    await world.worker("w2", slots=1)
    world.go(10)

    assert fence + 1 == (await world.claim_run(run_id, "w2"))["fence"]
    assert 1 == world.desk.live.limits.queue_count(("default", "default"))


async def test_a_take_over_needs_a_free_slot(world: World) -> None:
    expired, _ = await world.held("w1", ttl=10)
    await world.held("w2")
    await world.worker("w2", slots=1)
    world.go(10)

    assert isinstance(await world.refused_or(world.claim_run(expired, "w2")), LimitReached)


async def test_a_pending_cancel_or_pause_is_not_taken_over_but_settled(world: World) -> None:
    cancelled, _ = await world.held("w1", ttl=5)
    paused, _ = await world.held("w1", ttl=5)
    await steering.cancel(world.desk, ADMIN, cancelled, keep_workspaces=False)
    await steering.pause(world.desk, ADMIN, paused)
    await world.worker("w2", slots=5)
    world.go(5)

    assert isinstance(await world.refused_or(world.claim_run(cancelled, "w2")), LeaseHeld)
    assert isinstance(await world.refused_or(world.claim_run(paused, "w2")), LeaseHeld)
    await world.keep()
    assert ("cancelled", "paused") == (world.state(cancelled), world.state(paused))


async def test_a_late_close_is_over_once_somebody_was_granted_by_id(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w2")
    await world.later(10)
    await world.claim_run(run_id, "w2")
    refused = await world.refused_or(world.close(run_id, fence))

    assert isinstance(refused, FenceLost)
    assert ("w2", 2, "lease_expired") == (refused.holder, refused.current, refused.reason)


def test_the_default_ask_is_one_run_of_the_default_queue_at_once() -> None:
    ask = claims.Ask(worker_id="w1")

    assert (("default",), 1, 0.0, False) == (ask.queues, ask.most, ask.wait_s, ask.reserve)
