"""Opening a journal: what is checked before the first read, and what is said when it cannot be used.

A data directory holds ``journal.lock`` and ``journal.sqlite3`` (with SQLite's log beside it while it is in use). A new
file is made under another name and moved into place, so a journal that exists is never half made, and an empty file in
its place is damage and not a beginning. Neither is a directory without a journal whose keys or read models say that
there was one: an empty journal there would hand out runs and fences that were given before.

Checked, in this order: the directory and its lock; that the file is a database, is ours, is whole, has its own log
beside it, and is not newer than this version; SQLite's own ``quick_check``, for files up to ``QUICK_CHECK_MAX_BYTES``;
the hash chain of the last ``TAIL_FACTS`` facts. Then the journal is claimed, so that a writer whose lock was lost
appends nothing more. The whole chain is read by ``verify``. Whatever is wrong is one line with the values and the
remedy, under a stable code.
"""

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from eventsourcing.persistence import PersistenceError

from domain.values import Clock
from journal.application import MemoryJournal, SQLiteJournal
from journal.carried import KEYS_NAME as KEYS_NAME
from journal.carried import is_backup, settle
from journal.chain import Tail, genesis, verify_rows
from journal.commit import Journal
from journal.datastore import READER_PROFILE, assert_durable, connect, malformed
from journal.errors import (
    DataDirUnusable,
    JournalDamaged,
    JournalError,
    NoJournal,
    NotAJournal,
    SchemaTooNew,
    StorageFull,
)
from journal.lock import DirLock, free_bytes, unusable
from journal.mapper import DEFAULT_CODEC, Codec
from journal.owned import keep_private, made_private
from journal.reached import JOURNAL_NAME as JOURNAL_NAME
from journal.reached import cut_off
from journal.schema import SCHEMA_VERSION, UPGRADES, Steps, create, meta, require_ours, upgrade
from journal.targets import logs_of
from journal.topics import FOLDS, Fold

QUICK_CHECK_MAX_BYTES = 256 * 1024 * 1024
"""Size up to which a file is checked whole at the start: about a second from a warm cache."""

TAIL_FACTS = 1_000
"""Facts at the end whose chain is checked at every start."""

SOUND_SQLITE = (3, 51, 3)
"""First version in which two connections may write and checkpoint at once; ours never do, and the log says so."""

_NEEDED_BYTES = 256 * 1024
"""Below this an input/output error of SQLite is taken for a full disk: its shared memory alone needs 32 KiB."""

READ_MODELS_NAME = "projections.sqlite3"
"""What else a data directory holds once it was served, beside the keys; both are first made after the journal was."""

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100

log = logging.getLogger(__name__)


class JournalMissing(JournalError):
    """The data directory was served before, and its journal is not there."""

    code = "journal_missing"

    def __init__(self, path: str, sign: str) -> None:
        super().__init__(
            f"{path} is missing, and {sign} beside it shows that there was one",
            f"restore the journal from a backup (docs/operations.md, Restore), or move {KEYS_NAME} and "
            f"{READ_MODELS_NAME} away to begin anew, or give another --data-dir",
            path=path,
            sign=sign,
        )


def open_sqlite(data_dir: Path, codec: Codec, mint: Callable[[], str], *, steps: Steps = UPGRADES) -> SQLiteJournal:
    """The locked, checked journal of a data directory, made if there is none; closing it gives the directory back.

    Raises:
        DataDirBusy, DataDirUnusable, StorageFull: about the directory.
        NotAJournal, JournalDamaged, JournalMissing, SchemaTooNew, NotDurable: about the file.
        UnknownTopic: its last facts were written by a version that knew more.
    """
    lock = DirLock(data_dir)
    path = data_dir / JOURNAL_NAME
    try:
        with said_plainly(path):
            if not _exists(path):
                _require_fresh(path)
                _make(path, mint)
            keep_private(path, *logs_of(path))
            _check_size(path)
            _check_inside(path, steps, mint)
            application = SQLiteJournal(path, codec, lock.release)
            try:
                _check_tail(application, path)
                application.store.claim()
            except BaseException:
                application.close()
                raise
    except BaseException:
        lock.release()
        raise
    if sqlite3.sqlite_version_info < SOUND_SQLITE:
        log.info("SQLite %s: only one connection writes and checkpoints, as it needs", sqlite3.sqlite_version)
    return application


