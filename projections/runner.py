"""The follower: keeps the stored read models at the end of the journal, off the event loop.

One thread takes what was appended from the feed, which has it in memory, in bounded batches; every projection folds a
batch, and all their rows and positions are committed in one transaction. It sleeps until something is appended; a busy
journal is followed in steps of at most ``PACE_S``, so that many facts share a commit and requests get the interpreter
in between, and next to at once when somebody waits for a position.

Each projection is on its own. One that fails is logged, counted, and tried again after a pause that doubles up to
``PAUSE_MAX_S``, from the position that it has reached, while the others go on; its first error stays in ``health``
until it is acknowledged. Facts at which only its fold fails are put aside (``projection``). Rows that are missing, or
come from another version of the fold, are made again in a thread beside: rows of an older version are read until then,
rows of another journal never, and where there are none of a long journal nothing is read. When somebody else rebuilt a
model, the runner goes on from the rebuilt position. When the file itself is damaged, removed or replaced, also under
the running service, it is made anew, and said in health.

``stop`` it before the journal is closed.
"""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from journal.commit import Journal
from projections.following import Apart, Follower, Together, write_together
from projections.rebuild import Rebuild
from projections.stored.catalogue import PROJECTIONS
from projections.stored.database import Database, Tracked
from projections.stored.faults import ProjectionsBusy
from projections.stored.known import Known, told
from projections.stored.projection import Projection
from projections.stored.reading import Model, readers
from projections.stored.runs import RunsModel

BATCH = 1_000
"""Facts of one transaction, at most."""

PACE_S = 0.1
"""Pause after a batch that was not full, in seconds; bounds both the lag it adds and the commits in a second."""

BREATH_S = 0.005
"""Pause after a batch that was not full even when somebody waits, in seconds: a batch costs as much as fifty facts, so
many who wait one after another on a busy journal are better served with fewer batches."""

BUSY_PAUSE_S = 0.1
"""Pause before a rebuild is tried again that another process kept from beginning."""

LOOK_S = 0.01
"""How often somebody who waits for all read models looks whether one is still being made again."""

JOIN_S = 30.0

T = TypeVar("T")

log = logging.getLogger(__name__)


class _Stopping(Exception):
    """The runner is to stop, in the middle of a rebuild."""


