"""Quiet stretches and overlong work: told once, changing nothing by themselves, and answered by the leader once."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from commands import effects, ending, holding, steering, turns
from commands.holding import Progress, Tool
from domain.handing import Park
from domain.lease import FenceLost
from domain.quiet import TOOL_CEILING_S, TimeoutAnswered, TimeoutUnknown
from domain.run_facts import WorkerTimeout
from tests.commands.absent import GRACE_S, connected
from tests.commands.world import ADMIN, World, opened, text

LONG: dict[str, Any] = {"ttl": 3600}


def told(world: World, run_id: str) -> list[str]:
    """The kinds of the timeouts that the run was told, in order."""
    return [fact.kind for fact in world.facts(run_id) if isinstance(fact, WorkerTimeout)]


def timeout_id(world: World, run_id: str) -> str:
    """The id of the last timeout's fact."""
    facts = world.journal.store.facts_of(run_id, 0, 1_000)
    return [recorded.meta.fact_id for recorded in facts if isinstance(recorded.fact, WorkerTimeout)][-1]


async def park(world: World, run_id: str, fence: int, *, keep: bool = False, kind: Any = "waiting_input") -> None:
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind=kind, keep_lease=keep))


async def tool(world: World, run_id: str, fence: int, state: Any, tool_id: str = "t1") -> None:
    note = Progress(message="", tool=Tool(id=tool_id, name="make", state=state))
    await holding.progress(world.desk, ADMIN, run_id, fence, note)


