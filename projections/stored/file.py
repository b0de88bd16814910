"""The file of the read models: made, recognised, and replaced when it is of no use.

Whatever is in its place, the read models can be made again from the journal, so nothing there keeps a service from
starting. A file of ours (SQLite's header says so) that is damaged, or of a shape that this version does not know, is
removed and made anew. Anything else is somebody else's, or was ours and cannot be told any more: it is moved to
``projections.unusable-N`` with what SQLite has beside it, and stays there until somebody looks. Either is said in one
line. A place that cannot be written is no such case, and is refused.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from journal.errors import DataDirUnusable, JournalError, StorageFull
from journal.lock import free_bytes
from journal.owned import made_private
from projections.stored.faults import ProjectionsUnusable

FILE_NAME = "projections.sqlite3"
UNUSABLE = "projections.unusable-"

APPLICATION_ID = 0x4A4B4C50
"""Marks the file as ours in SQLite's header ("JKLP")."""

WRITER = (
    "PRAGMA busy_timeout=5000",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA cache_size=-32000",
    "PRAGMA wal_autocheckpoint=4000",
    "PRAGMA journal_size_limit=67108864",
)
TRACKING = (
    "CREATE TABLE IF NOT EXISTS tracking (projection TEXT PRIMARY KEY, position INTEGER NOT NULL, "
    "version INTEGER NOT NULL, epoch TEXT NOT NULL, build INTEGER NOT NULL) WITHOUT ROWID"
)
ASIDE = (
    "CREATE TABLE IF NOT EXISTS aside (projection TEXT, subject TEXT, position INTEGER NOT NULL, stream TEXT NOT NULL, "
    "topic TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (projection, subject)) WITHOUT ROWID"
)
_SHAPES = (
    "SELECT projection, position, version, epoch, build FROM tracking",
    "SELECT projection, subject, position, stream, topic, reason FROM aside",
)

log = logging.getLogger(__name__)


def make_ready(path: Path) -> str | None:
    """Make the file if none is there, or none that is of use; then what was wrong and became of it, in one line.

    Raises:
        OSError, sqlite3.Error: it cannot be made or written.
    """
    try:
        _create(path)
    except ProjectionsUnusable as error:
        said = f"{path.name} could not be used ({error.problem}): {_replace(path)}, and the read models are made again"
        _create(path)
        log.warning(said)
        return said
    return None


def discard(path: Path, problem: str) -> str:
    """Remove a file of ours that is damaged, and make an empty one; what was wrong and became of it, in one line."""
    _remove(path)
    _create(path)
    said = f"{path.name} was damaged ({problem}), and the read models are made again"
    log.warning(said)
    return said


def require_file(path: Path) -> None:
    """Nothing, when what is there, and beside it, is a file, or nothing.

    Raises:
        ProjectionsUnusable: it is something else, which SQLite could only fail to open.
    """
    for one in _with_logs(path):
        if one.exists() and not one.is_file():
            raise ProjectionsUnusable(str(path), f"{one.name} is not a file")


def _create(path: Path) -> None:
    """Have a file of ours at the path: the one that is there, or an empty one, which nobody ever sees half made."""
    require_file(path)
    if path.exists() and path.stat().st_size:
        _furnish(path)
        return
    new = path.with_name(path.name + ".new")
    _remove(new)
    _furnish(new)
    _remove(path)
    new.rename(path)


def _furnish(path: Path) -> None:
    """Make the tables that every file of ours has, where they are missing."""
    with _told_apart(path):
        made_private(path)
        with contextlib.closing(connect(path, WRITER)) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            found = connection.execute("PRAGMA application_id").fetchone()[0]
            if found != APPLICATION_ID and (tables or found):
                raise ProjectionsUnusable(str(path), "it is a database of another program")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(TRACKING)
            connection.execute(ASIDE)
            for shape in _SHAPES:
                _require_shape(connection, shape, path)


def _require_shape(connection: sqlite3.Connection, shape: str, path: Path) -> None:
    try:
        connection.execute(shape).fetchall()
    except sqlite3.OperationalError as error:
        if "no such column" not in str(error):
            raise
        raise ProjectionsUnusable(str(path), f"another version made it: {error}") from error


@contextlib.contextmanager
def _told_apart(path: Path) -> Iterator[None]:
    """Say that a file is of no use where SQLite says that it makes no sense of it."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        raise ProjectionsUnusable(str(path), str(error)) from error
    except UnicodeDecodeError as error:
        raise ProjectionsUnusable(str(path), "its tables have names that are no text") from error


def _replace(path: Path) -> str:
    """Remove what is ours, put aside what may be anybody's; which of the two, in words."""
    if all(one.is_file() or not one.exists() for one in _with_logs(path)) and is_ours(path):
        _remove(path)
        return "it was removed"
    kept = next(place for number in count(1) if not (place := path.with_name(f"{UNUSABLE}{number}")).exists())
    for one, other in zip(_with_logs(path), _with_logs(kept), strict=True):
        if one.exists() or one.is_symlink():
            one.rename(other)
    return f"what was there is {kept.name} now"


def _remove(path: Path) -> None:
    for one in _with_logs(path):
        one.unlink(missing_ok=True)


def _with_logs(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm"))


def is_ours(path: Path) -> bool:
    """Whether SQLite's header says that this is a file of read models."""
    with path.open("rb") as file:
        head = file.read(100)
    return head[:16] == b"SQLite format 3\x00" and head[68:72] == APPLICATION_ID.to_bytes(4, "big")


def connect(path: Path, profile: Sequence[str]) -> sqlite3.Connection:
    """A connection in autocommit mode with this profile; usable from any thread, one at a time."""
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        for pragma in profile:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def is_damage(error: BaseException) -> bool:
    """Whether SQLite can make no sense of the file."""
    code = getattr(error, "sqlite_errorcode", 0)
    cut_off = code in (sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)
    return cut_off or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def plainly(path: Path, error: sqlite3.Error) -> JournalError:
    """One line with the remedy for what SQLite said."""
    if is_damage(error):
        return ProjectionsUnusable(str(path), str(error))
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return StorageFull(str(path), free_bytes(path))
    return DataDirUnusable(str(path), str(error))
