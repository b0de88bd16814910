"""One projection that follows the journal: where it stands, what is wrong with it, and when it is tried again.

Those that stand at the same position go on ``Together``: a fact is brought at once to all that fold its type, and their
rows and positions are written in one transaction without a way back for each. Only when one of them cannot be written
so are all written again, each with its own way back, and that one alone is undone.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from domain.values import Fact
from journal.commit import Journal
from journal.mapper import Recorded
from projections.reached import Reached
from projections.stored.database import (
    Database,
    Tracked,
    advance,
    advance_all,
    create_indexes,
    create_tables,
    has_tables,
    next_build,
    track,
    tracked,
)
from projections.stored.known import Known, Told
from projections.stored.projection import Folding, Handler, Projection, Write, aside_of, forget_aside

PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 5.0
"""Pause before a failed batch is tried again, doubling from the first to the second."""

REBUILD_FROM = 5_000
"""Facts from which an empty model is rebuilt in bulk instead of followed batch by batch."""

NOWHERE = Tracked(0, 0, "", 0)

log = logging.getLogger(__name__)


class Follower:
    """One projection. ``begin`` apart, everything but ``health`` belongs to the runner's threads."""

    def __init__(
        self, projection: Projection, journal: Journal, database: Database, known: Known, wake: Callable[[], None]
    ) -> None:
        self.projection = projection
        self.name = projection.name
        self.seen = NOWHERE
        self.reached = Reached(asked=wake)
        self.readable = True
        self.rebuilding = False
        self.failing = False
        self.resting = False
        """Whether it waits until it is tried again."""
        self.errors = 0
        self.first_error: str | None = None
        self._journal = journal
        self._database = database
        self._known = known
        self._wake = wake
        self.folding = Folding(projection, known)
        self._write: Write | None = None
        self._end = 0
        self._sure = False
        self._pause_s = PAUSE_MIN_S
        self._timer: threading.Timer | None = None
        self._told_aside = 0

    def health(self) -> dict[str, Any]:
        """Position, lag in facts, and what went wrong."""
        position = self.reached.position
        return {
            "position": position,
            "lag": max(0, self._journal.position - position),
            "version": self.projection.version,
            "rebuilding": self.rebuilding,
            "failing": self.failing,
            "errors": self.errors,
            "first_error": self.first_error,
            "quarantined": len(self.folding.aside),
        }

    def ready(self) -> bool:
        """Whether it can be taken on; finds out where it stands when that is not sure."""
        if self.resting or (self.rebuilding and self._sure):
            return False
        if not self._sure:
            try:
                self.begin()
            except Exception as error:
                log.exception("the projection %s cannot be begun; it is tried again", self.name)
                self.failed(error)
                return False
        return not self.rebuilding

    def begin(self) -> None:
        """Find out how the rows stand; rows that cannot be gone on from are replaced by none, or made again."""
        journal, projection = self._journal, self.projection
        with self._database.writing() as connection:
            seen = tracked(connection, self.name)
            usable = seen is not None and self._of_this_journal(seen) and has_tables(connection, projection.tables)
            outdated = usable and seen is not None and seen.version != projection.version
            if seen is None or not usable:
                seen = self._begin_anew(connection)
            aside = aside_of(connection, self.name)
        missing = seen.position == 0 and journal.position >= REBUILD_FROM
        self.rebuilding = outdated or missing
        self.readable = not outdated or projection.readable_since <= seen.version <= projection.version
        self.readable = self.readable and not missing  # no rows of a long journal are no answer, and not an empty one
        self.folding = Folding(projection, self._known, aside)
        self._note_aside()
        self.seen, self._sure = seen, True
        self.reached.move(seen.position)

    def _of_this_journal(self, seen: Tracked) -> bool:
        return seen.epoch == self._journal.epoch and seen.position <= self._journal.store.load_tail().position

    def _begin_anew(self, connection: sqlite3.Connection) -> Tracked:
        seen = Tracked(0, self.projection.version, self._journal.epoch, next_build(connection))
        create_tables(connection, self.projection.tables, "")
        create_indexes(connection, self.projection.tables, "", seen.build)
        forget_aside(connection, self.name)
        track(connection, self.name, seen)
        return seen

    def gather(self, end: int) -> bool:
        """Take what came of the facts up to a position, which is to be written; whether that went well."""
        try:
            self._write = self.folding.changes()
        except Exception as error:  # noqa: BLE001  (the others must go on)
            self.stopped(error)
            return False
        self._end = end
        return True

    def stopped(self, error: Exception) -> None:
        """The batch cannot be folded now."""
        log.error("the projection %s failed after position %d", self.name, self.seen.position, exc_info=error)
        self.failed(error)

    def put(self, connection: sqlite3.Connection) -> None:
        """Write what was gathered, without the position."""
        if self._write is not None:
            self._write(connection, "")

    def write(self, connection: sqlite3.Connection) -> bool:
        """Write what was folded, with the position; whether that went well. What did not is undone alone."""
        connection.execute("SAVEPOINT projection")
        try:
            ours = advance(connection, self.name, self.seen, self._end)
            if ours:
                self.put(connection)
        except sqlite3.Error as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO projection")
            connection.execute("RELEASE projection")
            log.exception("the projection %s could not be written after position %d", self.name, self.seen.position)
            self.failed(error)
            return False
        connection.execute("RELEASE projection")
        if not ours:
            log.info("%s was rebuilt by another process; following from there", self.name)
            self._sure = False
        return ours

    def moved(self, position: int) -> None:
        """What was written is committed."""
        self.seen = self.seen._replace(position=position)
        self.failing = False
        self._pause_s = PAUSE_MIN_S
        self._note_aside()
        self.reached.move(position)

    def rebuilt(self, at: Tracked) -> None:
        """The rows were made again."""
        self.rebuilding = False
        self.readable = True
        self.failing = False
        self._sure = False
        self.reached.move(at.position)

    def look_again(self) -> None:
        """Somebody else may have made the rows again."""
        self._sure = False

    def failed(self, error: Exception) -> None:
        """Count an error, forget every state that may be wrong because of it, and rest."""
        self.errors += 1
        self.failing = True
        self.first_error = self.first_error or f"{self.name} after position {self.seen.position}: {error!r}"
        self._sure = False
        self.resting = True
        self._timer = threading.Timer(self._pause_s, self._rested)
        self._timer.daemon = True
        self._timer.start()
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    def _rested(self) -> None:
        self.resting = False
        self._wake()

    def _note_aside(self) -> None:
        aside = self.folding.aside
        if len(aside) > self._told_aside:
            last = list(aside.values())[-1]
            log.warning(
                "the projection %s put %s at position %d aside: %s", self.name, last.topic, last.position, last.reason
            )
            self.first_error = (
                self.first_error or f"{self.name} put {last.topic} at position {last.position} aside: {last.reason}"
            )
        self._told_aside = len(aside)

    def close(self) -> None:
        """Stop resting."""
        if self._timer is not None:
            self._timer.cancel()


