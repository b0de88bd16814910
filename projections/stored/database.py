"""The file of the read models: who may write it, what it remembers of the journal, and how a rebuilt model takes over.

``tracking`` has one row for each read model: the position up to which its rows were folded, the version of its fold,
the epoch of the journal, and a number that every rebuild raises. Rows and tracking change in one transaction, so a
crash between two batches leaves a model that is behind and never one that is wrong. ``synchronous=NORMAL`` suffices:
a power loss may take the last batches back, rows and position together, and they are folded again.

Several processes may write: the service's runner and a rebuild from the command line. Each write transaction, with the
checkpoint that its commit may bring, holds a kernel lock on ``projections.lock``; so no two connections ever write or
checkpoint at once, which SQLite before 3.51.3 needs, and the lock dies with its holder. Readers are query-only, never
checkpoint, and see one snapshot for each read.

A rebuild fills tables of the same shape under the suffix ``__next`` and takes over by renaming, in one transaction
with the tracking row. Whoever was following the old rows finds the number raised and goes on from the new position.
"""

import contextlib
import fcntl
import itertools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from journal.lock import unusable
from projections.stored.faults import ProjectionsBusy, ProjectionsUnusable
from projections.stored.file import (
    APPLICATION_ID,
    ASIDE,
    FILE_NAME,
    TRACKING,
    WRITER,
    connect,
    discard,
    is_damage,
    make_ready,
    plainly,
    require_file,
)

LOCK_NAME = "projections.lock"
REBUILD_LOCK_NAME = "projections.rebuild.lock"

LOCK_TRIES = 1_000
LOCK_PAUSE_S = 0.005
"""A writer waits its turn for ``LOCK_TRIES * LOCK_PAUSE_S`` seconds, then says that the file is busy."""

ROWS_AT_ONCE = 100
"""Rows of one INSERT, at most."""

NEXT, OLD = "__next", "__old"
"""Suffixes of the tables that a rebuild fills, and of those that it replaced."""

_HALVES = (NEXT, NEXT + "_half")
"""Suffixes under which is tracked how far a rebuild has come with each half of all streams."""

_READER = (
    "PRAGMA busy_timeout=5000",
    "PRAGMA query_only=ON",
    "PRAGMA cache_size=-8000",
    "PRAGMA wal_autocheckpoint=0",
)


class Tracked(NamedTuple):
    """How far a read model was folded, by which version of its fold, from which journal, in which build."""

    position: int
    version: int
    epoch: str
    build: int


class Table(NamedTuple):
    """A table of a read model: its columns as SQL, and its indexes by name."""

    name: str
    columns: str
    indexes: dict[str, str]


class Listed(NamedTuple):
    """One way through everything that a read model knows: what it is called, its fields, and an ordered SELECT."""

    name: str
    fields: tuple[str, ...]
    select: str


