"""Connections to the journal's SQLite file: one that writes, and readers that cannot.

Exactly one connection writes and checkpoints; every other is opened query-only and never checkpoints, because SQLite
before 3.51.3 can corrupt a file whose write-ahead log is written and checkpointed from two connections at once. The
writer begins its transactions IMMEDIATE, and is rolled back whatever way a transaction ends.

The profile is explicit and the parts that durability rests on are asserted: ``journal_mode=WAL`` and
``synchronous=FULL`` (one fsync for each commit; what is committed survives a power loss).

The library's pool serves the library's own reads. Ours use one reader for each thread, without its locks.

A file that is removed, moved or replaced under a running process can still be written, and what is written is lost with
the process. So the files' identities are compared after every commit, before anybody is told, and before storage is
asked how an append ended; put back, the files are good again.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from eventsourcing.persistence import ProgrammingError
from eventsourcing.sqlite import (
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteCursor,
    SQLiteDatastore,
    SQLiteFactory,
    SQLiteTransaction,
)

from journal.errors import NotDurable, UnreadableStorage
from journal.reached import Reached

BUSY_TIMEOUT_S = 5
"""How long a statement waits for another connection's lock: only a backup or a stray tool can hold one."""

CACHE_KIB = 64_000
"""Page cache of the writer: the upper levels of both indexes stay in memory."""

READER_CACHE_KIB = 8_000
"""Page cache of each reader."""

CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log (16 MB) after which a commit also checkpoints."""

WAL_LIMIT_BYTES = 64 * 1024 * 1024
"""Size to which the log file is cut back after a checkpoint."""

CHECK_STEPS = 1_000_000
"""Steps of SQLite between two moments at which a long check can be interrupted: some tens of milliseconds."""

READONLY = "JOURNAL_READONLY"
"""Key of the factory's environment: ``y`` for a journal that is only read."""

WRITER_PROFILE = (
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_S * 1000}",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",
    "PRAGMA checkpoint_fullfsync=ON",
    f"PRAGMA cache_size=-{CACHE_KIB}",
    f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}",
)

READER_PROFILE = (
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_S * 1000}",
    "PRAGMA query_only=ON",
    f"PRAGMA cache_size=-{READER_CACHE_KIB}",
    "PRAGMA wal_autocheckpoint=0",
)

_REQUIRED = (("journal_mode", "wal"), ("synchronous", "2"))


