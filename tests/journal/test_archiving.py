"""Archives: the bytes of settled runs move, and everything that reads them reads them as before, under one chain."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from journal import archiving
from journal.archives import MARK, pack, unpack
from journal.archiving import archive, compact
from journal.carried import FOLDER
from journal.errors import ArchiveUnusable, DataDirBusy
from journal.opening import JOURNAL_NAME, open_readonly
from journal.streams import Streams
from tests.journal.accounts import minting
from tests.journal.filled import FACTS, RELEASED_FACTS, filled, opened, read, released, rows_of, unreported, verified
from tests.journal.releases import RUN

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RECORDED = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTLED = {1, 2, 3, 5, 6, 7}
"""The runs of the lives that end settled."""


def moved(place: Path) -> set[int]:
    """The positions whose bytes are no longer in the journal."""
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        rows = connection.execute("SELECT position FROM stored_events WHERE substr(state, 1, 1) = ?", (MARK,))
        return {row[0] for row in rows}


def positions_of(place: Path, runs: set[int]) -> set[int]:
    """The positions of these runs' facts."""
    names = tuple(RUN.format(number) for number in runs)
    return {int(str(row[0])) for row in rows_of(place) if str(row[1]).endswith(names)}


@pytest.mark.parametrize(("make", "count"), [(filled, FACTS), (released, RELEASED_FACTS)])
def test_settled_runs_move_and_everything_reads_as_before(make: object, count: int, tmp_path: Path) -> None:
    assert callable(make)
    place = make(tmp_path)
    before = rows_of(place)
    with read(place) as store:
        states = {row[1]: Streams(store).load(str(row[1])) for row in before}
        facts = {number: store.facts_of(RUN.format(number), 0, 100) for number in range(1, 10)}

    found = archive(place, NOW, NOW, minting(), unreported)

    assert len(SETTLED) == found.runs
    assert positions_of(place, SETTLED) == moved(place)
    assert found.facts == len(moved(place))
    assert before == rows_of(place)
    verdict = verified(place)
    assert (True, count) == (verdict.ok, verdict.facts), verdict.problem
    with read(place) as store:
        assert states == {name: Streams(store).load(str(name)) for name in states}
        assert facts == {number: store.facts_of(RUN.format(number), 0, 100) for number in range(1, 10)}
        assert sorted(found.files) == sorted(path.name for path in (place / FOLDER).iterdir())


def test_a_run_with_a_younger_fact_stays(tmp_path: Path) -> None:
    place = filled(tmp_path)

    found = archive(place, RECORDED + timedelta(seconds=3), NOW, minting(), unreported)

    assert positions_of(place, {1, 2, 3}) >= moved(place) > set()
    assert 0 < found.runs <= 3


def test_nothing_that_is_old_enough_is_no_archive(tmp_path: Path) -> None:
    place = filled(tmp_path)

    found = archive(place, RECORDED, NOW, minting(), unreported)

    assert (0, 0, ()) == (found.runs, found.facts, found.files)
    assert not (place / FOLDER).exists()


def test_a_second_archive_finds_nothing_more(tmp_path: Path) -> None:
    place = filled(tmp_path)
    archive(place, NOW, NOW, minting(), unreported)

    assert 0 == archive(place, NOW, NOW, minting(), unreported).runs


def test_many_runs_make_several_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "RUNS_IN_ARCHIVE", 4)
    place = filled(tmp_path)

    found = archive(place, NOW, NOW, minting(), unreported)

    assert (6, 2) == (found.runs, len(found.files))
    assert verified(place).ok


