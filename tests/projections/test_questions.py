"""Each read model answers its question as the streams of the journal do, and its lists are paged without loss."""

import asyncio
import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from domain.effects import EffectFact
from domain.lease import FenceBumped, LeaseBound, LeaseFact, LeaseReleased, Reserved, Vacant
from domain.queue import QueueConfigured, queue_stream
from domain.refusal import InvalidCommand
from domain.run import Queued, Run, Settled
from domain.run_facts import AttemptStarted, RunFact, RunSubmitted
from domain.worker import WorkerDrained, WorkerGone, WorkerQuarantined, WorkerRegistered, worker_stream
from domain.workspace import Workspace
from domain.workspace_facts import WorkspaceFact
from journal.commit import Context, Decision, Entry
from projections.stored import effects, leaders, queues, timeline, usage, workers
from projections.stored.cursors import LIMIT_MAX
from projections.stored.queues import MINUTES_KEPT
from tests.projections.acts import NOON, TENANT
from tests.projections.test_following import RUNS, STEPS, Steps, lives, tell
from tests.projections.world import World, opened, refolded

STANDS = "run_id, phase, identity, incarnation, reason, unknown_cause, teardown"
Page = Callable[[int, str | None], dict[str, Any]]


def rows(made: sqlite3.Connection, statement: str) -> list[tuple[Any, ...]]:
    return made.execute(statement).fetchall()


@given(steps=STEPS)
@settings(max_examples=40)
def test_every_model_says_what_the_streams_say(steps: Steps) -> None:
    async def body() -> None:
        async with opened(None) as world:
            await tell(world, steps)
            facts = world.journal.store.facts_after(0, 10_000)
            with contextlib.closing(refolded(world, world.journal.position)) as made:
                _hold_to_streams(world, made)
                begun = Counter(fact.worker for fact in (one.fact for one in facts) if isinstance(fact, AttemptStarted))
                assert begun == Counter(dict(rows(made, "SELECT worker_id, attempts FROM workers WHERE attempts > 0")))
                sums = rows(made, "SELECT coalesce(sum(attempts), 0), coalesce(sum(submitted), 0) FROM usage")
                submitted = sum(isinstance(one.fact, RunSubmitted) for one in facts)
                assert [(begun.total(), submitted)] == sums

    asyncio.run(body())


def _stands(workspace: Workspace) -> tuple[Any, ...]:
    """What the model must say of a workspace."""
    return (
        workspace.placed.run_id,
        workspace.phase,
        workspace.identity,
        workspace.incarnation,
        workspace.reason,
        workspace.unknown_cause,
        int(workspace.awaits_teardown),
    )


def _hold_to_streams(world: World, made: sqlite3.Connection) -> None:
    standings = [world.standing(run_id) for run_id in RUNS]
    known = [one for one in standings if isinstance(one.run, Run)]
    waiting = {one.run_id: int(isinstance(one.lease, Reserved)) for one in known if isinstance(one.known.phase, Queued)}
    assert waiting == dict(rows(made, "SELECT run_id, reserved FROM queues_waiting"))
    grounds = {each.workspace_id: each for one in known for each in one.workspaces}
    told = {row[0]: row[1:] for row in rows(made, f"SELECT workspace_id, {STANDS} FROM workspaces")}
    assert {name: _stands(each) for name, each in grounds.items()} == told
    held = [one for one in known if not isinstance(one.lease, Vacant)]
    assert len(held) == sum(row[0] for row in rows(made, "SELECT leases FROM queues"))
    by_worker = Counter(one.lease.worker for one in held if not isinstance(one.lease, Vacant))
    assert by_worker == Counter(dict(rows(made, "SELECT worker_id, leases FROM workers WHERE leases > 0")))
    open_led = [one for one in known if one.known.leader_id == "ada" and not isinstance(one.known.phase, Settled)]
    assert len(open_led) == sum(row[0] for row in rows(made, "SELECT open_runs FROM leaders"))
    stands = {
        (one.run_id, key): (effect.state, effect.fence)
        for one in standings
        for key, effect in one.effects.effects.items()
    }
    found = rows(made, "SELECT run_id, key, state, fence FROM effects")
    assert stands == {(run_id, key): (state, fence) for run_id, key, state, fence in found}
    settled = Counter(one.known.state for one in known if isinstance(one.known.phase, Settled))
    for state in ("succeeded", "failed", "cancelled", "aborted", "lost"):
        assert [(settled[state],)] == rows(made, f"SELECT coalesce(sum(settled_{state}), 0) FROM usage"), state


