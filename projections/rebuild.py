"""Making read models again from the journal, beside those that are in use.

A rebuild folds the journal into tables beside the live ones, several projections in one pass, before their indexes are
made. Every transaction of it keeps the position that the new rows have reached, so a rebuild that was killed, or was
stopped, goes on from there when it is asked for again; one of another version or journal begins anew. A position is
kept for each half of all streams, because two processes may fold a half each (``helping``). When it is close
to the end of the journal it makes the indexes, one in each transaction, folds what came meanwhile, and takes over in
one transaction with the tracking rows, at a position that is never before the live model's. A service that follows the
old rows sees that the build has changed and goes on from there. Reads never fail: they see the old rows or the new.

Asked for from the command line, a large one uses two cores; in the service it leaves the other to those whom it serves.

It may run in the service or in another process: the journal is only read (no lock is taken on it), and each transaction
on the read models waits its turn for their kernel lock. Only one rebuild runs at a time. Whatever ends it, the live
models are as they were; when the disk is full, what it wrote is dropped, because the service needs the space more.
"""

import contextlib
import gc
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from journal.errors import JournalError, StorageFull
from journal.opening import open_whole
from projections.helping import Helper, worth_helping
from projections.refolding import Changes, Halves, Refolding, Source, Start, fold_into
from projections.stored.catalogue import named
from projections.stored.database import (
    NEXT,
    OLD,
    Database,
    Tracked,
    create_tables,
    drop_tables,
    has_tables,
    index_statements,
    next_build,
    swap_tables,
    track,
    track_beside,
    tracked_beside,
    untrack_beside,
)
from projections.stored.faults import ProjectionsUnusable
from projections.stored.file import plainly
from projections.stored.projection import Projection, aside_of, forget_aside

NEAR = 500
"""Facts left to fold when a rebuild takes over; they are folded while nobody else writes."""

OWN, HELPERS = 0, 1
"""Which half of all streams the process that was asked folds, and which a helper does."""

PORTIONS_WAITING = 2
"""Portions of rows that wait to be written while the fold goes on; more would only take memory."""

GC_THRESHOLDS = (100_000, 50, 100)

Report = Callable[[int, int], None]
"""Told how far a rebuild is, and how far it will go, as positions; the last call has both equal."""

Progress = Callable[[str, int, int], None]
"""The same, with the names of what is being rebuilt before it."""


