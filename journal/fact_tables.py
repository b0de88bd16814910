"""The facts' table in SQLite, read: by position, by stream, and by the run that facts are about.

Facts of a run are in the streams that are named after it, and those few that are filed under it elsewhere have an index
of their own. A fact whose bytes were moved to an archive is read from there, so nobody above knows where it is.

A long read takes a portion at a time, each a statement of its own: what is recorded never changes, so the portions fit
together, and no read keeps the log from being reset while the service writes.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from eventsourcing.persistence import Notification

from journal.archives import MARK, Archives
from journal.chain import Row, Tail
from journal.datastore import JournalDatastore
from journal.errors import UnreadableStorage
from journal.mapper import Codec, Recorded
from journal.pending import CommandRow
from journal.topics import RUN_SCOPED

PORTION = 2_000
"""Facts read in one statement of a long read."""

StoredRow = tuple[int, str, int, str, bytes]
"""What a fact is decoded from: position, stream, version, topic, state."""

_SELECT = "SELECT position, originator_id, originator_version, topic, state FROM stored_events "
_WHOLE = (
    "SELECT position, originator_id, originator_version, topic, state, correlation_id, hash FROM stored_events "
    "WHERE position > ? AND position <= ? ORDER BY position"
)
_LEAN = _SELECT + "WHERE position > ? AND position <= ? ORDER BY position"
_HALF = _SELECT + (
    "WHERE position > ? AND position <= ? AND (unicode(substr(originator_id, -1)) & 1) = ? ORDER BY position"
)
_AT = "WHERE position IN (SELECT value FROM json_each(?)) ORDER BY position"
HEAD = "SELECT max(originator_version) FROM stored_events WHERE originator_id = ?"
_OWN = ", ".join("?" * len(RUN_SCOPED))
_POSITIONS_OF = (
    f"SELECT position FROM stored_events WHERE originator_id IN ({_OWN}) AND position > ? "  # noqa: S608
    "UNION SELECT position FROM stored_events WHERE correlation_id = ? AND position > ? ORDER BY 1 LIMIT ?"
)
_SIZES = f"SELECT position, length(state) FROM stored_events WHERE position IN ({_POSITIONS_OF}) ORDER BY position"  # noqa: S608
_OF_RUN = f"WHERE position IN ({_POSITIONS_OF}) ORDER BY position"
_BEGUN = (
    "SELECT originator_id FROM stored_events WHERE correlation_id = ? AND originator_version = 1 "
    "AND originator_id GLOB ? ORDER BY position DESC LIMIT ?"
)
_LAST_IN = "(SELECT position FROM stored_events WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1)"
_LAST_OF = (
    "SELECT max(position) FROM (SELECT max(position) AS position FROM stored_events WHERE correlation_id = ? "  # noqa: S608
    + "".join(f"UNION ALL SELECT {_LAST_IN} " for _ in RUN_SCOPED)
    + ")"
)


def half_of(stream: str) -> int:
    """Which of two halves of all streams one belongs to: 0 or 1, and the same for all that end with the same id."""
    return ord(stream[-1]) & 1


class FactTables:
    """The reading side of facts, for a store with a datastore."""

    datastore: JournalDatastore
    codec: Codec
    archives: Archives

    def _read(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """Rows whose fifth value is the state of a fact, wherever that is kept."""
        whole = self.archives.whole
        return [whole(row) for row in self.datastore.read(statement, parameters)]

    def load_tail(self) -> Tail:
        """The end of the chain as it is stored now."""
        self.datastore.require_in_place()
        return Tail(*self.datastore.read("SELECT position, hash FROM tail")[0])

    def tail_at(self, position: int) -> Tail:
        """The end of the chain as it was when this position was the last; hash empty when it is not there."""
        rows = self.datastore.read("SELECT hash FROM stored_events WHERE position = ?", (position,))
        return Tail(position, rows[0][0] if rows else b"")

    def load_epoch(self) -> str:
        """The epoch as it is stored now."""
        return str(self.datastore.read("SELECT epoch FROM tail")[0][0])

    def head(self, stream: str) -> int:
        """The version of a stream's last fact; 0 when it has none."""
        rows = self.datastore.read(HEAD, (stream,))
        return rows[0][0] or 0

    def facts_after(self, position: int, limit: int, upto: int | None = None) -> list[Recorded]:
        """At most ``limit`` facts after a position and not beyond ``upto``, in order."""
        last = position + limit if upto is None else min(upto, position + limit)
        rows = self._read(_LEAN, (position, last))
        return [self.codec.recorded(row) for row in rows]

    def facts_at(self, positions: Sequence[int]) -> list[Recorded]:
        """The facts at these ascending positions, in order; those that are not there are left out."""
        rows = self._read(_SELECT + _AT, (json.dumps(list(positions)),))
        return [self.codec.recorded(row) for row in rows]

    def facts_of(self, correlation_id: str, after: int, limit: int) -> list[Recorded]:
        """At most ``limit`` facts of one correlation after a position, in order."""
        own = (f"{kind}-{correlation_id}" for kind in RUN_SCOPED)
        rows = self._read(_SELECT + _OF_RUN, (*own, after, correlation_id, after, limit))
        return [self.codec.recorded(row) for row in rows]

    def facts_within(self, correlation_id: str, after: int, limit: int, size: int) -> list[Recorded]:
        """Like ``facts_of``, and no more than until their stored bytes come to ``size``; one at least, if there is."""
        own = (f"{kind}-{correlation_id}" for kind in RUN_SCOPED)
        positions: list[int] = []
        for position, stored in self.datastore.read(_SIZES, (*own, after, correlation_id, after, limit)):
            positions.append(position)
            size -= stored or 0
            if size <= 0:
                break
        return self.facts_at(positions)

    def positions_of(self, correlation_id: str) -> list[int]:
        """The positions of all facts of one correlation, in order."""
        own = (f"{kind}-{correlation_id}" for kind in RUN_SCOPED)
        return [row[0] for row in self.datastore.read(_POSITIONS_OF, (*own, 0, correlation_id, 0, -1))]

    def last_position(self, correlation_id: str) -> int:
        """The position of the last fact of a correlation; 0 when it has none."""
        own = (f"{kind}-{correlation_id}" for kind in RUN_SCOPED)
        rows = self.datastore.read(_LAST_OF, (correlation_id, *own))
        return rows[0][0] or 0

    def streams_of(self, correlation_id: str, prefix: str, limit: int) -> list[str]:
        """Streams of one correlation whose names begin so, in the order in which they began; at most the last."""
        rows = self.datastore.read(_BEGUN, (correlation_id, f"{prefix}*", limit))
        return [row[0] for row in reversed(rows)]

    def stream(self, name: str) -> list[Recorded]:
        """All facts of a stream, in order."""
        rows = self._read(_SELECT + "WHERE originator_id = ? ORDER BY originator_version", (name,))
        return [self.codec.recorded(row) for row in rows]

    def stored_at(self, stream: str, version: int) -> tuple[int, bytes] | None:
        """The position and the stored bytes of one fact; None when there is none."""
        self.datastore.require_in_place()
        rows = self._read(_SELECT + "WHERE originator_id = ? AND originator_version = ?", (stream, version))
        return (rows[0][0], rows[0][4]) if rows else None

    def command(self, command_id: str) -> CommandRow | None:
        """What is remembered under a command id."""
        self.datastore.require_in_place()
        rows = self.datastore.read(
            "SELECT request_digest, first, last, answer FROM commands WHERE command_id = ?", (command_id,)
        )
        return CommandRow(*rows[0]) if rows else None

    def rows_after(self, position: int, upto: int | None = None) -> Iterator[Row]:
        """Every stored row after a position and not beyond ``upto`` (what is there when it begins), undecoded.

        Raises:
            UnreadableStorage: SQLite met a page that makes no sense.
            ArchiveUnusable: a fact is in an archive that is missing or altered.
        """
        last = self.last_stored() if upto is None else upto
        whole = self.archives.whole
        while position < last:
            portion = min(last, position + PORTION)
            for row in self._portion(position, portion):
                yield whole(row)
            position = portion

    def portion_after(self, position: int, upto: int, half: int | None = None) -> tuple[int, list[StoredRow]]:
        """The ``PORTION`` positions after one, not beyond ``upto``: the last of them, and what facts are decoded from.

        With a ``half`` (0 or 1) only the facts of every second stream (``half_of``).

        Raises:
            UnreadableStorage: SQLite met a page that makes no sense.
            ArchiveUnusable: a fact is in an archive that is missing or altered.
        """
        end, whole = min(upto, position + PORTION), self.archives.whole
        rows = self.datastore.read(*((_LEAN, (position, end)) if half is None else (_HALF, (position, end, half))))
        return end, [row if row[4][:1] != MARK else whole(row) for row in rows]

    def last_stored(self) -> int:
        """The highest position that is stored, whatever the tail says."""
        return self.datastore.read("SELECT max(position) FROM stored_events")[0][0] or 0

    def _portion(self, after: int, upto: int) -> Iterator[Row]:
        try:
            yield from self.datastore.read(_WHOLE, (after, upto))
        except UnreadableStorage:
            yield from self.datastore.scan(_WHOLE, (after, upto))  # one by one: those before the bad page are given

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """The library's view of the facts from a position on: its own statement cannot name our key."""
        first = 1 if start is None else start + (not inclusive_of_start)
        statement = _SELECT + "WHERE position >= ? "
        parameters: list[Any] = [first]
        if stop is not None:
            statement += "AND position <= ? "
            parameters.append(stop)
        if topics:
            statement += f"AND topic IN ({', '.join('?' * len(topics))}) "
            parameters.extend(topics)
        rows = self._read(statement + "ORDER BY position LIMIT ?", (*parameters, limit))
        return [Notification(row[1], row[2], row[3], row[4], row[0]) for row in rows]
