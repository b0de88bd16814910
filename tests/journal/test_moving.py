"""Export and import: everything arrives, byte for byte, or nothing does and the line is named."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from domain.values import Json
from journal.errors import DataDirBusy, JournalError
from journal.exporting import Range, export_lines, export_parquet
from journal.importing import Imported, import_lines
from journal.lock import DirLock
from journal.opening import JOURNAL_NAME
from journal.pending import Pending
from journal.registers import ChunkWrite, PartialWrite, running_digest
from journal.tool_errors import (
    ExportDamaged,
    ExportPartial,
    JournalNotEmpty,
    NotAnExport,
    PositionBeyond,
    SourceUnreadable,
)
from tests.journal.accounts import append, deciding, minting
from tests.journal.filled import FACTS, RELEASED_FACTS, filled, opened, read, released, rows_of, unreported, verified

BESIDE = ("output_chunks", "output_marks", "partials", "commands")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """The export of a whole journal."""
    return export(filled(tmp_path / "here"), tmp_path / "journal.jsonl")


def export(place: Path, file: Path, wanted: Range | None = None) -> Path:
    """The file, with the export of this directory's journal in it."""
    with read(place) as store, file.open("wb") as out:
        export_lines(store, wanted or Range(), out, unreported)
    return file


def imported(file: Path, there: Path) -> Imported:
    """What was imported into a directory."""
    return import_lines(file, there, minting(), unreported)


