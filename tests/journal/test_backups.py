"""Backups: whole, verified, of one instant; a restore is the same journal in another epoch, or nothing."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from journal.archiving import archive
from journal.backups import back_up, restore
from journal.carried import FOLDER, KEYS_NAME
from journal.errors import ArchiveUnusable, DataDirBusy, EpochChanged, JournalDamaged, StorageFull
from journal.lock import DirLock
from journal.opening import JOURNAL_NAME, JournalMissing
from journal.tool_errors import (
    BackupDamaged,
    JournalNotEmpty,
    NotABackup,
    SourceUnreadable,
    TargetBusy,
    TargetExists,
    TargetUnusable,
)
from tests.journal.accounts import append, deciding, minting, stored
from tests.journal.filled import FACTS, filled, opened, queue_fact, read, released, rows_of, unreported, verified

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def backed_up(place: Path, file: Path) -> Path:
    """The backup of a directory."""
    back_up(place, file, NOW, unreported)
    return file


def restored(file: Path, there: Path, *, keys: bool = True) -> Path:
    """The directory that a backup was restored into."""
    restore(file, there, minting(), unreported, keys=keys)
    return there


def with_keys(place: Path) -> Path:
    """The directory with a database of keys in it."""
    with closing(sqlite3.connect(place / KEYS_NAME)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE keys (name TEXT)")
        connection.execute("INSERT INTO keys VALUES ('ada')")
        connection.commit()
    return place


def with_archive(place: Path) -> Path:
    """The directory with the facts of settled runs moved out."""
    archive(place, NOW, NOW, minting(), unreported)
    return place


@pytest.mark.parametrize("make", [filled, released])
def test_a_restored_journal_is_the_one_that_was_backed_up_in_another_epoch(make: object, tmp_path: Path) -> None:
    assert callable(make)
    here = with_keys(make(tmp_path / "here"))

    there = restored(backed_up(here, tmp_path / "backup"), tmp_path / "there")

    assert rows_of(here) == rows_of(there)
    assert verified(there).ok
    with read(here) as mine, read(there) as its:
        assert mine.journal_id == its.journal_id
        assert mine.epoch != its.epoch
    with closing(sqlite3.connect(there / KEYS_NAME)) as keys:
        assert [("ada",)] == keys.execute("SELECT name FROM keys").fetchall()


def test_a_backup_is_one_file_that_can_be_verified_as_it_is(tmp_path: Path) -> None:
    here = with_archive(with_keys(filled(tmp_path / "here")))
    alone = tmp_path / "alone"
    alone.mkdir()

    file = backed_up(here, alone / JOURNAL_NAME)

    assert [file.name] == [path.name for path in alone.iterdir()]
    assert rows_of(here) == rows_of(alone)
    assert verified(alone).ok


def test_what_was_decided_on_the_original_is_not_appended_to_the_restored_one(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")
    file = backed_up(here, tmp_path / "backup")
    (here / JOURNAL_NAME).unlink()
    held = opened(restored(file, here))
    with held.store.datastore.transaction(commit=True) as c:
        c.execute("UPDATE tail SET epoch = 'of another restore'")

    with pytest.raises(EpochChanged):
        append(held.store, deciding(stored("run-x", 1, correlation="x")))

    held.close()


def test_a_backup_that_was_only_copied_into_place_begins_another_epoch_when_it_is_opened(tmp_path: Path) -> None:
    here = with_archive(with_keys(filled(tmp_path / "here")))
    there = tmp_path / "there"
    there.mkdir()
    (there / JOURNAL_NAME).write_bytes(backed_up(here, tmp_path / "backup").read_bytes())

    opened(there).close()

    with read(here) as mine, read(there) as its:
        assert mine.epoch != its.epoch
        first = its.epoch
    opened(there).close()
    with read(there) as its:
        assert first == its.epoch
    assert rows_of(here) == rows_of(there)
    assert {FOLDER, KEYS_NAME} <= {path.name for path in there.iterdir()}


def test_a_restore_leaves_nothing_beside_the_backup(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    file = backed_up(filled(tmp_path / "here"), shelf / "backup")

    restored(file, tmp_path / "there")

    assert [file] == list(shelf.iterdir())


def test_keys_can_stay_away(tmp_path: Path) -> None:
    file = backed_up(with_keys(filled(tmp_path / "here")), tmp_path / "backup")

    there = restored(file, tmp_path / "there", keys=False)

    assert not (there / KEYS_NAME).exists()


def test_keys_that_are_there_stay(tmp_path: Path) -> None:
    file = backed_up(with_keys(filled(tmp_path / "here")), tmp_path / "backup")
    there = tmp_path / "there"
    there.mkdir()
    (there / KEYS_NAME).write_bytes(b"newer keys")

    restored(file, there)

    assert b"newer keys" == (there / KEYS_NAME).read_bytes()


def test_what_a_backup_carries_is_put_into_a_file_of_its_own_and_never_through_a_link(tmp_path: Path) -> None:
    file = backed_up(with_keys(filled(tmp_path / "here")), tmp_path / "journal.backup")
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    elsewhere.write_bytes(b"of somebody else")
    (there / f"{KEYS_NAME}.new").symlink_to(elsewhere)

    restored(file, there)

    assert b"of somebody else" == elsewhere.read_bytes()
    assert not (there / KEYS_NAME).is_symlink()
    assert 0o600 == (there / KEYS_NAME).stat().st_mode & 0o777


def test_a_journal_that_was_restored_without_its_keys_is_not_missed(tmp_path: Path) -> None:
    here = with_keys(filled(tmp_path / "here"))
    file = backed_up(here, tmp_path / "backup")
    (here / JOURNAL_NAME).unlink()
    with pytest.raises(JournalMissing, match=r"docs/operations\.md"):
        opened(here)

    opened(restored(file, here)).close()

    assert verified(here).ok


def test_a_backup_is_taken_while_somebody_records(tmp_path: Path) -> None:
    app = opened(filled(tmp_path / "here"))
    reports: list[str] = []

    def record(what: str, _done: int, _total: int) -> None:
        reports.append(what)
        version = app.store.head("run-x") + 1
        append(app.store, deciding(queue_fact("run-x", version)))

    found = back_up(tmp_path / "here", tmp_path / "backup", NOW, record)
    last = app.store.load_tail().position
    app.close()

    assert FACTS == found.facts < last
    assert {"copying", "verifying"} == set(reports)
    assert FACTS == verified(restored(tmp_path / "backup", tmp_path / "there")).facts


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"precious")

    with pytest.raises(TargetExists):
        backed_up(filled(tmp_path / "here"), tmp_path / "backup")

    assert b"precious" == (tmp_path / "backup").read_bytes()


def test_a_file_that_another_process_is_writing_is_left_to_it(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")

    def meanwhile(*_: object) -> None:
        with pytest.raises(TargetBusy):
            backed_up(here, tmp_path / "backup")

    assert FACTS == back_up(here, tmp_path / "backup", NOW, meanwhile).facts


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TargetUnusable, match="No such file or directory"):
        backed_up(filled(tmp_path / "here"), tmp_path / "none" / "backup")


def test_a_damaged_journal_gives_no_backup_and_leaves_no_file(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")
    with closing(sqlite3.connect(here / JOURNAL_NAME)) as connection:
        connection.execute("UPDATE stored_events SET topic = 'run.closed.v1' WHERE position = 7")
        connection.commit()

    with pytest.raises(JournalDamaged, match="at position 7: its hash does not follow"):
        backed_up(here, tmp_path / "backup")

    assert {"here"} == {path.name for path in tmp_path.iterdir()}


def test_a_damaged_backup_is_not_restored_and_leaves_nothing(tmp_path: Path) -> None:
    file = backed_up(filled(tmp_path / "here"), tmp_path / "backup")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE output_chunks SET data = 'hallo' WHERE seq = 0")
        connection.commit()

    with pytest.raises(
        BackupDamaged, match=r"the backup .*/backup is damaged: .*the output of run.*another backup"
    ) as said:
        restored(file, tmp_path / "there")

    assert ".new" not in str(said.value)
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("others", [(), ("mine.txt",)])
def test_a_refused_restore_leaves_a_directory_that_was_there_as_it_was(others: tuple[str, ...], tmp_path: Path) -> None:
    file = backed_up(filled(tmp_path / "here"), tmp_path / "backup")
    file.write_bytes(file.read_bytes()[:-4096])
    there = tmp_path / "there"
    there.mkdir()
    for name in others:
        (there / name).touch()

    with pytest.raises(BackupDamaged):
        restored(file, there)

    assert [*others] == [path.name for path in there.iterdir()]


def test_a_refused_restore_takes_no_directory_with_it_that_somebody_else_uses_meanwhile(tmp_path: Path) -> None:
    lock = DirLock(tmp_path / "new" / "there")
    (tmp_path / "new" / "mine.txt").touch()
    lock.undo()
    lock.release()

    assert ["mine.txt"] == [path.name for path in (tmp_path / "new").iterdir()]


def test_a_lock_whose_file_was_taken_away_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, right = DirLock(tmp_path), DirLock._take
    turns: list[Path] = []

    def late(lock: DirLock, data_dir: Path) -> None:
        turns.append(data_dir)
        if len(turns) == 1:
            first.undo()
            first.release()
        right(lock, data_dir)

    monkeypatch.setattr(DirLock, "_take", late)
    second = DirLock(tmp_path)
    monkeypatch.undo()

    assert 2 == len(turns)
    with pytest.raises(DataDirBusy):
        DirLock(tmp_path)
    second.release()


def test_a_missing_archive_gives_no_backup(tmp_path: Path) -> None:
    here = with_archive(filled(tmp_path / "here"))
    for file in (here / FOLDER).iterdir():
        file.unlink()

    with pytest.raises(ArchiveUnusable, match="missing or altered, so no whole backup can be made"):
        backed_up(here, tmp_path / "backup")

    assert not (tmp_path / "backup").exists()


def test_a_journal_with_facts_is_not_restored_over(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")

    with pytest.raises(JournalNotEmpty):
        restored(backed_up(here, tmp_path / "backup"), here)

    assert verified(here).ok


@pytest.mark.parametrize("name", ["../evil", "journal.sqlite3", "archive/x.facts", "/etc/passwd", "keys.sqlite3.new"])
def test_a_backup_that_carries_anything_else_is_refused(name: str, tmp_path: Path) -> None:
    file = backed_up(filled(tmp_path / "here"), tmp_path / "backup")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("INSERT INTO backup_files VALUES (?, x'00')", (name,))
        connection.commit()

    with pytest.raises(NotABackup, match="carries a file named"):
        restored(file, tmp_path / "there")

    assert not (tmp_path / "there").exists()
    assert not (tmp_path / "evil").exists()


def test_a_journal_that_is_no_backup_is_not_restored(tmp_path: Path) -> None:
    here = filled(tmp_path / "here")

    with pytest.raises(NotABackup, match="and not a backup of one"):
        restored(here / JOURNAL_NAME, tmp_path / "there")


@pytest.mark.parametrize("content", [b"hello", bytes(5000)])
def test_a_file_that_is_no_backup_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)

    with pytest.raises(NotABackup):
        restored(tmp_path / "file", tmp_path / "there")


def test_a_backup_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="No such file"):
        restored(tmp_path / "none", tmp_path / "there")


def test_a_full_disk_leaves_no_half_restored_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = backed_up(filled(tmp_path / "here"), tmp_path / "backup")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("journal.carried.os.fsync", full)
    with pytest.raises(StorageFull):
        restored(file, tmp_path / "there")

    assert not (tmp_path / "there" / JOURNAL_NAME).exists()