@pytest.mark.parametrize(("beyond", "files"), [(0, 6), (1, 1)])
def test_an_archive_that_is_large_takes_no_further_run(
    beyond: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = filled(tmp_path)
    runs = positions_of(place, SETTLED)
    size = sum(len(row[4]) for row in rows_of(place) if isinstance(row[4], bytes) and row[0] in runs)
    monkeypatch.setattr(archiving, "ARCHIVE_BYTES", size + 1 if beyond else 1)

    found = archive(place, NOW, NOW, minting(), unreported)

    assert (6, files) == (found.runs, len(found.files))
    assert verified(place).ok


def test_a_journal_with_archives_goes_on(tmp_path: Path) -> None:
    place = filled(tmp_path)
    archive(place, NOW, NOW, minting(), unreported)

    app = opened(place)
    late = app.store.facts_of(RUN.format(1), 0, 1)[0]
    app.save(type(late)(0, late.stream, app.store.head(late.stream) + 1, late.topic, late.fact, late.meta))
    app.close()

    assert (True, FACTS + 1) == (verified(place).ok, verified(place).facts)


def test_a_compacted_journal_is_smaller_and_the_same(tmp_path: Path) -> None:
    place = filled(tmp_path)
    before = rows_of(place)
    archive(place, NOW, NOW, minting(), unreported)

    was, now = compact(place)

    assert now < was
    assert now == (place / JOURNAL_NAME).stat().st_size
    assert before == rows_of(place)
    assert verified(place).ok


def test_a_directory_in_use_is_not_archived(tmp_path: Path) -> None:
    app = opened(filled(tmp_path))

    with pytest.raises(DataDirBusy):
        archive(tmp_path, NOW, NOW, minting(), unreported)
    with pytest.raises(DataDirBusy):
        compact(tmp_path)

    app.close()


def archived(place: Path) -> Path:
    """The one archive of a directory, whose facts were moved."""
    archive(filled(place), NOW, NOW, minting(), unreported)
    (file,) = (place / FOLDER).iterdir()
    return file


def test_an_archive_that_is_missing_is_named_at_the_first_fact_in_it(tmp_path: Path) -> None:
    file = archived(tmp_path)
    file.unlink()

    verdict = verified(tmp_path)

    assert (False, min(moved(tmp_path))) == (verdict.ok, verdict.first_bad_position)
    assert f"the archive {file.name} cannot be read: the file is missing" == verdict.problem


def test_an_archived_fact_that_was_altered_is_named_by_position(tmp_path: Path) -> None:
    file = archived(tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        body = unpack(connection.execute("SELECT body FROM blocks WHERE number = 2").fetchone()[0])
        position = sorted(body)[1]
        body[position] = body[position].replace(b"2026", b"2025", 1)
        connection.execute("UPDATE blocks SET body = ? WHERE number = 2", (pack(body),))
        connection.commit()

    assert position == verified(tmp_path).first_bad_position


@pytest.mark.parametrize("body", [b"", b"garbage", pack({})])
def test_a_block_that_is_none_is_named(body: bytes, tmp_path: Path) -> None:
    with closing(sqlite3.connect(archived(tmp_path))) as connection:
        connection.execute("UPDATE blocks SET body = ? WHERE number = 1", (body,))
        connection.commit()

    verdict = verified(tmp_path)

    assert (False, min(moved(tmp_path))) == (verdict.ok, verdict.first_bad_position)
    assert "archive" in str(verdict.problem)


@pytest.mark.parametrize("state", [b"@", b"@1", b"@x.y", b"@9.1", b"@1.999"])
def test_a_row_that_points_nowhere_is_named(state: bytes, tmp_path: Path) -> None:
    archived(tmp_path)
    position = min(moved(tmp_path))
    with closing(sqlite3.connect(tmp_path / JOURNAL_NAME)) as connection:
        connection.execute("UPDATE stored_events SET state = ? WHERE position = ?", (state, position))
        connection.commit()

    assert position == verified(tmp_path).first_bad_position


def test_a_file_that_does_not_give_back_what_was_written_is_not_pointed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = filled(tmp_path)
    monkeypatch.setattr(archiving, "unpack", lambda body: {})

    with pytest.raises(ArchiveUnusable, match="does not give back the facts"):
        archive(place, NOW, NOW, minting(), unreported)

    assert set() == moved(place)
    assert verified(place).ok


def test_few_blocks_and_files_are_kept_and_all_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "RUNS_IN_ARCHIVE", 1)
    place = filled(tmp_path)
    before = rows_of(place)
    archive(place, NOW, NOW, minting(), unreported)
    monkeypatch.setattr("journal.archives.OPEN_FILES", 1)
    monkeypatch.setattr("journal.archives.KEPT_BLOCKS", 1)

    application = open_readonly(place)
    rows = list(application.store.rows_after(0))

    assert before == rows
    assert (1, 1) == (len(application.store.archives._files), len(application.store.archives._blocks))
    application.close()
