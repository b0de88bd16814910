"""The verb `projections`: what it prints for people and programs, and with what it ends."""

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from projections.stored.catalogue import NAMES
from projections.stored.file import FILE_NAME
from tests.projections.test_following import lives
from tests.projections.world import opened

RUN_S = 60


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """A data directory with a journal and no read models."""
    async with opened(tmp_path) as world:
        await lives(world, 3)
    return tmp_path


def said(script: Path, data_dir: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(script), "projections", *words, "--data-dir", str(data_dir)],
        capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def document(script: Path, data_dir: Path, *words: str, code: int = 0) -> Any:
    returned, out, err = said(script, data_dir, *words, "--json")
    assert code == returned, err
    return json.loads(out)


@pytest.mark.system
def test_models_are_missing_then_rebuilt_then_listed_with_their_digests(jackline_script: Path, data_dir: Path) -> None:
    before = document(jackline_script, data_dir, "list")
    rebuilt = document(jackline_script, data_dir, "rebuild")
    after = document(jackline_script, data_dir, "list")

    assert {"missing"} == {one["state"] for one in before}
    assert [*NAMES] == [one["name"] for one in rebuilt] == [one["name"] for one in after]
    assert {("current", 0, 64)} == {(one["state"], one["lag"], len(one["digest"])) for one in after}


@pytest.mark.system
def test_a_model_that_was_altered_is_found_named_and_ends_with_one(jackline_script: Path, data_dir: Path) -> None:
    document(jackline_script, data_dir, "rebuild", "usage", "runs")
    whole = document(jackline_script, data_dir, "verify", "usage", "runs")
    with closing(sqlite3.connect(data_dir / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE usage SET attempts = attempts + 1")
    found = document(jackline_script, data_dir, "verify", "usage", "runs", code=1)
    code, out, _ = said(jackline_script, data_dir, "verify", "usage")

    assert [True, True] == [one["ok"] for one in whole]
    assert {"runs": True, "usage": False} == {one["name"]: one["ok"] for one in found}
    usage = found[1]["difference"]
    assert ("usage", "attempts") == (usage["table"], usage["field"])
    assert int(usage["stored"]) == int(usage["rebuilt"]) + 1
    assert 1 == code
    assert "differs from the journal in attempts" in " ".join(out.split())


@pytest.mark.system
def test_a_model_of_the_past_is_a_file_of_its_own_whose_path_is_printed(jackline_script: Path, data_dir: Path) -> None:
    code, out, _ = said(jackline_script, data_dir, "rebuild", "--at", "5")
    path = Path(out.strip())

    assert (0, data_dir / "projections-at-5.sqlite3") == (code, path)
    with closing(sqlite3.connect(path)) as connection:
        assert [(5,)] == connection.execute("SELECT DISTINCT position FROM tracking").fetchall()
    assert not (data_dir / FILE_NAME).exists()


@pytest.mark.system
@pytest.mark.parametrize("name", ["journal.sqlite3", "notes.txt"])
def test_a_model_of_the_past_never_takes_the_place_of_a_file(jackline_script: Path, data_dir: Path, name: str) -> None:
    target = data_dir / name
    if not target.exists():
        target.write_text("precious")
    before = target.read_bytes()

    code, _, error = said(jackline_script, data_dir, "rebuild", "--at", "5", "--out", str(target))

    assert (1, before) == (code, target.read_bytes())
    assert "target_exists" in error


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("rebuild", "walks"), "projection_unknown: there is no projection 'walks'"),
        (("verify", "walks"), "projection_unknown: there is no projection 'walks'"),
        (("rebuild", "--at", "1000000"), "position_beyond: position 1000000 is beyond the journal"),
        (("rebuild", "--at", "2000-01-01T00:00:00Z"), "instant_before: the journal had no fact at 2000-01-01"),
        (("rebuild", "--at", "2999-01-01T00:00:00Z"), "instant_beyond: nothing is known of 2999-01-01T00:00:00+00:00"),
        (("rebuild", "--at", "0"), "at is '0', and must be a position (1 or more)"),
        (("rebuild", "--at", "noon"), "at is 'noon', and must be a position (1 or more)"),
        (("rebuild", "--at", "2000-01-01T00:00:00"), "and must be a position (1 or more) or an RFC 3339 instant"),
        (("rebuild", "--out", "x"), "--out is for --at"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line_and_leaves_no_file(
    jackline_script: Path, data_dir: Path, words: tuple[str, ...], line: str
) -> None:
    code, out, err = said(jackline_script, data_dir, *words)

    assert (2, "") == (code, out)
    assert 1 == len(err.strip().splitlines())
    assert line in err
    assert [] == [path.name for path in data_dir.glob("projections*sqlite3")]


@pytest.mark.system
def test_a_damaged_journal_is_said_in_one_line_and_the_live_models_stay(jackline_script: Path, data_dir: Path) -> None:
    document(jackline_script, data_dir, "rebuild")
    with closing(sqlite3.connect(data_dir / "journal.sqlite3")) as connection, connection:
        connection.execute("UPDATE stored_events SET state = x'7b' WHERE position = 3")
    code, _, err = said(jackline_script, data_dir, "rebuild")
    with closing(sqlite3.connect(data_dir / FILE_NAME)) as connection:
        rows = connection.execute("SELECT count(*) FROM runs").fetchone()

    assert 1 == code
    assert 1 == len(err.strip().splitlines())
    assert "undecodable_fact" in err
    assert (3,) == rows
