"""Starting again: what was recorded is there, and the time in between is charged to nobody."""

import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from commands import claims, ending, queues, steering
from commands.boot import Opening
from commands.desk import Timers
from domain.handing import Park
from domain.worker import WorkerInQuarantine
from tests.commands.books import books
from tests.commands.world import ADMIN, World, command, opened

DAY_S = 86_400.0

Lives = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture
def lives(data_dir: Path) -> Lives:
    """One life of the service after another, on the same journal and the same clock."""
    ids = itertools.count(1)
    return lambda: opened(data_dir, ids)


@pytest.mark.origin("A28", "D38", "D39")
async def test_a_journal_with_queued_runs_can_be_opened_again(lives: Lives) -> None:
    async with lives() as world:
        first, second = await world.submit(), await world.submit(priority=5)
    async with lives() as world:
        await world.worker("w1", slots=5)

        assert [second, first] == [claim["run_id"] for claim in await world.claim("w1", most=5)]


async def test_every_kind_of_wait_is_the_same_after_a_restart(lives: Lives) -> None:
    async with lives() as world:
        await _one_of_each(world)
        before = books(world.desk)
        shown = [await world.show(run_id) for run_id in sorted(world.desk.live.cards)]
    async with lives() as world:
        after = books(world.desk)
        again = [await world.show(run_id) for run_id in sorted(world.desk.live.cards)]

    assert before == after
    for document in (*shown, *again):
        document["evidence"] = {}
    assert shown == again


async def _one_of_each(world: World) -> None:
    await queues.configure_queue(world.desk, ADMIN, "default", 50, 2)
    await world.worker("w1", slots=50, gpu="yes")
    await world.worker("w2")
    await world.held("w1", ttl=30)
    for kind in range(3):
        await world.submit(concurrency_key="k", priority=kind)
    await world.submit(labels={"gpu": "yes"})
    await world.submit(run_after=world.clock().after(3600).wall)
    parked, fence = await world.held("w1")
    await _park(world, parked, fence, keep=True)
    parked, fence = await world.held("w1")
    await _park(world, parked, fence, keep=False)
    asked, fence = await world.held("w1")
    await steering.cancel(world.desk, ADMIN, asked, keep_workspaces=False)
    await world.held("w1", hold=100)
    failed, fence = await world.held("w1")
    await world.close(failed, fence, "failed")
    judged, fence = await world.held("w1", judge="leader", leader_id="ada")
    await world.close(judged, fence)
    await claims.reserve(world.desk, ADMIN, claims.Ask(worker_id="w1"))
    ended, fence = await world.held("w1")
    await world.close(ended, fence)
    await world.worker("w3")
    poisoned, fence = await world.held("w3")
    await world.close(poisoned, fence, "failed", error="ssh_timeout: no answer", retryable=False)


async def _park(world: World, run_id: str, fence: int, *, keep: bool) -> None:
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=keep))


@pytest.mark.origin("A28", "K5")
async def test_a_lease_gets_a_full_ttl_from_the_start(lives: Lives) -> None:
    async with lives() as world:
        run_id, fence = await world.held("w1", ttl=10)
        world.go(9)
        clock = world.clock
    clock.go(DAY_S)
    async with lives() as world:
        await world.later(9)
        assert "running" == world.state(run_id)
        assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
        await world.later(9)
        assert "running" == world.state(run_id)
        await world.later(1)
        assert "queued" == world.state(run_id)


@pytest.mark.origin("A28", "D5")
async def test_a_worker_is_as_good_as_heard_at_the_start(lives: Lives) -> None:
    async with lives() as world:
        await world.worker("w1")
        world.go(59)
        clock = world.clock
    clock.go(DAY_S)
    async with lives() as world:
        await world.later(59)
        assert ("default", "w1") in world.desk.live.workers
        await world.later(1)
        assert ("default", "w1") not in world.desk.live.workers


@pytest.mark.origin("A28", "D42")
async def test_a_reservation_has_its_whole_time_again_from_the_start(lives: Lives) -> None:
    async with lives() as world:
        await world.worker("w1")
        run_id = await world.submit()
        await claims.reserve(world.desk, ADMIN, claims.Ask(worker_id="w1"))
        world.go(100)
        await world.submit()
        clock = world.clock
    clock.go(DAY_S)
    async with lives() as world:
        await world.later(119)
        assert "reserved" == world.state(run_id)
        await world.later(1)
        assert "queued" == world.state(run_id)


