"""Several processes over one journal: one writes, others are refused, follow or read, each by a clock of its own."""

from collections.abc import AsyncIterator, Callable

import pytest

from commands import claims, holding, submitting, workers
from commands.claims import Ask
from commands.desk import Caller, Desk
from commands.holding import Lessee
from commands.submitting import Wish
from domain.submission import Policy, Submit
from journal.errors import DataDirBusy, JournalTaken
from simulation.broken import LawBroken
from simulation.cast import Cast
from simulation.clock import OwnClock, ServiceClock, Time
from simulation.ending import PLAIN
from simulation.lease_books import LEASE
from simulation.messages import Message
from simulation.nodes import NODES, Process
from simulation.world import World

TTL_S = 5.0
OPS = Caller(principal="ops", role="operator")
ADA = Caller(principal="ada", role="worker", workers=frozenset({"ada"}))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A service on the first node with one run, which ada holds under fence 1."""
    world = World()
    await world.start()
    await workers.register_worker(world.desk, ADA, "ada", workers.Ability({}, 1))
    await submit(world.desk)
    await claims.claim(world.desk, ADA, Ask(worker_id="ada"))
    yield world
    await world.abandon()
    world.close()


async def submit(desk: Desk) -> int | None:
    """The position of one more run."""
    done = await submitting.submit(desk, OPS, Wish(command=Submit(policy=Policy(lease_ttl_s=TTL_S))))
    return done.position


async def renewed(desk: Desk, run_id: str) -> str:
    (answer,) = await holding.heartbeat(desk, ADA, "ada", [Lessee(run_id, 1)])
    outcome: str = answer["outcome"]
    return outcome


@pytest.mark.origin("A28", "K5")
async def test_a_second_process_is_refused_as_long_as_the_first_lives_and_changes_nothing(world: World) -> None:
    position, writer = world.history.position, world.store.writer

    for node in NODES:
        with pytest.raises(DataDirBusy):
            Process(world.nodes[node], world.files, world.mint)

    assert (position, writer) == (world.files.tail.position, world.files.opened().stored_writer)
    assert position + 1 == await submit(world.desk)


@pytest.mark.origin("H10", "K5", "C11")
@pytest.mark.parametrize("skew_s", [-3_600.0, -3.0, 3.0, 3_600.0])
async def test_a_node_that_takes_over_gives_every_lease_its_ttl_by_its_own_clock(world: World, skew_s: float) -> None:
    run_id = world.history.runs[0]
    world.clock.tune(world.nodes["n2"], skew_s, 0.5)
    await world.pass_time(TTL_S - 0.1)
    await world.restart(away_s=60.0, killed=True, node="n2")
    began_s = world.time.true_s

    await world.pass_time(TTL_S - 0.1)
    assert "renewed" == await renewed(world.desk, run_id)
    await world.pass_time(TTL_S)

    assert "queued" == world.history.standing(run_id).state
    assert pytest.approx(2 * (2 * TTL_S - 0.1)) == world.time.true_s - began_s
    world.check_replay()


@pytest.mark.origin("D59", "B32")
async def test_a_process_whose_lock_file_was_removed_appends_nothing_after_another_one_has_started(
    world: World,
) -> None:
    old, run_id = world.process, world.history.runs[0]
    world.files.remove_lock()
    await world.start("n2")
    position = world.history.position

    with pytest.raises(JournalTaken):
        await submit(old.desk)
    world.clock.advance(TTL_S)
    await old.manager.step()

    assert position == world.history.position
    assert "running" == world.history.standing(run_id).state
    assert position + 1 == await submit(world.desk)
    old.end()
    world.check()


@pytest.mark.origin("C11", "C36")
async def test_a_node_starts_from_the_checkpoint_of_another_and_reads_what_came_after_it(world: World) -> None:
    world.write_checkpoint()
    await submit(world.desk)

    await world.restart(node="n3")

    assert 2 == len(world.desk.live.cards)
    assert 1 == world.history.reached.counts["started from a checkpoint that another node wrote"]
    assert 1 == world.history.reached.counts["started from a checkpoint that is older than the tail"]
    world.check_replay()


async def test_what_was_in_flight_when_a_frozen_service_was_killed_is_there_or_not_and_told_by_its_key(
    world: World,
) -> None:
    for lands in (True, False):
        position = world.history.position
        message = Message(
            caller=Caller(principal="ops", role="operator", command_id=f"c-{lands}", request_digest="d"),
            text="submits",
            send=lambda desk, who: submitting.submit(desk, who, Wish(command=Submit())),
        )
        refused: list[str] = []

        def contend(refused: list[str] = refused) -> None:
            world.clock.advance(20.0)
            with pytest.raises(DataDirBusy) as busy:
                Process(world.nodes["n3"], world.files, world.mint)
            refused.append(busy.value.code)

        await world.crash_during([message], lands=lands, away_s=0.0, node="n2", meanwhile=contend)
        again = await world.deliver(message)

        assert ["data_dir_busy"] == refused
        assert lands == again.repeated
        assert again.position is not None
        assert again.position > position


async def test_another_process_reads_a_prefix_while_the_service_writes_and_agrees_in_the_end() -> None:
    world = World()
    cast = Cast(world, PLAIN)
    await cast.begin()
    for _ in range(6):
        await cast.step("beside")
        await cast.step("audit")
    assert 6 <= sum(
        world.history.reached.counts[name]
        for name in (
            "another process reads while the service writes", "another process rebuilds while the service writes",
        )
    )  # fmt: skip
    await world.abandon()
    world.close()


@pytest.fixture
def time() -> Time:
    """Time at the beginning of a world."""
    return Time()


def test_a_clock_that_runs_at_half_the_rate_shows_half_of_what_passes(time: Time) -> None:
    slow, right = OwnClock("slow", time), OwnClock("right", time, 500.0)
    slow.tune(-3.0, 0.5)

    right.tick(8.0)

    assert (8.0, 508.0, 1_004.0) == (time.true_s, right().mono, slow().mono)
    assert pytest.approx(-7.0) == slow.skew_s
    assert "its wall is -7 s, its clock runs at 0.5" == slow.told()
    assert 2.0 == slow.lasts_s(1.0)


def test_served_seconds_are_those_of_the_node_in_charge_and_a_wall_that_is_ahead_looks_like_time(time: Time) -> None:
    one, other = OwnClock("one", time), OwnClock("other", time, 9_000.0)
    clock = ServiceClock(time, one)
    one.tune(0.0, 2.0)
    other.tune(3.0, 1.0)

    clock.advance(4.0)
    assert (4.0, 2.0) == (clock.served_s, time.true_s)
    clock.hand_over(other)
    clock.advance(1.0)

    assert (5.0, 3.0, 9_003.0) == (clock.served_s, time.true_s, clock.now.mono)
    assert pytest.approx(5.0 + 1.0) == clock.longest_s  # 3 s ahead of what is right, and the other was 2 s ahead


@pytest.mark.origin("H3", "H10")
@pytest.mark.parametrize(("rate", "outcome"), [(0.5, "lost"), (1.0, "held"), (2.0, "held")])
async def test_a_worker_with_a_slow_clock_that_renews_late_loses_its_lease_and_a_fast_one_does_not(
    rate: float, outcome: str
) -> None:
    world = World()
    cast = Cast(world, PLAIN)
    await cast.begin()
    ada = cast.workers[0]
    await world.deliver(ada.ask())
    (run_id, fence), *_ = ada.held.items()
    ada.clock.tune(3.0, rate)
    ada.renewals.share = 0.8

    for _ in range(4):
        await cast.pacing.live()

    held = world.history.standing(run_id).lease.fence == fence and run_id in ada.held
    assert outcome == ("held" if held else "lost")
    assert (rate < 1) == bool(world.history.reached.counts["a worker whose clock is slow loses a lease that it trusts"])
    await world.abandon()
    world.close()


@pytest.mark.parametrize("seconds", [TTL_S - 0.1, TTL_S])
async def test_a_lease_that_ends_before_its_time_is_noticed_and_one_that_ends_in_time_is_not(
    world: World, seconds: float
) -> None:
    world.truth.heard[world.history.runs[0], 1] = world.clock.served_s + TTL_S - seconds
    check: Callable[[], None] = world.check

    await world.pass_time(TTL_S)

    if seconds < TTL_S:
        with pytest.raises(LawBroken) as broken:
            check()
        assert LEASE == broken.value.law
    else:
        check()
