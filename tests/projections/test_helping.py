"""A rebuild on two cores: the same bytes, whatever becomes of the helper."""

import asyncio
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
from hypothesis import given, settings
from hypothesis import strategies as st

from projections import helping
from projections.comparing import first_difference
from projections.helping import HELPED_FROM, Helper, worth_helping
from projections.proving import list_all, verify
from projections.rebuild import HELPERS, OWN, Rebuild, rebuild
from projections.refolding import Refolding, Start
from projections.stored.catalogue import PROJECTIONS
from projections.stored.database import REBUILD_LOCK_NAME, Database, create_tables, scratch, tracked_beside
from projections.stored.faults import ProjectionsBusy
from tests.projections.test_following import STEPS, Steps, lives, tell
from tests.projections.world import opened, refolded
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


def reached(data_dir: Path) -> list[int]:
    """The positions up to which the new rows of ``runs`` are written: of our own half, and of the helper's."""
    database = Database(data_dir)
    try:
        with database.reading() as connection:
            return [at.position for at in tracked_beside(connection, "runs")]
    finally:
        database.close()


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


def test_a_helper_is_asked_when_there_are_facts_and_cores_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worth_helping(HELPED_FROM)
    assert not worth_helping(HELPED_FROM - 1)
    monkeypatch.setattr(helping, "_cores", lambda: 1)
    assert not worth_helping(HELPED_FROM)


async def test_a_helped_rebuild_makes_the_bytes_of_one_without_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal_of(tmp_path, 150)
    rebuild(tmp_path)
    alone = [(one.name, one.digest, one.position) for one in list_all(tmp_path)]
    told: list[tuple[str, int, int]] = []

    with always_helped(monkeypatch) as helpers:
        rebuild(tmp_path, progress=lambda *step: told.append(step))

    assert [0] == [one.exit_code for one in helpers]
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
async def test_a_helper_that_is_killed_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str, done: int, total: int) -> None:
        if reached(tmp_path)[1] > 0:
            raise KeyboardInterrupt

    await journal_of(tmp_path, 400)
    monkeypatch.setattr(
        Helper, "wait", lambda self, upto, report: until(lambda: report(0, upto), what="an interrupt", within_s=60)
    )
    with always_helped(monkeypatch), pytest.raises(KeyboardInterrupt):
        rebuild(tmp_path, progress=interrupt)
    stopped = reached(tmp_path)

    rebuild(tmp_path)

    assert min(stopped) > 0
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


@given(steps=STEPS, turns=st.lists(st.tuples(st.sampled_from([OWN, HELPERS]), st.integers(1, 30)), max_size=12))
@settings(max_examples=40)
def test_halves_folded_in_any_turns_make_the_rows_of_one_pass(steps: Steps, turns: list[tuple[int, int]]) -> None:
    async def body() -> None:
        async with opened(None) as world:
            await tell(world, steps)
            end = world.journal.position
            starts = [Start(projection) for projection in PROJECTIONS]
            halves = [Refolding(world.journal.store, starts, half=half) for half in (OWN, HELPERS)]
            with (
                contextlib.closing(scratch()) as made,
                contextlib.closing(refolded(world, end)) as whole,
            ):
                for projection in PROJECTIONS:
                    create_tables(made, projection.tables, "")
                for half, facts in (*turns, (OWN, end), (HELPERS, end)):
                    halves[half].finish(min(end, halves[half].position + facts))
                    for _, write in halves[half].changes():
                        write(made, "")
                for projection in PROJECTIONS:
                    assert first_difference(made, whole, projection) is None

    asyncio.run(body())


@pytest.mark.parametrize("half", [OWN, HELPERS])
async def test_a_rebuild_goes_on_with_what_is_missing_of_either_half(tmp_path: Path, half: int) -> None:
    async with opened(tmp_path) as world:
        await lives(world, 60)
        rebuild(tmp_path)
        before = [(one.name, one.digest) for one in list_all(tmp_path)]
        database, store = Database(tmp_path), world.journal.store
        rebuilding = Rebuild(database, store, PROJECTIONS)
        starts = rebuilding._begin()
        rebuilding._catch_up(Refolding(store, starts, half=half), lambda at, total: None)
        database.close()
        own_and_helpers = reached(tmp_path)

    rebuild(tmp_path)

    assert 0 == own_and_helpers[1 - half] < own_and_helpers[half]
    assert before == [(one.name, one.digest) for one in list_all(tmp_path)]


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

    until(partial(is_free, tmp_path / REBUILD_LOCK_NAME), what="the end of the helper", within_s=60)
    rebuild(tmp_path)
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}


async def test_an_interrupted_rebuild_takes_its_helper_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    await journal_of(tmp_path, 150)
    with always_helped(monkeypatch) as helpers, pytest.raises(KeyboardInterrupt):
        rebuild(tmp_path, progress=interrupt)

    assert None not in [one.exit_code for one in helpers]
    assert is_free(tmp_path / REBUILD_LOCK_NAME)
    rebuild(tmp_path)
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(tmp_path)}
