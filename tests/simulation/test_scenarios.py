"""Short stories on the virtual clock: how long a death costs, what a restart and a wrong clock may not do."""

from collections.abc import AsyncIterator

import pytest

from commands import claims, effects, ending, holding, steering, submitting, workers
from commands.claims import Ask
from commands.desk import Caller
from commands.ending import CloseOf
from commands.holding import Chunk, Lessee
from commands.submitting import Wish
from domain.closing import Close
from domain.handing import Park
from domain.lease import FenceLost
from domain.run_facts import AttemptStarted
from domain.submission import Policy, Submit
from domain.values import NULL, to_json
from simulation.messages import Message, Reply
from simulation.world import World

TTL_S = 5.0
OPS = Caller(principal="ops", role="operator")


def caller(name: str, command_id: str | None = None) -> Caller:
    return Caller(
        principal=name, role="worker", workers=frozenset({name}), command_id=command_id, request_digest=command_id
    )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A service with two workers and one run, which ada holds under fence 1."""
    world = World()
    await world.start()
    for name in ("ada", "bob"):
        await workers.register_worker(world.desk, caller(name), name, workers.Ability({}, 1))
    await submitting.submit(world.desk, OPS, Wish(command=Submit(policy=Policy(lease_ttl_s=TTL_S))))
    assert [1] == await claimed(world, "ada")
    yield world
    world.check()
    world.check_replay()
    world.close()


async def claimed(world: World, name: str) -> list[int]:
    """The fences that this worker is granted now."""
    done = await claims.claim(world.desk, caller(name), Ask(worker_id=name))
    return [claim["fence"] for claim in done.answer["claims"]]


def run_id(world: World) -> str:
    return world.history.runs[0]


async def renewed(world: World, name: str, fence: int) -> str:
    (answer,) = await holding.heartbeat(world.desk, caller(name), name, [Lessee(run_id(world), fence)])
    outcome: str = answer["outcome"]
    return outcome


def waited_s(world: World) -> float:
    """Seconds from the first attempt's start to the second's, by the facts."""
    facts = world.desk.journal.store.facts_of(run_id(world), 0, 100)
    first, second = [recorded.fact for recorded in facts if isinstance(recorded.fact, AttemptStarted)]
    return (second.started_at - first.started_at).total_seconds()


@pytest.mark.origin("H13", "B18")
async def test_a_worker_whose_stream_breaks_is_followed_after_the_reconnect_window(world: World) -> None:
    await workers.detached(world.desk, caller("ada"), "ada")

    await world.pass_time(0.9)
    assert [] == await claimed(world, "bob")
    await world.pass_time(0.1)
    assert [2] == await claimed(world, "bob")
    assert 1.0 == waited_s(world)


@pytest.mark.origin("H13", "B2")
async def test_a_worker_that_falls_silent_is_followed_after_the_ttl_of_its_last_renewal(world: World) -> None:
    await world.pass_time(3.0)
    assert "renewed" == await renewed(world, "ada", 1)

    await world.pass_time(TTL_S - 0.1)
    assert [] == await claimed(world, "bob")
    await world.pass_time(0.1)
    assert [2] == await claimed(world, "bob")
    assert 3.0 + TTL_S == waited_s(world)


@pytest.mark.origin("B6", "K7")
async def test_where_deadline_and_slice_end_fall_on_one_instant_the_slice_ends_first_and_nothing_is_counted(
    world: World,
) -> None:
    both = Policy(lease_ttl_s=TTL_S, max_hold_s=TTL_S, max_attempts=1)
    submitted = await submitting.submit(world.desk, OPS, Wish(command=Submit(policy=both)))
    run = submitted.answer["run_id"]
    assert [1] == await claimed(world, "bob")

    await world.pass_time(TTL_S)
    assert "running" == world.history.standing(run).state
    assert getattr(world.history.standing(run).lease, "sliced", False)
    await world.pass_time(TTL_S)
    assert ("queued", 0) == (world.history.standing(run).state, world.history.standing(run).known.failed_attempts)


@pytest.mark.origin("A28", "K5", "H10")
async def test_a_restart_charges_its_downtime_to_nobody(world: World) -> None:
    await world.pass_time(TTL_S - 0.1)
    await world.restart(away_s=3600.0)

    await world.pass_time(TTL_S - 0.1)
    assert "renewed" == await renewed(world, "ada", 1)
    await world.pass_time(TTL_S)
    assert "lost" == await renewed(world, "ada", 1)


@pytest.mark.origin("H3", "K14")
@pytest.mark.parametrize("seconds", [-86_400.0, 86_400.0])
async def test_a_wall_clock_that_is_set_neither_keeps_a_lease_nor_ends_one(world: World, seconds: float) -> None:
    await world.pass_time(TTL_S - 0.1)
    world.set_wall(seconds)

    await world.pass_time(0.05)
    assert "renewed" == await renewed(world, "ada", 1)
    await world.pass_time(TTL_S)
    assert "lost" == await renewed(world, "ada", 1)
    assert [2] == await claimed(world, "bob")


@pytest.mark.origin("B4", "B5", "B32", "R8", "K11")
async def test_a_worker_that_was_frozen_past_its_ttl_writes_nothing_on_any_road(world: World) -> None:
    await world.pass_time(TTL_S)
    assert [2] == await claimed(world, "bob")
    desk, ada, run = world.desk, caller("ada"), run_id(world)
    position = world.history.position

    writes = (
        lambda: holding.save_partial(desk, ada, run, 1, to_json("stale")),
        lambda: holding.write_output(desk, ada, run, 1, Chunk(seq=1, stream="stdout", data="stale")),
        lambda: effects.claim_effect(desk, ada, run, 1, ("mail", NULL)),
        lambda: effects.finish_effect(desk, ada, run, 1, ("mail", "completed", NULL)),
        lambda: effects.reconcile_effect(desk, ada, run, 1, ("mail", "done", NULL)),
        lambda: ending.park(desk, ada, run, 1, Park(kind="waiting_input")),
        lambda: ending.hand_back(desk, ada, run, 1),
        lambda: ending.close(desk, ada, CloseOf(run_id=run, fence=1, close=Close(outcome="succeeded"))),
        lambda: ending.stop_report(desk, ada, run, 1, "saved"),
    )
    for write in writes:
        with pytest.raises(FenceLost) as refused:
            await write()
        assert (1, 2, "bob") == (refused.value.presented, refused.value.current, refused.value.holder)

    assert "lost" == await renewed(world, "ada", 1)
    assert position == world.history.position
    assert None is desk.journal.registers.partial(run)
    assert [] == desk.journal.registers.chunks(run, None, 10)


@pytest.mark.origin("D38", "H6")
@pytest.mark.parametrize("fault", ["before", "after", "unknown"])
async def test_a_close_whose_append_fails_is_repeated_and_takes_effect_once(world: World, fault: str) -> None:
    closing = CloseOf(run_id=run_id(world), fence=1, close=Close(outcome="succeeded", result=to_json(42)))
    message = Message(
        caller=caller("ada", "close-1"), text="closes", send=lambda desk, who: ending.close(desk, who, closing)
    )

    world.fail_next(fault)  # type: ignore[arg-type]
    first = await world.deliver(message)
    second = await world.deliver(message)
    third = await world.deliver(message)

    assert (fault == "before") == first.unknown
    assert second.position == third.position == world.history.position
    assert "succeeded" == world.history.standing(run_id(world)).state


@pytest.mark.origin("C32", "D38")
@pytest.mark.parametrize("lands", [True, False])
async def test_a_command_under_which_the_service_was_killed_is_told_apart_by_its_repeat(
    world: World, lands: bool
) -> None:
    replies: list[Reply] = []
    message = Message(
        caller=Caller(principal="ops", role="operator", command_id="cancel-1", request_digest="cancel-1"),
        text="cancels",
        send=lambda desk, who: steering.cancel(desk, who, run_id(world), keep_workspaces=False),
        heard=replies.append,
    )

    await world.crash_during([message], lands=lands, away_s=0.0)
    again = await world.deliver(message)

    assert replies[0].unknown
    assert lands == again.repeated
    assert world.history.standing(run_id(world)).known.cancel is not None
