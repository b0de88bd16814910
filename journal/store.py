"""What a store of facts promises, and the one that keeps them in SQLite.

``append`` puts several decisions into ONE transaction of the library (one fsync) through its documented hook
``_insert_events(cursor, stored_events, **kwargs)``: facts under the next positions with their hashes, remembered
answers and register writes. Either everything in it is durable or nothing is. Versions are guarded in the insert: one
that exists breaks the unique index, and the tail moves only if every version follows one that is there, if the journal
is in the epoch in which it was opened, if nobody has opened it since to write, and if it ends where the append began.

The kernel's lock on the data directory is what keeps a second writer out; it can be lost, since a lock file that is
removed is none any more. So whoever opens a journal to write also *claims* it, in the journal itself, and from then on
the one before appends nothing: it would go by what it knew, and judge by clocks that nobody tells anything.

``tail`` is the end of the chain as of the last append known to be durable; ``expected`` is where the append under way
would lead. After an error the two tell, with ``load_tail``, whether the append happened.
"""

import functools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from eventsourcing.persistence import IntegrityError, OperationalError, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteCursor

from journal.archives import Archives
from journal.chain import Row, Tail, Verdict
from journal.datastore import JournalDatastore
from journal.errors import CommandRecorded, EpochChanged, JournalError, JournalTaken, StaleRead, UnreadableStorage
from journal.fact_tables import HEAD, FactTables, StoredRow
from journal.mapper import Codec, Recorded
from journal.pending import Batch, CommandRow, Pending, StoredFact
from journal.register_tables import RegisterTables, write_registers
from journal.registers import RegisterSource
from journal.schema import TABLES
from journal.topics import own_run
from journal.verifying import Reported, Verification, unreported


class Store(RegisterSource, Protocol):
    """Facts, remembered answers and registers behind one contract; reads see only what is durable."""

    kind: str
    codec: Codec
    epoch: str
    journal_id: str
    writer: str | None
    tail: Tail
    expected: Tail

    def append(self, batch: Batch) -> None:
        """Make the batch durable as it was made up.

        Raises:
            IntegrityError: something in it contradicts what is recorded; nothing was appended.
            EpochChanged: the journal was restored or promoted; nothing was appended.
            JournalTaken: another process has claimed the journal since; nothing was appended.
        """

    def append_each(self, pendings: Sequence[Pending]) -> None:
        """Make durable together those whose guards hold and that contradict nothing; set ``error`` of the rest."""

    def load_tail(self) -> Tail:
        """The end of the chain as it is stored now."""

    def head(self, stream: str) -> int:
        """The version of a stream's last fact; 0 when it has none."""

    def facts_after(self, position: int, limit: int, upto: int | None = None) -> list[Recorded]:
        """At most ``limit`` facts after a position and not beyond ``upto``, in order."""

    def facts_at(self, positions: Sequence[int]) -> list[Recorded]:
        """The facts at these ascending positions, in order; those that are not there are left out."""

    def tail_at(self, position: int) -> Tail:
        """The end of the chain as it was when this position was the last; hash empty when it is not there."""

    def facts_of(self, correlation_id: str, after: int, limit: int) -> list[Recorded]:
        """At most ``limit`` facts of one correlation after a position, in order."""

    def facts_within(self, correlation_id: str, after: int, limit: int, size: int) -> list[Recorded]:
        """Like ``facts_of``, and no more than until their stored bytes come to ``size``; one at least, if there is."""

    def stream(self, name: str) -> list[Recorded]:
        """All facts of a stream, in order."""

    def stored_at(self, stream: str, version: int) -> tuple[int, bytes] | None:
        """The position and the stored bytes of one fact; None when there is none."""

    def command(self, command_id: str) -> CommandRow | None:
        """What is remembered under a command id."""

    def verify(self, report: Reported = unreported) -> Verdict:
        """What reading and checking every fact found; told how far it is."""

    def last_position(self, correlation_id: str) -> int:
        """The position of the last fact of a correlation; 0 when it has none."""

    def streams_of(self, correlation_id: str, prefix: str, limit: int) -> list[str]:
        """Streams of one correlation whose names begin so, in the order in which they began; at most the last."""

    def rows_after(self, position: int, upto: int | None = None) -> Iterator[Row]:
        """Every stored row after a position and not beyond ``upto``, in order, undecoded."""

    def portion_after(self, position: int, upto: int, half: int | None = None) -> tuple[int, list[StoredRow]]:
        """Some positions after one, not beyond ``upto``: the last, and what facts (of a half) are decoded from."""


