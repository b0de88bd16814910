"""After a restart every absence counts from the restart, and sessions have their full ttl."""

import itertools
from pathlib import Path

import pytest

from commands.presence import reseed_leaders
from domain.presence import LeaderGone, PresenceReseeded
from tests.commands.absent import GRACE_S, connected, dropped, known, session
from tests.commands.world import World, opened


@pytest.mark.origin("A27", "A49", "R5", "K5")
async def test_after_a_restart_every_leader_with_open_runs_has_its_full_grace_from_then(tmp_path: Path) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id = await world.submit(leader_id="ada")
        await world.submit(leader_id="never-connected")
        await dropped(world)
        await world.later(GRACE_S - 1)
        clock = world.clock
    clock.go(3_600)
    async with opened(tmp_path, ids) as world:
        await reseed_leaders(world.desk)
        assert world.clock().wall == known(world).zero_since
        assert world.clock().wall == known(world, "never-connected").zero_since
        await world.later(GRACE_S - 1)
        assert "queued" == world.state(run_id)
        await world.later(1)

        assert "cancelled" == world.state(run_id)
        gone = [fact for fact in world.facts() if isinstance(fact, LeaderGone)]
        seeds = [f.zero_since for f in world.facts() if isinstance(f, PresenceReseeded) and f.cause == "boot"]
        assert seeds == [fact.zero_since for fact in gone]


@pytest.mark.origin("A27", "A49")
async def test_connections_of_an_earlier_boot_are_void_and_a_return_keeps_the_runs(tmp_path: Path) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id = await world.submit(leader_id="ada")
        stay = connected(world)
        await stay.__aenter__()
    async with opened(tmp_path, ids) as world:
        await reseed_leaders(world.desk)
        assert {} == known(world).connections
        await world.later(GRACE_S - 1)
        async with connected(world):
            await world.later(10 * GRACE_S)

            assert "queued" == world.state(run_id)


@pytest.mark.origin("A27")
async def test_a_session_has_its_full_ttl_from_the_restart(tmp_path: Path) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id = await world.submit(leader_id="ada")
        await session(world, ttl_s=15)
        world.go(14)
        clock = world.clock
    clock.go(3_600)
    async with opened(tmp_path, ids) as world:
        await reseed_leaders(world.desk)
        at = world.clock()
        await world.later(14)
        assert 1 == len(known(world).connections)
        await world.later(1)
        assert at.after(15).wall == known(world).zero_since
        await world.later(GRACE_S)

        assert "cancelled" == world.state(run_id)


@pytest.mark.origin("A47")
async def test_the_worker_of_a_settled_run_is_told_and_reports_how_it_stopped(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada", ttl=3600)
    await world.later(GRACE_S)
    told = await world.beats("w1", run_id, fence)

    assert ("lost", fence + 1) == (told["outcome"], told["current"])
    assert "leader_gone" in told["reason"]
    assert "stop" == told["instructions"][0]["kind"]
    assert 10 == told["instructions"][0]["data"]["stop_within_s"]