class Database:
    """The file of the read models in one data directory; it is made by the first ``prepare``."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE_NAME
        self.replaced: str | None = None
        """What became of a file that was of no use, in one line, until somebody has seen it."""
        self.on_spoiled: Callable[[], None] = lambda: None
        """Called when the file is found to be damaged, removed or replaced; from any thread."""
        self._lock_path = data_dir / LOCK_NAME
        self._rebuild_lock_path = data_dir / REBUILD_LOCK_NAME
        self._writer: sqlite3.Connection | None = None
        self._writing = threading.Lock()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._damage: str | None = None
        self._identity: tuple[int, int] | None = None

    def prepare(self) -> None:
        """Make the file if there is none that is of use; what became of one that was not is in ``replaced``.

        Raises:
            DataDirUnusable, StorageFull: it cannot be made or written.
        """
        try:
            with self._turn():
                self._settle(make_ready(self.path))
        except OSError as error:
            raise unusable(self.path, error) from error
        except sqlite3.Error as error:
            raise plainly(self.path, error) from error

    @property
    def spoiled(self) -> bool:
        """Whether the file was found damaged, removed or replaced; the next who writes has one that is not."""
        return self._damage is not None or self._identity not in (None, _identity(self.path))

    def _settle(self, said: str | None) -> None:
        self.replaced = said or self.replaced
        self._damage, self._identity = None, _identity(self.path)

    def _renew(self) -> None:
        """Have a file that is of use in its place, before it is written."""
        if not self.spoiled:
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        problem = self._damage if self._identity == _identity(self.path) else None
        self._settle(make_ready(self.path) if problem is None else discard(self.path, problem))

    def _noticed(self, error: BaseException) -> None:
        if is_damage(error):
            self._damage = str(error)
            self.on_spoiled()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writing connection in a transaction that commits at the end, while nobody else writes.

        A file that was found damaged, removed or replaced is made anew before, and empty.

        Raises:
            ProjectionsBusy: another process did not finish its turn in time.
        """
        with self._writing, self._turn():
            self._renew()
            connection = self._writer = self._writer or connect(self.path, WRITER)
            self._identity = self._identity or _identity(self.path)
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                self._noticed(error)
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """This thread's own reader, in one snapshot.

        Raises:
            ProjectionsUnusable: what is there is no file.
        """
        if self.spoiled:
            self.on_spoiled()
        try:
            reader = self._reader()
            try:
                reader.execute("BEGIN")
                yield reader
            finally:
                if reader.in_transaction:
                    reader.execute("COMMIT")
        except sqlite3.Error as error:
            self._noticed(error)
            raise

    def _reader(self) -> sqlite3.Connection:
        """The reader of this thread, of the file that is in place now."""
        found = _identity(self.path)
        reader: sqlite3.Connection | None = getattr(self._local, "reader", None)
        if reader is not None and found == self._local.identity:
            return reader
        if reader is not None:
            with contextlib.suppress(ValueError):
                self._readers.remove(reader)
            self._local.reader = None
            reader.close()  # a file that was removed gives its space back once nobody has it open
        require_file(self.path)
        if found is None:
            raise ProjectionsUnusable(str(self.path), "it is not there")
        reader = self._local.reader = connect(self.path, _READER)
        self._local.identity = found
        self._readers.append(reader)
        return reader

    @contextlib.contextmanager
    def rebuilding(self) -> Iterator[int]:
        """The right to rebuild, which one process has at a time, as the open file that whoever inherits it shares.

        Raises:
            ProjectionsBusy: another rebuild is under way.
        """
        with _locked(self._rebuild_lock_path, tries=1) as right:
            yield right

    def _turn(self) -> contextlib.AbstractContextManager[int]:
        return _locked(self._lock_path, tries=LOCK_TRIES)

    def close(self) -> None:
        """Close every connection; the last to close checkpoints."""
        with self._writing, self._turn():
            for connection in (*self._readers, *([] if self._writer is None else [self._writer])):
                connection.close()
            self._readers.clear()
            self._writer = None


def tracked(connection: sqlite3.Connection, projection: str) -> Tracked | None:
    """How far the read model was folded; None when it never was."""
    row = connection.execute(
        "SELECT position, version, epoch, build FROM tracking WHERE projection = ?", (projection,)
    ).fetchone()
    return None if row is None else Tracked(*row)


def tracked_beside(connection: sqlite3.Connection, projection: str) -> list[Tracked]:
    """How far a rebuild has folded the read model, for each half of all streams; empty when there is none."""
    halves = [tracked(connection, projection + suffix) for suffix in _HALVES]
    return [at for at in halves if at is not None]


def track_beside(connection: sqlite3.Connection, projection: str, half: int, at: Tracked) -> None:
    """Remember how far a rebuild has folded one half of all streams."""
    track(connection, projection + _HALVES[half], at)


def untrack_beside(connection: sqlite3.Connection, projection: str) -> None:
    """Forget how far a rebuild has come."""
    connection.executemany("DELETE FROM tracking WHERE projection = ?", [(projection + suffix,) for suffix in _HALVES])


def track(connection: sqlite3.Connection, projection: str, at: Tracked) -> None:
    """Remember how far the read model is folded, whatever was remembered before."""
    connection.execute("INSERT OR REPLACE INTO tracking VALUES (?, ?, ?, ?, ?)", (projection, *at))


def advance(connection: sqlite3.Connection, projection: str, seen: Tracked, position: int) -> bool:
    """Move the position on, if everything is as it was ``seen``; False when somebody else changed it."""
    return advance_all(connection, [(projection, seen)], position)


def advance_all(connection: sqlite3.Connection, seen: Sequence[tuple[str, Tracked]], position: int) -> bool:
    """Move the positions of several read models on in one statement; False when one is not as it was ``seen``."""
    places = ", ".join(["(?, ?, ?, ?, ?)"] * len(seen))
    moved = connection.execute(
        f"UPDATE tracking SET position = ? WHERE (projection, position, version, epoch, build) IN (VALUES {places})",
        (position, *itertools.chain.from_iterable((name, *at) for name, at in seen)),
    )
    return moved.rowcount == len(seen)


