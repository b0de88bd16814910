"""What may happen to read models: a kill at any step, a fact that cannot be folded, a full disk, two at once."""

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal import fact_tables
from journal.errors import JournalDamaged, StorageFull
from projections import rebuild as rebuilding
from projections import refolding
from projections.comparing import digest
from projections.past import rebuild_at
from projections.proving import list_all, verify
from projections.rebuild import Rebuild, rebuild
from projections.runner import Runner
from projections.stored.catalogue import NAMES, PROJECTIONS
from projections.stored.database import NEXT, OLD, Database, table_names
from projections.stored.faults import ProjectionsBusy
from projections.stored.file import FILE_NAME
from projections.stored.timeline import TimelineFold
from tests.projections.test_following import STEPS, Steps, lives, tell
from tests.projections.world import BOUND_S, World, differs, followed, opened, refolded


class Killed(BaseException):
    """The process is gone, as far as what it wrote can tell."""


@contextlib.contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Iterator[list[int]]:
    """The process dies before it commits its transaction of this number; the list counts them."""
    right, count = Database.writing, [0]

    @contextlib.contextmanager
    def writing(database: Database) -> Iterator[sqlite3.Connection]:
        with right(database) as connection:
            yield connection
            count[0] += 1
            if count[0] == step:
                raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Database, "writing", writing)
        yield count


def transactions_of_a_rebuild(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    with killed_at(monkeypatch, 0) as count:
        rebuild(data_dir)
    return count[0]


async def test_a_rebuild_killed_at_every_step_leaves_the_live_models_and_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "NEAR", 5)
    monkeypatch.setattr(fact_tables, "PORTION", 20)
    monkeypatch.setattr(refolding, "WRITE_FACTS", 40)
    async with opened(tmp_path) as world:
        await lives(world, 12)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            before = [one.digest for one in list_all(tmp_path)]
            steps = transactions_of_a_rebuild(tmp_path, monkeypatch)
            assert steps > len(PROJECTIONS)
            for step in range(1, steps + 1):
                with killed_at(monkeypatch, step), pytest.raises(Killed):
                    rebuild(tmp_path)

                assert before == [one.digest for one in list_all(tmp_path)], step
                rebuild(tmp_path)
                assert before == [one.digest for one in list_all(tmp_path)], step
            with runner.database.reading() as connection:
                left = [name for name in table_names(connection) if name.endswith((NEXT, OLD))]
            assert [] == left
            await lives(world, 13)
            await runner.caught_up(BOUND_S)
            assert differs(world, runner) is None


async def test_a_rebuild_that_was_killed_goes_on_from_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_tables, "PORTION", 50)
    monkeypatch.setattr(refolding, "WRITE_FACTS", 50)
    monkeypatch.setattr(rebuilding, "NEAR", 5)
    async with opened(tmp_path) as world:
        await lives(world, 30)
        with killed_at(monkeypatch, 4), pytest.raises(Killed):
            rebuild(tmp_path)

        stopped = {one.rebuilt_to for one in list_all(tmp_path)}
        database = Database(tmp_path)
        again = Rebuild(database, world.journal.store, PROJECTIONS)
        again.run(lambda done, total: None)
        database.close()

    assert {100} == stopped
    assert 100 == again.resumed_at
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


async def test_a_rebuild_of_some_goes_on_after_one_of_all_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_tables, "PORTION", 50)
    monkeypatch.setattr(refolding, "WRITE_FACTS", 50)
    monkeypatch.setattr(rebuilding, "NEAR", 5)
    async with opened(tmp_path) as world:
        await lives(world, 30)
        with killed_at(monkeypatch, 3), pytest.raises(Killed):
            rebuild(tmp_path)
        with killed_at(monkeypatch, 3), pytest.raises(Killed):
            rebuild(tmp_path, ["usage"])
        rebuild(tmp_path)

        assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


@given(steps=STEPS, at=st.integers(1, 80))
@settings(max_examples=15)
def test_models_as_of_any_position_are_those_of_a_journal_that_ends_there(steps: Steps, at: int) -> None:
    async def body(data_dir: Path) -> None:
        async with opened(data_dir) as world:
            await tell(world, steps)
            position = min(at, world.journal.position)
            if not position:
                return
            path, reached = await asyncio.to_thread(rebuild_at, data_dir, position)

            assert position == reached
            with (
                contextlib.closing(sqlite3.connect(path)) as then,
                contextlib.closing(refolded(world, position)) as again,
            ):
                for projection in PROJECTIONS:
                    assert digest(again, projection) == digest(then, projection)

    with tempfile.TemporaryDirectory() as data_dir:
        asyncio.run(body(Path(data_dir)))