_ENDS = "SELECT position, (SELECT coalesce(max(position), 0) FROM stored_events) FROM tail"


def open_readonly(data_dir: Path, codec: Codec = DEFAULT_CODEC, *, name: str = JOURNAL_NAME) -> SQLiteJournal:
    """The journal of a data directory to read only, while another process may be serving it.

    It takes no lock, makes and changes nothing, and never checkpoints. ``.store`` reads; appending through it fails.

    Raises:
        NoJournal, NotAJournal, JournalDamaged, JournalMissing, SchemaTooNew, DataDirUnusable: about the file.
    """
    path = data_dir / name
    if name == JOURNAL_NAME:
        require_there(data_dir)
    with said_plainly(path):
        _check_size(path)
        with contextlib.closing(connect(str(path), READER_PROFILE)) as connection:
            found = require_ours(connection, str(path))
            if found > SCHEMA_VERSION:
                raise SchemaTooNew(str(path), found, SCHEMA_VERSION)
            _require_own_log(connection, path)
        return SQLiteJournal(path, codec, lambda: None, readonly=True)


def require_there(data_dir: Path) -> None:
    """Nothing, when the directory has a journal; for whoever works on one that is there and must not make another.

    Raises:
        NoJournal, JournalMissing, JournalDamaged: it has none, or none any more.
        DataDirUnusable: one may not look.
    """
    path = data_dir / JOURNAL_NAME
    with said_plainly(path):
        if not _exists(path):
            _require_fresh(path)
            raise NoJournal(str(path))


def open_whole(data_dir: Path) -> SQLiteJournal:
    """As `open_readonly`, for whoever folds it: a journal whose facts do not end where its tail says is refused.

    Raises:
        NoJournal, NotAJournal, JournalDamaged, SchemaTooNew, DataDirUnusable: about the file.
    """
    application, path = open_readonly(data_dir), data_dir / JOURNAL_NAME
    try:
        with said_plainly(path):
            tail, last = application.store.datastore.read(_ENDS)[0]
        if tail != last:
            problem = f"its facts end at position {last}, and its tail says {tail}"
            raise JournalDamaged(str(path), problem, min(tail, last) + 1)
    except BaseException:
        application.close()
        raise
    return application


async def open_journal(
    data_dir: Path | None,
    clock: Clock,
    *,
    mint: Callable[[], str],
    codec: Codec = DEFAULT_CODEC,
    folds: Mapping[str, Fold] = FOLDS,
) -> Journal:
    """A started journal in a data directory, or in memory when there is none.

    ``mint`` gives ids: of facts, of the journal and its epoch. Raises what ``open_sqlite`` raises.
    """
    if data_dir is None:
        application: SQLiteJournal | MemoryJournal = MemoryJournal(codec, mint(), mint())
    else:
        application = await asyncio.to_thread(open_sqlite, data_dir, codec, mint)
    journal = Journal(application, clock, mint, folds)
    journal.start()
    return journal


def renew_epoch(application: SQLiteJournal, mint: Callable[[], str]) -> str:
    """The new epoch of a journal that was restored or promoted; appends decided under the old one are refused."""
    epoch = mint()
    with application.store.datastore.transaction(commit=True) as c:
        c.execute("UPDATE tail SET epoch = ?", (epoch,))
    return epoch


def _exists(path: Path) -> bool:
    if path.exists():
        return True
    log_file = path.with_name(path.name + "-wal")
    if log_file.exists() and log_file.stat().st_size:
        raise JournalDamaged(str(path), f"it is missing, and {log_file.name} beside it holds facts")
    return False


def _require_fresh(path: Path) -> None:
    """Nothing, when nothing beside the missing journal says that there was one; a key written to a file does not."""
    if path.with_name(KEYS_NAME).exists():
        raise JournalMissing(str(path), KEYS_NAME)
    read_models = path.with_name(READ_MODELS_NAME)
    if read_models.exists() and _was_folded(read_models):
        raise JournalMissing(str(path), READ_MODELS_NAME)