def next_build(connection: sqlite3.Connection) -> int:
    """A number that no build in this file has."""
    return 1 + int(connection.execute("SELECT coalesce(max(build), 0) FROM tracking").fetchone()[0])


def has_tables(connection: sqlite3.Connection, tables: Sequence[Table], suffix: str = "") -> bool:
    """Whether all these tables are there under a suffix."""
    return {table.name + suffix for table in tables} <= table_names(connection)


def table_names(connection: sqlite3.Connection) -> set[str]:
    """The tables that are there."""
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def create_tables(connection: sqlite3.Connection, tables: Sequence[Table], suffix: str) -> None:
    """Make these tables empty under a suffix, in place of any of that name; without indexes."""
    drop_tables(connection, tables, suffix)
    for table in tables:
        connection.execute(f"CREATE TABLE {table.name}{suffix} {table.columns}")


def create_indexes(connection: sqlite3.Connection, tables: Sequence[Table], suffix: str, build: int) -> None:
    """Make the indexes of these tables. Their names carry the build, because indexes do not follow a renaming."""
    for statement in index_statements(tables, suffix, build):
        connection.execute(statement)


def index_statements(tables: Sequence[Table], suffix: str, build: int) -> list[str]:
    """What makes the indexes of these tables, one by one; one that is there is left as it is."""
    return [
        f"CREATE INDEX IF NOT EXISTS {name}_{build} ON {table.name}{suffix} {columns}"
        for table in tables
        for name, columns in table.indexes.items()
    ]


def drop_tables(connection: sqlite3.Connection, tables: Sequence[Table], suffix: str) -> None:
    """Remove these tables under a suffix, where there are any."""
    for table in tables:
        connection.execute(f"DROP TABLE IF EXISTS {table.name}{suffix}")


def swap_tables(connection: sqlite3.Connection, tables: Sequence[Table]) -> None:
    """Put the rebuilt tables in the place of the live ones, which stay under ``__old`` until they are dropped."""
    drop_tables(connection, tables, OLD)
    live = table_names(connection)
    for table in tables:
        if table.name in live:
            connection.execute(f"ALTER TABLE {table.name} RENAME TO {table.name}{OLD}")
        connection.execute(f"ALTER TABLE {table.name}{NEXT} RENAME TO {table.name}")


def named(statement: str, suffix: str) -> str:
    """The statement with its tables, marked by a tilde, under a suffix."""
    return statement.replace("~", suffix)


def insert(connection: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows of one width; ``into`` is the statement up to its VALUES.

    As many as ``ROWS_AT_ONCE`` go into one statement: SQLite then works for milliseconds without the interpreter's
    lock, so that whoever else runs in this process is held up once for a hundred rows and not a hundred times.
    """
    if not rows:
        return
    one = f"({', '.join('?' * len(rows[0]))})"
    whole = len(rows) - len(rows) % ROWS_AT_ONCE
    many = into + ", ".join([one] * ROWS_AT_ONCE) if whole else ""
    for start in range(0, whole, ROWS_AT_ONCE):
        connection.execute(many, list(itertools.chain.from_iterable(rows[start : start + ROWS_AT_ONCE])))
    connection.executemany(into + one, rows[whole:])


def scratch() -> sqlite3.Connection:
    """A private database that is gone when it is closed: in memory, spilling to a nameless file when it is large."""
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    for pragma in ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-64000"):
        connection.execute(pragma)
    connection.execute(ASIDE)
    return connection


def new_file(path: Path) -> sqlite3.Connection:
    """A file of read models that nobody reads yet: without a log, and not safe from a power loss until it is closed."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-64000"):
            connection.execute(statement)
        for statement in (f"PRAGMA application_id={APPLICATION_ID}", TRACKING, ASIDE):
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is there; None for none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _locked(path: Path, tries: int) -> Iterator[int]:
    """Hold a kernel lock on a file of its own, which is free again the moment its holder is gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for left in range(tries, 0, -1):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if left == 1:
                    raise ProjectionsBusy(str(path)) from None
                threading.Event().wait(LOCK_PAUSE_S)
        yield descriptor
    finally:
        os.close(descriptor)