def beside(place: Path) -> dict[str, list[Any]]:
    """The registers and answers of a directory."""
    with read(place) as store:
        return {table: store.datastore.read(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in BESIDE}


@pytest.mark.parametrize(("make", "facts"), [(filled, FACTS), (released, RELEASED_FACTS)])
def test_an_imported_journal_is_the_one_that_was_exported_in_another_epoch(
    make: Any, facts: int, tmp_path: Path
) -> None:
    here, there = make(tmp_path / "here"), tmp_path / "there"

    found = imported(export(here, tmp_path / "journal.jsonl"), there)

    assert [row[:5] + row[6:] for row in rows_of(here)] == [row[:5] + row[6:] for row in rows_of(there)]
    assert beside(here) == beside(there)
    assert verified(there).ok
    with read(here) as mine, read(there) as its:
        assert (mine.journal_id, mine.load_tail()) == (its.journal_id, its.load_tail())
        assert mine.epoch != its.epoch == found.epoch
    assert (facts, 3, 10) == (found.facts, found.registers, found.answers)


def test_an_imported_journal_exports_the_same_lines_again(exported: Path, tmp_path: Path) -> None:
    imported(exported, tmp_path / "there")

    again = export(tmp_path / "there", tmp_path / "again.jsonl")

    assert exported.read_bytes().splitlines()[1:-1] == again.read_bytes().splitlines()[1:-1]


def test_what_an_attempt_writes_while_an_export_is_made_is_not_in_it(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")
    before = beside(here)
    late = [ChunkWrite("late", 1, 0, "stdout", "new", running_digest("", 0, "stdout", "new"))]
    application = opened(here)

    def record_more(*_: object) -> None:
        if not application.store.partial("late"):
            append(application.store, Pending([], [], writes=[*late, PartialWrite("late", 1, Json(b"1"))]))

    with (tmp_path / "journal.jsonl").open("wb") as out:
        export_lines(application.store, Range(), out, record_more)
    application.close()
    imported(tmp_path / "journal.jsonl", tmp_path / "there")

    assert before != beside(here)
    assert before == beside(tmp_path / "there")


def test_every_line_is_in_the_format_of_cloudevents(exported: Path) -> None:
    for text in exported.read_bytes().splitlines():
        line = json.loads(text)

        assert {"specversion", "id", "source", "type", "data"} <= set(line)
        assert "1.0" == line["specversion"]
        assert [] == [name for name in line if not (name.isalnum() and name == name.lower() and len(name) <= 20)]


def test_a_range_holds_just_these_facts_and_is_no_whole_journal(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")

    part = export(here, tmp_path / "part.jsonl", Range(5, 9))

    lines = [json.loads(line) for line in part.read_bytes().splitlines()]
    assert [6, 7, 8, 9] == [line["position"] for line in lines if "position" in line]
    with pytest.raises(ExportPartial, match="holds the facts 6 to 9 of a journal and not the whole of it"):
        imported(part, tmp_path / "there")


def test_bytes_that_no_form_gives_back_are_exported_as_they_are(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    odd = b'[ ["f", "2026-01-01T12:00:00Z"], {"queue": "x", "max_leases": 1, "max_per_key": 1} ]'
    app = opened(here)
    append(app.store, deciding(("queue-x", 1, "queue.configured.v1", odd, None)))
    app.close()

    file = export(here, tmp_path / "journal.jsonl")
    imported(file, there)

    assert "state" in json.loads(file.read_bytes().splitlines()[1])
    assert [odd] == [row[4] for row in rows_of(there)]
    assert verified(there).ok


@pytest.mark.parametrize("wanted", [Range(FACTS + 1), Range(0, FACTS + 1)])
def test_a_range_beyond_the_journal_is_refused(wanted: Range, tmp_path: Path) -> None:
    here = filled(tmp_path / "here")

    with pytest.raises(PositionBeyond, match=f"position {FACTS + 1} is beyond the journal, which ends at {FACTS}"):
        export(here, tmp_path / "part.jsonl", wanted)


def test_an_empty_range_at_the_very_end_is_none_of_the_facts(tmp_path: Path) -> None:
    part = export(filled(tmp_path / "here"), tmp_path / "part.jsonl", Range(FACTS))

    assert 2 == len(part.read_bytes().splitlines())


def test_a_journal_with_facts_is_not_imported_over(exported: Path, tmp_path: Path) -> None:
    there = filled(tmp_path / "there")
    before = (there / JOURNAL_NAME).read_bytes()

    with pytest.raises(JournalNotEmpty, match=f"is a journal with {FACTS} facts, and is not replaced"):
        imported(exported, there)

    assert before == (there / JOURNAL_NAME).read_bytes()


def test_an_empty_journal_is_imported_over(exported: Path, tmp_path: Path) -> None:
    opened(tmp_path / "there").close()

    assert FACTS == imported(exported, tmp_path / "there").facts
    assert verified(tmp_path / "there").ok


def test_a_directory_in_use_is_not_imported_into(exported: Path, tmp_path: Path) -> None:
    lock = DirLock(tmp_path / "there")

    with pytest.raises(DataDirBusy):
        imported(exported, tmp_path / "there")

    lock.release()


def rewritten(file: Path, number: int, old: str, new: str) -> Path:
    """The file with one line changed."""
    lines = file.read_text().splitlines(keepends=True)
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    file.write_text("".join(lines))
    return file


@pytest.mark.parametrize(
    ("line", "old", "new", "problem"),
    [
        (2, "nightly", "weekly", "the hash of position 1 does not follow"),
        (3, '"version":1', '"version":2', "the hash of position 2 does not follow"),
        (4, '"position":3', '"position":4', "position 4 follows 2"),
        (5, '"specversion"', "specversion", "malformed"),
        (6, "}\n", "\n", "truncated"),
        (7, '"subject"', '"object"', "missing required field `subject`"),
        (FACTS + 2, "hello", "hallo", "tells of"),
        (FACTS + 4, '"saved":1', '"saved":2', "tells of"),
        (FACTS + 15, f'"facts":{FACTS}', '"facts":1', "tells of 1 facts"),
    ],
)
def test_an_altered_line_is_named_and_nothing_is_left_behind(  # noqa: PLR0913
    line: int, old: str, new: str, problem: str, exported: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"

    with pytest.raises(ExportDamaged) as caught:
        imported(rewritten(exported, line, old, new), there)

    assert problem in str(caught.value)
    assert line <= caught.value.line
    assert line == caught.value.line or line > FACTS + 1
    assert 1 == str(caught.value).count("is damaged at line")
    assert not there.exists()


def test_registers_that_the_facts_contradict_are_refused_though_the_digest_was_made_anew(
    exported: Path, tmp_path: Path
) -> None:
    lines = rewritten(exported, FACTS + 2, "hello", "hallo").read_bytes().splitlines(keepends=True)
    ending = json.loads(lines[-1])
    ending["data"]["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    exported.write_bytes(b"".join(lines[:-1]) + json.dumps(ending).encode() + b"\n")

    with pytest.raises(ExportDamaged, match=r"the output of run .* under fence 1 is not what this fact says was saved"):
        imported(exported, tmp_path / "there")


@pytest.mark.parametrize("kept", [1, 40, FACTS + 1, FACTS + 5, FACTS + 14])
def test_a_file_that_ends_before_its_last_line_is_refused(kept: int, exported: Path, tmp_path: Path) -> None:
    exported.write_bytes(b"".join(exported.read_bytes().splitlines(keepends=True)[:kept]))

    with pytest.raises(ExportDamaged, match=f"at line {kept + 1}: it ends here, and its last line is missing"):
        imported(exported, tmp_path / "there")


def test_a_file_that_ends_within_a_line_is_refused(exported: Path, tmp_path: Path) -> None:
    exported.write_bytes(exported.read_bytes()[:5000])

    with pytest.raises(ExportDamaged, match=r"^[^:]+ is damaged at line \d+: it is cut off in this line"):
        imported(exported, tmp_path / "there")


def test_something_after_the_last_line_is_refused(exported: Path, tmp_path: Path) -> None:
    exported.write_bytes(exported.read_bytes() + b"{}\n")

    with pytest.raises(ExportDamaged, match="something follows its last line"):
        imported(exported, tmp_path / "there")


@pytest.mark.parametrize("content", [b"", b"hello", b"hello\n", b"{}\n", b'{"type":"other","data":{}}\n', bytes(5000)])
def test_a_file_that_is_no_export_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    with pytest.raises(NotAnExport) as caught:
        imported(file, tmp_path / "there")

    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="No such file"):
        imported(tmp_path / "none", tmp_path / "there")


def test_parquet_holds_every_fact_with_its_data(tmp_path: Path) -> None:
    from pyarrow import parquet

    file = tmp_path / "facts.parquet"
    with read(filled(tmp_path / "here")) as store:
        assert FACTS == export_parquet(store, Range(), file, unreported)
        rows = list(store.rows_after(0))

    table = parquet.read_table(file).to_pylist()

    assert [row[0] for row in rows] == [row["position"] for row in table]
    assert [row[6] for row in rows] == [row["hash"] for row in table]
    assert [row[3] for row in rows] == [row["topic"] for row in table]
    assert all(bytes(row[4]).endswith(line["data"].encode() + b"]") for row, line in zip(rows, table, strict=True))


def test_a_fact_that_cannot_be_read_stops_an_export_and_is_named(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")
    with closing(sqlite3.connect(here / JOURNAL_NAME)) as connection:
        connection.execute("UPDATE stored_events SET state = '[1]' WHERE position = 7")
        connection.commit()

    with pytest.raises(JournalError, match="cannot be read"):
        export(here, tmp_path / "journal.jsonl")
