"""The stored model follows the journal: whatever the batches, crashes and rebuilds, its rows are the same bytes."""

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.commit import Journal
from journal.errors import DataDirUnusable
from journal.mapper import Recorded
from projections import following
from projections.comparing import digest, first_difference
from projections.stored.catalogue import PROJECTIONS
from projections.stored.database import LOCK_NAME, Tracked, create_tables, scratch, track
from projections.stored.faults import ReadModelBehind
from projections.stored.file import FILE_NAME
from projections.stored.known import Known, told
from projections.stored.projection import Folding
from projections.stored.runs_fold import NAME, VERSION
from tests.projections.acts import ACTS, TENANT
from tests.projections.world import BOUND_S, World, differs, expected, followed, opened, refolded

RUNS = ("r1", "r2", "r3")
LIFE = ("submit", "claim", "begin an effect", "wait for input", "answer", "claim", "succeed")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(RUNS),
        st.sampled_from([*ACTS, "submit", "claim", "claim", "expire"]),
        st.sampled_from((0.0, 1.0, 61.0)),
    ),
    max_size=60,
)
Steps = Sequence[tuple[str, str, float]]


async def tell(world: World, steps: Steps) -> None:
    for run_id, act, after_s in steps:
        await world.act(run_id, act, after_s)


async def lives(world: World, count: int) -> None:
    await tell(world, [(f"run{number}", act, 0.5) for number in range(count) for act in LIFE])


def folded(journal: Journal, batches: Sequence[Sequence[Recorded]], capacity: int) -> sqlite3.Connection:
    """Every model in a database of its own, folded in these batches with room for so many states."""
    made, known = scratch(), Known(journal.store.stream, capacity + 1, capacity)
    foldings = [Folding(projection, known) for projection in PROJECTIONS]
    for projection in PROJECTIONS:
        create_tables(made, projection.tables, "")
    for facts in batches:
        batch = told(facts)
        known.note(batch)
        for folding in foldings:
            folding.absorb(batch)
            folding.changes()(made, "")
            assert {} == folding.aside
    return made


@given(steps=STEPS, size=st.integers(1, 9), capacity=st.integers(0, 3))
@settings(max_examples=60)
def test_rows_do_not_depend_on_the_batches_or_on_what_is_remembered_between_them(
    steps: Steps, size: int, capacity: int
) -> None:
    async def body() -> None:
        async with opened(None) as world:
            await tell(world, steps)
            facts = world.journal.store.facts_after(0, 10_000)
            batches = [facts[start : start + size] for start in range(0, len(facts), size)]

            with (
                contextlib.closing(folded(world.journal, batches, capacity)) as live,
                contextlib.closing(refolded(world, world.journal.position)) as again,
            ):
                for projection in PROJECTIONS:
                    assert first_difference(live, again, projection) is None
                    assert digest(live, projection) == digest(again, projection)

    asyncio.run(body())


@given(steps=STEPS)
@settings(max_examples=40)
def test_every_row_is_the_document_of_the_run_by_its_streams(steps: Steps) -> None:
    async def body() -> None:
        async with opened(None) as world:
            await tell(world, steps)
            with contextlib.closing(refolded(world, world.journal.position)) as made:
                rows = {row[0]: row[1:] for row in made.execute("SELECT run_id, document, position FROM runs")}

            submitted = [run_id for run_id in RUNS if world.standing(run_id).run.version]
            assert sorted(rows) == sorted(submitted)
            for run_id, (document, position) in rows.items():
                whole = expected(world, run_id)
                whole.pop("payload")
                assert document == msgspec.json.encode(whole)
                assert position == world.journal.store.facts_of(run_id, 0, 10_000)[-1].position

    asyncio.run(body())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@given(steps=STEPS, batch=st.integers(1, 7), cut=st.integers(0, 60))
@settings(max_examples=12)
def test_a_follower_that_stops_and_starts_has_the_rows_of_a_rebuild(
    kind: str, steps: Steps, batch: int, cut: int
) -> None:
    async def body(data_dir: Path) -> None:
        async with opened(data_dir if kind == "sqlite" else None) as world:
            async with followed(world, data_dir, batch):
                await tell(world, steps[:cut])
            async with followed(world, data_dir, batch) as runner:
                await tell(world, steps[cut:])
                await runner.caught_up(BOUND_S)

                assert differs(world, runner) is None

    with tempfile.TemporaryDirectory() as data_dir:
        asyncio.run(body(Path(data_dir)))


