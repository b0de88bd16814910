"""Making a read model again from the journal, beside the one that is in use, and proving that the two are the same.

A rebuild folds the journal from its first fact: rows of settled runs are written as it goes, so that only open runs
take memory, into tables beside the live ones and before their indexes are made. It then folds what came meanwhile and
takes over in one transaction with the tracking row, at a position that is never before the live model's. A service
that follows the old rows meanwhile sees that the build has changed and goes on from there. It may run in the service
or in another process: the journal is only read (no lock is taken on it), and each transaction on the read models waits
its turn for their kernel lock. Interrupted at any point, it leaves the live model as it was.

``verify`` folds the same facts once more into a private database, up to the position of the live model, and compares
both row by row (``comparing``).
"""

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from domain.values import Value
from journal.opening import open_readonly
from projections.comparing import Difference, digest, first_difference
from projections.refolding import Refolding, Source
from projections.stored import runs_fold
from projections.stored.database import (
    NEXT,
    OLD,
    Database,
    Tracked,
    create_indexes,
    create_tables,
    drop_tables,
    scratch,
    swap_tables,
    track,
    tracked,
)
from projections.stored.faults import ProjectionsUnusable
from projections.stored.runs_fold import NAME, TABLES, VERSION, Change

NAMES = (NAME,)
"""The read models there are."""

NEAR = 500
"""Facts left to fold when a rebuild takes over; they are folded while nobody else writes."""

PORTIONS_WAITING = 2
"""Portions of rows that wait to be written while the fold goes on; more would only take memory."""

Progress = Callable[[str, int, int], None]
"""Told the read model's name, facts folded, and facts to fold; the last call has both equal."""


class Shown(Value, frozen=True, kw_only=True):
    """How a read model stands: ``current``, ``behind``, ``outdated`` (another version or journal) or ``missing``."""

    name: str
    version: int
    state: str
    position: int
    journal_position: int
    rows: int


class Verified(Value, frozen=True, kw_only=True):
    """What comparing a read model with the journal found."""

    name: str
    ok: bool
    position: int
    rows: int
    digest: str | None
    problem: str | None
    difference: Difference | None


def rebuild_into(database: Database, source: Source, report: Callable[[int, int], None]) -> Tracked:
    """How the read model is tracked once its rebuilt rows have taken over.

    Raises:
        ProjectionsBusy: another rebuild is under way, or another process does not end its turn.
    """
    with database.rebuilding():
        try:
            return _rebuild(database, source, report)
        except BaseException:
            with contextlib.suppress(Exception), database.writing() as connection:
                drop_tables(connection, TABLES, NEXT)
            raise


def _rebuild(database: Database, source: Source, report: Callable[[int, int], None]) -> Tracked:
    with database.writing() as connection:
        drop_tables(connection, TABLES, OLD)
        create_tables(connection, TABLES, NEXT)
        before = tracked(connection, NAME)
    build = 1 if before is None else before.build + 1

    with Beside(database) as beside:
        refolding = Refolding(source, beside.write)
        refolding.advance(source.load_tail().position, report)
        refolding.finish()
    with database.writing() as connection:
        create_indexes(connection, TABLES, NEXT, build)
    while (tail := source.load_tail().position) - refolding.position > NEAR:
        with Beside(database) as beside:
            refolding.sink = beside.write
            refolding.advance(tail, report)
            refolding.finish()
    with database.writing() as connection:
        taken_over = _take_over(connection, refolding, source, build)
    with database.writing() as connection:
        drop_tables(connection, TABLES, OLD)
    return taken_over


class Beside:
    """Writes into the tables beside the live ones, in a thread of its own while the next portion is folded."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rebuild-write")
        self._waiting: deque[Future[None]] = deque()

    def write(self, changes: Sequence[Change]) -> None:
        """Have these changes written; returns while at most ``PORTIONS_WAITING`` are still to be."""
        self._waiting.append(self._thread.submit(self._write, changes))
        while len(self._waiting) > PORTIONS_WAITING:
            self._waiting.popleft().result()

    def _write(self, changes: Sequence[Change]) -> None:
        with self._database.writing() as connection:
            runs_fold.write(connection, changes, NEXT)

    def __enter__(self) -> "Beside":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Return when everything is written; what could not be written is raised."""
        self._thread.shutdown(wait=True, cancel_futures=error is not None)
        if error is None:
            for written in self._waiting:
                written.result()


