"""Rebuilding beside a live model, from this process or another, and proving that model and journal agree."""

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from journal.errors import NoJournal
from projections.proving import list_all, verify
from projections.rebuild import Rebuild, rebuild
from projections.stored.catalogue import NAMES, PROJECTIONS
from projections.stored.database import Database, tracked
from projections.stored.faults import ProjectionsBusy, ProjectionUnknown
from projections.stored.file import FILE_NAME
from projections.stored.runs_fold import NAME
from tests.projections.test_following import lives
from tests.projections.world import BOUND_S, differs, followed, opened
from tests.waiting import until

FOLLOWER = """
import asyncio, sys
from pathlib import Path
from tests.projections.test_following import lives
from tests.projections.world import followed, opened

async def main() -> None:
    data_dir = Path(sys.argv[1])
    async with opened(data_dir) as world, followed(world, data_dir, batch=2) as runner:
        await lives(world, 200)
        await runner.caught_up(600)

asyncio.run(main())
"""


REBUILDER = """
import sys
from pathlib import Path
from projections.rebuild import rebuild

rebuild(Path(sys.argv[1]))
"""


def ask(file: Path, question: str) -> int:
    """The number that a file of read models answers; 0 when it cannot be asked yet."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as c:
        row = c.execute(question).fetchone()
        return 0 if row is None else int(row[0])
    return 0


def reached(file: Path, position: int) -> bool:
    return ask(file, "SELECT position FROM tracking") >= position


def begun(file: Path, reach: int, rebuilder: subprocess.Popen[bytes]) -> bool:
    """Whether a rebuild has come to its tables, their rows, its indexes, or its end."""
    if reach == 3 or rebuilder.poll() is not None:
        return rebuilder.poll() is not None
    question = (
        "SELECT count(*) FROM sqlite_master WHERE name = 'runs__next'",
        "SELECT count(*) FROM runs__next",
        "SELECT count(*) FROM sqlite_master WHERE tbl_name = 'runs__next' AND name LIKE 'runs_queue%'",
    )[reach]
    return ask(file, question) > 0


async def test_a_rebuild_while_a_service_follows_takes_over_and_the_service_goes_on_from_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 30)
        async with followed(world, tmp_path, batch=50) as runner:
            rebuilding = asyncio.gather(asyncio.to_thread(rebuild, tmp_path), lives(world, 60))
            done, _ = await rebuilding
            await lives(world, 70)
            await runner.caught_up(BOUND_S)

            assert differs(world, runner) is None
            with runner.database.reading() as connection:
                at = tracked(connection, NAME)
            assert at is not None
            assert at.build == done[NAME].build
            assert at.position >= done[NAME].position
            assert 0 == runner.errors


async def test_a_service_never_sees_its_position_fall_because_of_a_rebuild(tmp_path: Path) -> None:
    async with opened(tmp_path) as world, followed(world, tmp_path, batch=5) as runner:
        await lives(world, 20)
        await runner.caught_up(BOUND_S)
        before = runner.position
        for _ in range(3):
            done = await asyncio.to_thread(rebuild, tmp_path)

            assert {world.journal.position} == {at.position for at in done.values()}
            assert world.journal.position >= before
            assert runner.position >= before


async def test_a_rebuild_without_a_service_makes_the_file_and_tells_its_progress(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    async with opened(tmp_path) as world:
        await lives(world, 400)
        end = world.journal.position

    missing = list_all(tmp_path)[0]
    rebuild(tmp_path, [NAME], lambda *step: told.append(step))
    shown = list_all(tmp_path)[0]

    assert ("missing", 0, 0) == (missing.state, missing.position, missing.rows)
    assert ("current", end, 1_600) == (shown.state, shown.position, shown.rows)
    assert (NAME, end, end) == told[-1]
    assert len(told) > 1
    assert sorted(told) == told
    assert [True] == [found.ok for found in verify(tmp_path, [NAME])]


async def test_a_model_that_has_not_read_the_last_facts_is_shown_as_behind(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 3)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
        await lives(world, 5)

        shown = list_all(tmp_path)[0]

    assert ("behind", 12) == (shown.state, shown.rows)
    assert shown.position < shown.journal_position


async def test_a_model_of_an_older_fold_is_shown_as_outdated_and_is_not_verified(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 3)
    rebuild(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE tracking SET version = version - 1")

    shown = list_all(tmp_path)[0]
    found = verify(tmp_path)[0]

    assert "outdated" == shown.state
    assert (False, None) == (found.ok, found.digest)
    assert "outdated" in (found.problem or "")


@pytest.mark.parametrize(
    ("damage", "table", "key", "field"),
    [
        ("UPDATE runs SET owner = 'mallory' WHERE run_id = 'run1'", "runs", "run1", "owner"),
        ("UPDATE runs_payloads SET payload = x'31' WHERE run_id = 'run2'", "runs", "run2", "payload"),
        ("DELETE FROM runs WHERE run_id = 'run0'", "runs", "run0", None),
        ("INSERT INTO runs SELECT 'run00', tenant, state, queue, name, leader_id, owner, priority, submitted_at, "
         "due_at, settled_at, fence, search, since, position, document FROM runs WHERE run_id = 'run0'",
         "runs", "run00", None),
        ("DELETE FROM runs_tags WHERE run_id = 'run1'", "runs_tags", "default", "run_id"),
    ],
)  # fmt: skip
async def test_verifying_names_the_first_row_that_differs(
    tmp_path: Path, damage: str, table: str, key: str, field: str | None
) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 3)
    rebuild(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute(damage)

    found = verify(tmp_path, [NAME])[0]

    assert not found.ok
    assert found.difference is not None
    assert (table, key, field) == (found.difference.table, found.difference.key, found.difference.field)
    assert key in (found.problem or "")


async def test_two_journals_of_the_same_facts_have_models_of_the_same_digest(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        data_dir = tmp_path / name
        data_dir.mkdir()
        async with opened(data_dir) as world:
            await lives(world, 5)
        rebuild(data_dir)
        digests.append(verify(data_dir)[0].digest)

    assert digests[0] == digests[1]
    assert 64 == len(digests[0] or "")


async def test_what_is_shown_and_found_is_ready_for_programs(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 1)

    rebuild(tmp_path)
    shown = msgspec.to_builtins(list_all(tmp_path))
    found = msgspec.to_builtins(verify(tmp_path))

    assert [*NAMES] == [one["name"] for one in shown] == [one["name"] for one in found]


async def test_only_one_rebuild_runs_at_a_time_and_the_second_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 1)
    with Database(tmp_path).rebuilding(), pytest.raises(ProjectionsBusy, match=r"projections\.rebuild\.lock"):
        rebuild(tmp_path)


async def test_an_interrupted_rebuild_leaves_the_live_model_as_it_was(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    async with opened(tmp_path) as world:
        await lives(world, 5)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            with pytest.raises(KeyboardInterrupt):
                Rebuild(runner.database, world.journal.store, PROJECTIONS).run(interrupt)

            assert differs(world, runner) is None
            assert {"current"} == {one.state for one in list_all(tmp_path)}
            rebuild(tmp_path)
            await runner.caught_up(BOUND_S)
            assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


async def test_a_name_that_is_no_read_model_is_refused_with_those_there_are(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 1)
    for ask in (rebuild, verify):
        with pytest.raises(ProjectionUnknown, match="there are: runs, timeline, ") as refused:
            ask(tmp_path, ["walks"])
        assert ("projection_unknown", "walks") == (refused.value.code, refused.value.fields()["name"])


def test_without_a_journal_there_is_nothing_to_rebuild_from(tmp_path: Path) -> None:
    with pytest.raises(NoJournal):
        rebuild(tmp_path)

    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.system
async def test_a_follower_killed_at_any_point_leaves_rows_that_are_right_for_their_position(tmp_path: Path) -> None:
    for number, reach in enumerate((1, 60, 300, 700)):
        data_dir = tmp_path / str(number)
        data_dir.mkdir()
        follower = subprocess.Popen([sys.executable, "-c", FOLLOWER, str(data_dir)])
        try:
            until(partial(reached, data_dir / FILE_NAME, reach), what="rows that follow", within_s=60)
        finally:
            follower.send_signal(signal.SIGKILL)
            follower.wait()

        assert {(True, None)} == {(found.ok, found.problem) for found in verify(data_dir)}
        async with opened(data_dir) as world, followed(world, data_dir) as runner:
            await runner.caught_up(BOUND_S)
            assert differs(world, runner) is None


@pytest.mark.system
async def test_a_rebuild_killed_at_any_point_leaves_a_model_that_the_service_goes_on_with(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 300)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            for reach in (0, 1, 2, 3):
                rebuilder = subprocess.Popen([sys.executable, "-c", REBUILDER, str(tmp_path)])
                try:
                    until(
                        partial(begun, tmp_path / FILE_NAME, reach, rebuilder), what="a rebuild under way", within_s=60
                    )
                finally:
                    rebuilder.kill()
                    rebuilder.wait()
                await lives(world, 301 + reach)
                await runner.caught_up(BOUND_S)

                assert differs(world, runner) is None
            assert 0 == runner.errors
