"""Whatever is in the place of the read models, they are made again: at a start, by a rebuild, and under a service."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from projections.proving import list_all, verify
from projections.rebuild import rebuild
from projections.runner import Runner
from projections.stored.catalogue import NAMES
from projections.stored.faults import ProjectionsUnusable, ReadModelBehind
from projections.stored.file import FILE_NAME, UNUSABLE
from projections.stored.listing import Listing
from tests.projections.test_following import lives
from tests.projections.world import BOUND_S, World, differs, followed, opened
from tests.waiting import eventually

Spoil = Callable[[Path], None]


def garbled(file: Path) -> None:
    file.write_bytes(b"no header of a database at all" + file.read_bytes()[30:])


def foreign(file: Path) -> None:
    file.unlink()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE songs (title)")


def notes(file: Path) -> None:
    file.write_bytes(b"my notes, not yours" * 100)


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "precious").write_text("mine")


def log_is_a_directory(file: Path) -> None:
    file.with_name(file.name + "-wal").mkdir()


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 8192 * 4096])


def blank(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + bytes(len(whole) - 100))


def of_another_shape(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("ALTER TABLE tracking RENAME COLUMN build TO number")


def emptied(file: Path) -> None:
    file.write_bytes(b"")


ANYBODYS: tuple[Spoil, ...] = (garbled, foreign, notes, directory, log_is_a_directory)
"""What cannot be told to be ours, and is put aside."""
OURS: tuple[Spoil, ...] = (truncated, blank, of_another_shape)
"""What is ours, and is made anew in its place."""


def named(spoil: Spoil) -> str:
    return spoil.__name__


@contextlib.asynccontextmanager
async def spoilt(tmp_path: Path, spoil: Spoil, journal: Path | None = None) -> AsyncIterator[World]:
    """A world whose read models were complete, and then spoiled while nothing ran."""
    async with opened(journal) as world:
        await lives(world, 2)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
        spoil(tmp_path / FILE_NAME)
        yield world


async def is_right(world: World, runner: Runner) -> None:
    await runner.caught_up(BOUND_S)

    assert differs(world, runner) is None


def content(path: Path) -> object:
    return sorted(one.name for one in path.iterdir()) if path.is_dir() else path.read_bytes()


@pytest.mark.parametrize("spoil", ANYBODYS, ids=named)
async def test_what_may_be_anybodys_is_put_aside_whole_and_the_models_are_made_again_at_the_start(
    tmp_path: Path, spoil: Spoil
) -> None:
    async with spoilt(tmp_path, spoil) as world:
        before = content(tmp_path / FILE_NAME)
        async with followed(world, tmp_path) as runner:
            await is_right(world, runner)
            said = runner.health()["first_error"]
            runner.acknowledge()
            acknowledged = runner.health()["first_error"]

    assert before == content(tmp_path / f"{UNUSABLE}1")
    assert FILE_NAME in said
    assert f"{UNUSABLE}1" in said
    assert acknowledged is None


@pytest.mark.parametrize("spoil", [*OURS, emptied], ids=named)
async def test_a_file_of_ours_that_is_of_no_use_is_made_anew_at_the_start(tmp_path: Path, spoil: Spoil) -> None:
    async with spoilt(tmp_path, spoil) as world, followed(world, tmp_path) as runner:
        await is_right(world, runner)
        said = runner.health()["first_error"]

    assert [] == list(tmp_path.glob(f"{UNUSABLE}*"))
    assert (said is None) == (spoil is emptied)


@pytest.mark.parametrize("spoil", [garbled, directory, truncated, of_another_shape], ids=named)
async def test_a_rebuild_makes_them_again_whatever_is_in_their_place(tmp_path: Path, spoil: Spoil) -> None:
    async with spoilt(tmp_path, spoil, tmp_path):
        done = rebuild(tmp_path)

        assert set(NAMES) == set(done)
        assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


@pytest.mark.parametrize("spoil", [garbled, directory], ids=named)
async def test_who_only_looks_says_what_is_wrong_and_changes_nothing(tmp_path: Path, spoil: Spoil) -> None:
    async with spoilt(tmp_path, spoil, tmp_path):
        before = content(tmp_path / FILE_NAME)
        for look in (list_all, verify):
            with pytest.raises(ProjectionsUnusable, match="jackline projections rebuild"):
                look(tmp_path)

    assert before == content(tmp_path / FILE_NAME)


async def test_a_second_file_is_put_aside_beside_the_first(tmp_path: Path) -> None:
    async with opened(None) as world:
        for number in (1, 2):
            (tmp_path / FILE_NAME).write_bytes(b"%d" % number * 1_000)
            async with followed(world, tmp_path) as runner:
                await runner.caught_up(BOUND_S)
            (tmp_path / FILE_NAME).unlink()

    assert [b"1", b"2"] == [(tmp_path / f"{UNUSABLE}{number}").read_bytes()[:1] for number in (1, 2)]


# Under a running service


def removed(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def replaced(file: Path) -> None:
    removed(file)
    notes(file)


def torn(file: Path) -> None:
    """Every page but the first is zeros, and so is what the log had of them."""
    file.with_name(file.name + "-wal").write_bytes(b"")
    whole = file.read_bytes()
    with file.open("r+b") as writing:
        writing.seek(4096)
        writing.write(bytes(len(whole) - 4096))


async def listed(runner: Runner) -> int | None:
    """How many runs a list shows; None while it says that it is behind. Nothing else may be said."""
    try:
        return len((await runner.runs.list("default", Listing(limit=500)))["items"])
    except ReadModelBehind:
        return None


@pytest.mark.parametrize("spoil", [removed, replaced, torn], ids=named)
async def test_a_file_that_is_spoiled_under_the_service_is_made_again_without_a_restart(
    tmp_path: Path, spoil: Spoil
) -> None:
    async with opened(None) as world:
        await lives(world, 5)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            spoil(tmp_path / FILE_NAME)
            await lives(world, 6)

            async def there() -> bool:
                return await listed(runner) == 6

            await eventually(there, what="the list of a file that was made again", within_s=BOUND_S)
            await is_right(world, runner)
            assert 6 == await listed(runner)


async def test_a_rebuild_of_another_process_in_a_new_file_is_what_the_service_goes_on_with(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 5)
        async with followed(world, tmp_path) as runner:
            await runner.caught_up(BOUND_S)
            removed(tmp_path / FILE_NAME)
            rebuild(tmp_path)
            await lives(world, 6)
            await is_right(world, runner)

            assert 6 == await listed(runner)