_INSERT_FACTS = "INSERT INTO stored_events VALUES "
_COLUMNS = 7
_ROW = "(?, ?, ?, ?, ?, ?, ?)"
_COARSE, _MOST = 64, 1_024
"""Rows in one INSERT: up to 63, or a multiple of 64 up to 1,024, so that few prepared statements serve any batch."""

_INSERT_COMMAND = "INSERT INTO commands VALUES (?, ?, ?, ?, ?)"
_MOVE_TAIL = (
    "UPDATE tail SET position = ?, hash = ? WHERE epoch = ? AND position = ? AND hash = ? "
    "AND (SELECT value FROM meta WHERE key = 'writer') IS ? AND NOT EXISTS ("
    "SELECT 1 FROM stored_events AS fact WHERE position > ? AND originator_version <> 1 AND NOT EXISTS ("
    "SELECT 1 FROM stored_events WHERE originator_id = fact.originator_id "
    "AND originator_version = fact.originator_version - 1))"
)
"""Moves the tail if the journal is where the append began, its writer is who appends, and every version inserted
follows one that is there."""

_WRITER = "SELECT value FROM meta WHERE key = 'writer'"
_CLAIM = "INSERT OR REPLACE INTO meta VALUES ('writer', lower(hex(randomblob(16)))) RETURNING value"


def stored_fact(event: StoredEvent, codec: Codec) -> StoredFact:
    """A stored event of the library as a fact that is ready to be stored."""
    stream, version = str(event.originator_id), event.originator_version
    meta = codec.decode(event.topic, event.state, stream, version).meta
    return stream, version, event.topic, event.state, meta.correlation_id


def require_guards(pending: Pending, head: Callable[[str], int]) -> None:
    """Nothing, when every guard is the head of its stream.

    Raises:
        StaleRead: one is not.
    """
    for stream, version in pending.guards.items():
        found = head(stream)
        if found != version:
            raise StaleRead(stream, version, found)


def stale_by(pending: Pending, error: Exception) -> StaleRead:
    """The error as a lost race, after which the decision is made again."""
    if isinstance(error, StaleRead):
        return error
    stale = StaleRead(*next(iter(pending.guards.items()), ("?", 0)))
    stale.__cause__ = error
    return stale


@functools.cache
def _insert_of(rows: int) -> str:
    return _INSERT_FACTS + ", ".join([_ROW] * rows)


