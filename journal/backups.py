"""A backup of a journal while a service records, and a journal from a backup.

The pages are copied by SQLite's own backup, out of one read transaction, so the copy is the journal as of one instant;
while it lasts the log of the service grows by what it records and is taken in afterwards. Keys and archives are added
(``journal.carried``). The whole copy is then verified, every fact of it, before it gets its name: a backup that was
never read is a hope. A restore verifies it once more, and begins another epoch.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from journal.archives import name_of
from journal.carried import FOLDER, KEYS_NAME, MARK, TABLE, is_backup, settle
from journal.chain import Verdict
from journal.datastore import READER_PROFILE, connect
from journal.errors import ArchiveUnusable, JournalDamaged, NotAJournal
from journal.opening import JOURNAL_NAME, open_readonly, said_plainly
from journal.replacing import into_place
from journal.schema import require_ours
from journal.targets import logs_of, written_whole
from journal.tool_errors import BackupDamaged, NotABackup, SourceUnreadable

PAGES = 1_000
"""Pages (4 MB) copied between two reports."""

COPY_BYTES = 4 * 1024 * 1024

Report = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


class BackedUp(msgspec.Struct, frozen=True):
    """What a backup holds: the facts of which journal in which epoch, its size in bytes, and what it carries."""

    path: str
    journal_id: str
    epoch: str
    facts: int
    bytes: int
    archives: int
    keys: bool


class Restored(msgspec.Struct, frozen=True):
    """What was restored, and the epoch that it began."""

    path: str
    journal_id: str
    epoch: str
    facts: int


def back_up(data_dir: Path, target: Path, now: datetime, report: Report) -> BackedUp:
    """A verified backup of a data directory, served or not.

    Raises:
        NotAJournal, JournalDamaged, SchemaTooNew, DataDirUnusable, ArchiveUnusable: about the journal.
        TargetExists, TargetBusy, TargetUnusable, TargetFull: about the target; nothing is left of it.
    """
    application = open_readonly(data_dir)
    try:
        archives = application.store.archives.names()
    finally:
        application.close()
    with written_whole(target) as partial:
        _copy_pages(data_dir / JOURNAL_NAME, partial, report)
        keys = _carry(data_dir, archives, partial, now)
        journal_id, epoch, verdict = _verified(partial, report)
        size = partial.stat().st_size
    return BackedUp(str(target), journal_id, epoch, verdict.facts, size, len(archives), keys)


def _copy_pages(journal: Path, partial: Path, report: Report) -> None:
    with (
        contextlib.closing(connect(str(journal), READER_PROFILE)) as source,
        contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as copy,
    ):
        source.execute("BEGIN")
        source.execute("SELECT position FROM tail").fetchone()  # from here on it is the journal of this instant
        source.backup(copy, pages=PAGES, progress=lambda _, left, total: report("copying", total - left, total))
        source.execute("ROLLBACK")


def _carry(data_dir: Path, archives: list[str], partial: Path, now: datetime) -> bool:
    """Whether there are keys; they and the archives are added to the copy."""
    with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as copy:
        require_ours(copy, str(partial))
        copy.execute("DROP TABLE IF EXISTS backup_files")
        copy.execute(TABLE)
        for name in archives:
            path = data_dir / FOLDER / name
            if not path.exists() or name_of(path) != name:
                raise ArchiveUnusable(name, "the file is missing or altered, so no whole backup can be made")
            _insert(copy, f"{FOLDER}/{name}", path.read_bytes())
        keys = data_dir / KEYS_NAME
        if keys.exists():
            with contextlib.closing(sqlite3.connect(f"{keys.absolute().as_uri()}?mode=ro", uri=True)) as kept:
                _insert(copy, KEYS_NAME, kept.serialize())
        copy.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (MARK, now.isoformat()))
    return keys.exists()


def _insert(copy: sqlite3.Connection, name: str, body: bytes) -> None:
    copy.execute("INSERT INTO backup_files VALUES (?, ?)", (name, body))


def _verified(path: Path, report: Report) -> tuple[str, str, Verdict]:
    """The journal's id and epoch, and the verdict on a file that is sound.

    Raises:
        JournalDamaged: it is not.
    """
    application = open_readonly(path.parent, name=path.name)
    try:
        store = application.store
        verdict = store.verify(lambda done, total: report("verifying", done, total))
        journal_id, epoch = store.journal_id, store.epoch
    finally:
        application.close()
    if not verdict.ok:
        where = "" if verdict.first_bad_position is None else f"at position {verdict.first_bad_position}: "
        raise JournalDamaged(str(path), f"{where}{verdict.problem}", verdict.first_bad_position)
    for log in logs_of(path):
        log.unlink(missing_ok=True)  # a reader makes them, and cannot take them away
    return journal_id, epoch, verdict


def restore(
    source: Path,
    data_dir: Path,
    mint: Callable[[], str],
    report: Report,
    *,
    keys: bool = True,
) -> Restored:
    """A journal in a data directory without one, from a backup, in a new epoch; without the keys if they stay away.

    Raises:
        SourceUnreadable, NotABackup, BackupDamaged, SchemaTooNew: about the backup.
        JournalNotEmpty, DataDirBusy, DataDirUnusable, StorageFull: about the directory.
    """
    _require_backup(source)
    with into_place(data_dir) as new:
        _copy(source, new, report)
        epoch = mint()
        with _blamed_on(source):
            journal_id, _, verdict = _verified(new, report)
            with contextlib.closing(connect(str(new))) as connection:
                settle(connection, data_dir, epoch, keys=keys)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Restored(str(data_dir / JOURNAL_NAME), journal_id, epoch, verdict.facts)


@contextlib.contextmanager
def _blamed_on(source: Path) -> Iterator[None]:
    """Say of the backup what is wrong with it, or with the copy of it, which is taken away again."""
    try:
        yield
    except NotAJournal as error:
        raise NotABackup(source, error.problem) from error
    except JournalDamaged as error:
        raise BackupDamaged(source, error.problem, error.fields().get("position")) from error


def _require_backup(source: Path) -> None:
    try:
        with source.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise SourceUnreadable(str(source), error.strerror or str(error)) from error
    # Immutable: a backup may lie where nothing can be written, and is not written by anybody.
    uri = f"{source.absolute().as_uri()}?mode=ro&immutable=1"
    with _blamed_on(source), said_plainly(source), contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        require_ours(connection, str(source))
        if not is_backup(connection):
            raise NotAJournal(str(source), "it is a journal that is in use, and not a backup of one")


def _copy(source: Path, target: Path, report: Report) -> None:
    total, done = source.stat().st_size, 0
    with source.open("rb") as reading, target.open("wb") as writing:
        while part := reading.read(COPY_BYTES):
            writing.write(part)
            done += len(part)
            report("copying", done, total)