class Rebuild:
    """One rebuild of some projections in one file."""

    def __init__(
        self, database: Database, source: Source, projections: Sequence[Projection], *, helped: bool = False
    ) -> None:
        self.failures: dict[str, Exception] = {}
        """What went wrong with the projections that could not be rebuilt."""
        self.resumed_at = 0
        """The position from which on this rebuild went on, if one before it had been stopped."""
        self._database = database
        self._source = source
        self._projections = projections
        self._helped = helped
        self._builds: dict[str, int] = {}
        self._began: dict[str, Halves] = {}

    def run(self, report: Report) -> dict[str, Tracked]:
        """How each projection is tracked once its rebuilt rows have taken over.

        Raises:
            ProjectionsBusy: another rebuild is under way, or another process does not end its turn.
            StorageFull: the disk is full; what was rebuilt so far was dropped.
            JournalError: the journal, or the file of the read models, cannot be used.
        """
        with self._database.rebuilding() as right, self._plainly(), _seldom_collecting():
            starts = self._begin()
            self.resumed_at = min(position for start in starts for position in start.positions)
            if self._helped and worth_helping(self._source.load_tail().position - self.resumed_at):
                self._share(starts, right, report)
                starts = self._begin()
            return self._run(starts, report)

    def help(self, report: Report) -> None:
        """Fold one half of what another process has begun, with its right; raises what ``run`` raises."""
        with self._plainly(), _seldom_collecting():
            with self._database.reading() as connection:
                found = [self._found(connection, projection) for projection in self._projections]
            starts = [start for start in found if start is not None]
            if len(starts) == len(found):
                self._catch_up(Refolding(self._source, starts, half=HELPERS), report)

    @contextlib.contextmanager
    def _plainly(self) -> Iterator[None]:
        """Say what is wrong with the file, and give the space back when there is none."""
        try:
            yield
        except sqlite3.Error as error:
            failure = plainly(self._database.path, error)
            if isinstance(failure, StorageFull):
                self._give_up()
            raise failure from error

    def _share(self, starts: Sequence[Start], right: int, report: Report) -> None:
        """Fold one half, while a helper folds the other."""
        tail = self._source.load_tail().position
        with Helper(self._database.path.parent, self._projections, right) as helper:
            refolding = Refolding(self._source, starts, half=OWN)
            self._catch_up(refolding, lambda at, total: report(min(at, helper.position), total))
            helper.wait(tail, report)

    def _run(self, starts: Sequence[Start], report: Report) -> dict[str, Tracked]:
        refolding = Refolding(self._source, starts)
        self._catch_up(refolding, report)
        for projection in self._standing(refolding):
            self._index(projection)
        self._catch_up(refolding, report)
        with self._database.writing() as connection:
            taken_over = self._take_over(connection, refolding)
        report(refolding.position, refolding.position)
        with self._database.writing() as connection:
            for projection in self._projections:
                drop_tables(connection, projection.tables, OLD)
        self.failures = refolding.failures
        return taken_over

    def _index(self, projection: Projection) -> None:
        for statement in index_statements(projection.tables, NEXT, self._builds[projection.name]):
            with self._database.writing() as connection:
                connection.execute(statement)

    def _begin(self) -> list[Start]:
        """Where the rebuild of each projection goes on, or begins."""
        with self._database.writing() as connection:
            return [self._start(connection, projection) for projection in self._projections]

    def _start(self, connection: sqlite3.Connection, projection: Projection) -> Start:
        drop_tables(connection, projection.tables, OLD)
        found = self._found(connection, projection)
        if found is not None:
            return found
        name = projection.name
        build = self._builds[name] = next_build(connection)
        create_tables(connection, projection.tables, NEXT)
        forget_aside(connection, name + NEXT)
        self._began[name] = (0, 0)
        for half in (OWN, HELPERS):
            track_beside(connection, name, half, Tracked(0, projection.version, self._source.epoch, build))
        return Start(projection)

    def _found(self, connection: sqlite3.Connection, projection: Projection) -> Start | None:
        """Where a rebuild that was stopped can be gone on from."""
        name, halves = projection.name, tracked_beside(connection, projection.name)
        if len(halves) != len((OWN, HELPERS)) or not all(self._fits(projection, at) for at in halves):
            return None
        if not has_tables(connection, projection.tables, NEXT):
            return None
        self._builds[name] = halves[0].build
        self._began[name] = halves[OWN].position, halves[HELPERS].position
        return Start(projection, self._began[name], aside_of(connection, name + NEXT))

    def _fits(self, projection: Projection, at: Tracked) -> bool:
        same = (at.version, at.epoch) == (projection.version, self._source.epoch)
        return same and at.position <= self._source.load_tail().position

    def _standing(self, refolding: Refolding) -> list[Projection]:
        return [projection for projection in self._projections if projection.name not in refolding.failures]

    def _catch_up(self, refolding: Refolding, report: Report) -> None:
        """Fold until next to nothing is left."""
        while (tail := self._source.load_tail().position) - refolding.position > NEAR:
            with _Beside() as beside:
                fold_into(refolding, tail, lambda changes: beside.do(self._writing(changes, refolding)), report)

    def _writing(self, changes: Changes, refolding: Refolding) -> Callable[[], None]:
        """What writes these changes with the position that they lead to."""
        position = refolding.position
        halves = (OWN, HELPERS) if refolding.half is None else (refolding.half,)

        def write() -> None:
            with self._database.writing() as connection:
                for projection, change in changes:
                    change(connection, NEXT)
                    name, version = projection.name, projection.version
                    for half in halves:
                        reached = max(position, self._began[name][half])
                        at = Tracked(reached, version, self._source.epoch, self._builds[name])
                        track_beside(connection, name, half, at)

        return write

    def _take_over(self, connection: sqlite3.Connection, refolding: Refolding) -> dict[str, Tracked]:
        """Fold the little that is left, which no live model can be beyond, and rename; all in one transaction."""
        refolding.finish(self._source.load_tail().position)
        for _, change in refolding.changes():
            change(connection, NEXT)
        return {
            projection.name: self._swap(connection, projection, refolding) for projection in self._standing(refolding)
        }

    def _swap(self, connection: sqlite3.Connection, projection: Projection, refolding: Refolding) -> Tracked:
        name = projection.name
        swap_tables(connection, projection.tables)
        at = Tracked(refolding.position, projection.version, self._source.epoch, self._builds[name])
        track(connection, name, at)
        untrack_beside(connection, name)
        forget_aside(connection, name)
        connection.execute("UPDATE aside SET projection = ? WHERE projection = ?", (name, name + NEXT))
        return at

    def _give_up(self) -> None:
        """Give back the space of what was rebuilt so far."""
        with contextlib.suppress(sqlite3.Error, JournalError), self._database.writing() as connection:
            for projection in self._projections:
                drop_tables(connection, projection.tables, NEXT)
                untrack_beside(connection, projection.name)
                forget_aside(connection, projection.name + NEXT)


