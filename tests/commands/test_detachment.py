"""Detachment: a worker's last stream closed by its side is evidence enough to transfer its runs, soon, and no more."""

import pytest

from commands import workers
from tests.commands.test_heartbeats import said
from tests.commands.world import ADMIN, World


@pytest.mark.origin("H3", "K3")
async def test_a_worker_whose_last_stream_broke_loses_its_leases_after_the_window(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=60)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(0.999)
    assert "running" == world.state(run_id)
    await world.later(0.001)

    assert "queued" == world.state(run_id)
    assert ("lost", "detached") == said(await world.beats("w1", run_id, fence))


async def test_a_renewal_on_any_road_restores_the_full_ttl(world: World) -> None:
    beaten, first = await world.held("w1", ttl=60)
    written, second = await world.held("w1", ttl=60)
    silent, _ = await world.held("w1", ttl=60)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.beats("w1", beaten, first)
    await world.output(written, second, 0, "x")
    await world.later(59)

    assert ("running", "running", "queued") == tuple(world.state(run_id) for run_id in (beaten, written, silent))


async def test_a_renewal_while_the_detachment_is_on_its_way_has_made_up_for_it(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=60)
    async with world.gate.closed() as gate:
        detaching = world.start(workers.detached(world.desk, ADMIN, "w1"))
        await gate.reached()
        world.go(50)
        assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    await detaching
    await world.later(59.9)
    assert "running" == world.state(run_id)
    await world.later(0.1)

    assert "queued" == world.state(run_id)


@pytest.mark.origin("B20")
async def test_a_detachment_never_spends_the_last_attempt(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=60, attempts=1)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(59)
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(59.9)
    assert "running" == world.state(run_id)
    await world.later(0.1)

    assert "aborted" == world.state(run_id)
    assert "expired" == next(f.outcome for f in world.facts(run_id) if type(f).__name__ == "AttemptEnded")  # type: ignore[attr-defined]


async def test_a_lease_that_is_granted_after_the_detachment_has_its_full_ttl(world: World) -> None:
    await world.worker("w1")
    await workers.detached(world.desk, ADMIN, "w1")
    run_id, _ = await world.held("w1", ttl=60)
    await world.later(59)

    assert "running" == world.state(run_id)


async def test_a_detachment_does_not_lengthen_a_lease(world: World) -> None:
    run_id, _ = await world.held("w1", ttl=60)
    await world.later(59.5)
    await workers.detached(world.desk, ADMIN, "w1")
    await world.later(0.5)

    assert "queued" == world.state(run_id)
