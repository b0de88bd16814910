"""The words of `jackline journal`: what is printed, for people and for programs, and which exit code follows."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from api.journal_cli import journal
from jackline.cli.exits import Fault
from journal.opening import JOURNAL_NAME
from tests.journal.filled import FACTS, filled

VERBS = ("stats", "verify", "tail", "export", "import", "archive", "backup", "restore")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data directory with a closed journal."""
    return filled(tmp_path / "data")


def said(place: Path, *words: str) -> Result:
    """What a verb printed, and its exit code, on this data directory."""
    return CliRunner().invoke(journal, [*words, "--data-dir", str(place)], standalone_mode=False)


def fault(place: Path, *words: str) -> Fault:
    """What a verb complained of."""
    error = said(place, *words).exception
    assert isinstance(error, Fault), error
    return error


def document(place: Path, *words: str) -> Any:
    """What a verb printed for programs."""
    result = said(place, *words, "--json")
    assert result.exception is None, result.exception
    return json.loads(result.stdout)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_group_helps_and_names_every_verb_and_the_exit_codes(option: str) -> None:
    helped = CliRunner().invoke(journal, [option])

    assert [] == [verb for verb in VERBS if f" {verb} " not in helped.stdout]
    assert "Exit codes: 0 done, 1 failed" in " ".join(helped.stdout.split())


def test_a_sound_journal_is_verified(place: Path) -> None:
    for words in (["verify"], ["verify", "--pages"]):
        assert f"ok: {FACTS} facts in {place / JOURNAL_NAME}\n" == said(place, *words).stdout
    assert {"ok": True, "facts": FACTS, "first_bad_position": None, "problem": None} == document(place, "verify")


def test_a_damaged_journal_is_named_by_position_with_exit_1(place: Path) -> None:
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        connection.execute("UPDATE stored_events SET topic = 'x' WHERE position = 7")
        connection.commit()

    assert 1 == said(place, "verify").return_value
    found = document(place, "verify")
    assert (False, 6, 7) == (found["ok"], found["facts"], found["first_bad_position"])
    assert "its hash does not follow" in found["problem"]


def test_a_page_that_only_sqlite_finds_wrong_is_found_when_asked_for(place: Path) -> None:
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        connection.execute("INSERT INTO archives VALUES (1, 'some-name', 0, 0, '')")
        connection.commit()
        index = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_archives_1'"
        root = connection.execute(index).fetchone()[0]
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (place / JOURNAL_NAME).open("r+b") as file:
        file.seek(file.read().index(b"some-name", (root - 1) * 4096))
        file.write(b"S")

    assert document(place, "verify")["ok"]
    found = document(place, "verify", "--pages")
    assert not found["ok"]
    assert "archives: row 1 missing from index sqlite_autoindex_archives_1" in found["problem"]


def test_numbers_are_printed_for_people_and_for_programs(place: Path) -> None:
    found, shown = document(place, "stats"), said(place, "stats").stdout

    assert FACTS == found["facts"]
    assert {"run.submitted.v1", "queue.configured.v1"} < set(found["topics"])
    assert {"run", "lease", "effects", "workspace", "worker", "queue", "presence"} == set(found["stream_kinds"])
    assert [] == [word for word in ("run.submitted.v1", "open runs", "epoch", JOURNAL_NAME) if word not in shown]


def test_the_last_facts_are_shown_and_no_more_than_asked(place: Path) -> None:
    lines = said(place, "tail", "--no-follow").stdout.splitlines()
    shown = [
        json.loads(line) for line in said(place, "tail", "-F", "--json", "--after", "3", "-n", "2").stdout.splitlines()
    ]

    assert [f"{number}" for number in range(FACTS - 9, FACTS + 1)] == [line.split()[0] for line in lines]
    assert [4, 5] == [fact["position"] for fact in shown]


def test_a_tail_ends_when_the_journal_under_it_is_restored(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document(place, "backup", str(tmp_path / "backup"))

    def meanwhile(_: float) -> None:
        for file in place.glob("journal.sqlite3*"):
            file.unlink()
        document(place, "restore", str(tmp_path / "backup"))

    monkeypatch.setattr("api.journal_reading_cli.time.sleep", meanwhile)
    error = fault(place, "tail")

    assert f"epoch_changed: the journal is in epoch {document(place, 'stats')['epoch']}, this process" in str(error)


@pytest.mark.parametrize("verb", ["tail", "export"])
def test_a_position_beyond_the_journal_is_refused(verb: str, place: Path) -> None:
    error = fault(place, verb, "--after", str(FACTS + 1))

    assert f"position_beyond: position {FACTS + 1} is beyond the journal, which ends at {FACTS}" == str(error)
    assert 1 == error.code


def test_a_whole_way_out_and_back(place: Path, tmp_path: Path) -> None:
    exported = document(place, "export", str(tmp_path / "all.jsonl"))
    backed = document(place, "backup", str(tmp_path / "backup"))
    imported = document(tmp_path / "imported", "import", str(tmp_path / "all.jsonl"))
    restored = document(tmp_path / "restored", "restore", str(tmp_path / "backup"))
    archived = document(tmp_path / "restored", "archive", "--older-than", "1", "--compact")

    assert [FACTS] * 4 == [one["facts"] for one in (exported, backed, imported, restored)]
    assert len({backed["epoch"], imported["epoch"], restored["epoch"]}) == 3
    assert (6, 53) == (archived["runs"], archived["facts"])
    assert archived["journal_bytes"] < backed["bytes"]
    assert document(tmp_path / "restored", "verify")["ok"]


def test_standard_output_gets_the_lines_and_nothing_else(place: Path) -> None:
    lines = said(place, "export", "--after", "5", "--upto", "7").stdout.splitlines()

    assert ["jackline.export.v1", 6, 7, "jackline.end.v1"] == [
        line.get("position", line["type"]) for line in map(json.loads, lines)
    ]


def test_parquet_is_not_written_to_standard_output(place: Path) -> None:
    error = fault(place, "export", "--parquet")

    assert 2 == error.code


def test_parquet_without_its_extra_says_what_to_install(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    error = fault(place, "export", str(tmp_path / "facts.parquet"), "--parquet")

    assert "parquet_missing: Parquet needs the package pyarrow, which is not installed" == str(error)
    assert ["data"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    "words", [("stats",), ("verify",), ("tail",), ("export",), ("backup", "file"), ("archive", "--older-than", "1")]
)
def test_a_directory_without_a_journal_is_named_and_none_is_made_there(words: tuple[str, ...], tmp_path: Path) -> None:
    nowhere = tmp_path / "mistyped"
    error = fault(nowhere, *words)

    assert f"no_journal: there is no journal at {nowhere / JOURNAL_NAME}" == str(error)
    assert "--data-dir" in error.remedy
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["import", "restore"])
def test_a_journal_is_not_put_over_one_with_facts(verb: str, place: Path, tmp_path: Path) -> None:
    document(place, "export", str(tmp_path / "import"))
    document(place, "backup", str(tmp_path / "restore"))

    error = fault(place, verb, str(tmp_path / verb))

    assert f"journal_not_empty: {place / JOURNAL_NAME} is a journal with {FACTS} facts, and is not replaced" == str(
        error
    )
