"""Claims that wait: woken when there is something for them, by labels and in line, and nothing left behind."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from commands import claims, ending, steering, workers
from domain.handing import Park
from domain.worker import WorkerDraining, WorkerInQuarantine, WorkerUnknown
from tests.commands.books import leftovers
from tests.commands.test_claiming_by_queue import limited
from tests.commands.world import ADMIN, World, command, text

Waiting = asyncio.Task[list[dict[str, Any]]]


async def waiting(world: World, worker_id: str, *names: str, wait_s: float = 30.0, **ask: Any) -> Waiting:
    """A claim of this worker that waits by now."""
    claim = world.start(world.claim(worker_id, *names, wait_s=wait_s, **ask))
    await world.settle()
    return claim


def looks(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The workers whose claims looked for something, in order."""
    seen: list[str] = []
    look = claims._grant_picked

    def noted(desk: Any, caller: Any, ask: claims.Ask, picks: Any, now: Any) -> Any:
        seen.append(ask.worker_id)
        return look(desk, caller, ask, picks, now)

    monkeypatch.setattr(claims, "_grant_picked", noted)
    return seen


async def test_a_claim_that_waits_is_granted_what_is_submitted_meanwhile(each_world: World) -> None:
    await each_world.worker("w1")
    claim = await waiting(each_world, "w1")
    assert not claim.done()
    run_id = await each_world.submit()

    assert [run_id] == [granted["run_id"] for granted in await claim]


async def test_a_claim_waits_as_long_as_it_was_asked_to_and_no_longer(world: World) -> None:
    await world.worker("w1")
    began = world.clock().mono

    assert [] == await world.claim("w1", wait_s=7.5)
    assert 7.5 == world.clock().mono - began
    assert {"deadlines": 1, "evidence of workers": 1} == leftovers(world.desk)


async def test_only_the_first_in_line_with_the_labels_is_woken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.worker("plain")
    await world.worker("gpu", gpu="yes")
    await world.worker("gpu2", gpu="yes")
    first = await waiting(world, "plain")
    second = await waiting(world, "gpu")
    third = await waiting(world, "gpu2")
    seen = looks(world, monkeypatch)
    await world.submit(labels={"gpu": "yes"})
    await world.settle()

    assert ["gpu"] == seen
    assert (False, True, False) == (first.done(), second.done(), third.done())


async def test_a_run_of_another_queue_wakes_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.worker("w1")
    claim = await waiting(world, "w1", "mine")
    seen = looks(world, monkeypatch)
    await world.submit(queue="yours")
    await world.settle()

    assert [] == seen
    assert not claim.done()


async def test_a_claim_is_woken_when_a_run_becomes_due(world: World) -> None:
    await world.worker("w1")
    due_at = world.clock().wall + timedelta(seconds=20)
    run_id = await world.submit(run_after=due_at)
    keeping = world.start(world.manager.run())
    claim = await world.claim("w1", wait_s=60)

    assert [run_id] == [granted["run_id"] for granted in claim]
    assert due_at == world.clock().wall
    assert not keeping.done()


async def test_a_worker_without_a_free_slot_does_not_keep_the_bell(world: World) -> None:
    await world.held("full")
    await world.worker("full", slots=1)
    await world.worker("free")
    full = await waiting(world, "full")
    free = await waiting(world, "free")
    run_id = await world.submit()

    assert [run_id] == [granted["run_id"] for granted in await free]
    assert not full.done()


async def test_a_claim_whose_worker_was_filled_up_meanwhile_passes_the_bell_on(world: World) -> None:
    await world.worker("w1")
    await world.worker("w2")
    first = await waiting(world, "w1")
    again = await waiting(world, "w1")
    other = await waiting(world, "w2")
    await asyncio.gather(world.submit(), world.submit(), world.submit())
    await world.settle()

    assert (1, False, 1) == (len(await first), again.done(), len(await other))
    again.cancel()


async def test_the_next_in_line_is_woken_for_what_the_first_left(world: World) -> None:
    await limited(world, most=0)
    for _ in range(5):
        await world.submit()
    claims_ = []
    for number in range(5):
        await world.worker(f"w{number}")
        claims_.append(await waiting(world, f"w{number}"))
    await limited(world, most=5)
    await world.settle()

    assert [1, 1, 1, 1, 1] == [len(await claim) for claim in claims_]


