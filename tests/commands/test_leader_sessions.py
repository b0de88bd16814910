"""Heartbeat sessions: a leader that cannot stream is present for as long as it is heard."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from commands import presence
from domain.presence import LeaderDisconnected
from domain.refusal import InvalidCommand
from tests.commands.absent import GRACE_S, connected, dropped, key, known, recorded, session, story
from tests.commands.world import ADMIN, World, opened


async def test_a_session_is_present_until_its_ttl_has_run_out_unheard(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    await session(world, ttl_s=15)
    at = world.clock()
    await world.later(14)
    assert 1 == (await session(world, ttl_s=15))["connections"]
    await world.later(15)
    assert at.after(29).wall == known(world).zero_since
    await world.later(GRACE_S)

    assert "cancelled" == world.state(run_id)
    assert ["expired"] == [fact.cause for fact in world.facts() if isinstance(fact, LeaderDisconnected)]


async def test_the_end_of_a_session_is_its_ttl_however_late_it_is_looked_at(world: World) -> None:
    await world.submit(leader_id="ada")
    await session(world, ttl_s=15)
    at = world.clock()
    await world.later(40)

    assert at.after(15).wall == known(world).zero_since


async def test_an_absence_begins_at_the_last_drop_though_the_end_of_a_session_is_found_out_after_it(
    world: World,
) -> None:
    """The stream outlived the session; only then is the session's end looked at."""
    run_id = await world.submit(leader_id="ada")
    async with connected(world):
        await session(world, ttl_s=15)
        at = world.clock()
        world.go(20)
    world.go(1)
    await world.keep()

    assert at.after(20).wall == known(world).zero_since
    await world.later(GRACE_S - 1.5)
    assert "queued" == world.state(run_id)
    await world.later(0.5)
    assert "cancelled" == world.state(run_id)


@pytest.mark.parametrize("cause", ["expired", "left"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_an_end_of_a_session_that_is_recorded_late_does_not_end_the_session_that_is_heard_again(
    tmp_path: Path, cause: str, restarted: bool
) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id = await world.submit(leader_id="ada")
        await session(world, ttl_s=5)
        world.go(5 if cause == "expired" else 1)
        world.gate.fails()
        if cause == "expired":
            ending: asyncio.Future[Any] = world.start(world.manager.step())
        else:
            ending = world.start(presence.leave_session(world.desk, ADMIN, "ada", "s1"))
        while not world.desk.evidence.presence.unrecorded_drops:
            await asyncio.sleep(0)
        await session(world, ttl_s=600)
        await ending
        await recorded(world)
        assert ["s1"] == [*known(world).connections]
        assert [] == [fact for fact in world.facts() if isinstance(fact, LeaderDisconnected)]
        if not restarted:
            await world.later(599)
            assert "queued" == world.state(run_id)
    if restarted:
        async with opened(tmp_path, ids) as world:
            await presence.reseed_leaders(world.desk)
            await world.later(599)

            assert "queued" == world.state(run_id)


async def test_a_session_that_is_heard_after_its_end_is_a_return(world: World) -> None:
    await world.submit(leader_id="ada")
    await session(world, ttl_s=15)
    world.go(20)
    await session(world, ttl_s=15)

    assert ["LeaderVanished", "LeaderConnected", "LeaderReturned"] == story(world)[-3:]
    assert 1 == len(known(world).connections)


async def test_a_session_that_was_heard_at_the_last_moment_does_not_expire(world: World) -> None:
    await world.submit(leader_id="ada")
    await session(world, ttl_s=15)
    world.go(15)
    marks = world.desk.evidence.presence
    marks.hear_session(key(), "s1", 15, world.clock())

    assert not await presence.end_session(world.desk, key(), "s1", "expired")


async def test_a_session_leaves_politely_and_once(world: World) -> None:
    await session(world)
    left = await presence.leave_session(world.desk, ADMIN, "ada", "s1")
    again = await presence.leave_session(world.desk, ADMIN, "ada", "s1")

    assert (0, 0) == (left["connections"], again["connections"])
    assert 1 == story(world).count("LeaderDisconnected")


@pytest.mark.origin("A15")
@pytest.mark.parametrize("ttl_s", [-1, 0, 0.5, 3601, float("nan")])
async def test_a_session_with_a_ttl_out_of_bounds_is_refused_and_leaves_nothing(world: World, ttl_s: float) -> None:
    refused = await world.refused_or(session(world, ttl_s=ttl_s))

    assert isinstance(refused, InvalidCommand)
    assert [] == world.facts()
    assert {"connections": 0, "sessions": 0} == world.desk.evidence.presence.sizes()


@pytest.mark.origin("A15")
@pytest.mark.parametrize("leader_id", ["", "x" * 129, "a b", "a:b", "ä"])
async def test_a_malformed_leader_id_is_refused(world: World, leader_id: str) -> None:
    assert isinstance(await world.refused_or(session(world, leader_id=leader_id)), InvalidCommand)
    assert isinstance(await world.refused_or(dropped(world, leader_id)), InvalidCommand)
    assert [] == world.facts()


async def test_a_session_cannot_take_the_place_of_a_stream(world: World) -> None:
    async with connected(world) as link:
        refused = await world.refused_or(session(world, link.connection_id))
        await presence.leave_session(world.desk, ADMIN, "ada", link.connection_id)

        assert isinstance(refused, InvalidCommand)
        assert 1 == len(known(world).connections)