@pytest.mark.origin("A41", "A42", "A3")
async def test_a_quiet_stretch_is_told_once_at_its_bound_and_activity_begins_the_next(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held(**LONG)
    await world.later(299)
    assert [] == told(world, run_id)
    await world.later(1)
    await world.later(600)
    assert ["inactivity"] == told(world, run_id)
    await world.output(run_id, fence, 0, "x")
    await world.later(300)

    assert ["inactivity", "inactivity"] == told(world, run_id)
    assert "running" == world.state(run_id)


@pytest.mark.origin("D57")
async def test_a_clock_of_zero_seconds_is_none(world: World) -> None:
    run_id, _ = await world.held(quiet_after_s=0, total_after_s=0, **LONG)
    await world.later(3_599)

    assert [] == told(world, run_id)


@pytest.mark.origin("A42", "K1")
async def test_a_heartbeat_is_no_activity(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    for _ in range(30):
        await world.later(10)
        await world.beats("w1", run_id, fence)

    assert ["inactivity"] == told(world, run_id)


@pytest.mark.origin("A1")
async def test_a_parked_run_under_a_connected_leader_is_told_once_and_stays_as_it_is(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada", **LONG)
    await park(world, run_id, fence)
    async with connected(world):
        await world.later(1_000)
        await world.later(10_000)

        assert (["inactivity"], "waiting_input") == (told(world, run_id), world.state(run_id))


async def test_a_queued_run_is_nobodys_silence(world: World) -> None:
    run_id, fence = await world.held()
    await ending.hand_back(world.desk, ADMIN, run_id, fence)
    await world.later(1_000)

    assert [] == told(world, run_id)


async def test_a_tool_in_flight_holds_the_quiet_clock_up_to_its_ceiling(world: World) -> None:
    run_id, fence = await world.held(total_after_s=100_000, ttl=3600)
    await tool(world, run_id, fence, "started")
    for _ in range(3):
        await world.later(699)
        await world.beats("w1", run_id, fence)
    assert [] == told(world, run_id)
    await world.later(3)

    assert ["inactivity"] == told(world, run_id)


async def test_the_end_of_a_tool_starts_the_quiet_clock_anew(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    await tool(world, run_id, fence, "started")
    await world.later(1_000)
    await tool(world, run_id, fence, "ended")
    await world.later(299)
    assert [] == told(world, run_id)
    await world.later(1)

    assert ["inactivity"] == told(world, run_id)


async def test_a_tool_of_an_attempt_that_has_ended_holds_nothing(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    await tool(world, run_id, fence, "started")
    await ending.hand_back(world.desk, ADMIN, run_id, fence)
    await world.later(1)
    await world.claim_run(run_id)
    await world.later(300)

    assert ["inactivity"] == told(world, run_id)


async def test_a_restart_opens_no_new_quiet_stretch(tmp_path: Path) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id, fence = await world.held(**LONG)
        await park(world, run_id, fence)
        await world.later(300)
    async with opened(tmp_path, ids) as world:
        await world.later(10_000)

        assert ["inactivity"] == told(world, run_id)


async def test_a_quiet_stretch_starts_at_the_restart_when_it_had_not_been_told(tmp_path: Path) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id, _ = await world.held(**LONG)
        await world.later(299)
        clock = world.clock
    clock.go(86_400)
    async with opened(tmp_path, ids) as world:
        await world.later(299)
        assert [] == told(world, run_id)
        await world.later(1)

        assert ["inactivity"] == told(world, run_id)


@pytest.mark.origin("R23", "D28")
@pytest.mark.parametrize("hangs", [False, True])
async def test_a_restart_charges_no_attempt_for_a_tool_call_that_it_forgot(tmp_path: Path, hangs: bool) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id, fence = await world.held(on_quiet="fail_attempt", total_after_s=0, **LONG)
        await tool(world, run_id, fence, "started")
        await world.later(60)
    async with opened(tmp_path, ids) as world:
        await world.later(300 if not hangs else TOOL_CEILING_S + 299)
        assert ("running", []) == (world.state(run_id), told(world, run_id))
        if not hangs:
            await tool(world, run_id, fence, "ended")
            await world.later(299)
            assert "running" == world.state(run_id)
        await world.later(1)

        assert ("queued", "stalled") == (world.state(run_id), (await world.show(run_id))["reason"])


@pytest.mark.origin("A41", "A42")
@pytest.mark.parametrize("given", ["answer", "resume"])
async def test_what_the_holder_waited_for_is_not_its_silence(each_world: World, given: str) -> None:
    world = each_world
    run_id, fence = await world.held(on_quiet="fail_attempt", **LONG)
    if given == "resume":
        await steering.pause(world.desk, ADMIN, run_id)
    await park(world, run_id, fence, keep=True, kind="waiting_input" if given == "answer" else "paused")
    await world.later(299)
    if given == "answer":
        await steering.answer(world.desk, ADMIN, run_id, text("yes"))
    else:
        await steering.resume(world.desk, ADMIN, run_id)
    await world.later(299)
    assert ("running", []) == (world.state(run_id), told(world, run_id))
    await world.later(1)

    assert ("queued", ["inactivity"]) == (world.state(run_id), told(world, run_id))


@pytest.mark.origin("A42", "R23")
@pytest.mark.parametrize("activity", ["answer", "effect", "turn"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_work_that_the_journal_shows_begins_a_stretch_before_and_after_a_restart(
    tmp_path: Path, activity: str, restarted: bool
) -> None:
    ids = itertools.count(1)
    async with opened(tmp_path, ids) as world:
        run_id, fence = await world.held(on_quiet="report", **LONG)
        if activity == "answer":
            await park(world, run_id, fence, keep=True)
        await world.later(300)
        if activity == "answer":
            await steering.answer(world.desk, ADMIN, run_id, text("yes"))
        elif activity == "effect":
            await effects.claim_effect(world.desk, ADMIN, run_id, fence, ("mail", text("1")))
        else:
            await turns.admit(world.desk, ADMIN, run_id, fence, None)
        if not restarted:
            await world.later(300)
            assert ["inactivity", "inactivity"] == told(world, run_id)
    if restarted:
        async with opened(tmp_path, ids) as world:
            await world.later(300)

            assert ["inactivity", "inactivity"] == told(world, run_id)


async def test_a_tool_call_of_a_closed_attempt_holds_no_clock_while_the_verdict_is_awaited(world: World) -> None:
    run_id, fence = await world.held(leader_id="ada", verdict_by="leader", **LONG)
    async with connected(world):
        await tool(world, run_id, fence, "started")
        await world.close(run_id, fence)
        await world.later(300)

        assert ("waiting_verdict", ["inactivity"]) == (world.state(run_id), told(world, run_id))


@pytest.mark.origin("A41", "A42")
async def test_the_total_is_told_once_without_the_time_that_the_run_was_parked(world: World) -> None:
    run_id, fence = await world.held(quiet_after_s=80_000, ttl=3600)
    await world.later(1_000)
    await park(world, run_id, fence, keep=True)
    await world.later(2_000)
    await world.beats("w1", run_id, fence)
    assert [] == told(world, run_id)
    await steering.answer(world.desk, ADMIN, run_id, b"1")  # type: ignore[arg-type]
    await world.later(799)
    assert [] == told(world, run_id)
    await world.later(1)
    await world.later(1_800)

    assert (["total"], "running") == (told(world, run_id), world.state(run_id))


@pytest.mark.origin("A44")
async def test_an_extension_gives_the_total_its_whole_time_again(world: World) -> None:
    run_id, fence = await world.held(quiet_after_s=80_000, ttl=3600)
    await world.later(1_800)
    await steering.acknowledge_timeout(world.desk, ADMIN, run_id, timeout_id(world, run_id), "extend")
    await world.beats("w1", run_id, fence)
    await world.later(1_799)
    assert ["total"] == told(world, run_id)
    await world.later(1)

    assert ["total", "total"] == told(world, run_id)


@pytest.mark.origin("A41", "A44")
async def test_of_a_silence_that_was_told_and_extended_nothing_is_told_again_until_there_was_activity(
    world: World,
) -> None:
    run_id, fence = await world.held(**LONG)
    await world.later(300)
    await steering.acknowledge_timeout(world.desk, ADMIN, run_id, timeout_id(world, run_id), "extend")
    await world.later(1_000)
    assert ["inactivity"] == told(world, run_id)
    await world.partial(run_id, fence, "half")
    await world.later(299)
    assert ["inactivity"] == told(world, run_id)
    await world.later(1)

    assert ["inactivity", "inactivity"] == told(world, run_id)


@pytest.mark.origin("A44")
async def test_an_abort_settles_the_run_and_cites_the_timeout(world: World) -> None:
    run_id, fence = await world.held(**LONG)
    await world.partial(run_id, fence, "half")
    await world.later(300)
    await steering.acknowledge_timeout(world.desk, ADMIN, run_id, timeout_id(world, run_id), "abort")

    shown = await world.show(run_id)
    assert ("aborted", "timeout_aborted", "half") == (shown["state"], shown["reason"], shown["result"])
    assert "lost" == (await world.beats("w1", run_id, fence))["outcome"]


@pytest.mark.origin("A44")
async def test_a_timeout_is_answered_once_and_an_unknown_one_not_at_all(world: World) -> None:
    run_id, _ = await world.held(**LONG)
    await world.later(300)
    known = timeout_id(world, run_id)
    await steering.acknowledge_timeout(world.desk, ADMIN, run_id, known, "extend")
    facts = world.names()
    await steering.acknowledge_timeout(world.desk, ADMIN, run_id, known, "extend")
    otherwise = await world.refused_or(steering.acknowledge_timeout(world.desk, ADMIN, run_id, known, "abort"))
    unknown = await world.refused_or(steering.acknowledge_timeout(world.desk, ADMIN, run_id, "none", "abort"))

    assert isinstance(otherwise, TimeoutAnswered)
    assert isinstance(unknown, TimeoutUnknown)
    assert facts == world.names()


@pytest.mark.origin("D28", "D57", "K2", "R24")
async def test_a_stall_by_policy_ends_the_attempt_quarantines_the_worker_and_a_late_success_is_refused(
    each_world: World,
) -> None:
    world = each_world
    run_id, fence = await world.held(on_quiet="fail_attempt", quiet_after_s=300, **LONG)
    await world.later(300)

    assert ["WorkerTimeout", "AttemptEnded", "LeaseRevoked"] == world.names(run_id)[-3:]
    shown = await world.show(run_id)
    assert ("queued", "stalled", 1) == (shown["state"], shown["reason"], shown["failed_attempts"])
    assert ("default", "w1") in world.desk.live.fleet.quarantined
    assert isinstance(await world.refused_or(world.close(run_id, fence)), FenceLost)
    assert "lost" == (await world.beats("w1", run_id, fence))["outcome"]


@pytest.mark.origin("D28")
async def test_stalls_that_spend_the_last_attempt_abort_the_run(world: World) -> None:
    run_id, _ = await world.held(on_quiet="fail_attempt", attempts=1, **LONG)
    await world.later(300)

    shown = await world.show(run_id)
    assert ("aborted", "attempts_exhausted") == (shown["state"], shown["reason"])


@pytest.mark.origin("R23", "D28")
async def test_a_run_that_completes_while_it_is_being_judged_is_not_stalled(world: World) -> None:
    run_id, fence = await world.held(on_quiet="fail_attempt", **LONG)
    world.go(300)
    async with world.gate.closed() as gate:
        closing = world.start(world.close(run_id, fence))
        await gate.reached()
        judging = world.start(world.keep())
        await world.settle()
    await closing
    await judging

    assert "succeeded" == world.state(run_id)
    assert [] == told(world, run_id)
    assert {} == world.desk.live.fleet.quarantined


@pytest.mark.origin("D30", "R23")
async def test_a_reservation_and_a_parked_run_are_never_stalled(world: World) -> None:
    await world.worker("w1", slots=5)
    reserved = await world.submit(on_quiet="fail_attempt", quiet_after_s=60)
    await world.claim("w1", reserve=True)
    waiting, fence = await world.held("w1", on_quiet="fail_attempt", quiet_after_s=60, **LONG)
    await park(world, waiting, fence, keep=True)
    await world.later(100)

    assert ("reserved", "waiting_input") == (world.state(reserved), world.state(waiting))
    assert [] == told(world, reserved)


@pytest.mark.origin("K2")
async def test_three_clocks_have_three_consequences(world: World) -> None:
    quiet, fence = await world.held("w1", ttl=3600, quiet_after_s=60)
    silent, _ = await world.held("w1", ttl=60, quiet_after_s=3_000)
    unwanted = await world.submit(leader_id="ada")
    await world.later(GRACE_S)

    assert ("running", "queued", "cancelled") == tuple(world.state(run_id) for run_id in (quiet, silent, unwanted))
    assert (["inactivity"], ["lease_expired"], ["leader_gone"]) == tuple(
        told(world, run_id) for run_id in (quiet, silent, unwanted)
    )
    assert "renewed" == (await world.beats("w1", quiet, fence))["outcome"]