async def test_a_bell_for_one_queue_is_passed_on_by_a_claim_that_took_from_another(world: World) -> None:
    await world.worker("both")
    await world.worker("a")
    await world.worker("b")
    both = await waiting(world, "both", "a", "b")
    of_a = await waiting(world, "a", "a")
    of_b = await waiting(world, "b", "b")
    await asyncio.gather(world.submit(queue="a"), world.submit(queue="b", priority=9))
    await world.settle()

    assert 1 == len(await both)
    assert of_a.done() != of_b.done()
    assert 0 == len(world.desk.live.ready.queues("default"))
    of_a.cancel()
    of_b.cancel()


async def test_a_close_wakes_the_claim_of_its_own_worker(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.worker("w1", slots=1)
    await world.submit()
    claim = await waiting(world, "w1")
    assert not claim.done()
    await world.close(run_id, fence)

    assert 1 == len(await claim)


async def test_a_freed_place_of_a_queue_wakes_a_claim_of_another_worker(world: World) -> None:
    await limited(world, most=1)
    run_id, fence = await world.held("w1")
    await world.worker("w2")
    await world.submit()
    claim = await waiting(world, "w2")
    assert not claim.done()
    await world.close(run_id, fence)

    assert 1 == len(await claim)


async def test_a_freed_place_of_a_tenant_wakes_a_claim_of_another_queue(world: World) -> None:
    world.desk.live.limits.tenant_max = 1
    run_id, fence = await world.held("w1", queue="a")
    await world.worker("w2")
    await world.submit(queue="b")
    claim = await waiting(world, "w2", "b")
    assert not claim.done()
    await world.close(run_id, fence)

    assert 1 == len(await claim)


async def test_a_freed_key_wakes_a_claim(world: World) -> None:
    run_id, fence = await world.held("w1", concurrency_key="k")
    await world.worker("w2")
    second = await world.submit(concurrency_key="k")
    claim = await waiting(world, "w2")
    assert not claim.done()
    await world.close(run_id, fence)

    assert [second] == [granted["run_id"] for granted in await claim]


async def test_an_expired_lease_wakes_a_claim(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=10)
    await world.worker("w2")
    world.start(world.manager.run())
    (granted,) = await world.claim("w2", wait_s=60)

    assert (run_id, 2) == (granted["run_id"], granted["fence"])


@pytest.mark.origin("H3", "K3")
async def test_a_worker_that_let_a_lease_expire_is_granted_nothing_before_it_asks_anew(world: World) -> None:
    await world.worker("frozen", slots=2)
    run_id, _ = await world.held("frozen", ttl=5)
    claim = await waiting(world, "frozen", wait_s=60)
    await world.later(5)

    assert [] == await claim
    assert ("queued", 1) == (world.state(run_id), (await world.show(run_id))["failed_attempts"])
    assert [run_id] == [granted["run_id"] for granted in await world.claim("frozen")]


async def test_a_worker_that_is_only_frozen_is_given_up_though_its_connection_is_open(world: World) -> None:
    await world.worker("frozen", slots=2)
    await world.held("frozen", ttl=5)
    claim = await waiting(world, "frozen", wait_s=60)
    await world.later(5)
    await claim
    await world.later(world.desk.timers.worker_gone_s)

    assert "WorkerGone" in world.names()


async def test_an_answer_wakes_a_claim(world: World) -> None:
    run_id, fence = await world.held("w1")
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input"))
    claim = await waiting(world, "w1")
    await steering.answer(world.desk, ADMIN, run_id, text("yes"))
    (granted,) = await claim

    assert ["yes"] == [given["answer"] for given in granted["answers"]]


async def test_a_worker_that_learns_a_label_is_woken_and_offered_by_it_from_then_on(world: World) -> None:
    await world.submit(labels={"gpu": "yes"})
    await world.worker("w1")
    claim = await waiting(world, "w1")
    await world.worker("w1", gpu="yes")
    assert 1 == len(await claim)

    await world.worker("w2")
    claim = await waiting(world, "w2")
    await world.worker("w2", gpu="yes")
    await world.settle()
    await world.submit(labels={"gpu": "yes"})
    assert 1 == len(await claim)


async def test_a_run_that_another_claim_made_due_wakes_those_who_wait_for_it(world: World) -> None:
    await world.worker("w1")
    await world.worker("w2")
    for _ in range(2):
        await world.submit(run_after=world.clock().wall + timedelta(seconds=5))
    claim = await waiting(world, "w2")
    world.go(5)
    await world.claimed("w1")

    assert 1 == len(await claim)


# Going away


@pytest.mark.origin("R4")
async def test_a_cancelled_claim_leaves_nothing_behind(world: World) -> None:
    await world.worker("w1")
    claim = await waiting(world, "w1", "a", "b", "a")
    claim.cancel()
    await world.settle()

    assert claim.cancelled()
    assert {"deadlines": 1, "evidence of workers": 1} == leftovers(world.desk)


async def test_a_claim_that_is_cancelled_with_the_bell_passes_it_on(world: World) -> None:
    await world.worker("w1")
    await world.worker("w2")
    first = await waiting(world, "w1")
    second = await waiting(world, "w2")
    (waiter, *_) = world.desk.live.bells._lines["default", "default"]
    run_id = await world.submit(run_after=world.clock().wall + timedelta(seconds=1))
    world.go(1)
    world.desk.live.offer_due(world.clock())
    assert waiter.woken.is_set()
    first.cancel()

    assert [run_id] == [granted["run_id"] for granted in await second]


async def test_a_claim_whose_time_is_over_with_the_bell_passes_it_on(world: World) -> None:
    await world.worker("w1")
    await world.worker("w2")
    first = await waiting(world, "w1", wait_s=1)
    second = await waiting(world, "w2", wait_s=60)
    await world.submit(run_after=world.clock().wall + timedelta(seconds=1))
    world.go(1)
    world.desk.live.offer_due(world.clock())

    assert 1 == len(await first) + len(await second)


@pytest.mark.origin("D56")
async def test_when_the_bells_are_closed_everybody_who_waits_is_answered_with_nothing(world: World) -> None:
    await world.worker("w1")
    claim = await waiting(world, "w1")
    world.desk.live.bells.close()
    await world.submit()

    assert [] == await claim
    assert [] == await world.claim("w1")
    assert [] == await world.claim("w1", wait_s=30)


@pytest.mark.origin("D53")
async def test_a_worker_that_starts_draining_is_told_at_once(world: World) -> None:
    await world.worker("w1")
    claim = await waiting(world, "w1")
    await workers.drain_worker(world.desk, ADMIN, "w1")

    assert isinstance(await world.refused_or(claim), WorkerDraining)


async def test_a_worker_that_is_quarantined_is_told_at_once(world: World) -> None:
    run_id, fence = await world.held("w1")
    claim = await waiting(world, "w1", "other")
    await world.close(run_id, fence, "failed", error={"code": "ssh_timeout"})

    assert isinstance(await world.refused_or(claim), WorkerInQuarantine)


async def test_a_worker_that_is_quarantined_for_what_it_held_before_is_told_at_once(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(10)
    claim = await waiting(world, "w1", "other")
    await world.close(run_id, fence, "failed", error="ssh_timeout", retryable=False)

    assert isinstance(await world.refused_or(claim), WorkerInQuarantine)


async def test_a_worker_that_leaves_is_told_at_once(world: World) -> None:
    await world.worker("w1")
    claim = await waiting(world, "w1")
    await workers.leave_worker(world.desk, ADMIN, "w1")

    assert isinstance(await world.refused_or(claim), WorkerUnknown)
    assert {} == leftovers(world.desk)


@pytest.mark.origin("D51")
async def test_a_worker_whose_claim_waits_is_not_given_up(world: World) -> None:
    await world.worker("w1")
    world.start(world.manager.run())
    world.go(30)

    assert [] == await world.claim("w1", wait_s=60)
    world.go(59)
    await world.settle()
    assert ("default", "w1") in world.desk.live.workers


async def test_a_repeated_claim_is_answered_like_the_first_however_long_it_would_wait(world: World) -> None:
    await world.submit()
    await world.worker("w1", slots=2)
    ask = claims.Ask(worker_id="w1", wait_s=30)
    first = await claims.claim(world.desk, command("c"), ask)
    await world.submit()
    again = await claims.claim(world.desk, command("c"), ask)

    assert [c["run_id"] for c in first.answer["claims"]] == [c["run_id"] for c in again.answer["claims"]]
    assert 1 == world.desk.live.limits.total()


async def test_an_empty_answer_is_not_remembered(world: World) -> None:
    await world.worker("w1")
    ask = claims.Ask(worker_id="w1")
    assert [] == (await claims.claim(world.desk, command("c"), ask)).answer["claims"]
    await world.submit()

    assert 1 == len((await claims.claim(world.desk, command("c"), ask)).answer["claims"])


async def test_a_worker_that_is_heard_after_an_expiry_may_wait_again(world: World) -> None:
    await world.held("w1", ttl=5, max_attempts=1)
    other, fence = await world.held("w1", ttl=3600)
    world.go(5)
    await world.keep()
    await world.beats("w1", other, fence)
    claim = await waiting(world, "w1")
    fresh = await world.submit()

    assert [fresh] == [granted["run_id"] for granted in await claim]
