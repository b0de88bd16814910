"""A leader's absence, and only its absence, settles its runs: after its grace, each re-checked, nobody else's ever."""

import asyncio

import pytest

from commands import presence, steering
from commands.desk import NotAllowed
from domain.run_facts import RunSettled, WorkerTimeout
from domain.values import cite
from tests.commands.absent import GRACE_S, connected, dropped, key, known, recorded, session, story
from tests.commands.world import ADMIN, World, leader

ABSENT = ["PresenceReseeded", "LeaderConnected", "LeaderReturned", "LeaderDisconnected", "LeaderVanished"]


@pytest.mark.origin("A17", "A19", "A16", "A40")
async def test_the_runs_of_a_leader_that_is_gone_are_settled_at_its_grace_and_cite_what_was_seen(
    each_world: World,
) -> None:
    world = each_world
    run_id, _ = await world.held(leader_id="ada")
    await dropped(world)
    await world.later(GRACE_S - 0.001)
    assert "running" == world.state(run_id)
    await world.later(0.001)

    assert [*ABSENT, "LeaderGone"] == story(world)
    assert ["WorkerTimeout", "AttemptEnded", "RunSettled", "LeaseRevoked"] == world.names(run_id)[-4:]
    timeout, settled = (f for f in world.facts(run_id) if isinstance(f, WorkerTimeout | RunSettled))
    assert isinstance(timeout, WorkerTimeout)
    assert isinstance(settled, RunSettled)
    assert ("leader_gone", (cite("presence-default:ada", 6),)) == (timeout.kind, timeout.cites)
    assert ("cancelled", "leader_gone") == (settled.state, settled.reason)
    assert set(timeout.cites) < set(settled.cites)