def _was_folded(read_models: Path) -> bool:
    """Whether the read models hold any fact; a file that cannot be read says nothing here, and is named later."""
    try:
        with contextlib.closing(sqlite3.connect(f"{read_models.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM tracking WHERE position > 0").fetchone() is not None
    except sqlite3.Error:
        return False


def _make(path: Path, mint: Callable[[], str]) -> None:
    new = path.with_name(path.name + ".new")
    for leftover in (new, new.with_name(new.name + "-wal"), new.with_name(new.name + "-shm")):
        leftover.unlink(missing_ok=True)
    made_private(new)
    with contextlib.closing(connect(str(new))) as connection:
        create(connection, mint(), mint())
    _sync(new)
    new.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_size(path: Path) -> None:
    """Nothing, when the file begins like a database and is as long as its first page says."""
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    size = path.stat().st_size
    if head[:16] != _MAGIC:
        if size == 0:
            raise JournalDamaged(str(path), "it is empty (0 bytes), so its facts were cut off")
        raise NotAJournal(str(path), f"it is not an SQLite database ({size} bytes, begins with {head[:8]!r})")
    if size < _HEADER_BYTES:
        raise JournalDamaged(str(path), f"it has {size} bytes, so facts were cut off")
    page_size = int.from_bytes(head[16:18], "big")
    expected = (65536 if page_size == 1 else page_size) * int.from_bytes(head[28:32], "big")
    log_file = path.with_name(path.name + "-wal")
    has_log = log_file.exists() and log_file.stat().st_size > 0
    # With a log beside it a crash in the middle of a checkpoint may rightly have left the file shorter.
    if size < expected and not has_log:
        raise JournalDamaged(str(path), f"it has {size} of {expected} bytes, so facts were cut off")


def _check_inside(path: Path, steps: Steps, mint: Callable[[], str]) -> None:
    with contextlib.closing(connect(str(path))) as connection:
        require_ours(connection, str(path))
        _require_own_log(connection, path)
        assert_durable(connection, str(path))
        if path.stat().st_size <= QUICK_CHECK_MAX_BYTES:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                raise JournalDamaged(str(path), " ".join(found.split()))
        found_version = upgrade(connection, str(path), steps)
        if found_version != SCHEMA_VERSION:
            log.info("%s was upgraded from schema %d to %d", path, found_version, SCHEMA_VERSION)
        if is_backup(connection):
            log.info("%s is a backup: it begins another epoch", path)
            settle(connection, path.parent, mint())


def _require_own_log(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a log of another journal: with every page in it, it is a whole journal, and hides this one completely."""
    alone = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(alone, uri=True)) as without_log:
            own = meta(without_log, "journal_id")
    except sqlite3.Error:
        return  # nothing of it has left the log yet, or a crash came in the middle of that
    told = meta(connection, "journal_id")
    if own is not None and told != own:
        raise JournalDamaged(str(path), f"its log is that of another journal ({told}, and the file is {own})")


def _check_tail(application: SQLiteJournal, path: Path) -> None:
    store = application.store
    start = max(0, store.tail.position - TAIL_FACTS)
    before = Tail(0, genesis(store.journal_id)) if start == 0 else store.tail_at(start)
    verdict = verify_rows(store.rows_after(start), before, store.tail, store.codec.correlation_of)
    if not verdict.ok:
        raise JournalDamaged(
            str(path), f"at position {verdict.first_bad_position}: {verdict.problem}", verdict.first_bad_position
        )
    position, reached = store.tail.position, store.datastore.reached.position(store.epoch)
    if position < reached:
        raise JournalDamaged(str(path), cut_off(position, reached), position + 1)


@contextlib.contextmanager
def said_plainly(path: Path) -> Iterator[None]:
    """Turn what SQLite and the operating system say into one line with the remedy."""
    try:
        yield
    except OSError as error:
        raise unusable(path, error) from error
    except sqlite3.Error as error:
        raise _plain(path, error) from error
    except PersistenceError as error:  # the library's word for what SQLite says to it
        if not isinstance(error.__cause__, sqlite3.Error):
            raise
        raise _plain(path, error.__cause__) from error
    except UnicodeDecodeError as error:
        raise _plain(path, malformed(error)) from error


def _plain(path: Path, error: sqlite3.Error) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and free_bytes(path) < _NEEDED_BYTES):
        return StorageFull(str(path), free_bytes(path))
    if code == sqlite3.SQLITE_NOTADB:
        return NotAJournal(str(path), str(error))
    if code == sqlite3.SQLITE_CORRUPT:
        return JournalDamaged(str(path), str(error))
    return DataDirUnusable(str(path), str(error))
