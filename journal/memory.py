"""The store in memory: for tests, simulations and trials. Nothing survives the process; every other promise holds.

A decision is checked whole before any of it is taken over, so an append is atomic without a log to undo.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from eventsourcing.persistence import IntegrityError, OperationalError, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder, POPOFactory

from journal.chain import Row, Tail, Verdict, genesis, verify_rows
from journal.errors import CommandRecorded, EpochChanged, JournalError, JournalTaken, StaleRead
from journal.fact_tables import PORTION, StoredRow, half_of
from journal.mapper import Codec, Recorded
from journal.pending import Batch, CommandRow, Pending
from journal.registers import RegisterMaps
from journal.store import require_guards, stale_by, stored_fact
from journal.verifying import Reported, unreported


class MemoryStore(RegisterMaps, POPOApplicationRecorder):
    """The library's in-memory recorder with our promises; ``bind`` makes it ready."""

    kind = "memory"
    codec: Codec
    journal_id: str
    writer: str | None
    stored_writer: str | None
    tail: Tail
    expected: Tail

    def __init__(self) -> None:
        RegisterMaps.__init__(self)
        POPOApplicationRecorder.__init__(self)
        self._rows: list[Row] = []
        self._heads: dict[str, int] = {}
        self._commands: dict[str, CommandRow] = {}
        self._correlated: dict[str, list[int]] = {}

    def bind(self, codec: Codec, journal_id: str, epoch: str) -> None:
        """Take the codec, and begin an empty journal."""
        self.codec = codec
        self.journal_id = journal_id
        self.epoch = self.stored_epoch = epoch
        self.writer = self.stored_writer = epoch
        self.tail = self.expected = Tail(0, genesis(journal_id))

    # Appending

    def append(self, batch: Batch) -> None:
        """Take over the whole batch, or nothing."""
        with self._database_lock:
            self._require_place(batch.before)
            heads: dict[str, int] = {}
            commands: set[str] = set()
            for pending in batch.accepted:
                self._check(pending, heads, commands)
            self._take(batch)

    def append_each(self, pendings: Sequence[Pending]) -> None:
        """Take over those whose guards hold and that contradict nothing; set ``error`` of the rest."""
        with self._database_lock:
            self._require_place(self.tail)
            for pending in pendings:
                try:
                    require_guards(pending, self.head)
                    self._check(pending, {}, set())
                except (StaleRead, IntegrityError) as error:
                    pending.error = self._refusal(pending, error)
                else:
                    self._take(Batch.of([pending], self.tail))

    def _insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        batch = Batch.of([Pending([stored_fact(event, self.codec) for event in stored_events], guards={})], self.tail)
        self.append(batch)
        return range(batch.before.position + 1, batch.after.position + 1)

    def _require_place(self, before: Tail) -> None:
        if self.stored_epoch != self.epoch:
            raise EpochChanged(self.epoch, self.stored_epoch)
        if self.stored_writer != self.writer:
            raise JournalTaken(self.writer, self.stored_writer)
        if before != self.tail:
            message = f"the journal ends at {self.tail.position}, and {before.position} was expected"
            raise OperationalError(message)

    def _check(self, pending: Pending, heads: dict[str, int], commands: set[str]) -> None:
        for stream, version, *_ in pending.rows:
            if version != heads.get(stream, self._heads.get(stream, 0)) + 1:
                message = f"{stream}@{version} is recorded already, or follows a version that is not"
                raise IntegrityError(message)
            heads[stream] = version
        if pending.command is not None:
            command_id = pending.command.command_id
            if command_id in self._commands or command_id in commands:
                message = f"command {command_id} is recorded already"
                raise IntegrityError(message)
            commands.add(command_id)
        if self.conflict(pending.writes):
            message = "a chunk is recorded already"
            raise IntegrityError(message)

    def _take(self, batch: Batch) -> None:
        parameters = iter(batch.parameters)
        for row in zip(*[parameters] * 7, strict=True):
            position, stream, version, topic, state, correlation_id, _ = row
            self._rows.append(row)
            self._heads[stream] = version
            self._update_table([StoredEvent(stream, version, topic, state)])
            if correlation_id is not None:
                self._correlated.setdefault(correlation_id, []).append(position)
        for pending in batch.accepted:
            if pending.command is not None:
                command_id, request_digest, answer = pending.command
                last = pending.first + len(pending.rows) - 1
                self._commands[command_id] = CommandRow(request_digest, pending.first, last, answer)
            self.write(pending.writes)
        self.tail = self.expected = batch.after

    def _refusal(self, pending: Pending, error: Exception) -> JournalError:
        if pending.command is not None and pending.command.command_id in self._commands:
            return CommandRecorded(pending.command.command_id)
        return stale_by(pending, error)

    # Reading

    def load_tail(self) -> Tail:
        """The end of the chain."""
        return self.tail

    def head(self, stream: str) -> int:
        """The version of a stream's last fact; 0 when it has none."""
        return self._heads.get(stream, 0)

    def facts_after(self, position: int, limit: int, upto: int | None = None) -> list[Recorded]:
        """At most ``limit`` facts after a position and not beyond ``upto``, in order."""
        last = position + limit if upto is None else min(upto, position + limit)
        return [self.codec.recorded(row) for row in self._rows[max(position, 0) : max(last, 0)]]

    def facts_at(self, positions: Sequence[int]) -> list[Recorded]:
        """The facts at these ascending positions, in order; those that are not there are left out."""
        return [self.codec.recorded(self._rows[place - 1]) for place in positions if 0 < place <= len(self._rows)]

    def tail_at(self, position: int) -> Tail:
        """The end of the chain as it was when this position was the last; hash empty when it is not there."""
        there = 0 < position <= len(self._rows)
        return Tail(position, self._rows[position - 1][6] if there else b"")

    def facts_of(self, correlation_id: str, after: int, limit: int) -> list[Recorded]:
        """At most ``limit`` facts of one correlation after a position, in order."""
        positions = [p for p in self._correlated.get(correlation_id, ()) if p > after][:limit]
        return [self.codec.recorded(self._rows[p - 1]) for p in positions]

    def facts_within(self, correlation_id: str, after: int, limit: int, size: int) -> list[Recorded]:
        """Like ``facts_of``, and no more than until their stored bytes come to ``size``; one at least, if there is."""
        facts: list[Recorded] = []
        for recorded in self.facts_of(correlation_id, after, limit):
            facts.append(recorded)
            size -= len(self._rows[recorded.position - 1][4])
            if size <= 0:
                break
        return facts

    def last_position(self, correlation_id: str) -> int:
        """The position of the last fact of a correlation; 0 when it has none."""
        return max(self._correlated.get(correlation_id, (0,)))

    def streams_of(self, correlation_id: str, prefix: str, limit: int) -> list[str]:
        """Streams of one correlation whose names begin so, in the order in which they began; at most the last."""
        rows = [self._rows[position - 1] for position in self._correlated.get(correlation_id, ())]
        named = dict.fromkeys(row[1] for row in rows if row[1].startswith(prefix))
        return list(named)[-limit:]

    def stream(self, name: str) -> list[Recorded]:
        """All facts of a stream, in order."""
        index = self._stored_events_index[name] if name in self._heads else {}
        return [self.codec.recorded(self._rows[place]) for place in list(index.values())]

    def stored_at(self, stream: str, version: int) -> tuple[int, bytes] | None:
        """The position and the bytes of one fact; None when there is none."""
        if not 0 < version <= self._heads.get(stream, 0):
            return None
        row = self._rows[self._stored_events_index[stream][version]]
        return row[0], row[4]

    def command(self, command_id: str) -> CommandRow | None:
        """What is remembered under a command id."""
        return self._commands.get(command_id)

    def rows_after(self, position: int, upto: int | None = None) -> Iterator[Row]:
        """Every row after a position and not beyond ``upto``, in order, undecoded."""
        return iter(self._rows[position:upto])

    def portion_after(self, position: int, upto: int, half: int | None = None) -> tuple[int, list[StoredRow]]:
        """The ``PORTION`` positions after one, not beyond ``upto``: the last, and what facts are decoded from."""
        end = min(upto, position + PORTION)
        return end, [row[:5] for row in self._rows[position:end] if half is None or half_of(row[1]) == half]

    def verify(self, report: Reported = unreported) -> Verdict:
        """What reading and checking every fact found."""
        report(len(self._rows), len(self._rows))
        return verify_rows(iter(self._rows), Tail(0, genesis(self.journal_id)), self.tail, self.codec.correlation_of)


class MemoryFactory(POPOFactory):
    """The library's factory that gives our recorder."""

    def application_recorder(self) -> MemoryStore:
        """An empty store."""
        return MemoryStore()