def connect(path: str, profile: tuple[str, ...] = WRITER_PROFILE) -> sqlite3.Connection:
    """A connection in autocommit mode with this profile; usable from any thread, one at a time.

    A reader opens the file read-only and never makes one.

    Raises:
        sqlite3.Error: SQLite could not open it, or could not make sense of it.
    """
    uri = f"file:{quote(path)}?mode={'rwc' if profile is WRITER_PROFILE else 'ro'}"
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None, timeout=BUSY_TIMEOUT_S)
    try:
        for pragma in profile:
            connection.execute(pragma)
    except UnicodeDecodeError as error:
        connection.close()
        raise malformed(error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def malformed(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """What SQLite said of a damaged schema, when it quotes bytes that are no text and Python cannot pass them on."""
    said = sqlite3.DatabaseError(error.object.decode(errors="backslashreplace"))
    said.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return said


def assert_durable(connection: sqlite3.Connection, path: str) -> None:
    """Nothing, when a commit on this connection survives a power loss.

    Raises:
        NotDurable: a pragma did not take effect, with what was found.
    """
    for pragma, wanted in _REQUIRED:
        found = str(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
        if found != wanted:
            raise NotDurable(path, pragma, wanted, found)


def _identity(path: str) -> tuple[int, int]:
    stats = os.stat(path)
    return stats.st_dev, stats.st_ino


class JournalTransaction(SQLiteTransaction):
    """The library's transaction, begun IMMEDIATE when it writes, and never left open."""

    def __enter__(self) -> SQLiteCursor:
        cursor = self.connection.cursor()
        cursor.execute("BEGIN IMMEDIATE" if self.commit else "BEGIN")
        return cursor

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(exc_type, exc_val, exc_tb)
        except BaseException:
            # A failed COMMIT may leave the transaction open, and the next BEGIN would then fail for ever.
            with contextlib.suppress(sqlite3.Error):
                self.connection.rollback()
            raise


class JournalConnection(SQLiteConnection):
    """A connection of the library whose transactions are ours."""

    @contextlib.contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        """A cursor in a transaction that is committed or rolled back at the end."""
        with JournalTransaction(self, commit=commit) as cursor, cursor:
            yield cursor


class ReaderPool(SQLiteConnectionPool):
    """The library's pool, of query-only connections."""

    def _create_connection(self) -> JournalConnection:
        connection = connect(self.db_name, READER_PROFILE)
        connection.row_factory = sqlite3.Row
        return JournalConnection(connection, self.max_age)


class JournalDatastore(SQLiteDatastore):
    """One writing connection, the library's pool of readers, and one plain reader for each thread of ours."""

    def __init__(self, db_name: str, *, readonly: bool = False) -> None:
        super().__init__(db_name, lock_timeout=BUSY_TIMEOUT_S, originator_id_type="text")
        self.pool = ReaderPool(db_name=db_name, lock_timeout=BUSY_TIMEOUT_S)
        self.readonly = readonly
        self.reached = Reached(Path(db_name))
        self._writing = threading.RLock()
        self._writer: JournalConnection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._identities: dict[str, tuple[int, int]] = {}
        self._local = threading.local()

    @contextlib.contextmanager
    def get_connection(self, *, commit: bool) -> Iterator[SQLiteConnection]:
        """The one writing connection, exclusively; or a reader from the pool."""
        if not commit:
            with super().get_connection(commit=False) as reader:
                yield reader
            return
        if self.readonly:
            message = "this journal was opened to read"
            raise ProgrammingError(message)
        with self._writing:
            if self._writer is None:
                self._writer = self._open_writer()
            yield self._writer

    def _open_writer(self) -> JournalConnection:
        connection = connect(self.pool.db_name)
        try:
            assert_durable(connection, self.pool.db_name)
        except BaseException:
            connection.close()
            raise
        connection.row_factory = sqlite3.Row
        self._identities[self.pool.db_name] = _identity(self.pool.db_name)
        return JournalConnection(connection, None)

    def require_in_place(self) -> None:
        """Nothing, when the files that the writer has open are the ones under their names.

        Raises:
            UnreadableStorage: one was removed, moved or replaced; what is appended now would be lost.
        """
        for name in (self.pool.db_name, f"{self.pool.db_name}-wal") if self._identities else ():
            try:
                found = _identity(name)
            except OSError as error:
                problem = f"{name} is not there any more: {error.strerror}"
                raise UnreadableStorage(problem) from error
            if self._identities.setdefault(name, found) != found:
                problem = f"{name} was replaced by another file while it was in use"
                raise UnreadableStorage(problem)

    def read(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of one SELECT as tuples, from this thread's own reader.

        Raises:
            UnreadableStorage: SQLite could not give them.
        """
        try:
            reader = getattr(self._local, "reader", None) or self._open_reader()
            return reader.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise UnreadableStorage(str(error)) from error

    def check(self, table: str) -> str:
        """What SQLite's ``integrity_check`` says of one table and its indexes: ``ok``, or the first thing wrong.

        One read, however large the table is; it can be interrupted.

        Raises:
            UnreadableStorage: SQLite could not read on.
        """
        try:
            with contextlib.closing(connect(self.pool.db_name, READER_PROFILE)) as connection:
                connection.set_progress_handler(lambda: 0, CHECK_STEPS)  # gives Python its turn, for Ctrl-C
                found = connection.execute(f"PRAGMA integrity_check({table})").fetchone()
        except sqlite3.Error as error:
            raise UnreadableStorage(str(error)) from error
        return str(found[0])

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """This thread's own reader in one short transaction: everything read in it is as of one instant.

        Raises:
            UnreadableStorage: SQLite could not give what was asked.
        """
        try:
            reader = getattr(self._local, "reader", None) or self._open_reader()
            reader.execute("BEGIN")
            try:
                yield reader
            finally:
                reader.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise UnreadableStorage(str(error)) from error

    def scan(self, statement: str, parameters: tuple[Any, ...] = ()) -> Iterator[Any]:
        """The rows of one SELECT one by one, from a connection of their own, so that a long scan holds no memory.

        Raises:
            UnreadableStorage: SQLite could not give them.
        """
        try:
            with contextlib.closing(connect(self.pool.db_name, READER_PROFILE)) as connection:
                yield from connection.execute(statement, parameters)
        except sqlite3.Error as error:
            raise UnreadableStorage(str(error)) from error

    def _open_reader(self) -> sqlite3.Connection:
        reader = connect(self.pool.db_name, READER_PROFILE)
        self._local.reader = reader
        self._readers.append(reader)
        return reader

    def close(self) -> None:
        """Close every connection; the last to close checkpoints and removes the log."""
        super().close()
        for reader in getattr(self, "_readers", ()):
            reader.close()
        writer = getattr(self, "_writer", None)
        if writer is not None:
            writer.close()
        reached = getattr(self, "reached", None)
        if reached is not None:
            reached.close()


class JournalFactory(SQLiteFactory):
    """The library's factory over our datastore; it takes nothing from the process's environment."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.datastore.close()
        readonly = self.env.get(READONLY, "n") == "y"
        self.datastore: JournalDatastore = JournalDatastore(self.datastore.pool.db_name, readonly=readonly)