@pytest.mark.origin("A2", "A1", "A3", "K1")
async def test_a_quiet_worker_under_a_connected_leader_is_told_once_and_never_settled(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada", ttl=3600, quiet_after_s=300)
    async with connected(world):
        for _ in range(40):
            await world.later(30)
            await world.beats("w1", run_id, fence)

        assert "running" == world.state(run_id)
        assert ["inactivity"] == [fact.kind for fact in world.facts(run_id) if isinstance(fact, WorkerTimeout)]


@pytest.mark.origin("R1", "A8", "A12")
async def test_a_new_connection_before_the_old_one_drops_is_no_absence(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    async with connected(world):
        before = story(world)
        async with connected(world, kind="socket"):
            assert 2 == len(known(world).connections)
        assert 1 == len(known(world).connections)
        await world.later(2 * GRACE_S)

        assert "queued" == world.state(run_id)
        assert ["LeaderConnected", "LeaderDisconnected"] == story(world)[len(before) :]


@pytest.mark.origin("R2", "A10")
async def test_a_timer_of_an_earlier_absence_does_nothing_to_a_younger_one(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    await dropped(world)
    await world.later(50)
    await dropped(world)
    await world.later(59)
    assert "queued" == world.state(run_id)
    assert "LeaderGone" not in story(world)
    await world.later(1)

    assert "cancelled" == world.state(run_id)
    assert 2 == story(world).count("LeaderVanished")


@pytest.mark.origin("R2", "A10", "A18")
async def test_a_leader_that_came_and_went_while_the_settling_waited_is_not_declared_gone(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    await dropped(world)
    world.go(GRACE_S)
    async with world.gate.closed() as gate:
        blocked = world.start(dropped(world))
        await gate.reached()
        settling = world.start(world.keep())
        await world.settle()
    await asyncio.gather(blocked, settling)

    assert "queued" == world.state(run_id)
    assert "LeaderGone" not in story(world)


@pytest.mark.origin("R3", "A26", "A51", "A18")
async def test_a_leader_that_returns_between_two_settlements_keeps_the_rest(
    each_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = each_world
    monkeypatch.setattr("commands.presence.SIDE_BY_SIDE", 1)
    runs = [await world.submit(leader_id="ada") for _ in range(4)]
    await dropped(world)
    world.go(GRACE_S)
    settle_one, done = presence.settle_one, list[bool]()

    async def returning(*args: object) -> bool:
        if len(done) == 2:
            await back.__aenter__()
        done.append(await settle_one(*args))  # type: ignore[arg-type]
        return done[-1]

    back = connected(world)
    monkeypatch.setattr("commands.presence.settle_one", returning)
    await world.keep()
    states = [world.state(run_id) for run_id in runs]
    await back.__aexit__(None, None, None)

    assert ["cancelled", "cancelled", "queued", "queued"] == states
    assert [True, True, False, False] == done


@pytest.mark.origin("A18", "A51", "R3")
async def test_a_return_between_the_last_look_and_the_append_undoes_the_settlement(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    await dropped(world)
    world.go(GRACE_S)
    await presence._declare(world.desk, key())
    async with world.gate.closed() as gate:
        back = world.start(_stay(world))
        await gate.reached()
        world.desk.evidence.presence.drop(key(), next(iter(world.desk.evidence.presence._live[key()])), 0.0)
        settling = world.start(presence.settle_one(world.desk, key(), run_id))
        await world.settle()
    settled = await settling
    back.cancel()

    assert not settled
    assert "queued" == world.state(run_id)


async def _stay(world: World) -> None:
    async with connected(world):
        await asyncio.Event().wait()


@pytest.mark.origin("A25", "A23")
async def test_the_absence_of_one_leader_touches_no_run_of_another(world: World) -> None:
    mine, hers, nobodys = [await world.submit(leader_id=each) for each in ("ada", "bea", None)]
    async with connected(world, "bea"):
        await dropped(world, "ada")
        await world.later(2 * GRACE_S)

        assert ["cancelled", "queued", "queued"] == [world.state(run_id) for run_id in (mine, hers, nobodys)]


@pytest.mark.origin("R6", "A22", "A23")
async def test_a_run_that_ended_meanwhile_is_skipped(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada")
    await dropped(world)
    world.go(GRACE_S - 1)
    await world.beats("w1", run_id, fence)
    world.go(1)
    async with world.gate.closed() as gate:
        closing = world.start(world.close(run_id, fence))
        await gate.reached()
        settling = world.start(world.keep())
        await world.settle()
    await asyncio.gather(closing, settling)

    assert "succeeded" == world.state(run_id)
    assert "WorkerTimeout" not in world.names(run_id)


@pytest.mark.origin("A13", "A9")
async def test_a_leader_of_which_nothing_was_ever_recorded_is_not_gone(world: World) -> None:
    assert not await presence.settle_absent(world.desk, "default", "nobody")
    shown = presence.show_presence(world.desk, ADMIN, "nobody")

    assert {"leader_id": "nobody", "connections": 0, "zero_since": None, "open_runs": 0} == shown


@pytest.mark.origin("A14", "A48")
async def test_a_run_under_an_absent_leader_has_its_own_grace_and_overwrites_no_earlier_absence(world: World) -> None:
    first = await world.submit(leader_id="ada")
    since = known(world).zero_since
    world.go(40)
    second = await world.submit(leader_id="ada")
    assert since == known(world).zero_since
    await world.later(20)
    assert ("cancelled", "queued") == (world.state(first), world.state(second))
    await world.later(40)

    assert "cancelled" == world.state(second)
    assert 1 == story(world).count("LeaderGone")


@pytest.mark.origin("A14")
async def test_a_leader_that_left_without_runs_is_still_absent_when_it_submits_one(world: World) -> None:
    await dropped(world)
    world.go(1000)
    run_id = await world.submit(leader_id="ada")
    await world.later(GRACE_S - 1)
    assert "queued" == world.state(run_id)
    await world.later(1)

    assert "cancelled" == world.state(run_id)


@pytest.mark.origin("A14")
async def test_seeding_never_overwrites_a_live_connection(world: World) -> None:
    async with connected(world):
        await world.submit(leader_id="ada")

        assert ["LeaderConnected"] == story(world)


@pytest.mark.origin("A5")
async def test_a_leader_that_flaps_within_its_grace_loses_nothing_and_beyond_it_loses_its_runs(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    for _ in range(5):
        await dropped(world)
        await world.later(GRACE_S - 1)
    assert "queued" == world.state(run_id)
    await world.later(1)

    assert "cancelled" == world.state(run_id)


@pytest.mark.origin("R4", "A11", "H7")
@pytest.mark.parametrize("way_out", ["end", "exception", "cancelled"])
async def test_a_connection_is_given_back_on_every_way_out(world: World, way_out: str) -> None:
    await world.submit(leader_id="ada")

    async def hold() -> None:
        async with connected(world):
            if way_out == "exception":
                message = "something else broke"
                raise RuntimeError(message)
            if way_out == "cancelled":
                await asyncio.Event().wait()

    holding = world.start(hold())
    await world.settle()
    if way_out == "cancelled":
        holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await recorded(world)

    assert {} == known(world).connections
    assert 0 == world.desk.evidence.presence.count(key())
    assert 1 == story(world).count("LeaderVanished")


@pytest.mark.origin("R4", "A11")
async def test_a_connection_that_goes_while_its_arrival_is_still_on_the_way_is_given_back(world: World) -> None:
    await world.submit(leader_id="ada")
    async with world.gate.closed() as gate:
        holding = world.start(_stay(world))
        await gate.reached()
        holding.cancel()
        await world.settle()
        assert 0 == world.desk.evidence.presence.count(key())
    await asyncio.gather(holding, return_exceptions=True)
    await recorded(world)

    assert {} == known(world).connections
    assert "LeaderVanished" == story(world)[-1]


@pytest.mark.origin("R4", "A11")
async def test_a_drop_whose_append_fails_counts_from_the_drop_and_is_told_until_it_is_recorded(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    holding = world.start(_stay(world))
    await world.settle()
    await world.journal.drain()
    world.gate.fails(3)
    at = world.clock()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await world.settle()
    assert 0 == world.desk.evidence.presence.count(key())
    await recorded(world)

    assert at.wall == known(world).zero_since
    assert 0 == world.desk.evidence.presence.unrecorded_drops
    world.go(GRACE_S - (world.clock().mono - at.mono))
    await world.keep()
    assert "cancelled" == world.state(run_id)


@pytest.mark.origin("R4", "A7")
async def test_an_arrival_that_cannot_be_recorded_is_refused_and_counts_for_nothing(world: World) -> None:
    world.gate.fails(10)
    failed = await world.refused_or(dropped(world))
    world.gate.fails(0)
    await recorded(world)

    assert isinstance(failed, Exception)
    assert (0, {}) == (world.desk.evidence.presence.count(key()), known(world).connections)


async def test_a_step_of_the_wall_clock_neither_lengthens_nor_shortens_a_grace(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    holding = world.start(_stay(world))
    await world.settle()
    await world.journal.drain()
    world.gate.fails(1)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    world.clock.set_wall(86_400)
    await recorded(world)
    await world.later(GRACE_S - 2)

    assert "queued" == world.state(run_id)


@pytest.mark.origin("A20")
async def test_a_cancel_asks_who_wants_it_and_an_absence_asks_nobody(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    refused = await world.refused_or(steering.cancel(world.desk, leader("bea"), run_id, keep_workspaces=False))
    await world.later(GRACE_S)

    assert isinstance(refused, NotAllowed)
    assert "leader 'ada' or an operator" == refused.allowed
    assert "cancelled" == world.state(run_id)


async def test_a_leader_that_is_gone_comes_before_a_lease_that_ends_at_the_same_instant(world: World) -> None:
    run_id, _ = await world.held(leader_id="ada", ttl=60, attempts=1)
    await world.later(60)

    settled = next(fact for fact in world.facts(run_id) if isinstance(fact, RunSettled))
    assert ("cancelled", "leader_gone") == (settled.state, settled.reason)
    assert "LeaseExpired" not in world.names(run_id)


@pytest.mark.parametrize(("policy", "state"), [("keep", "running"), ("park", "paused"), ("cancel", "cancelled")])
async def test_what_an_absence_means_is_the_policy_of_the_run(world: World, policy: str, state: str) -> None:
    run_id, fence = await world.held(leader_id="ada", on_leader_gone=policy, ttl=3600)
    await world.later(10 * GRACE_S)
    told = [fact.kind for fact in world.facts(run_id) if isinstance(fact, WorkerTimeout)]

    assert (state, 1) == (world.state(run_id), told.count("leader_gone"))
    assert (fence + 1 if policy == "cancel" else fence) == (await world.show(run_id))["fence"]
    if policy == "park":
        await steering.resume(world.desk, ADMIN, run_id)
        assert "queued" == world.state(run_id)


async def test_a_run_that_is_kept_does_not_keep_the_others_from_their_time(world: World) -> None:
    await world.submit(leader_id="ada", on_leader_gone="keep")
    world.go(30)
    later = await world.submit(leader_id="ada")
    await world.later(30)
    assert "queued" == world.state(later)
    await world.later(30)

    assert "cancelled" == world.state(later)


async def test_a_connection_that_our_own_stop_closes_begins_no_absence(world: World) -> None:
    run_id = await world.submit(leader_id="ada")
    async with connected(world) as link:
        link.cause = "server_stopping"
    await world.later(10 * GRACE_S)

    assert "LeaderDisconnected" == story(world)[-1]
    assert "queued" == world.state(run_id)


async def test_nothing_is_left_of_leaders_when_nothing_is_open(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada")
    await session(world)
    async with connected(world):
        await world.close(run_id, fence)
    await presence.leave_session(world.desk, ADMIN, "ada", "s1")

    assert [] == world.desk.live.leaders.items()
    assert {"worker"} >= {due.kind for due in world.desk.live.deadlines.all()}
    assert {"connections": 0, "sessions": 0} == world.desk.evidence.presence.sizes()
