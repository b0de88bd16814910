"""Grants on their way into the journal: never shared, never beyond a limit, and given back when there are none."""

import asyncio
from typing import Any

import msgspec
import pytest

from domain.claiming import LimitReached
from domain.lease import FenceBumped, LeaseHeld
from domain.run import ABSENT, run_stream
from journal.errors import JournalBusy, JournalContended, OutcomeUnknown
from tests.commands.test_claiming_by_id import park
from tests.commands.test_claiming_by_queue import limited
from tests.commands.test_waiting_claims import waiting
from tests.commands.world import ADMIN, World


def fences(world: World) -> list[tuple[str, int, str]]:
    """Every grant that is recorded: run, fence, worker."""
    store = world.journal.store
    found = [(r.stream.partition("-")[2], r.fact) for r in store.facts_after(0, 10_000)]
    return [(run_id, fact.fence, fact.worker) for run_id, fact in found if isinstance(fact, FenceBumped)]


@pytest.mark.origin("R7", "B32", "D59", "K11")
async def test_two_claimants_never_share_a_run_while_the_store_is_slow(each_world: World) -> None:
    world = each_world
    for _ in range(3):
        await world.submit()
    for number in range(3):
        await world.worker(f"w{number}", slots=2)
    async with world.gate.closed() as gate:
        asked = [world.start(world.claim(f"w{number}", most=2)) for number in range(3)]
        await gate.reached()
        await world.settle()
    granted = [claim["run_id"] for one in asked for claim in await one]

    assert 3 == len(granted) == len(set(granted))
    assert 3 == len(fences(world))


@pytest.mark.origin("R7", "B14")
async def test_of_two_claims_by_id_in_one_moment_one_wins_and_the_other_is_told_who_holds_it(
    each_world: World,
) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    await world.worker("w2")
    async with world.gate.closed():
        first, second = world.start(world.claim_run(run_id, "w1")), world.start(world.claim_run(run_id, "w2"))
        await world.settle()
    refused = await world.refused_or(second)

    assert 1 == (await first)["fence"]
    assert isinstance(refused, LeaseHeld)
    assert "w1" == refused.holder
    assert [(run_id, 1, "w1")] == fences(world)


@pytest.mark.origin("R7", "D34b")
@pytest.mark.parametrize("by_id_first", [True, False])
async def test_a_claim_by_id_and_one_by_queue_of_the_same_run_are_one_grant(
    each_world: World, *, by_id_first: bool
) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    await world.worker("w2")
    async with world.gate.closed():
        doing = [lambda: world.claim_run(run_id, "w1"), lambda: world.claim("w2")]
        started = [world.start(one()) for one in (doing if by_id_first else reversed(doing))]
        await world.settle()
    await asyncio.gather(*started, return_exceptions=True)

    assert 1 == len(fences(world))
    assert 1 == world.desk.live.limits.total()
    assert 0 == world.desk.live.limits.count(("default", "w2" if by_id_first else "w1"))


@pytest.mark.parametrize("kind", ["slots", "queue", "key", "tenant"])
@pytest.mark.origin("D61")
async def test_grants_in_flight_count_in_every_limit(each_world: World, kind: str) -> None:
    world = each_world
    await world.worker("w1", slots=1 if kind == "slots" else 9)
    await world.worker("w2", slots=9)
    if kind == "queue":
        await limited(world, most=1)
    if kind == "tenant":
        world.desk.live.limits.tenant_max = 1
    key = "k" if kind == "key" else None
    first, second = await world.submit(concurrency_key=key), await world.submit(concurrency_key=key)
    other = "w1" if kind == "slots" else "w2"
    async with world.gate.closed() as gate:
        claim = world.start(world.claimed("w1"))
        await gate.reached()
        assert [] == await world.claim(other)
        refused = await world.refused_or(world.claim_run(second, other))
        assert isinstance(refused, LimitReached)

    assert first == (await claim)["run_id"]
    assert 1 == len(fences(world))


async def test_a_take_over_in_flight_counts_for_the_new_holder(each_world: World) -> None:
    world = each_world
    expired, _ = await world.held("w1", ttl=10)
    await world.submit()
    await world.worker("w2", slots=1)
    world.go(10)
    async with world.gate.closed() as gate:
        taking_over = world.start(world.claim_run(expired, "w2"))
        await gate.reached()
        assert [] == await world.claim("w2")
    await taking_over

    assert [] == await world.claim("w2")
    assert 1 == world.desk.live.limits.count(("default", "w2"))
    assert 0 == world.desk.live.limits.count(("default", "w1"))


