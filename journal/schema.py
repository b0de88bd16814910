"""The journal's tables in SQLite, their version, and how an older file is brought up to date.

``stored_events`` is the library's table with our own key: ``position`` is an explicit integer primary key, so that it
is a fact's place for ever (an implicit row id may be renumbered). Its ``state`` is the fact, or ``@`` and where in the
archives it is. ``correlation_id`` is null where the stream is named after it, as nearly all are, and the index on it is
for the others. ``archives`` names the files that settled runs' facts were moved to. ``tail`` says in which epoch the
journal is and where the chain ends; every append moves it from where it expects it, so it fails under another epoch or
after another end.
``commands`` remembers what was answered to a command id.
``output_chunks``, ``output_marks`` and ``partials`` are work registers: durable, and not facts.

``meta`` holds the schema version and the journal's own id. A file of an older schema is upgraded step by
step in one transaction; a newer one is refused, because its facts may mean more than this version knows.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from journal.chain import genesis
from journal.errors import NotAJournal, SchemaTooNew

APPLICATION_ID = 0x4A4B4C4E
"""Marks the file as ours in SQLite's header ("JKLN")."""

VERSION_DIGITS = 9
"""What is longer is no version of a schema."""

SCHEMA_VERSION = 2

CORRELATION_INDEX = (
    "CREATE INDEX stored_events_correlation ON stored_events (correlation_id) WHERE correlation_id IS NOT NULL"
)
ARCHIVES = (
    "CREATE TABLE archives (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, facts INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL, made_at TEXT NOT NULL)"
)
TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE stored_events ("
    "position INTEGER PRIMARY KEY, originator_id TEXT NOT NULL, originator_version INTEGER NOT NULL, "
    "topic TEXT NOT NULL, state BLOB NOT NULL, correlation_id TEXT, hash BLOB NOT NULL, "
    "UNIQUE (originator_id, originator_version))",
    CORRELATION_INDEX,
    "CREATE TABLE tail (one INTEGER PRIMARY KEY CHECK (one = 1), epoch TEXT NOT NULL, position INTEGER NOT NULL, "
    "hash BLOB NOT NULL)",
    "CREATE TABLE commands (command_id TEXT PRIMARY KEY, request_digest TEXT, first INTEGER NOT NULL, "
    "last INTEGER NOT NULL, answer BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE output_chunks (run_id TEXT NOT NULL, fence INTEGER NOT NULL, seq INTEGER NOT NULL, "
    "stream TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run_id, fence, seq))",
    "CREATE TABLE output_marks (run_id TEXT NOT NULL, fence INTEGER NOT NULL, chunks INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL, digest TEXT NOT NULL, last_seq INTEGER NOT NULL, "
    "PRIMARY KEY (run_id, fence)) WITHOUT ROWID",
    "CREATE TABLE partials (run_id TEXT NOT NULL, fence INTEGER NOT NULL, body BLOB NOT NULL, "
    "saved INTEGER NOT NULL, PRIMARY KEY (run_id, fence))",
    ARCHIVES,
)

Steps = Mapping[int, Sequence[str]]
"""By schema version: the statements that lead from it to the next."""

UPGRADES: Steps = {
    1: ("DROP INDEX stored_events_correlation", CORRELATION_INDEX, ARCHIVES),
}


def create(connection: sqlite3.Connection, journal_id: str, epoch: str) -> None:
    """Make an empty journal in an empty database."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute("BEGIN IMMEDIATE")
    for statement in TABLES:
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        [("schema_version", str(SCHEMA_VERSION)), ("journal_id", journal_id)],
    )
    connection.execute("INSERT INTO tail VALUES (1, ?, 0, ?)", (epoch, genesis(journal_id)))
    connection.execute("COMMIT")


def meta(connection: sqlite3.Connection, key: str) -> str | None:
    """A value of the ``meta`` table; None when it has none."""
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return None if row is None else str(row[0])


def require_ours(connection: sqlite3.Connection, path: str) -> int:
    """The schema version of a database that is a journal.

    Raises:
        NotAJournal: it belongs to another program.
    """
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if found != APPLICATION_ID or not {"meta", "stored_events", "tail"} <= tables:
        shown = ", ".join(sorted(tables)[:5]) or "no tables"
        raise NotAJournal(path, f"it is a database of another program ({shown})")
    version = meta(connection, "schema_version")
    if version is None or not version.isdecimal() or len(version) > VERSION_DIGITS:
        raise NotAJournal(path, f"its schema version is {version!r}")
    return int(version)


def upgrade(connection: sqlite3.Connection, path: str, steps: Steps = UPGRADES, *, target: int = SCHEMA_VERSION) -> int:
    """The version found, after the file was brought to ``target`` in one transaction.

    Raises:
        SchemaTooNew: the file is newer than ``target``.
        NotAJournal: it belongs to another program, or no steps lead from its version.
    """
    found = require_ours(connection, path)
    if found > target:
        raise SchemaTooNew(path, found, target)
    if found == target:
        return found
    missing = [version for version in range(found, target) if version not in steps]
    if missing:
        raise NotAJournal(path, f"no upgrade leads from its schema {found} to {target}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(found, target):
            for statement in steps[version]:
                connection.execute(statement)
        connection.execute("UPDATE meta SET value=? WHERE key='schema_version'", (str(target),))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return found
