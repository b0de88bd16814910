"""A file that comes into being whole or not at all.

It is written beside its place, as ``NAME.partial``, made durable, and moved. Whoever fails takes the part away; a
process that is killed leaves it, and the next one begins it anew. Two processes do not write one file: the second is
told so. A file that is there is never replaced.
"""

import contextlib
import errno
import fcntl
import os
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from journal.errors import JournalError
from journal.lock import free_bytes
from journal.tool_errors import TargetBusy, TargetExists, TargetFull, TargetUnusable, unwritable

PARTIAL = ".partial"
_NEEDED_BYTES = 256 * 1024
"""Below this, or under a limit on the size of files, an input/output error is taken for a full disk."""


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """The path of an empty file to fill; at the end of the block it is durable under the name that was asked for.

    Raises:
        TargetExists, TargetBusy, TargetUnusable, TargetFull: nothing is there that was not there before.
    """
    if path.exists():
        raise TargetExists(path)
    partial = path.with_name(path.name + PARTIAL)
    try:
        lock = _taken(path, partial)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        yield partial
        sync(partial)
        os.link(partial, path)  # unlike a rename it never replaces what came there meanwhile
        sync(path.parent)
    except FileExistsError as error:
        raise TargetExists(path) from error
    except OSError as error:
        raise unwritable(path, error) from error
    except sqlite3.Error as error:
        raise plain(path, error) from error
    finally:
        remove_with_log(partial)
        os.close(lock)


def _taken(path: Path, partial: Path) -> int:
    lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise TargetBusy(path) from None
        raise
    os.ftruncate(lock, 0)
    for log in logs_of(partial):
        log.unlink(missing_ok=True)
    return lock


def plain(path: Path, error: sqlite3.Error) -> JournalError:
    """The error for what SQLite said about a target."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    cramped = free_bytes(path) < _NEEDED_BYTES or resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and cramped):
        return TargetFull(path)
    return TargetUnusable(path, str(error))


def logs_of(path: Path) -> tuple[Path, ...]:
    """What SQLite may have beside a file."""
    return tuple(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))


def remove_with_log(path: Path) -> None:
    """Take away a file and what SQLite has beside it, as far as it is there."""
    for one in (path, *logs_of(path)):
        with contextlib.suppress(OSError):
            one.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file, or a directory's entries, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