def _take_over(connection: sqlite3.Connection, refolding: Refolding, source: Source, build: int) -> Tracked:
    """Fold what the live model has and this one has not, and rename; all in the caller's transaction."""
    live = tracked(connection, NAME)
    refolding.sink = lambda changes: runs_fold.write(connection, changes, NEXT)
    if live is not None and live.epoch == source.epoch:
        refolding.advance(live.position)
        refolding.finish()
    swap_tables(connection, TABLES)
    at = Tracked(refolding.position, VERSION, source.epoch, build)
    track(connection, NAME, at)
    return at


def rebuild(data_dir: Path, names: Sequence[str] = NAMES, progress: Progress | None = None) -> list[Shown]:
    """How the named read models stand after each was rebuilt; all of them when none is named.

    Raises:
        ProjectionsUnusable: there is no read model of a name, or the file is not one of read models.
        ProjectionsBusy: another rebuild is under way.
        NotAJournal, JournalDamaged, SchemaTooNew: about the journal.
    """
    for name in names:
        if name not in NAMES:
            raise ProjectionsUnusable(name, f"there is no read model of this name, only {', '.join(NAMES)}")
    report = _quiet if progress is None else progress
    with _opened(data_dir) as (source, database):
        database.prepare()
        rebuild_into(database, source, lambda done, total: report(NAME, done, total))
        return [_shown(database, source)]


def list_all(data_dir: Path) -> list[Shown]:
    """How each read model stands."""
    with _opened(data_dir) as (source, database):
        return [_shown(database, source)]


def verify(data_dir: Path, progress: Progress | None = None) -> list[Verified]:
    """What comparing each read model with the journal found."""
    report = _quiet if progress is None else progress
    with _opened(data_dir) as (source, database):
        shown = _shown(database, source)
        if shown.state in ("missing", "outdated"):
            return [_unverified(shown)]
        with database.reading() as live, contextlib.closing(scratch()) as again:
            at = tracked(live, NAME)
            position = 0 if at is None else at.position
            create_tables(again, TABLES, "")
            refolding = Refolding(source, lambda changes: runs_fold.write(again, changes))
            refolding.advance(position, lambda done, total: report(NAME, done, total))
            refolding.finish()
            return [_compared(shown, position, live, again)]


def _compared(shown: Shown, position: int, live: sqlite3.Connection, again: sqlite3.Connection) -> Verified:
    difference = first_difference(live, again)
    return Verified(
        name=NAME,
        ok=difference is None,
        position=position,
        rows=shown.rows,
        digest=digest(live),
        problem=None if difference is None else f"{difference.table} {difference.key} differs from the journal",
        difference=difference,
    )


def _unverified(shown: Shown) -> Verified:
    return Verified(
        name=shown.name,
        ok=False,
        position=shown.position,
        rows=shown.rows,
        digest=None,
        problem=f"the read model is {shown.state}; rebuild it, or start the service",
        difference=None,
    )


def _shown(database: Database, source: Source) -> Shown:
    tail, at, rows = source.load_tail().position, None, 0
    if database.path.exists():
        with database.reading() as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if {"tracking", *(table.name for table in TABLES)} <= tables:
                at = tracked(connection, NAME)
                rows = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    if at is None:
        state = "missing"
    elif (at.version, at.epoch) != (VERSION, source.epoch):
        state = "outdated"
    else:
        state = "behind" if at.position < tail else "current"
    position = 0 if at is None else at.position
    return Shown(name=NAME, version=VERSION, state=state, position=position, journal_position=tail, rows=rows)


@contextlib.contextmanager
def _opened(data_dir: Path) -> Iterator[tuple[Source, Database]]:
    application = open_readonly(data_dir)
    database = Database(data_dir)
    try:
        yield application.store, database
    finally:
        database.close()
        application.close()


def _quiet(name: str, done: int, total: int) -> None:
    pass
