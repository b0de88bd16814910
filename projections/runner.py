"""The follower: keeps the stored read models at the end of the journal, off the event loop.

One thread reads the journal's feed in bounded batches, folds each, and commits its rows with its position in one
transaction. It sleeps until something is appended; a busy journal is read in steps of at most ``PACE_S``, so that many
facts share a commit and requests get the interpreter in between. At the start it catches up from where the rows stand;
rows that are missing, or come from another version of the fold or another journal, are rebuilt first.

A batch that fails is never skipped, because the rows would be wrong for ever: it is logged, counted, and tried again
after a pause that doubles up to ``PAUSE_MAX_S``; the model stays readable and says by its position how far it is. The
first error stays in ``health`` until it is acknowledged. When somebody else rebuilt the model, the runner goes on from
the rebuilt position.

``stop`` it before the journal is closed.
"""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

from journal.commit import Journal
from projections.reached import Reached
from projections.rebuild import rebuild_into
from projections.stored import runs_fold
from projections.stored.database import (
    Database,
    Tracked,
    advance,
    create_indexes,
    create_tables,
    track,
    tracked,
)
from projections.stored.faults import ProjectionsBusy
from projections.stored.runs import RunsModel
from projections.stored.runs_fold import NAME, TABLES, VERSION, RunsFold

BATCH = 1_000
"""Facts of one transaction, at most."""

PACE_S = 0.05
"""Pause after a batch that was not full, in seconds; bounds both the lag it adds and the commits in a second."""

PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 5.0
"""Pause before a failed batch is tried again, doubling from the first to the second."""

REBUILD_FROM = 5_000
"""Facts from which an empty model is rebuilt in bulk instead of followed batch by batch."""

JOIN_S = 30.0

log = logging.getLogger(__name__)


class _Stopping(Exception):
    """The runner is to stop, in the middle of a rebuild."""


class Runner:
    """Follows one journal into the read models of one data directory."""

    def __init__(self, journal: Journal, data_dir: Path, batch: int = BATCH) -> None:
        self.database = Database(data_dir)
        self.reached = Reached()
        self.runs = RunsModel(self.database, self.reached)
        self.errors = 0
        self.first_error: str | None = None
        self._journal = journal
        self._batch = batch
        self._fold = RunsFold(journal.store.stream)
        self._seen: Tracked | None = None
        self._failing = False
        self._rebuilding = False
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="projections", daemon=True)

    def start(self) -> None:
        """Make the read models readable as they are, and begin to follow.

        Raises:
            ProjectionsUnusable: the file in the data directory is something else.
        """
        self.database.prepare()
        self._begin()
        self._journal.listeners.append(self._told)
        self._thread.start()

    async def caught_up(self, timeout_s: float, position: int | None = None) -> None:
        """Return once the read models have reached a position; the journal's present one when none is given.

        Raises:
            ReadModelBehind: they had not within ``timeout_s`` seconds.
        """
        await self.reached.wait_for(self._journal.position if position is None else position, timeout_s)

    async def stop(self) -> None:
        """Finish the batch under way, then close the file."""
        self._stop.set()
        self._wake.set()
        if self._told in self._journal.listeners:
            self._journal.listeners.remove(self._told)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, JOIN_S)
        self.runs.close()
        self.database.close()

    def health(self) -> dict[str, Any]:
        """Position, lag in facts, and what went wrong: the count, the sticky first error, and whether it goes on."""
        position = self.reached.position
        return {
            "projection": NAME,
            "position": position,
            "lag": max(0, self._journal.position - position),
            "rebuilding": self._rebuilding,
            "failing": self._failing,
            "errors": self.errors,
            "first_error": self.first_error,
        }

    def acknowledge(self) -> None:
        """Forget the first error; the count stays."""
        self.first_error = None

    def _told(self, facts: object) -> None:
        self._wake.set()

    # In the runner's thread

    def _follow(self) -> None:
        pause_s = PAUSE_MIN_S
        while not self._stop.is_set():
            try:
                self._go_on()
                pause_s = PAUSE_MIN_S
            except _Stopping:
                return
            except Exception as error:
                log.exception("following after position %d failed; it is tried again", self.reached.position)
                self._failed(error)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _failed(self, error: Exception) -> None:
        """Count an error and forget every state that may be wrong because of it."""
        self.errors += 1
        self._failing = True
        self.first_error = self.first_error or f"after position {self.reached.position}: {error!r}"
        self._fold = RunsFold(self._journal.store.stream)
        self._seen = None

    def _go_on(self) -> None:
        """Take over what is there, then one batch; wait when there is none."""
        seen = self._begin() if self._seen is None else self._seen
        if seen.position == 0 and self._journal.position >= REBUILD_FROM:
            self._rebuild()
            return
        self._wake.clear()
        batch = self._journal.feed.after(seen.position, self._batch)
        if not batch:
            self._wake.wait()
            return
        for recorded in batch:
            self._fold.absorb(recorded)
        changes, position = self._fold.changes(), batch[-1].position
        with self.database.writing() as connection:
            ours = advance(connection, NAME, seen, position)
            if ours:
                runs_fold.write(connection, changes)
        if not ours:
            log.info("%s was rebuilt by another process; following from there", NAME)
            self._fold, self._seen = RunsFold(self._journal.store.stream), None
            return
        self._moved(seen._replace(position=position))
        if len(batch) < self._batch:
            self._stop.wait(PACE_S)

    def _moved(self, seen: Tracked) -> None:
        self._seen = seen
        self._failing = False
        self.reached.move(seen.position)

    def _begin(self) -> Tracked:
        """How the rows stand; rows that cannot be gone on from are replaced by none."""
        with self.database.writing() as connection:
            seen = tracked(connection, NAME)
            if seen is None or not self._usable(seen):
                build = 1 if seen is None else seen.build + 1
                seen = Tracked(0, VERSION, self._journal.epoch, build)
                create_tables(connection, TABLES, "")
                create_indexes(connection, TABLES, "", build)
                track(connection, NAME, seen)
        self._moved(seen)
        return seen

    def _usable(self, seen: Tracked) -> bool:
        return (seen.version, seen.epoch) == (VERSION, self._journal.epoch) and seen.position <= self._tail()

    def _tail(self) -> int:
        return self._journal.store.load_tail().position

    def _rebuild(self) -> None:
        self._rebuilding = True
        try:
            self._moved(rebuild_into(self.database, self._journal.store, self._report))
        except ProjectionsBusy:
            log.info("%s is being rebuilt by another process; waiting for it", NAME)
            self._seen = None
            self._stop.wait(PAUSE_MIN_S)
        finally:
            self._rebuilding = False
            self._fold = RunsFold(self._journal.store.stream)

    def _report(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise _Stopping
