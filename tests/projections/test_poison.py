"""Facts at which a fold fails, and folds that have changed: what is put aside, what goes on, what is read meanwhile."""

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.mapper import Recorded
from projections import following
from projections.proving import list_all, verify
from projections.rebuild import rebuild
from projections.runner import Runner
from projections.stored.database import Database
from projections.stored.faults import ReadModelBehind, TooManyAside
from projections.stored.file import FILE_NAME
from projections.stored.listing import Listing
from projections.stored.projection import ASIDE_MAX, Projection
from projections.stored.runs_fold import RUNS, RunsFold
from projections.stored.timeline import TIMELINE
from projections.stored.usage import UsageFold
from tests.projections.test_following import STEPS, Steps, lives, tell
from tests.projections.world import BOUND_S, differs, followed, opened

# Facts that cannot be folded


def poison(
    monkeypatch: pytest.MonkeyPatch, fold: type[Any], handler: str, bad: Callable[[str, Recorded], bool]
) -> None:
    """A fold that fails at such facts."""
    right = getattr(fold, handler)

    def handle(self: Any, subject: str, recorded: Recorded, *more: Any) -> None:
        if bad(subject, recorded):
            message = "who wrote this?"
            raise ValueError(message)
        right(self, subject, recorded, *more)

    monkeypatch.setattr(fold, handler, handle)


async def test_a_poison_fact_is_named_and_put_aside_without_stopping_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, RunsFold, "on_lease", lambda run_id, _: run_id == "run1")
    async with opened(tmp_path) as world, followed(world, tmp_path, batch=3) as runner:
        await lives(world, 4)
        await runner.caught_up(BOUND_S)

        health = runner.health()
        shown = {one.name: one for one in list_all(tmp_path)}
        found = {one.name: one for one in verify(tmp_path)}
        row = await runner.runs.get("default", "run1")
        other = await runner.runs.get("default", "run2")

        (aside,) = shown["runs"].quarantined
        assert ("run1", "lease-run1", "lease.fence_bumped.v1") == (aside.subject, aside.stream, aside.topic)
        assert "ValueError: who wrote this?" == aside.reason
        assert 0 == sum(len(one.quarantined) for name, one in shown.items() if name != "runs")
        assert row is not None
        assert "queued" == row["state"]
        assert other is not None
        assert "succeeded" == other["state"]
        assert (False, 0) == (health["failing"], health["errors"])
        assert 1 == health["projections"]["runs"]["quarantined"]
        assert f"runs put lease.fence_bumped.v1 at position {aside.position} aside" in health["first_error"]
        assert ["runs"] == [name for name, one in found.items() if not one.ok]
        assert f"position {aside.position}" in (found["runs"].problem or "")
        assert found["runs"].difference is None
        rebuild(tmp_path)
        await runner.caught_up(BOUND_S)
        assert [one.quarantined for one in list_all(tmp_path)] == [one.quarantined for one in shown.values()]


@given(steps=STEPS, size=st.integers(1, 9), nth=st.integers(1, 40))
@settings(max_examples=25)
def test_what_is_put_aside_does_not_depend_on_the_batches(steps: Steps, size: int, nth: int) -> None:
    async def body(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        poison(monkeypatch, RunsFold, "on_run", lambda _, recorded: recorded.position == nth)
        poison(monkeypatch, UsageFold, "_ended", lambda _, recorded: recorded.position % 5 == 0)
        async with opened(data_dir) as world, followed(world, data_dir, size) as runner:
            await tell(world, steps)
            await runner.caught_up(BOUND_S)
            live = list_all(data_dir)
            await asyncio.to_thread(rebuild, data_dir)

            again = list_all(data_dir)
            assert [one.digest for one in live] == [one.digest for one in again]
            assert [one.quarantined for one in live] == [one.quarantined for one in again]

    with tempfile.TemporaryDirectory() as data_dir, pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(body(Path(data_dir), monkeypatch))


async def test_a_fold_that_fails_everywhere_stops_alone_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.stored.projection.ASIDE_MAX", 3)
    poison(monkeypatch, UsageFold, "_row", lambda *_: True)
    async with opened(tmp_path) as world, followed(world, tmp_path) as runner:
        await lives(world, 6)
        await runner.models["runs"].wait_for(world.journal.position, BOUND_S)
        await runner.models["workers"].wait_for(world.journal.position, BOUND_S)

        health = runner.health()["projections"]
        assert health["usage"]["failing"]
        assert 1 <= health["usage"]["errors"]
        assert not any(one["failing"] for name, one in health.items() if name != "usage")
        with pytest.raises(TooManyAside, match="the projection usage failed at too many facts"):
            rebuild(tmp_path)
    assert 1_000 == ASIDE_MAX


async def test_as_many_subjects_as_may_be_are_put_aside_and_one_more_stops_the_fold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.stored.projection.ASIDE_MAX", 3)
    poison(monkeypatch, UsageFold, "_row", lambda *_: True)
    async with opened(tmp_path) as world:
        await lives(world, 3)
        rebuild(tmp_path)
        assert [3] == [len(one.quarantined) for one in list_all(tmp_path) if one.name == "usage"]
        await lives(world, 4)
        with pytest.raises(TooManyAside):
            rebuild(tmp_path)


# A changed fold


async def test_rows_of_an_older_fold_are_read_until_they_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 5)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
        newer = TIMELINE._replace(version=TIMELINE.version + 1)
        count = "SELECT count(*) FROM timeline"
        runner = Runner(world.journal, tmp_path, projections=[RUNS, newer])
        with Database(tmp_path).rebuilding():
            runner.start()
            runs = await runner.runs.list("default", Listing(limit=500))
            old = await runner.models["timeline"].ask(lambda c, *_: c.execute(count).fetchone())
            assert runner.health()["rebuilding"]
        await runner.caught_up(BOUND_S)
        new = await runner.models["timeline"].ask(lambda c, *_: c.execute(count).fetchone())
        with runner.database.reading() as connection:
            version = connection.execute("SELECT version FROM tracking WHERE projection = 'timeline'").fetchone()[0]
        await runner.stop()

    assert 5 == len(runs["items"])
    assert old == new > (0,)
    assert newer.version == version


async def test_no_rows_of_a_long_journal_are_not_an_empty_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "REBUILD_FROM", 10)
    async with opened(tmp_path) as world:
        await lives(world, 2)
        runner = Runner(world.journal, tmp_path)
        with Database(tmp_path).rebuilding():
            runner.start()
            with pytest.raises(ReadModelBehind, match="the read model has reached position 0"):
                await runner.runs.list("default", Listing(limit=500))
        await runner.caught_up(BOUND_S)

        assert 2 == len((await runner.runs.list("default", Listing(limit=500)))["items"])
        await runner.stop()


async def test_rows_that_the_questions_of_today_cannot_be_put_to_are_not_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 2)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
        newer: Projection = TIMELINE._replace(version=9, readable_since=9)
        runner = Runner(world.journal, tmp_path, projections=[newer])
        with Database(tmp_path).rebuilding():
            runner.start()
            with pytest.raises(Exception, match="the read model has reached position 0"):
                await runner.models["timeline"].ask(lambda *_: None)
        await runner.caught_up(BOUND_S)
        assert await runner.models["timeline"].ask(
            lambda c, *_: c.execute("SELECT count(*) > 0 FROM timeline").fetchone()
        )
        await runner.stop()


async def test_tables_that_are_gone_are_made_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 3)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
        with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
            connection.execute("DROP TABLE queues_minutes")
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            assert differs(world, runner) is None
