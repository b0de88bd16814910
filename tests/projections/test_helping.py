"""A rebuild on two cores: the same bytes, whatever becomes of the helper."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from projections import helping
from projections.helping import HELPED_FROM, Helper, shared
from projections.proving import list_all, verify
from projections.rebuild import rebuild
from projections.stored.catalogue import NAMES, PROJECTIONS, named
from projections.stored.database import NEXT, REBUILD_LOCK_NAME, Database, tracked
from projections.stored.faults import ProjectionsBusy
from tests.projections.test_following import lives
from tests.projections.world import opened
from tests.waiting import until

REBUILDER = """
import sys, threading
from pathlib import Path
from projections import helping
from projections.rebuild import rebuild

helping.HELPED_FROM = 1
helping._cores = lambda: 2

def told(*step: object) -> None:
    print(*step, flush=True)
    threading.Event().wait()

rebuild(Path(sys.argv[1]), progress=told)
"""


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helping, "_cores", lambda: 2)


@contextlib.contextmanager
def always_helped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Helper]]:
    """Every rebuild has a helper; those that there were."""
    helpers: list[Helper] = []

    class Seen(Helper):
        def __enter__(self) -> Helper:
            helpers.append(self)
            return super().__enter__()

    with monkeypatch.context() as patch:
        patch.setattr(helping, "HELPED_FROM", 1)
        patch.setattr("projections.rebuild.Helper", Seen)
        yield helpers


async def journal_of(data_dir: Path, runs: int) -> None:
    async with opened(data_dir) as world:
        await lives(world, runs)


def reached_by_helper(data_dir: Path) -> int:
    """The position up to which the new rows of ``runs`` are written."""
    database = Database(data_dir)
    try:
        with database.reading() as connection:
            at = tracked(connection, "runs" + NEXT)
    finally:
        database.close()
    return 0 if at is None else at.position


def is_free(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def test_the_heaviest_model_is_shared_out_when_there_are_facts_models_and_cores_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, helped = shared(PROJECTIONS, HELPED_FROM)

    assert ["runs"] == [one.name for one in helped]
    assert [name for name in NAMES if name != "runs"] == [one.name for one in own]
    assert (list(PROJECTIONS), []) == shared(PROJECTIONS, HELPED_FROM - 1)
    assert (list(named(("runs",))), []) == shared(named(("runs",)), HELPED_FROM)
    assert (list(named(("usage", "queues"))), []) == shared(named(("usage", "queues")), HELPED_FROM)
    monkeypatch.setattr(helping, "_cores", lambda: 1)
    assert (list(PROJECTIONS), []) == shared(PROJECTIONS, HELPED_FROM)


async def test_a_helped_rebuild_makes_the_bytes_of_one_without_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal_of(tmp_path, 150)
    rebuild(tmp_path)
    alone = [(one.name, one.digest, one.position) for one in list_all(tmp_path)]
    told: list[tuple[str, int, int]] = []

    with always_helped(monkeypatch) as helpers:
        rebuild(tmp_path, progress=lambda *step: told.append(step))

    assert 1 == len(helpers)
    assert helpers[0].position > 0
    assert alone == [(one.name, one.digest, one.position) for one in list_all(tmp_path)]
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}
    assert told[-1][1] == told[-1][2] == alone[0][2]
    assert told == sorted(told)


async def test_a_helper_that_cannot_begin_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await journal_of(tmp_path, 150)
    monkeypatch.setattr(helping, "MODULE", "projections.nowhere")

    with always_helped(monkeypatch) as helpers:
        rebuild(tmp_path)

    assert [0] == [one.position for one in helpers]
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


@pytest.mark.system
async def test_a_helper_that_is_killed_is_gone_on_from(tmp_path: Path) -> None:
    await journal_of(tmp_path, 400)
    database = Database(tmp_path)
    database.prepare()
    with database.rebuilding() as right, Helper(tmp_path, named(("runs",)), right) as helper:
        until(lambda: reached_by_helper(tmp_path) > 0, what="rows of the helper")
        helper.kill()
    database.close()
    reached = reached_by_helper(tmp_path)

    rebuild(tmp_path)

    assert reached > 0
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


@pytest.mark.system
async def test_a_helper_ends_with_whoever_asked_and_nobody_else_rebuilds_before(tmp_path: Path) -> None:
    await journal_of(tmp_path, 400)
    asked = subprocess.Popen([sys.executable, "-c", REBUILDER, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert asked.stdout is not None
        assert asked.stdout.readline()
        with pytest.raises(ProjectionsBusy):
            rebuild(tmp_path)
    finally:
        asked.send_signal(signal.SIGKILL)
        asked.communicate()

    until(partial(is_free, tmp_path / REBUILD_LOCK_NAME), what="the end of the helper")
    rebuild(tmp_path)
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


async def test_an_interrupted_rebuild_takes_its_helper_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    await journal_of(tmp_path, 150)
    with always_helped(monkeypatch) as helpers, pytest.raises(KeyboardInterrupt):
        rebuild(tmp_path, progress=interrupt)

    assert [False] == [one.runs for one in helpers]
    assert is_free(tmp_path / REBUILD_LOCK_NAME)
    rebuild(tmp_path)
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}