@contextlib.contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for cycles seldom meanwhile: a fold makes none, and looking costs a tenth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(*(max(pair) for pair in zip(before, GC_THRESHOLDS, strict=True)))
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Beside:
    """Does one thing after another in a thread of its own, while the next portion is folded.

    After one that failed, none is done any more: a later portion must not be there while an earlier one is missing.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rebuild-write")
        self._waiting: deque[Future[None]] = deque()
        self._failed = False

    def do(self, work: Callable[[], None]) -> None:
        """Have this done; returns while at most ``PORTIONS_WAITING`` are still to be."""
        self._waiting.append(self._thread.submit(self._carefully, work))
        while len(self._waiting) > PORTIONS_WAITING:
            self._waiting.popleft().result()

    def _carefully(self, work: Callable[[], None]) -> None:
        if self._failed:
            return
        self._failed = True
        work()
        self._failed = False

    def __enter__(self) -> "_Beside":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Return when everything is done; what could not be done is raised."""
        self._thread.shutdown(wait=True, cancel_futures=error is not None)
        if error is None:
            for written in self._waiting:
                written.result()


def rebuild(data_dir: Path, names: Sequence[str] = (), progress: Progress | None = None) -> dict[str, Tracked]:
    """How the named projections are tracked after each was rebuilt; all of them when none is named.

    Raises:
        ProjectionUnknown: there is no projection of a name.
        ProjectionsBusy: another rebuild is under way.
        StorageFull: the disk is full; the live models are as they were.
        NotAJournal, JournalDamaged, SchemaTooNew, DataDirUnusable: a file cannot be used.
    """
    wanted = named(tuple(names))
    title = ", ".join(projection.name for projection in wanted)
    with opened(data_dir) as (source, database):
        database.prepare()

        def rebuilt() -> dict[str, Tracked]:
            rebuilding = Rebuild(database, source, wanted, helped=True)
            done = rebuilding.run(lambda at, total: None if progress is None else progress(title, at, total))
            for failure in rebuilding.failures.values():
                raise failure
            return done

        try:
            return rebuilt()
        except ProjectionsUnusable:
            if not database.spoiled:
                raise
            return rebuilt()  # into a file that is made anew, because in this one there is damage


@contextlib.contextmanager
def opened(data_dir: Path) -> Iterator[tuple[Source, Database]]:
    """The journal of a data directory, to be read, and the file of its read models."""
    application = open_whole(data_dir)
    database = Database(data_dir)
    try:
        yield application.store, database
    finally:
        with contextlib.suppress(sqlite3.Error, JournalError, OSError):
            database.close()
        application.close()