def insert_facts(c: SQLiteCursor, parameters: Sequence[Any]) -> None:
    """Insert rows in few statements: each is one step without the interpreter, instead of one for each row."""
    start, left = 0, len(parameters) // _COLUMNS
    while left:
        rows = min(left, _MOST) if left < _COARSE else min(left // _COARSE * _COARSE, _MOST)
        end = start + rows * _COLUMNS
        c.execute(_insert_of(rows), parameters[start:end])
        start, left = end, left - rows


def leave_out_own(parameters: list[Any]) -> None:
    """Leave out of rows the correlation that their stream is named after, which is nearly everyone's."""
    for place in range(5, len(parameters), _COLUMNS):
        correlation = parameters[place]
        if correlation is not None and own_run(parameters[place - 4]) == correlation:
            parameters[place] = None


class SQLiteStore(FactTables, RegisterTables, SQLiteApplicationRecorder):
    """The library's recorder over our tables; ``bind`` makes it ready once the mapper is known."""

    datastore: JournalDatastore
    kind = "sqlite"
    codec: Codec
    epoch: str
    journal_id: str
    writer: str | None
    tail: Tail
    expected: Tail

    def construct_create_table_statements(self) -> list[str]:
        """The tables of a new journal."""
        return list(TABLES)

    def bind(self, codec: Codec) -> None:
        """Take the codec, open the writing connection, and read the journal's id, epoch and tail."""
        self.codec = codec
        self.archives = Archives(Path(self.datastore.pool.db_name).parent, self.datastore)
        if not self.datastore.readonly:
            with self.datastore.get_connection(commit=True):
                pass  # opened now, so that it is checked now and closed last, when it takes the log away
        self.epoch = self.load_epoch()
        self.journal_id = str(self.datastore.read("SELECT value FROM meta WHERE key = 'journal_id'")[0][0])
        self.writer = self._writer_of(self.datastore.read(_WRITER))
        self.tail = self.expected = self.load_tail()

    def claim(self) -> None:
        """Be the one who writes from now on: whoever opened the journal before appends nothing more."""
        with self.datastore.transaction(commit=True) as c:
            c.execute(_CLAIM)
            self.writer = self._writer_of(c.fetchall())
        self.tail = self.expected = self.load_tail()  # of whatever was appended up to the claim

    @staticmethod
    def _writer_of(rows: Sequence[Any]) -> str | None:
        return str(rows[0][0]) if rows else None

    # Appending

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """The library's own way in: positions of the facts, appended like any others."""
        with self.datastore.transaction(commit=True) as c:
            positions = self._insert_events(c, stored_events, **kwargs)
        self.tail = self.expected
        return positions

    def append(self, batch: Batch) -> None:
        """Make the batch durable as it was made up."""
        try:
            with self.datastore.transaction(commit=True) as c:
                self._insert_events(c, (), batch=batch)
        except IntegrityError:
            with self.datastore.transaction(commit=False) as c:
                self._require_place(c, batch.before)
            raise
        self._committed()

    def append_each(self, pendings: Sequence[Pending]) -> None:
        """Make durable together those whose guards hold and that contradict nothing; set ``error`` of the rest."""
        with self.datastore.transaction(commit=True) as c:
            self._require_place(c, self.tail)
            self.expected = self.tail
            for pending in pendings:
                c.execute("SAVEPOINT decision")
                before = self.expected
                try:
                    require_guards(pending, lambda stream: self._head(c, stream))
                    self._insert_events(c, (), batch=Batch.of([pending], before))
                except (StaleRead, IntegrityError, sqlite3.IntegrityError) as error:
                    c.execute("ROLLBACK TO decision")
                    self.expected = before
                    pending.error = self._refusal(c, pending, error)
                c.execute("RELEASE decision")
        self._committed()

    def _insert_events(
        self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], *, batch: Batch | None = None, **_: Any
    ) -> Sequence[int] | None:
        if batch is None:
            facts = [stored_fact(event, self.codec) for event in stored_events]
            batch = Batch.of([Pending(facts, guards={})], self.tail)
        self.expected = batch.after
        if batch.parameters:
            leave_out_own(batch.parameters)
            insert_facts(c, batch.parameters)
        c.execute(_MOVE_TAIL, (*batch.after, self.epoch, *batch.before, self.writer, batch.before.position))
        if c.sqlite_cursor.rowcount != 1:
            self._require_place(c, batch.before)
            message = "a version follows one that is not recorded"
            raise IntegrityError(message)
        for pending in batch.accepted:
            if pending.command is not None:
                command_id, request_digest, answer = pending.command
                last = pending.first + len(pending.rows) - 1
                c.execute(_INSERT_COMMAND, (command_id, request_digest, pending.first, last, answer))
            if pending.writes:
                write_registers(c, pending.writes)
        return range(batch.before.position + 1, batch.after.position + 1)

    def _require_place(self, c: SQLiteCursor, before: Tail) -> None:
        c.execute("SELECT epoch, position, hash FROM tail")
        epoch, position, digest = c.fetchone() or ("none", 0, b"")
        if epoch != self.epoch:
            raise EpochChanged(self.epoch, epoch)
        c.execute(_WRITER)
        writer = self._writer_of(c.fetchall())
        if writer != self.writer:
            raise JournalTaken(self.writer, writer)
        if (position, digest) != before:
            message = f"the journal ends at {position}, and {before.position} was expected"
            raise OperationalError(message)

    def _committed(self) -> None:
        """After a commit, before anybody is told: it counts if it went into the files that are there."""
        try:
            self.datastore.require_in_place()
        except UnreadableStorage as error:
            raise OperationalError(error.message) from error
        self.tail = self.expected
        self.datastore.reached.note(self.epoch, self.tail.position)

    def _head(self, c: SQLiteCursor, stream: str) -> int:
        c.execute(HEAD, (stream,))
        return c.fetchone()[0] or 0

    def _refusal(self, c: SQLiteCursor, pending: Pending, error: Exception) -> JournalError:
        if pending.command is not None:
            c.execute("SELECT 1 FROM commands WHERE command_id = ?", (pending.command.command_id,))
            if c.fetchone():
                return CommandRecorded(pending.command.command_id)
        return stale_by(pending, error)

    # Checking

    def verify(self, report: Reported = unreported) -> Verdict:
        """What reading and checking everything found: chain, payloads, indexes, contiguity, epoch, output, answers."""
        return Verification(self, report).verdict()

    def check_pages(self, report: Reported = unreported) -> str | None:
        """What SQLite finds wrong in the pages of a table and its indexes, one table after another; None if nothing."""
        tables = [row[0] for row in self.datastore.read("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for done, table in enumerate(tables):
            report(done, len(tables))
            found = str(self.datastore.check(table))
            if found != "ok":
                return f"{table}: {' '.join(found.split())}"
        report(len(tables), len(tables))
        return None
