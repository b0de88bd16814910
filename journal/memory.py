"""The store in memory: for tests, simulations and trials. Nothing survives the process; every other promise holds.

A decision is checked whole before any of it is taken over, so an append is atomic without a log to undo.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventsourcing.persistence import IntegrityError, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder, POPOFactory

from journal.chain import Row, Tail, Verdict, genesis, link, verify_rows
from journal.errors import CommandRecorded, EpochChanged, JournalError, StaleRead
from journal.mapper import Codec, Recorded
from journal.pending import CommandRow, Pending
from journal.registers import RegisterMaps
from journal.store import stored_fact


class MemoryStore(RegisterMaps, POPOApplicationRecorder):
    """The library's in-memory recorder with our promises; ``bind`` makes it ready."""

    kind = "memory"
    codec: Codec
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
        self.tail = self.expected = Tail(0, genesis(journal_id))

    # Appending

    def append(self, pendings: Sequence[Pending]) -> None:
        """Take over all of these, or none."""
        with self._database_lock:
            self._require_epoch()
            heads: dict[str, int] = {}
            commands: set[str] = set()
            for pending in pendings:
                self._check(pending, heads, commands)
            for pending in pendings:
                self._take(pending)

    def append_each(self, pendings: Sequence[Pending], admit: Callable[[Pending], bool]) -> None:
        """Take over those that are admitted and contradict nothing; set ``error`` of the rest."""
        with self._database_lock:
            self._require_epoch()
            for pending in pendings:
                if not admit(pending):
                    continue
                try:
                    self._check(pending, {}, set())
                except IntegrityError as error:
                    pending.error = self._verdict_on(pending, error)
                else:
                    self._take(pending)

    def _insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        rows = [stored_fact(event, self.codec) for event in stored_events]
        pending = Pending(rows, guards={})
        self.append([pending])
        return range(pending.first, pending.first + len(rows))

    def _require_epoch(self) -> None:
        if self.stored_epoch != self.epoch:
            raise EpochChanged(self.epoch, self.stored_epoch)

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

    def _take(self, pending: Pending) -> None:
        position, digest = self.tail
        pending.first = position + 1 if pending.rows else 0
        for stream, version, topic, state, correlation_id in pending.rows:
            position += 1
            digest = link(digest, position, stream, version, topic, state)
            self._rows.append((position, stream, version, topic, state, correlation_id, digest))
            self._heads[stream] = version
            self._update_table([StoredEvent(stream, version, topic, state)])
            if correlation_id is not None:
                self._correlated.setdefault(correlation_id, []).append(position)
        if pending.command is not None:
            command_id, request_digest, answer = pending.command
            self._commands[command_id] = CommandRow(request_digest, pending.first, position, answer)
        self.write(pending.writes)
        self.tail = self.expected = Tail(position, digest)

    def _verdict_on(self, pending: Pending, error: Exception) -> JournalError:
        if pending.command is not None and pending.command.command_id in self._commands:
            return CommandRecorded(pending.command.command_id)
        stale = StaleRead(*next(iter(pending.guards.items()), ("?", 0)))
        stale.__cause__ = error
        return stale

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
        return [self.codec.recorded(row) for row in self._rows[max(position, 0):max(last, 0)]]

    def facts_of(self, correlation_id: str, after: int, limit: int) -> list[Recorded]:
        """At most ``limit`` facts of one correlation after a position, in order."""
        positions = [p for p in self._correlated.get(correlation_id, ()) if p > after][:limit]
        return [self.codec.recorded(self._rows[p - 1]) for p in positions]

    def last_position(self, correlation_id: str) -> int:
        """The position of the last fact of a correlation; 0 when it has none."""
        return max(self._correlated.get(correlation_id, (0,)))

    def stream(self, name: str) -> list[Recorded]:
        """All facts of a stream, in order."""
        index = self._stored_events_index[name] if name in self._heads else {}
        return [self.codec.recorded(self._rows[place]) for place in index.values()]

    def stored_at(self, stream: str, version: int) -> tuple[int, bytes] | None:
        """The position and the bytes of one fact; None when there is none."""
        if not 0 < version <= self._heads.get(stream, 0):
            return None
        row = self._rows[self._stored_events_index[stream][version]]
        return row[0], row[4]

    def command(self, command_id: str) -> CommandRow | None:
        """What is remembered under a command id."""
        return self._commands.get(command_id)

    def rows_after(self, position: int) -> Iterator[Row]:
        """Every row after a position, in order, undecoded."""
        return iter(self._rows[position:])

    def verify(self) -> Verdict:
        """What reading and checking every fact found."""
        return verify_rows(iter(self._rows), Tail(0, genesis(self.journal_id)), self.tail, self.codec.correlation_of)


class MemoryFactory(POPOFactory):
    """The library's factory that gives our recorder."""

    def application_recorder(self) -> MemoryStore:
        """An empty store."""
        return MemoryStore()