@pytest.mark.origin("A28")
async def test_a_holder_that_could_not_hear_of_a_cancel_has_its_whole_grace_from_the_start(lives: Lives) -> None:
    async with lives() as world:
        run_id, _ = await world.held("w1")
        await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
        world.go(4)
        await world.submit()
        clock = world.clock
    clock.go(DAY_S)
    async with lives() as world:
        await world.later(9)
        assert "running" == world.state(run_id)
        await world.later(1)
        assert "cancelled" == world.state(run_id)


@pytest.mark.origin("A28", "B6")
async def test_a_slice_is_not_charged_for_the_time_down(lives: Lives) -> None:
    async with lives() as world:
        run_id, fence = await world.held("w1", hold=100, ttl=50)
        world.go(40)
        await world.submit()
        clock = world.clock
    clock.go(DAY_S)
    async with lives() as world:
        assert 60 == (await world.beats("w1", run_id, fence))["slice_ends_in_s"]
        await world.later(30)
        assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
        await world.later(30)
        assert "slice_ended" == (await world.beats("w1", run_id, fence))["outcome"]


@pytest.mark.origin("A28", "D50")
async def test_a_quarantine_is_not_served_while_the_service_is_down(lives: Lives) -> None:
    async with lives() as world:
        run_id, fence = await world.held("w1")
        await world.close(run_id, fence, "failed", error="ssh_timeout", retryable=False)
        world.go(100)
        await world.submit()
        clock = world.clock
    clock.go(DAY_S)
    async with lives() as world:
        await world.later(199)
        await world.worker("w1")
        assert isinstance(await world.refused_or(world.claim("w1")), WorkerInQuarantine)
        await world.later(1)
        assert 1 == len(await world.claim("w1"))


@pytest.mark.origin("A28")
async def test_the_time_that_the_replay_takes_is_charged_to_nobody(lives: Lives) -> None:
    async with lives() as world:
        run_id, _ = await world.held("w1")
        await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
        held, _ = await world.held("w1", hold=60)
        opening = Opening(world.journal, world.clock, world.mint, Timers())
        assert not opening.replay_some()
        world.go(DAY_S)
        desk = opening.finish()

        left = {due.kind: due.mono - world.clock().mono for due in desk.live.deadlines.all() if due.kind != "lease"}
        assert {"cancel": 10, "slice": 60, "worker": 60, "quiet": 300, "total": 1800} == left
        assert 60 == desk.live.slice_left_s(held, world.clock())


@pytest.mark.origin("D40")
async def test_a_replay_in_many_batches_gives_the_same_index(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("commands.boot.REPLAY_BATCH", 3)
    async with lives() as world:
        await _one_of_each(world)
        before = books(world.desk)
    async with lives() as world:
        assert before == books(world.desk)


@pytest.mark.origin("D60", "B33")
async def test_a_worker_goes_on_and_closes_after_the_service_has_died(lives: Lives) -> None:
    async with lives() as world:
        run_id, fence = await world.held("w1")
        await world.output(run_id, fence, 0, "before")
        await world.partial(run_id, fence, {"at": 1})
    async with lives() as world:
        await world.output(run_id, fence, 0, "before")
        await world.output(run_id, fence, 1, "after")
        closed = await world.close(run_id, fence, result="done")

        assert "succeeded" == closed["state"]
        assert 2 == world.facts(run_id)[-2].work.output_chunks  # type: ignore[attr-defined]


async def test_a_repeated_command_is_answered_across_a_restart(lives: Lives) -> None:
    async with lives() as world:
        await world.submit()
        await world.worker("w1")
        ask = claims.Ask(worker_id="w1")
        first = await claims.claim(world.desk, command("c1"), ask)
    async with lives() as world:
        again = await claims.claim(world.desk, command("c1"), ask)

        assert again.repeated
        assert [c["run_id"] for c in first.answer["claims"]] == [c["run_id"] for c in again.answer["claims"]]
        assert first.position == again.position


async def test_a_slice_that_has_ended_is_not_ended_again_after_a_restart(lives: Lives) -> None:
    async with lives() as world:
        run_id, _ = await world.held("w1", hold=10)
        await world.later(10)
    async with lives() as world:
        assert ["lease", "worker", "quiet", "total"] == [due.kind for due in world.desk.live.deadlines.all()]
        await world.later(60)

        assert "slice_ended" == (await world.show(run_id))["reason"]