@given(steps=STEPS)
@settings(max_examples=25)
def test_the_last_state_of_a_timeline_is_the_state_of_the_run(steps: Steps) -> None:
    async def body() -> None:
        async with opened(None) as world:
            await tell(world, steps)
            with contextlib.closing(refolded(world, world.journal.position)) as made:
                for run_id in RUNS:
                    told = timeline.page(made, run_id, timeline.Page(limit=LIMIT_MAX), 1, "e")["items"]
                    standing = world.standing(run_id)
                    states = [one for one in told if one["state"] is not None]
                    if isinstance(standing.run, Run):
                        assert standing.state == states[-1]["state"]
                        assert states[-1]["until"] is None
                        assert [one["at"] for one in states[1:]] == [one["until"] for one in states[:-1]]
                    else:
                        assert [] == told

    asyncio.run(body())


def test_a_fact_about_a_run_is_on_its_timeline_unless_it_comes_with_one_that_says_more() -> None:
    about_runs = {*RunFact.__args__, *LeaseFact.__args__, *EffectFact.__args__, *WorkspaceFact.__args__}

    assert {FenceBumped, LeaseBound, LeaseReleased} == about_runs - set(timeline.SAYS)
    assert set(timeline.SAYS) <= about_runs


async def test_a_timeline_says_how_long_each_state_lasted_and_cites_the_fact() -> None:
    async with opened(None) as world:
        await tell(world, [("r1", "submit", 0.0), ("r1", "claim", 5.0), ("r1", "succeed", 2.5)])
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            told = timeline.page(made, "r1", timeline.Page(), 7, "e")

    assert [("queued", 5.0), ("running", 2.5), ("succeeded", None)] == [
        (one["state"], one["lasted_s"]) for one in told["items"]
    ]
    assert ["run-r1@1", "run-r1@2", "run-r1@3"] == [one["fact"] for one in told["items"]]
    assert [None, "w1", None] == [one["worker"] for one in told["items"]]
    assert NOON.wall == told["items"][0]["at"]


async def test_usage_counts_attempts_on_the_day_they_begin_and_their_seconds_on_the_day_they_end() -> None:
    async with opened(None) as world:
        half_a_day = 12 * 3600.0
        await tell(world, [("r1", "submit", 0.0), ("r1", "claim", half_a_day - 10), ("r1", "succeed", 30.0)])
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            page = usage.page(made, TENANT, usage.Asked(), 1, "e")
            narrow = usage.page(made, TENANT, usage.Asked(day_from=date(2026, 1, 2), day_to=date(2026, 1, 2)), 1, "e")
            other = usage.page(made, "another", usage.Asked(), 1, "e")

    second, first = page["items"]
    assert ("2026-01-01", 1, 1, 0.0) == (first["day"], first["submitted"], first["attempts"], first["seconds"])
    assert ("2026-01-02", 0, 30.0) == (second["day"], second["attempts"], second["seconds"])
    assert (0, 1) == (first["closed_succeeded"], second["closed_succeeded"])
    assert [second] == narrow["items"]
    assert [] == other["items"]


async def test_usage_counts_what_was_placed_and_lost_under_the_queue_of_the_run_that_stood_on_it() -> None:
    async with opened(None) as world:
        steps = [("r1", "submit"), ("r1", "claim"), ("r1", "place"), ("r1", "attach"), ("r1", "lose the ground")]
        await tell(world, [*((run_id, act, 0.1) for run_id, act in steps), ("r2", "submit", 0.1), ("r2", "claim", 0.1)])
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            (used,) = usage.page(made, TENANT, usage.Asked(), 1, "e")["items"]

    assert (2, 1, 1) == (used["submitted"], used["workspaces"], used["workspaces_lost"])


