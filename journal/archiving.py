"""Moving the facts of runs that settled long ago out of the journal, into files that are never changed.

A run is archived whole: once it has settled and its last fact, in whichever stream, is older than asked. Its rows stay
where they are, with position, stream, version, topic and hash; only the bytes move. So versions stay contiguous, a
stream that gets one more fact goes on, replay and every tool read through the archive, and the hash chain holds over
both (docs/adr/0019).

First the archive is written, made durable and read back; then one transaction names it in the journal and puts
pointers into the rows. A crash before that leaves a file that nobody needs, and never a row without its bytes. It is
done under the directory's lock, because only one connection may write a journal.
"""

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from domain.run import Settled
from journal.application import SQLiteJournal
from journal.archives import MARK, TABLE, name_of, pack, pointer, unpack
from journal.carried import FOLDER
from journal.datastore import connect
from journal.errors import ArchiveUnusable
from journal.lock import DirLock
from journal.mapper import DEFAULT_CODEC
from journal.opening import JOURNAL_NAME, open_sqlite, require_there, said_plainly
from journal.owned import made_private
from journal.schema import require_ours
from journal.store import SQLiteStore
from journal.targets import remove_with_log, sync
from journal.topics import FOLDS

RUNS_IN_ARCHIVE = 2_000
"""Runs in one archive, and in one transaction."""

ARCHIVE_BYTES = 256 * 1024 * 1024
"""Bytes of facts after which an archive takes no further run: a backup carries each archive as one value."""

PORTION = 2_000
"""Rows looked at in one statement."""

Report = Callable[[str, int, int], None]
Facts = dict[int, bytes]

_SETTLING = ("run.settled.", "run.closed.", "run.verdict_rendered.")
_CANDIDATES = (
    "SELECT position, topic, originator_id, substr(state, 1, 1) FROM stored_events "
    "WHERE position > ? AND position <= ? ORDER BY position"
)
_STATES = "SELECT position, state FROM stored_events WHERE position IN (SELECT value FROM json_each(?))"
_SIZE = "SELECT sum(length(state)) FROM stored_events WHERE position IN (SELECT value FROM json_each(?))"
_POINT = "UPDATE stored_events SET state = ? WHERE position = ?"


class Archived(msgspec.Struct, frozen=True):
    """What was moved: runs, facts, their bytes in the journal before and in files now, and the names of those files."""

    runs: int = 0
    facts: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    files: tuple[str, ...] = ()


def archive(data_dir: Path, before: datetime, made_at: datetime, mint: Callable[[], str], report: Report) -> Archived:
    """What was moved of the runs whose last fact was recorded before an instant.

    Raises:
        NoJournal: there is none to archive from, and none is made.
        DataDirBusy: a service runs on this directory.
        StorageFull, DataDirUnusable: there is no room for an archive; the journal is as it was after the last one.
        ArchiveUnusable: an archive could not be read back as it was written.
    """
    require_there(data_dir)
    application = open_sqlite(data_dir, DEFAULT_CODEC, mint)
    try:
        with said_plainly(data_dir / JOURNAL_NAME):
            return _archive(application, data_dir / FOLDER, before, made_at, report)
    finally:
        application.close()


def _archive(application: SQLiteJournal, folder: Path, before: datetime, made_at: datetime, report: Report) -> Archived:
    store, found, runs, size = application.store, Archived(), [], 0
    for run_id in _settled_before(store, before, report):
        runs.append(run_id)
        size += store.datastore.read(_SIZE, (json.dumps(store.positions_of(run_id)),))[0][0] or 0
        if len(runs) == RUNS_IN_ARCHIVE or size >= ARCHIVE_BYTES:
            found, runs, size = _added(found, _move(store, folder, runs, made_at)), [], 0
    return _added(found, _move(store, folder, runs, made_at)) if runs else found


def _settled_before(store: SQLiteStore, before: datetime, report: Report) -> Iterator[str]:
    """Runs that are still in the journal, have settled, and have nothing recorded since."""
    last = store.load_tail().position
    for after in range(0, last, PORTION):
        for position, topic, stream, first in store.datastore.read(_CANDIDATES, (after, min(last, after + PORTION))):
            if topic.startswith(_SETTLING) and first != MARK:
                run_id = stream.partition("-")[2]
                if _may_go(store, run_id, position, before):
                    yield run_id
        report("reading", min(last, after + PORTION), last)