async def test_a_take_over_that_fails_leaves_the_lease_with_its_holder(each_world: World) -> None:
    world = each_world
    expired, _ = await world.held("w1", ttl=10)
    await world.worker("w1", slots=1)
    await world.worker("w2", slots=1)
    await world.submit()
    world.go(10)
    world.gate.fails()
    assert isinstance(await world.refused_or(world.claim_run(expired, "w2")), OutcomeUnknown)

    assert [] == await world.claim("w1")
    assert 1 == len(await world.claim("w2"))
    assert 1 == world.desk.live.limits.count(("default", "w1"))


# The append fails


@pytest.mark.origin("D20", "D38")
async def test_a_grant_that_fails_gives_back_its_run_its_places_and_its_bell(each_world: World) -> None:
    world = each_world
    await limited(world, most=1)
    run_id = await world.submit(concurrency_key="k")
    await world.worker("w1")
    await world.worker("w2")
    async with world.gate.closed() as gate:
        failing = world.start(world.claim("w1"))
        await gate.reached()
        claim = await waiting(world, "w2")
        gate.fails()
    assert isinstance(await world.refused_or(failing), OutcomeUnknown)

    assert [(run_id, 1)] == [(granted["run_id"], granted["fence"]) for granted in await claim]


async def test_a_claim_by_id_that_fails_gives_back_its_run_and_its_places(each_world: World) -> None:
    world = each_world
    run_id = await world.submit(concurrency_key="k")
    await world.worker("w1")
    world.gate.fails()
    assert isinstance(await world.refused_or(world.claim_run(run_id, "w1")), OutcomeUnknown)

    assert 0 == world.desk.live.limits.total()
    assert run_id == (await world.claimed("w1"))["run_id"]


async def test_a_reservation_that_fails_gives_back_its_run_and_its_places(each_world: World) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    world.gate.fails()
    assert isinstance(await world.refused_or(world.claim("w1", reserve=True)), OutcomeUnknown)

    assert run_id == (await world.claimed("w1"))["run_id"]


@pytest.mark.origin("D38")
async def test_a_grant_that_landed_in_spite_of_an_error_is_a_grant(each_world: World) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    world.gate.fails(after_all=True)
    claim = await world.claimed("w1")

    assert (run_id, 1) == (claim["run_id"], claim["fence"])
    assert "renewed" == (await world.beats("w1", run_id, 1))["outcome"]


async def test_a_run_is_not_forgotten_when_storage_cannot_tell_whether_it_was_granted(each_world: World) -> None:
    world = each_world
    await limited(world, most=1)
    run_id = await world.submit()
    await world.worker("w1")
    store: Any = world.journal.store
    async with world.gate.closed() as gate:
        failing = world.start(world.claim("w1"))
        await gate.reached()
        gate.fails()
        reading, store.stream = store.stream, _unreadable
    assert isinstance(await world.refused_or(failing), OutcomeUnknown)
    await world.later(1)
    assert "find_out_grant" in (world.manager.first_error or "")
    assert 1 == world.desk.live.limits.total()

    store.stream = reading
    await world.later(1)
    assert run_id == (await world.claimed("w1"))["run_id"]
    assert world.manager.first_error is None
    assert {} == world.desk.live.doubtful


async def test_every_doubt_about_one_run_is_found_out(each_world: World) -> None:
    world = each_world
    await limited(world, most=1)
    run_id = await world.submit()
    await world.worker("w1", slots=2)
    store: Any = world.journal.store
    reading = store.stream
    for _ in range(3):
        async with world.gate.closed() as gate:
            failing = world.start(world.claim_run(run_id, "w1"))
            await gate.reached()
            gate.fails()
            store.stream = _unreadable
        assert isinstance(await world.refused_or(failing), OutcomeUnknown)
        store.stream = reading
    assert 1 == world.desk.live.limits.total()
    await world.later(1)

    assert ({}, 0, {}) == (world.desk.live.doubtful, world.desk.live.limits.total(), world.desk.live.limits._lent)
    assert run_id == (await world.claimed("w1"))["run_id"]


def _unreadable(name: str) -> Any:
    message = f"{name} cannot be read"
    raise OSError(message)


# The caller goes away


@pytest.mark.origin("R4", "D48")
async def test_a_claim_cancelled_with_its_grant_in_flight_keeps_its_places_until_that_is_known(
    each_world: World,
) -> None:
    world = each_world
    await limited(world, most=1)
    first, second = await world.submit(), await world.submit()
    await world.worker("w1")
    await world.worker("w2", slots=2)
    async with world.gate.closed() as gate:
        gone = world.start(world.claim("w1"))
        await gate.reached()
        gone.cancel()
        await world.settle()
        assert gone.cancelled()
        assert [] == await world.claim("w2", most=2)
    await world.journal.drain()
    await world.settle()

    assert [(first, 1, "w1")] == fences(world)
    assert [] == await world.claim("w2")
    assert "queued" == world.state(second)
    assert not world.desk.unfinished