async def test_a_queue_shows_what_is_due_the_oldest_and_what_came_in_the_last_whole_minutes() -> None:
    async with opened(None) as world:
        await tell(world, [("r1", "submit", 0.0), ("r2", "submit", 30.0), ("r3", "submit", 0.0), ("r3", "claim", 1.0)])
        now = NOON.wall + timedelta(seconds=90)
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            (shown,) = queues.page(made, TENANT, queues.Asked(), now, (1, "e"))["items"]
            before = queues.page(made, TENANT, queues.Asked(), NOON.wall - timedelta(seconds=1), (1, "e"))["items"][0]

    assert (2, 2, 1) == (shown["queued"], shown["due"], shown["leases"])
    assert (NOON.wall, 90.0) == (shown["oldest_due_at"], shown["oldest_waits_s"])
    assert (2, 0, None) == (before["queued"], before["due"], before["oldest_due_at"])
    minute, five, hour = shown["rates"]
    assert (60, 3.0, 1.0) == (minute["window_s"], minute["submitted_per_min"], minute["started_per_min"])
    assert (0.6, 0.05) == (five["submitted_per_min"], hour["submitted_per_min"])


@pytest.mark.parametrize(("minutes", "kept"), [(MINUTES_KEPT - 1, 2), (MINUTES_KEPT, 1)])
async def test_minutes_are_kept_for_a_day_and_not_longer(minutes: int, kept: int) -> None:
    async with opened(None) as world:
        await tell(world, [("r1", "submit", 0.0), ("r2", "submit", minutes * 60.0)])
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            assert kept == len(rows(made, "SELECT minute FROM queues_minutes"))


async def record(world: World, stream: str, *facts: Any) -> None:
    version = world.journal.streams.load(stream).version
    decision = Decision([Entry(stream, fact, None) for fact in facts], {stream: version}, None)
    await world.journal.execute(
        (stream,), lambda _: decision, Context(TENANT, "ada"), encode=lambda _: b"", decode=lambda _: None
    )


async def test_a_queue_shows_its_limits_and_one_without_anything_is_left_out_unless_all_are_asked_for() -> None:
    async with opened(None) as world:
        await tell(world, [("r1", "submit", 0.0), ("r1", "claim", 0.0), ("r1", "succeed", 0.0)])
        limits = QueueConfigured(queue="narrow", max_leases=3, max_per_key=2)
        await record(world, queue_stream(TENANT, "narrow"), limits)
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            some = queues.page(made, TENANT, queues.Asked(), NOON.wall, (1, "e"))["items"]
            every = queues.page(made, TENANT, queues.Asked(all=True), NOON.wall, (1, "e"))["items"]

    assert [("narrow", 3, 2)] == [(one["queue"], one["max_leases"], one["max_per_key"]) for one in some]
    assert ["default", "narrow"] == [one["queue"] for one in every]


async def test_a_worker_keeps_its_row_with_its_state_when_it_leaves_or_is_gone() -> None:
    async with opened(None) as world:
        at = datetime(2026, 1, 1, 13, tzinfo=UTC)
        for name, more in (
            ("a", ()),
            ("b", (WorkerDrained(worker_id="b", by="ada"),)),
            ("c", (WorkerGone(worker_id="c", last_seen_at=at),)),
            ("d", (WorkerQuarantined(worker_id="d", reason="hook", cites=(), quarantined_at=at, until=at),)),
        ):
            registered = WorkerRegistered(worker_id=name, labels={"b": "1", "a": "2"}, slots=4)
            await record(world, worker_stream(TENANT, name), registered, *more)
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            found = workers.page(made, TENANT, workers.Asked(), 1, "e")["items"]
            gone = workers.page(made, TENANT, workers.Asked(state=("gone",)), 1, "e")["items"]

    assert ["active", "draining", "gone", "quarantined"] == [one["state"] for one in found]
    assert [4, 4, 0, 4] == [one["slots"] for one in found]
    assert {"a": "2", "b": "1"} == found[0]["labels"]
    assert {"reason": "hook", "since": at, "until": at} == found[3]["quarantine"]
    assert ["c"] == [one["worker_id"] for one in gone]