def _may_go(store: SQLiteStore, run_id: str, position: int, before: datetime) -> bool:
    """Whether a run has settled by the fact at this position and nothing of it is younger."""
    facts = store.facts_at([position, store.last_position(run_id)])
    if any(recorded.meta.recorded_at >= before for recorded in facts):
        return False
    state, evolve = FOLDS["run"]
    settled_at = 0
    for recorded in store.stream(f"run-{run_id}"):
        state = evolve(state, recorded.fact)
        if not settled_at and isinstance(getattr(state, "phase", None), Settled):
            settled_at = recorded.position
    return settled_at == position


def _facts_of(store: SQLiteStore, run_id: str) -> Facts:
    """The stored bytes of a run's facts that are still in the journal, by position."""
    rows = store.datastore.read(_STATES, (json.dumps(store.positions_of(run_id)),))
    return {position: bytes(state) for position, state in rows if state[:1] != MARK}


def _move(store: SQLiteStore, folder: Path, runs: list[str], made_at: datetime) -> Archived:
    """One archive of these runs, and their rows without the bytes."""
    folder.mkdir(mode=0o700, exist_ok=True)
    partial = folder / "archive.partial"
    remove_with_log(partial)
    try:
        blocks, size = _write(store, partial, runs)
        name = name_of(partial)
        path = folder / name
        partial.replace(path)
    finally:
        remove_with_log(partial)
    sync(folder)
    _require_same(store, path, blocks)
    _point(store, name, blocks, path.stat().st_size, made_at)
    facts = sum(len(positions) for positions in blocks.values())
    return Archived(len(runs), facts, size, path.stat().st_size, (name,))


def _write(store: SQLiteStore, partial: Path, runs: list[str]) -> tuple[dict[int, list[int]], int]:
    """The positions in each block of the file that was written, and the bytes that the facts took."""
    blocks: dict[int, list[int]] = {}
    size = 0
    made_private(partial)
    with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode=OFF")
        file.execute("BEGIN")
        file.execute(TABLE)
        for block, run_id in enumerate(runs, start=1):
            facts = _facts_of(store, run_id)
            file.execute("INSERT INTO blocks VALUES (?, ?)", (block, pack(facts)))
            blocks[block] = list(facts)
            size += sum(map(len, facts.values()))
        file.execute("COMMIT")
    sync(partial)
    return blocks, size


def _require_same(store: SQLiteStore, path: Path, blocks: dict[int, list[int]]) -> None:
    """Nothing, when the file on the disk gives back what is in the journal.

    Raises:
        ArchiveUnusable: it does not.
    """
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as file:
        for block, positions in blocks.items():
            kept = unpack(file.execute("SELECT body FROM blocks WHERE number = ?", (block,)).fetchone()[0])
            stored = store.datastore.read(_STATES, (json.dumps(positions),))
            if kept != {position: bytes(state) for position, state in stored}:
                raise ArchiveUnusable(path.name, f"block {block} does not give back the facts from {positions[0]} on")


def _point(store: SQLiteStore, name: str, blocks: dict[int, list[int]], size: int, made_at: datetime) -> None:
    facts = sum(len(positions) for positions in blocks.values())
    with store.datastore.transaction(commit=True) as c:
        c.execute(
            "INSERT INTO archives (name, facts, bytes, made_at) VALUES (?, ?, ?, ?)",
            (name, facts, size, made_at.isoformat()),
        )
        number = c.sqlite_cursor.lastrowid
        assert number is not None
        for block, positions in blocks.items():
            for position in positions:
                c.execute(_POINT, (pointer(number, block), position))


def _added(one: Archived, other: Archived) -> Archived:
    return Archived(
        one.runs + other.runs,
        one.facts + other.facts,
        one.bytes_before + other.bytes_before,
        one.bytes_after + other.bytes_after,
        one.files + other.files,
    )


def compact(data_dir: Path) -> tuple[int, int]:
    """The bytes of the journal's file before and after its free pages were given back; needs as much free space again.

    Raises:
        DataDirBusy, StorageFull, DataDirUnusable: nothing was changed.
    """
    path = data_dir / JOURNAL_NAME
    lock = DirLock(data_dir)
    try:
        with said_plainly(path), contextlib.closing(connect(str(path))) as connection:
            require_ours(connection, str(path))
            before = path.stat().st_size
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return before, path.stat().st_size
    finally:
        lock.release()
