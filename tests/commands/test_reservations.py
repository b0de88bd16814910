"""Reservations: a grant ahead of readiness. It counts, it gives no right to write, and it consumes nothing."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from commands import claims, ending, holding, steering
from commands.desk import Caller, NotAllowed
from commands.explaining import explain
from domain.claiming import LimitReached
from domain.lease import FenceLost, LeaseHeld, ReservationLost
from domain.run_facts import AttemptStarted
from tests.commands.books import leftovers
from tests.commands.test_claiming_by_id import park
from tests.commands.test_claiming_by_queue import limited
from tests.commands.world import ADMIN, World, closing, command, opened, plain, text, worker_key


async def reserved(world: World, worker_id: str = "w1", **wish: Any) -> tuple[str, str]:
    """A new run that is reserved for this worker, and its token."""
    run_id = await world.submit(**wish)
    if ("default", worker_id) not in world.desk.live.workers:
        await world.worker(worker_id, slots=9)
    claim = await world.claimed(worker_id, reserve=True)
    assert run_id == claim["run_id"]
    return run_id, str(claim["token"])


async def bind(world: World, token: str, caller: Caller = ADMIN) -> dict[str, Any]:
    """The claim that the reservation becomes."""
    return dict(plain((await claims.bind_token(world.desk, caller, token)).answer))


@pytest.mark.origin("D14", "D42", "D13")
async def test_a_reservation_raises_the_fence_and_starts_no_attempt(each_world: World) -> None:
    world = each_world
    run_id, token = await reserved(world)
    document = await world.show(run_id)

    assert ("reserved", 1, 0, "w1") == tuple(document[name] for name in ("state", "fence", "attempt", "owner"))
    assert "AttemptStarted" not in world.names(run_id)
    claim = await bind(world, token)
    assert (1, 1) == (claim["fence"], claim["attempt"])
    assert "running" == world.state(run_id)
    assert 1 == sum(isinstance(fact, AttemptStarted) for fact in world.facts(run_id))


@pytest.mark.origin("D42")
async def test_a_reservation_says_until_when_it_holds(world: World) -> None:
    await world.submit()
    await world.worker("w1")
    claim = await world.claimed("w1", reserve=True)

    assert "2026-01-01T12:02:00Z" == claim["lapses_at"]
    assert claim["token"]


@pytest.mark.origin("D14")
async def test_a_reservation_gives_no_right_to_write(world: World) -> None:
    run_id, _ = await reserved(world)
    writes = [
        world.output(run_id, 1, 0, "x"),
        world.partial(run_id, 1, 1),
        world.close(run_id, 1),
        ending.hand_back(world.desk, ADMIN, run_id, 1),
        holding.progress(world.desk, ADMIN, run_id, 1, holding.Progress(message="m")),
    ]

    for write in writes:
        assert isinstance(await world.refused_or(write), FenceLost)
    assert "lost" == (await world.beats("w1", run_id, 1))["outcome"]


@pytest.mark.origin("D42", "K15")
async def test_a_reservation_counts_in_every_limit(world: World) -> None:
    await limited(world, most=1)
    await reserved(world)
    second = await world.submit()
    await world.worker("w2")
    assert [] == await world.claim("w2")
    assert isinstance(await world.refused_or(world.claim_run(second, "w2")), LimitReached)

    await limited(world, most=9)
    await world.worker("w1", slots=1)
    assert [] == await world.claim("w1")


async def test_a_reservation_counts_for_its_concurrency_key(world: World) -> None:
    await reserved(world, concurrency_key="k")
    await world.submit(concurrency_key="k")

    assert [] == await world.claim("w1")


@pytest.mark.origin("D15", "D16", "D45")
async def test_a_cancelled_reservation_consumes_nothing_and_puts_the_schedule_back(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence, "failed")
    due_at = (await world.show(run_id))["due_at"]
    await world.later(10)
    claim = await world.claimed("w1", reserve=True)
    await claims.cancel_token(world.desk, ADMIN, claim["token"])
    document = await world.show(run_id)

    assert ("queued", due_at, 1, 1, 2) == tuple(
        document[name] for name in ("state", "due_at", "attempt", "failed_attempts", "fence")
    )
    assert 0 == world.desk.live.limits.total()
    assert (run_id, 3) == ((again := await world.claimed("w1"))["run_id"], again["fence"])


@pytest.mark.origin("D15", "D42")
async def test_a_reservation_that_is_not_bound_in_time_lapses_and_consumes_nothing(each_world: World) -> None:
    world = each_world
    run_id, token = await reserved(world)
    await world.later(119.999)
    assert "reserved" == world.state(run_id)
    await world.later(0.001)
    document = await world.show(run_id)

    assert ("queued", 0, 0) == tuple(document[name] for name in ("state", "attempt", "failed_attempts"))
    assert isinstance(await world.refused_or(bind(world, token)), ReservationLost)
    assert run_id == (await world.claimed("w1"))["run_id"]


@pytest.mark.origin("D18", "R21", "D61")
async def test_a_late_bind_meets_a_reservation_made_anew_and_is_refused(each_world: World) -> None:
    world = each_world
    run_id, first = await reserved(world)
    await claims.cancel_token(world.desk, ADMIN, first)
    second = str((await world.claimed("w1", reserve=True))["token"])

    assert first != second
    assert isinstance(await world.refused_or(bind(world, first)), ReservationLost)
    assert "reserved" == world.state(run_id)
    assert 2 == (await bind(world, second))["fence"]


@pytest.mark.origin("R21")
async def test_a_late_cancel_meets_a_reservation_made_anew_and_is_refused(world: World) -> None:
    run_id, first = await reserved(world)
    await claims.cancel_token(world.desk, ADMIN, first)
    await world.claimed("w1", reserve=True)

    assert isinstance(await world.refused_or(claims.cancel_token(world.desk, ADMIN, first)), ReservationLost)
    assert "reserved" == world.state(run_id)


@pytest.mark.origin("R21", "D34b")
async def test_a_bind_and_a_cancel_in_one_moment_are_one_of_the_two(each_world: World) -> None:
    world = each_world
    run_id, token = await reserved(world)
    async with world.gate.closed():
        cancelling = world.start(claims.cancel_token(world.desk, ADMIN, token))
        binding = world.start(bind(world, token, worker_key("w1")))
        await world.settle()
    await cancelling

    assert isinstance(await world.refused_or(binding), ReservationLost)
    assert "queued" == world.state(run_id)


@pytest.mark.origin("D17")
async def test_a_bind_that_fails_leaves_the_reservation_as_it_was(each_world: World) -> None:
    world = each_world
    run_id, token = await reserved(world)
    world.gate.fails()
    assert not isinstance(await world.refused_or(bind(world, token)), dict)
    assert "reserved" == world.state(run_id)
    assert "running" == (await bind(world, token), world.state(run_id))[1]
    assert 1 == world.desk.live.limits.total()


async def test_a_bound_reservation_is_bound_once(world: World) -> None:
    _, token = await reserved(world)
    first = await claims.bind_token(world.desk, command("c"), token)
    again = await claims.bind_token(world.desk, command("c"), token)

    assert again.repeated
    assert plain(first.answer) == plain(again.answer)
    assert isinstance(await world.refused_or(bind(world, token)), ReservationLost)


async def test_a_token_that_was_never_given_is_refused(world: World) -> None:
    assert isinstance(await world.refused_or(bind(world, "t")), ReservationLost)
    assert isinstance(await world.refused_or(claims.cancel_token(world.desk, ADMIN, "t")), ReservationLost)


async def test_a_token_is_of_no_use_to_another_worker_or_tenant(world: World) -> None:
    run_id, token = await reserved(world)
    stranger = Caller(tenant="other", principal="p", role="admin")

    assert isinstance(await world.refused_or(bind(world, token, worker_key("w2"))), NotAllowed)
    assert isinstance(await world.refused_or(bind(world, token, stranger)), ReservationLost)
    assert "reserved" == world.state(run_id)


async def test_a_reserved_run_that_is_cancelled_is_settled_at_once(world: World) -> None:
    run_id, token = await reserved(world)
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)

    assert "cancelled" == world.state(run_id)
    assert 0 == world.desk.live.limits.total()
    assert isinstance(await world.refused_or(bind(world, token)), ReservationLost)


async def test_a_reserved_run_that_is_paused_loses_its_reservation(world: World) -> None:
    run_id, token = await reserved(world)
    await steering.pause(world.desk, ADMIN, run_id)

    assert "paused" == world.state(run_id)
    assert isinstance(await world.refused_or(bind(world, token)), ReservationLost)
    assert [] == await world.claim("w1")


async def test_a_bound_lease_has_a_full_ttl_from_the_bind(world: World) -> None:
    run_id, token = await reserved(world, ttl=10)
    world.go(100)
    await bind(world, token)
    await world.later(9.9)

    assert "renewed" == (await world.beats("w1", run_id, 1))["outcome"]
    await world.later(9.9)
    assert "running" == world.state(run_id)


async def test_many_reservations_are_made_in_one_append(world: World) -> None:
    for _ in range(3):
        await world.submit()
    await world.worker("w1", slots=2)
    done = await claims.reserve(world.desk, ADMIN, claims.Ask(worker_id="w1", most=3))

    assert 2 == len({claim["token"] for claim in done.answer["claims"]})


async def test_nothing_is_left_of_reservations_that_ended(world: World) -> None:
    tokens = [(await reserved(world))[1] for _ in range(3)]
    runs = list(world.desk.live.cards)
    await bind(world, tokens[0])
    await claims.cancel_token(world.desk, ADMIN, tokens[1])
    await world.later(120)
    await world.claim("w1", most=9)
    await ending.close_many(world.desk, ADMIN, [closing(run_id, world_fence(world, run_id)) for run_id in runs])
    await world.later(60)

    assert {} == leftovers(world.desk)


def world_fence(world: World, run_id: str) -> int:
    """The fence in force."""
    return world.desk.standing(ADMIN, run_id).lease.fence


async def test_an_answer_that_is_given_meanwhile_is_seen_by_who_binds(world: World) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence)
    await steering.answer(world.desk, ADMIN, run_id, text("yes"))
    claim = await world.claimed("w1", reserve=True)

    assert ["yes"] == [given["answer"] for given in (await bind(world, claim["token"]))["answers"]]


async def test_a_reservation_is_over_at_its_deadline_though_that_is_not_recorded_yet(each_world: World) -> None:
    world = each_world
    run_id, token = await reserved(world)
    world.go(120)
    assert isinstance(await world.refused_or(bind(world, token)), ReservationLost)
    assert "reserved" == world.state(run_id)
    await world.keep()

    assert "queued" == world.state(run_id)


async def test_a_reservation_has_its_whole_time_again_after_a_day_without_service_and_says_so(data_dir: Path) -> None:
    ids = itertools.count(1)
    async with opened(data_dir, ids) as world:
        run_id, _ = await reserved(world)
        world.go(30)
    world.go(86_400)
    async with opened(data_dir, ids) as world:
        await world.worker("w2")
        refused = await world.refused_or(world.claim_run(run_id, "w2"))
        (told,) = [c for c in explain(world.desk, ADMIN, run_id)["clocks"] if c["name"] == "reservation"]

        assert isinstance(refused, LeaseHeld)
        assert 120 == refused.retry_after_s
        assert world.clock().after(120).wall == told["due_at"]