async def test_a_deleted_file_comes_back_with_the_same_bytes(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 20)
        async with followed(world, tmp_path, batch=7) as runner:
            await runner.caught_up(BOUND_S)
            with runner.database.reading() as connection:
                before = [digest(connection, projection) for projection in PROJECTIONS]
        for file in tmp_path.glob("projections*"):
            file.unlink()

        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            with runner.database.reading() as connection:
                assert before == [digest(connection, projection) for projection in PROJECTIONS]


async def test_rows_of_another_version_of_the_fold_are_made_again_at_the_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 5)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            older = Tracked(world.journal.position, VERSION - 1, world.journal.epoch, 1)
            with runner.database.writing() as connection:
                connection.execute("UPDATE runs SET state = 'of an older fold'")
                track(connection, NAME, older)

        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)

            assert differs(world, runner) is None


@pytest.mark.parametrize("change", [{"epoch": "another"}, {"position": 10_000}])
async def test_rows_of_another_journal_are_made_again_at_the_start(tmp_path: Path, change: dict[str, object]) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 5)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            seen = Tracked(world.journal.position, VERSION, world.journal.epoch, 1)
            with runner.database.writing() as connection:
                connection.execute("DELETE FROM runs")
                track(connection, NAME, seen._replace(**change))  # type: ignore[arg-type]

        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)

            assert differs(world, runner) is None


async def test_an_empty_model_far_behind_is_rebuilt_in_bulk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "REBUILD_FROM", 50)
    async with opened(tmp_path) as world:
        await lives(world, 10)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            await lives(world, 12)
            await runner.caught_up(BOUND_S)

            with runner.database.reading() as connection:
                builds = [row[0] for row in connection.execute("SELECT build FROM tracking")]
            assert all(build > len(PROJECTIONS) for build in builds)
            assert differs(world, runner) is None


async def test_a_lock_that_cannot_be_taken_is_said_in_one_line_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()

    async with opened(None) as world:
        with pytest.raises(DataDirUnusable) as refused:
            async with followed(world, tmp_path):
                pass

    assert FILE_NAME in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (tmp_path / LOCK_NAME).is_dir()


async def test_waiting_for_a_position_ends_when_the_batch_that_has_it_is_committed(tmp_path: Path) -> None:
    async with opened(None) as world, followed(world, tmp_path) as runner:
        waiting = asyncio.create_task(runner.runs.wait_for(1, BOUND_S))
        await world.act("r1", "submit")
        await waiting

        assert await runner.runs.get(TENANT, "r1") is not None


async def test_waiting_for_a_position_that_does_not_come_says_both_positions(tmp_path: Path) -> None:
    async with opened(None) as world, followed(world, tmp_path) as runner:
        await world.act("r1", "submit")
        await runner.caught_up(BOUND_S)

        with pytest.raises(ReadModelBehind) as refused:
            await runner.runs.wait_for(7, 0.01)

    assert (7, 1) == (refused.value.wanted, refused.value.reached)


@pytest.mark.origin("A43")
async def test_a_batch_that_fails_is_counted_kept_in_health_and_tried_again_until_it_succeeds(tmp_path: Path) -> None:
    async with opened(None) as world, followed(world, tmp_path) as runner:
        await world.act("r1", "submit")
        await runner.caught_up(BOUND_S)
        with runner.database.writing() as connection:
            connection.execute("ALTER TABLE runs RENAME COLUMN document TO elsewhere")
        await world.act("r1", "claim")
        with pytest.raises(ReadModelBehind):
            await runner.caught_up(0.3)
        failing = runner.health()
        with runner.database.writing() as connection:
            connection.execute("ALTER TABLE runs RENAME COLUMN elsewhere TO document")
        await runner.caught_up(BOUND_S)

        assert failing["errors"] >= 1
        assert (True, 1, 2) == (failing["failing"], failing["position"], failing["lag"])
        assert "runs after position 1" in failing["first_error"]
        assert "no such column: document" in failing["first_error"]
        assert [3] == [*{one["position"] for name, one in failing["projections"].items() if name != "runs"}]
        mended = runner.health()
        assert (False, 0, failing["first_error"]) == (mended["failing"], mended["lag"], mended["first_error"])
        runner.acknowledge()
        assert runner.health()["first_error"] is None
        assert differs(world, runner) is None