class Runner:
    """Follows one journal into the read models of one data directory."""

    def __init__(
        self,
        journal: Journal,
        data_dir: Path,
        batch: int = BATCH,
        projections: Sequence[Projection] = PROJECTIONS,
    ) -> None:
        self.database = Database(data_dir)
        self._journal = journal
        self._batch = batch
        self._known = Known(journal.store.stream)
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._stop = threading.Event()
        self._followers = [Follower(one, journal, self.database, self._known, self._hurried) for one in projections]
        self._together = Together()
        self._pool = readers()
        kinds = {"runs": RunsModel}
        self.models = {
            one.name: kinds.get(one.name, Model)(one.name, self.database, one.reached, self._pool)
            for one in self._followers
        }
        self._thread = threading.Thread(target=self._follow, name="projections", daemon=True)
        self._rebuilder: threading.Thread | None = None

    @property
    def runs(self) -> RunsModel:
        """Reads of the runs."""
        model = self.models["runs"]
        assert isinstance(model, RunsModel)
        return model

    def start(self) -> None:
        """Make the read models readable as they are, and begin to follow.

        Raises:
            DataDirUnusable, StorageFull: the file in the data directory cannot be made or written.
        """
        self.database.prepare()
        self.database.on_spoiled = self._hurried
        try:
            self._begin()
        except sqlite3.DatabaseError:
            if not self.database.spoiled:
                raise
            self._begin()  # in a file that is made anew
        self._follow_readability()
        self._journal.listeners.append(self._told)
        self._thread.start()

    def _begin(self) -> None:
        for follower in self._followers:
            follower.begin()

    async def caught_up(self, timeout_s: float, position: int | None = None) -> None:
        """Return once every read model has reached a position, and none is of an older version.

        The position is the journal's present one when none is given.

        Raises:
            ReadModelBehind: one had not within ``timeout_s`` seconds.
        """
        wanted = self._journal.position if position is None else position
        await asyncio.gather(*(follower.reached.wait_for(wanted, timeout_s) for follower in self._followers))
        for _ in range(int(timeout_s / LOOK_S)):
            if not any(follower.rebuilding for follower in self._followers):
                return
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """Finish the batch under way, then close the file."""
        self._stop.set()
        self._hurried()
        if self._told in self._journal.listeners:
            self._journal.listeners.remove(self._told)
        await _ended(self._thread)
        await _ended(self._rebuilder)  # looked at only now: the other may have begun it in its last turn
        for follower in self._followers:
            follower.close()
        self._pool.shutdown(wait=True)
        self.database.close()

    @property
    def position(self) -> int:
        """The position that every read model has reached."""
        return min(follower.reached.position for follower in self._followers)

    @property
    def errors(self) -> int:
        """How often a batch of a projection failed."""
        return sum(follower.errors for follower in self._followers)

    @property
    def first_error(self) -> str | None:
        """The first error of a projection that nobody has acknowledged, or the first fact that was put aside."""
        errors = (one.first_error for one in self._followers if one.first_error is not None)
        return self.database.replaced or next(errors, None)

    def look(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """What ``read`` finds in a snapshot of the file, in the calling thread."""
        with self.database.reading() as connection:
            return read(connection)

    def health(self) -> dict[str, Any]:
        """Position and lag in facts of the model that is furthest behind, and how each stands."""
        position = self.position
        return {
            "position": position,
            "lag": max(0, self._journal.position - position),
            "rebuilding": any(one.rebuilding for one in self._followers),
            "failing": any(one.failing for one in self._followers),
            "errors": self.errors,
            "first_error": self.first_error,
            "projections": {one.name: one.health() for one in self._followers},
        }

    def acknowledge(self) -> None:
        """Forget the first errors; the counts stay."""
        self.database.replaced = None
        for follower in self._followers:
            follower.first_error = None

    def _told(self, facts: object) -> None:
        self._wake.set()

    def _hurried(self) -> None:
        self._hurry.set()
        self._wake.set()

    def _follow_readability(self) -> None:
        for follower in self._followers:
            self.models[follower.name].readable = follower.readable

    # In the runner's thread

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            self._hurry.clear()
            if self.database.spoiled:
                for follower in self._followers:
                    follower.look_again()
            positions = self._positions()
            self._follow_readability()
            self._rebuild_beside()
            most = max((self._step(position) for position in positions), default=0)
            if not most:
                self._wake.wait()
            elif most < self._batch:
                self._stop.wait(BREATH_S)
                self._hurry.wait(PACE_S)

    def _positions(self) -> list[int]:
        """Where the projections that can go on stand."""
        return sorted({one.seen.position for one in self._followers if one.ready()})

    def _step(self, position: int) -> int:
        """Take the projections at this position one batch on; how many facts it was."""
        together = [one for one in self._followers if one.ready() and one.seen.position == position]
        try:
            batch = told(self._journal.feed.after(position, self._batch))
            if not batch:
                return 0
            self._known.note(batch)
            if not self._together.are(together):
                self._together = Together(together)
            end = batch[-1][2].position
            folded = [one for one in self._together.fold(batch) if one.gather(end)]
            for one in self._written(folded, end):
                one.moved(end)
        except Exception as error:
            log.exception("following after position %d failed; it is tried again", position)
            for one in together:
                one.failed(error)
            return 0
        return len(batch)

    def _written(self, folded: Sequence[Follower], end: int) -> Sequence[Follower]:
        """Write what these have gathered up to a position; those that could be written."""
        if not folded:
            return []
        try:
            with self.database.writing() as connection:
                write_together(connection, folded, end)
        except (sqlite3.Error, Apart):
            with self.database.writing() as connection:
                return [one for one in folded if one.write(connection)]
        return folded

    def _rebuild_beside(self) -> None:
        """Have what must be made again made again, in a thread beside."""
        if self._rebuilder is not None and self._rebuilder.is_alive():
            return
        wanted = [one for one in self._followers if one.rebuilding and not one.resting]
        if wanted:
            self._rebuilder = threading.Thread(
                target=self._rebuild, args=(wanted,), name="projections-rebuild", daemon=True
            )
            self._rebuilder.start()

    def _rebuild(self, wanted: Sequence[Follower]) -> None:
        rebuild = Rebuild(self.database, self._journal.store, [one.projection for one in wanted])
        try:
            done = rebuild.run(self._report)
        except _Stopping:
            return
        except ProjectionsBusy:
            log.info("read models are being rebuilt by another process; waiting for it")
            self._stop.wait(BUSY_PAUSE_S)
            for one in wanted:
                one.look_again()
        except Exception as error:
            log.exception("rebuilding read models failed; it is tried again")
            for one in wanted:
                one.failed(error)
        else:
            self._rebuilt(wanted, done, rebuild.failures)
        self._follow_readability()
        self._rebuilder = None
        self._wake.set()

    def _rebuilt(
        self, wanted: Sequence[Follower], done: Mapping[str, Tracked], failures: Mapping[str, Exception]
    ) -> None:
        for one in wanted:
            if one.name in failures:
                one.failed(failures[one.name])
            elif one.name in done:
                one.rebuilt(done[one.name])

    def _report(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise _Stopping


async def _ended(thread: threading.Thread | None) -> None:
    if thread is not None and thread.is_alive():
        await asyncio.to_thread(thread.join, JOIN_S)
