"""Bits that flip, files that are cut, lost or exchanged: nothing is silent, and the first bad position is named."""

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.opening import JOURNAL_NAME
from journal.reached import REACHED_NAME
from tests.faults.damage import copied, flipped, found
from tests.system.load import Crowd
from tests.system.nursery import Nursery
from tests.system.serving import Service, cli, one_line
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("D38")]

FLIPS = 50
COMMANDS = 300
WAL_NAME = f"{JOURNAL_NAME}-wal"


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory, jackline_script: Path, nursery: Nursery) -> Iterator[Path]:
    """A folder with two journals of one service: as it was killed under load, and after it was stopped in order."""
    place = tmp_path_factory.mktemp("journals")
    service = Service(jackline_script, place / "stopped", retry_continuation_s=0)
    service.nursery = nursery
    try:
        service.start()
        crowd = Crowd(service.port, service.key, 4, 1)
        crowd.start()
        until(lambda: crowd.promised > COMMANDS, what="a journal worth damaging", within_s=60)
        service.kill()
        crowd.abandon()
        shutil.copytree(place / "stopped", place / "killed")
        service.start()
        assert 0 == service.terminate()
        yield place
    finally:
        service.end()


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_flipped_bit_in_a_real_journal_is_never_silent(journals: Path, tmp_path: Path, seed: int, end: str) -> None:
    counts, silent = flipped(journals / end, tmp_path, FLIPS, random.Random(seed))

    assert [] == silent, seed
    assert counts["noticed"] > 0
    assert FLIPS == counts.total()


def reached(journal: Path) -> int:
    return int((journal / REACHED_NAME).read_bytes().split()[0])


def test_a_log_that_is_lost_is_noticed_by_the_first_position_that_is_not_there(journals: Path, tmp_path: Path) -> None:
    place = copied(journals / "killed", tmp_path / "lost")
    (place / WAL_NAME).unlink()

    problem, position = found(place) or ("", None)

    assert f"position {reached(place)} had been acknowledged" in problem
    assert position is not None
    assert position <= reached(place)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_log_that_is_cut_is_noticed(journals: Path, tmp_path: Path, share: float) -> None:
    place = copied(journals / "killed", tmp_path / "cut")
    os.truncate(place / WAL_NAME, int((place / WAL_NAME).stat().st_size * share))

    problem, position = found(place) or ("", None)

    assert "facts were cut off" in problem
    assert 1 <= (position or 0) <= reached(place)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_journal_that_is_cut_is_noticed(journals: Path, tmp_path: Path, share: float) -> None:
    place = copied(journals / "stopped", tmp_path / "cut")
    os.truncate(place / JOURNAL_NAME, int((place / JOURNAL_NAME).stat().st_size * share))

    assert found(place) is not None


def test_a_journal_that_is_exchanged_for_an_older_one_of_its_own_is_noticed(journals: Path, tmp_path: Path) -> None:
    place = copied(journals / "stopped", tmp_path / "older")
    shutil.copy(journals / "killed" / JOURNAL_NAME, place / JOURNAL_NAME)

    assert "facts were cut off" in (found(place) or ("", None))[0]


def test_a_log_of_another_journal_is_never_taken_for_its_own(
    journals: Path, tmp_path: Path, jackline_script: Path, nursery: Nursery
) -> None:
    other = Service(jackline_script, tmp_path / "other")
    other.nursery = nursery
    try:
        other.start()
        for number in range(20):
            other.caller().post("/v1/runs", {"name": f"run-{number}"}).ok(201)
        other.kill()
    finally:
        other.end()
    place = copied(journals / "killed", tmp_path / "swapped")
    shutil.copy(other.data_dir / WAL_NAME, place / WAL_NAME)

    assert found(place) is not None


def test_the_start_and_the_command_line_name_the_first_position_that_is_not_there(
    journals: Path, tmp_path: Path, jackline_script: Path, nursery: Nursery
) -> None:
    place = tmp_path / "data"
    shutil.copytree(journals / "killed", place)
    os.truncate(place / WAL_NAME, (place / WAL_NAME).stat().st_size // 2)
    service = Service(jackline_script, place)
    service.nursery = nursery

    code, said = service.refused_to_start()
    verified = json.loads(cli(jackline_script, "journal", "verify", "--json", "--data-dir", str(place)).stdout)

    assert 1 == code
    assert (False, f"it ends at position {verified['first_bad_position'] - 1}") == (
        verified["ok"],
        verified["problem"].partition(",")[0],
    )
    assert f"it ends at position {verified['first_bad_position'] - 1}, " in one_line(said)
    (place / REACHED_NAME).unlink()
    service.start()
    service.end()