class Apart(Exception):
    """Projections cannot be written in one go: somebody else has changed how one of them is tracked."""


class Together:
    """Projections that go on from the same position; each fact is brought to all that fold its type, in one pass."""

    def __init__(self, followers: Sequence[Follower] = ()) -> None:
        self._followers = list(followers)
        self._foldings = [one.folding for one in followers]
        self._out: dict[str, Exception] = {}
        self._targets: dict[type[Fact], list[tuple[Folding, Handler]]] = {}
        self._route()

    def are(self, followers: Sequence[Follower]) -> bool:
        """Whether it is these, as they are being folded now."""
        return self._foldings == [one.folding for one in followers]

    def _route(self) -> None:
        """Find out anew who folds what."""
        self._targets = {}
        for folding in self._foldings:
            if folding.projection.name not in self._out:
                for kind in folding.facts:
                    self._targets.setdefault(kind, []).append((folding, folding.handler(kind)))

    def fold(self, batch: Iterable[Told]) -> list[Follower]:
        """Fold a batch that begins after their position; those with which that went well. The others are to rest."""
        targets = self._targets
        for kind, subject, recorded in batch:
            for folding, handle in targets.get(kind, ()):
                try:
                    handle(subject, recorded)
                except Exception as error:  # noqa: BLE001  (whatever it is, the other facts must go on)
                    self._failed(folding, subject, recorded, error)
                    targets = self._targets
        for follower in self._followers:
            if follower.name in self._out:
                follower.stopped(self._out[follower.name])
        return [one for one in self._followers if one.name not in self._out]

    def _failed(self, folding: Folding, subject: str, recorded: Recorded, error: Exception) -> None:
        """Put the fact aside, or leave the projection out; the others go on."""
        try:
            folding.failed(subject, recorded, error)
        except Exception as found:  # noqa: BLE001  (the others must go on)
            self._out[folding.projection.name] = found
        self._route()


def write_together(connection: sqlite3.Connection, followers: Sequence[Follower], end: int) -> None:
    """Write what each has gathered up to a position, and that position, in the caller's transaction.

    Raises:
        Apart: one of them was rebuilt by somebody else; what was written is to be undone.
        sqlite3.Error: one of them cannot be written; what was written is to be undone.
    """
    if not advance_all(connection, [(one.name, one.seen) for one in followers], end):
        raise Apart
    for one in followers:
        one.put(connection)