async def test_a_claim_cancelled_with_a_grant_in_flight_that_fails_gives_everything_back(each_world: World) -> None:
    world = each_world
    await limited(world, most=1)
    run_id = await world.submit(concurrency_key="k")
    await world.worker("w1")
    await world.worker("w2")
    async with world.gate.closed() as gate:
        gone = world.start(world.claim("w1", wait_s=10))
        await gate.reached()
        gone.cancel()
        gate.fails()
        await world.settle()
        claim = await waiting(world, "w2")

    assert [run_id] == [granted["run_id"] for granted in await claim]


@pytest.mark.origin("D56")
async def test_a_claim_by_id_cancelled_with_its_grant_in_flight_keeps_the_run_until_that_is_known(
    each_world: World,
) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    await world.worker("w2")
    async with world.gate.closed() as gate:
        gone = world.start(world.claim_run(run_id, "w1"))
        await gate.reached()
        gone.cancel()
        other = world.start(world.claim_run(run_id, "w2"))
        await world.settle()
        assert not other.done()

    assert isinstance(await world.refused_or(other), LeaseHeld)
    await world.settle()
    assert (1, 0) == tuple(world.desk.live.limits.count(("default", f"w{number}")) for number in (1, 2))


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_grant_that_the_journal_has_no_room_for_gives_everything_back(
    each_world: World, *, by_id: bool
) -> None:
    world = each_world
    run_id = await world.submit(concurrency_key="k")
    await world.worker("w1")
    writer: Any = world.journal._writer
    room, writer._max_queued = writer._max_queued, 0
    refused = await world.refused_or(world.claim_run(run_id, "w1") if by_id else world.claim("w1"))
    assert isinstance(refused, JournalBusy)
    assert 0 == world.desk.live.limits.total()
    writer._max_queued = room

    assert run_id == (await world.claimed("w1"))["run_id"]


async def test_a_grant_that_is_refused_again_and_again_is_given_up_and_gives_everything_back(world: World) -> None:
    run_id = await world.submit()
    await world.worker("w1")
    versions = world.desk.worker(ADMIN, "w1")
    stale = msgspec.structs.replace(versions, version=99)
    load = world.journal.streams.load

    def behind(stream: str) -> Any:
        return stale if stream.startswith("worker-") else load(stream)

    world.journal.streams.load = behind  # type: ignore[method-assign]
    assert isinstance(await world.refused_or(world.claim("w1")), JournalContended)
    world.journal.streams.load = load  # type: ignore[method-assign]

    assert 0 == world.desk.live.limits.total()
    assert run_id == (await world.claimed("w1"))["run_id"]


@pytest.mark.parametrize("state", ["held", "parked"])
@pytest.mark.origin("A43", "D12")
async def test_a_run_that_only_the_index_takes_for_queued_is_not_granted_and_keeps_nobody_waiting(
    world: World, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_id, fence = await world.held("w1", ttl=60, priority=9)
    if state == "parked":
        await park(world, run_id, fence)
    other = await world.submit()
    await world.worker("w2", slots=1)
    world.desk.live.ready.offer(world.desk.live.cards[run_id], world.clock().wall, world.clock().wall)
    claim = await world.claimed("w2")

    assert other == claim["run_id"]
    assert ["was picked and refused" in record.message for record in caplog.records] == [True]
    assert (1, {}) == (world.desk.live.limits.count(("default", "w2")), world.desk.live.limits._lent)
    assert (state == "held") == (world.desk.live.limits.count(("default", "w1")) == 1)


async def test_a_run_that_was_picked_and_refused_is_in_its_queue_again_if_it_belongs_there(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await world.submit()
    await world.worker("w1")
    store, load = world.journal.streams, world.journal.streams.load
    store.load = lambda stream: ABSENT if stream == run_stream(run_id) else load(stream)  # type: ignore[method-assign]
    assert [] == await world.claim("w1")
    store.load = load  # type: ignore[method-assign]
    assert ["was picked and refused" in record.message for record in caplog.records] == [True]
    assert 0 == world.desk.live.limits.total()
    await world.later(1)

    assert run_id == (await world.claimed("w1"))["run_id"]
    assert {} == world.desk.live.doubtful