@given(steps=STEPS, cut=st.integers(0, 60), kill=st.integers(1, 6))
@settings(max_examples=15)
def test_a_follower_killed_in_a_batch_counts_nothing_twice(steps: Steps, cut: int, kill: int) -> None:
    async def body(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async with opened(data_dir) as world:
            with killed_at(monkeypatch, kill + 1):
                runner = Runner(world.journal, data_dir, batch=3)
                with contextlib.suppress(Killed):
                    runner.start()
                    await tell(world, steps[:cut])
                    runner._follow = lambda: None  # type: ignore[method-assign]
                await runner.stop()
            async with followed(world, data_dir, 2) as runner:
                await tell(world, steps[cut:])
                await runner.caught_up(BOUND_S)

                assert differs(world, runner) is None

    with tempfile.TemporaryDirectory() as data_dir, pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(body(Path(data_dir), monkeypatch))


# Two at once, reads meanwhile, no space


async def test_of_two_rebuilds_at_once_one_is_refused_and_the_other_done(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 60)
        outcomes = await asyncio.gather(
            *(asyncio.to_thread(rebuild, tmp_path) for _ in range(2)), return_exceptions=True
        )

        assert 1 <= sum(isinstance(one, dict) for one in outcomes)
        assert all(isinstance(one, dict | ProjectionsBusy) for one in outcomes)
        assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


async def test_reads_during_rebuilds_never_fail_and_never_see_half_a_model(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 40)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            building = asyncio.gather(*(asyncio.to_thread(rebuild, tmp_path, [name]) for name in ("runs",)))
            seen: list[Any] = []
            while not building.done():
                page = await runner.runs.list("default", _listing())
                entries = await runner.models["timeline"].ask(
                    lambda c, *_: c.execute("SELECT count(*) FROM timeline").fetchone()[0]
                )
                seen.append((len(page["items"]), entries))
            await building

    assert {(40, seen[0][1])} == set(seen)
    assert seen[0][1] > 40


async def test_a_full_disk_ends_a_rebuild_in_one_line_and_gives_its_space_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 100)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            before = [one.digest for one in list_all(tmp_path)]
            monkeypatch.setattr(rebuilding, "NEAR", 5)
            database = Database(tmp_path)
            with database.writing() as connection:
                pages = connection.execute("PRAGMA page_count").fetchone()[0]
                connection.execute(f"PRAGMA max_page_count = {pages + 20}")
            with pytest.raises(StorageFull) as refused:
                Rebuild(database, world.journal.store, PROJECTIONS).run(lambda done, total: None)

            assert "\n" not in str(refused.value)
            assert FILE_NAME in str(refused.value)
            with database.reading() as reading:
                assert [] == [name for name in table_names(reading) if name.endswith(NEXT)]
            database.close()
            assert before == [one.digest for one in list_all(tmp_path)]
            await lives(world, 101)
            await runner.caught_up(BOUND_S)
            assert differs(world, runner) is None


@pytest.mark.parametrize("tail", [4, 4_000])
async def test_a_journal_that_does_not_end_where_its_tail_says_is_folded_into_nothing(
    tmp_path: Path, tail: int
) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 2)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as connection, connection:
        connection.execute("UPDATE tail SET position = ?", (tail,))

    with pytest.raises(JournalDamaged, match=f"its tail says {tail}"):
        rebuild_at(tmp_path, 3)


async def test_nothing_is_left_of_a_model_of_the_past_that_could_not_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 2)
    monkeypatch.setattr(TimelineFold, "changes", lambda fold: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rebuild_at(tmp_path, 5)

    assert [] == [path.name for path in tmp_path.glob("projections-at-*")]
    assert set(NAMES) == {projection.name for projection in PROJECTIONS}


def _listing() -> Any:
    from projections.stored.listing import Listing

    return Listing(limit=500)


async def test_a_world_without_facts_has_models_without_rows(tmp_path: Path) -> None:
    async with opened(tmp_path) as world, followed(world, tmp_path) as runner:
        await runner.caught_up(BOUND_S)
        assert isinstance(world, World)
        assert {0} == {one.rows for one in list_all(tmp_path)}
