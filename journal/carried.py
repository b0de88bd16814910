"""What a backup carries beside the journal, and what happens when one is put to use.

A backup is a journal's file with two things added: the keys and the archives, as rows of ``backup_files``, and the mark
``backup_of`` among the values of ``meta``. So it is one file, can be read and verified as it is, and says by itself
that it is not the journal that it was taken of: whoever opens it to record begins another epoch first. What was decided
on the original cannot be appended to it, nor the other way round, however the file came to its place.
"""

import os
import re
import sqlite3
from pathlib import Path
from typing import Any

from journal.errors import NotAJournal
from journal.targets import sync

FOLDER = "archive"
SUFFIX = ".facts"
KEYS_NAME = "keys.sqlite3"
MARK = "backup_of"
TABLE = "CREATE TABLE backup_files (name TEXT PRIMARY KEY, body BLOB NOT NULL)"
_MAY_CARRY = re.compile(rf"{re.escape(KEYS_NAME)}|{FOLDER}/[0-9a-f]{{64}}{re.escape(SUFFIX)}")


def is_backup(connection: sqlite3.Connection) -> bool:
    """Whether this file is a backup that was never put to use."""
    return connection.execute("SELECT 1 FROM meta WHERE key = ?", (MARK,)).fetchone() is not None


def carried_file(datastore: Any, name: str) -> bytes | None:
    """A file that the journal carries with it; None when it carries none of this name."""
    if not datastore.read("SELECT 1 FROM sqlite_master WHERE name = 'backup_files'"):
        return None
    rows = datastore.read("SELECT body FROM backup_files WHERE name = ?", (name,))
    return bytes(rows[0][0]) if rows else None


def settle(connection: sqlite3.Connection, data_dir: Path, epoch: str, *, keys: bool = True) -> None:
    """Put what the backup carries beside it, where nothing is yet, and begin this epoch.

    A crash in between leaves a backup that is settled again; files that are there already stay.

    Raises:
        NotAJournal: it carries what no backup carries.
        OSError, sqlite3.Error: there is no room, or the files cannot be written.
    """
    for (name,) in connection.execute("SELECT name FROM backup_files").fetchall():
        if not isinstance(name, str) or not _MAY_CARRY.fullmatch(name):
            raise NotAJournal(str(data_dir), f"the backup carries a file named {str(name)[:80]!r}")
        if keys or name != KEYS_NAME:
            body = connection.execute("SELECT body FROM backup_files WHERE name = ?", (name,)).fetchone()[0]
            if not isinstance(body, bytes):
                raise NotAJournal(str(data_dir), f"what the backup carries as {name} is no file")
            _put(data_dir, name, body)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("UPDATE tail SET epoch = ?", (epoch,))
        connection.execute("DELETE FROM meta WHERE key = ?", (MARK,))
        connection.execute("DROP TABLE backup_files")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _put(data_dir: Path, name: str, body: bytes) -> None:
    path = data_dir / name
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # what a crash left, or a link to somewhere else
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync(path.parent)  # before the backup forgets what it carried
    sync(data_dir)