async def test_effects_can_be_narrowed_to_the_ambiguous_ones_and_to_runs_that_a_key_may_see() -> None:
    async with opened(None) as world:
        for run_id, end in (("r1", "succeed"), ("r2", "fail for good")):
            await tell(world, [(run_id, act, 0.0) for act in ("submit", "claim", "begin an effect", end)])
        with contextlib.closing(refolded(world, world.journal.position)) as made:
            ambiguous = effects.page(made, TENANT, effects.Asked(state=("ambiguous",)), 1, "e")["items"]
            completed = effects.page(made, TENANT, effects.Asked(state=("completed", "failed")), 1, "e")["items"]
            bound = effects.page(made, TENANT, effects.Asked(leaders=("ada",)), 1, "e")["items"]

    assert [("r1", "mail"), ("r2", "mail")] == [(one["run_id"], one["key"]) for one in ambiguous]
    assert ([], []) == (completed, bound)


LISTS: dict[str, Callable[[sqlite3.Connection], Page]] = {
    "timeline": lambda c: lambda n, at: timeline.page(c, "run1", timeline.Page(limit=n, cursor=at), 1, "e"),
    "usage": lambda c: lambda n, at: usage.page(c, TENANT, usage.Asked(limit=n, cursor=at), 1, "e"),
    "effects": lambda c: lambda n, at: effects.page(c, TENANT, effects.Asked(limit=n, cursor=at), 1, "e"),
    "workers": lambda c: lambda n, at: workers.page(c, TENANT, workers.Asked(limit=n, cursor=at), 1, "e"),
    "leaders": lambda c: lambda n, at: leaders.page(c, TENANT, leaders.Asked(limit=n, cursor=at), 1, "e"),
    "queues": lambda c: (
        lambda n, at: queues.page(c, TENANT, queues.Asked(all=True, limit=n, cursor=at), NOON.wall, (1, "e"))
    ),
}


async def full_world(world: World) -> sqlite3.Connection:
    await lives(world, 3)
    for run_id in ("s1", "s2"):
        await world.act(run_id, "submit to its leader", 90_000.0)
        await world.act(run_id, "claim by id", 1.0)
    return refolded(world, world.journal.position)


@pytest.mark.parametrize("name", LISTS)
async def test_pages_of_one_give_everything_once_and_in_order(name: str) -> None:
    async with opened(None) as world:
        with contextlib.closing(await full_world(world)) as made:
            page = LISTS[name](made)
            whole, cursor, found = page(LIMIT_MAX, None), None, []
            while True:
                one = page(1, cursor)
                found += one["items"]
                cursor = one["next_cursor"]
                if cursor is None:
                    break

    assert whole["items"] == found
    assert whole["next_cursor"] is None
    assert found


@pytest.mark.parametrize("name", LISTS)
async def test_a_page_has_a_bound_and_a_cursor_belongs_to_its_list(name: str) -> None:
    async with opened(None) as world:
        with contextlib.closing(await full_world(world)) as made:
            page = LISTS[name](made)
            page(LIMIT_MAX, None)
            for limit in (0, LIMIT_MAX + 1):
                with pytest.raises(InvalidCommand) as refused:
                    page(limit, None)
                assert ("limit", limit) == (refused.value.fields()["field"], refused.value.fields()["value"])
            foreign = LISTS["effects" if name == "timeline" else "timeline"](made)(1, None)["next_cursor"]
            for cursor in ("", "nonsense", foreign):
                with pytest.raises(InvalidCommand, match="next_cursor"):
                    page(1, cursor)
