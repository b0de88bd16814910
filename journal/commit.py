"""Read, decide, append at the versions that were read: the one way in which anything is recorded.

A decision is a synchronous function on top of ``journal.streams``. It returns facts for one or several streams and the
guards of every stream that it read. The append happens only if none of them has moved; otherwise the streams are read
again and the decision is made anew, at most ``MAX_ATTEMPTS`` times.

Nothing is visible before it is durable: states, registers, feed and listeners change after the append, in position
order, and before the caller is answered.

A command id takes effect at most once. It is recorded with the facts and the answer in one transaction, looked up
before deciding, and looked up again after every error: an error from an append means that its outcome is unknown, not
that it failed. Only commands that recorded facts are remembered; refusals and no-ops are decided anew.

A caller that is cancelled while its append is under way leaves its locks to the append: whoever comes next sees how it
ended.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from domain.values import Clock, Fact, Moment
from journal.application import MemoryJournal, SQLiteJournal
from journal.chain import Verdict
from journal.errors import (
    CommandRecorded,
    EpochChanged,
    IdempotencyMismatch,
    JournalContended,
    JournalTaken,
    OutcomeUnknown,
    StaleRead,
    UnreadableStorage,
)
from journal.feed import Feed
from journal.locks import Locks
from journal.mapper import Codec, Meta, Recorded
from journal.pending import Command, Pending, StoredFact
from journal.registers import Registers, Write
from journal.repeats import Fenceless, as_before
from journal.store import Store
from journal.streams import Streams
from journal.topics import FOLDS, Fold
from journal.writer import LoopWriter, ThreadWriter, Writer

MAX_ATTEMPTS = 8
"""How often a decision is made before a contended one is given up."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class Entry(msgspec.Struct, gc=False):
    """One fact of a decision, the stream it belongs to, and the correlation it is filed under (a run's id)."""

    stream: str
    fact: Fact
    correlation_id: str | None = None


class Decision(msgspec.Struct, Generic[T], eq=False, gc=False):
    """What was decided: facts in order, guards of every stream read (written ones too), the answer, register writes."""

    entries: Sequence[Entry]
    guards: Mapping[str, int]
    answer: T
    writes: Sequence[Write] = ()


class Context(msgspec.Struct, frozen=True):
    """Who asks, and because of what. ``command_id`` is set only when the caller sent an idempotency key."""

    tenant: str
    principal: str
    causation_id: str | None = None
    traceparent: str | None = None
    command_id: str | None = None
    request_digest: str | None = None
    fenceless: Fenceless | None = None
    """What earlier versions compared instead, when a fence was presented beside the request's body."""


class Done(msgspec.Struct, Generic[T], eq=False, gc=False):
    """The answer; the position of the last fact (None when nothing was appended); the facts appended now.

    A repeated command has the position of what it recorded the first time, and no facts.
    """

    answer: T
    position: int | None = None
    facts: Sequence[Recorded] = ()
    repeated: bool = False


class Journal:
    """An open journal: what was recorded, as of the last durable append, and the way to record more."""

    def __init__(
        self,
        application: SQLiteJournal | MemoryJournal,
        clock: Clock,
        mint: Callable[[], str],
        folds: Mapping[str, Fold] = FOLDS,
    ) -> None:
        self.application = application
        self.store: Store = application.store
        store = self.store
        self.streams = Streams(store, folds)
        self.registers = Registers(store)
        self.feed = Feed(store, store.tail.position)
        self.listeners: list[Callable[[Sequence[Recorded]], None]] = []
        self.last_append_at = _last_append_at(store)
        self.fault: str | None = None
        self._clock = clock
        self._mint = mint
        self._codec: Codec = store.codec
        self._locks = Locks()
        self._writer: Writer = (LoopWriter if store.kind == "memory" else ThreadWriter)(store, self._told)

    @property
    def kind(self) -> str:
        """``sqlite`` or ``memory``."""
        return self.store.kind

    @property
    def epoch(self) -> str:
        """The random id of this life of the journal; a restore begins another."""
        return self.store.epoch

    @property
    def position(self) -> int:
        """The position of the last published fact; 0 when there is none."""
        return self.feed.position

    @property
    def queued(self) -> int:
        """Decisions that wait for the writer or are being appended."""
        return self._writer.queued

    def start(self) -> None:
        """Accept decisions made in the running event loop."""
        self._writer.start(asyncio.get_running_loop())

    async def quiet(self, key: str) -> None:
        """Return once no decision holds this key."""
        await self._locks.quiet(key)

    def last_position(self, correlation_id: str) -> int:
        """The position of the last fact of a correlation (a run); 0 when it has none."""
        return self.store.last_position(correlation_id)

    def fresh(self, stream: str) -> None:
        """Note that a stream has no facts yet, so that neither its state nor a guard on it asks storage."""
        self.streams.fresh(stream)
        self._writer.fresh(stream)

    async def drain(self) -> None:
        """Return once nothing waits to be appended."""
        await self._writer.drain()

    async def close(self) -> None:
        """Refuse new decisions, finish those under way, and close the store."""
        await self._writer.close()
        self.application.close()

    def verify(self) -> Verdict:
        """What reading and checking every fact found; takes as long as reading the whole journal."""
        return self.store.verify()

    async def execute(
        self,
        locks: Sequence[str],
        decide: Callable[[Moment], Decision[T]],
        context: Context,
        *,
        encode: Callable[[T], bytes],
        decode: Callable[[bytes], T],
    ) -> Done[T]:
        """The answer of a decision that is durable, or of the command with the same id before it.

        ``locks`` are keys (runs) whose decisions must not overlap. ``encode`` and ``decode`` are used for the
        remembered answer of a command with an id.

        Raises:
            Refusal: whatever ``decide`` refused; nothing was appended or remembered.
            IdempotencyMismatch: the command id is recorded for another request.
            JournalBusy, JournalContended, JournalClosed: nothing was appended; come back.
            OutcomeUnknown: storage failed; only the same command id can tell.
        """
        keys = _keys(locks, context.command_id)
        if not self._locks.try_take(keys):
            await self._locks.take(keys)
        pending: Pending | None = None
        try:
            if context.command_id is not None and (known := self._remembered(context, decode)) is not None:
                return known
            for _ in range(MAX_ATTEMPTS):
                now = self._clock()
                decision = decide(now)
                if not decision.entries and not decision.writes:
                    return Done(decision.answer)
                pending = self._prepare(decision, now, context, encode)
                await self._writer.submit(pending)
                if (done := self._outcome(pending, decision, context, decode)) is not None:
                    return done
            raise JournalContended(next(iter(decision.guards), "?"), MAX_ATTEMPTS)
        except asyncio.CancelledError:
            if pending is not None and not pending.settled:
                pending.held, keys = keys, ()
            raise
        finally:
            self._locks.release(keys)

    def _prepare(self, decision: Decision[T], now: Moment, context: Context, encode: Callable[[T], bytes]) -> Pending:
        """The decision with versions, metadata and bytes."""
        guards, names, encoded, mint = decision.guards, self._codec.topics.names, self._codec.encode, self._mint
        command_id, principal, tenant = context.command_id, context.principal, context.tenant
        first_cause = context.causation_id or command_id
        heads: dict[str, int] = {}
        causes: dict[str | None, str] = {}
        rows: list[StoredFact] = []
        facts: list[tuple[Fact, Meta]] = []
        for entry in decision.entries:
            stream, fact, correlation = entry.stream, entry.fact, entry.correlation_id
            heads[stream] = version = (heads[stream] if stream in heads else guards[stream]) + 1
            fact_id = mint()
            cause = causes.get(correlation, first_cause)
            meta = Meta(fact_id, now.wall, cause, correlation, command_id, principal, tenant, context.traceparent)
            causes[correlation] = fact_id
            rows.append((stream, version, names[type(fact)], encoded(meta, fact, stream), correlation))
            facts.append((fact, meta))
        command = None
        if command_id is not None and rows:
            command = Command(command_id, context.request_digest, encode(decision.answer))
        return Pending(rows, facts, guards, decision.writes, command)

    def _remembered(self, context: Context, decode: Callable[[bytes], T]) -> Done[T] | None:
        """The answer recorded under the caller's command id; None when there is none."""
        assert context.command_id is not None
        row = self.store.command(context.command_id)
        if row is None:
            return None
        if row.request_digest != context.request_digest and not as_before(self.store, row, context.fenceless):
            raise IdempotencyMismatch(context.command_id)
        self._catch_up(row.last)
        return Done(decode(row.answer), row.last, repeated=True)

    def _outcome(
        self, pending: Pending, decision: Decision[T], context: Context, decode: Callable[[bytes], T]
    ) -> Done[T] | None:
        """What the append comes to; None when the decision is to be made again."""
        error = pending.error
        if error is None:
            facts = pending.stored
            return Done(decision.answer, facts[-1].position if facts else None, facts)
        self.streams.evict(decision.guards)
        self.registers.evict(decision.writes)
        if isinstance(error, StaleRead):
            return None
        if isinstance(error, EpochChanged | JournalTaken | UnreadableStorage):
            raise error
        try:
            done = self._found_by_id(pending, decision, context, decode)
        except IdempotencyMismatch:
            raise
        except Exception:
            log.exception("storage could not tell how an append ended")
            done = None
        if done is not None:
            return done
        if isinstance(error, CommandRecorded):
            return None
        raise OutcomeUnknown(str(error), context.command_id) from error

    def _found_by_id(
        self, pending: Pending, decision: Decision[T], context: Context, decode: Callable[[bytes], T]
    ) -> Done[T] | None:
        """The outcome of this very append or command, found in storage by the ids it carries."""
        if pending.command is not None:
            return self._remembered(context, decode)
        if not pending.rows:
            return None
        stream, version, _, state, _ = pending.rows[0]
        found = self.store.stored_at(stream, version)
        if found is None or found[1] != state:
            return None
        last = found[0] + len(pending.rows) - 1
        facts = self.store.facts_after(found[0] - 1, len(pending.rows))
        self._catch_up(last)
        return Done(decision.answer, last, facts)

    def _told(self, batch: Sequence[Pending]) -> None:
        """In the event loop, after an append: first what everybody sees, then the answers."""
        self._catch_up(self._writer.landed)
        facts: list[Recorded] = []
        writes: list[Write] = []
        position = self.feed.position
        for pending in batch:
            pending.settled = True
            if pending.error is None:
                recorded = pending.recorded()
                if recorded and pending.first > position:  # else it was found and told before its own turn
                    if pending.first > position + 1:
                        facts.extend(self._missing(position, pending.first - 1))
                    facts.extend(recorded)
                    position = recorded[-1].position
                writes.extend(pending.writes)
        self._publish(facts, writes)
        for pending in batch:
            if pending.held:
                self._locks.release(pending.held)
            waiter = pending.waiter
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _publish(self, facts: Sequence[Recorded], writes: Sequence[Write]) -> None:
        self.registers.apply(writes)
        if not facts:
            return
        self.streams.apply(facts)
        self.last_append_at = facts[-1].meta.recorded_at
        self.feed.publish(facts)
        for listener in self.listeners:
            try:
                listener(facts)
            except Exception as error:
                log.exception("a listener failed at positions %d to %d", facts[0].position, facts[-1].position)
                self.fault = self.fault or f"listener failed at position {facts[0].position}: {error!r}"

    def _catch_up(self, position: int) -> None:
        """Publish what is stored up to a position and was never told, because its append ended with an error."""
        if position > self.feed.position:
            self._publish(self._missing(self.feed.position, position), ())

    def _missing(self, after: int, upto: int) -> list[Recorded]:
        """Stored facts that were never told; a failure to read them is kept as the journal's fault."""
        try:
            return self.store.facts_after(after, upto - after)
        except Exception as error:
            log.exception("facts %d to %d were recorded and cannot be read back", after + 1, upto)
            self.fault = self.fault or f"facts {after + 1} to {upto} cannot be read back: {error!r}"
            return []


def _keys(locks: Sequence[str], command_id: str | None) -> Sequence[str]:
    """The distinct keys in order; the command id is one, so that a repeat waits for the first and finds its answer."""
    if command_id is not None:
        return sorted({*locks, f"command {command_id}"})
    return locks if len(locks) < 2 else sorted(set(locks))


def _last_append_at(store: Store) -> datetime | None:
    facts = store.facts_after(store.tail.position - 1, 1)
    return facts[0].meta.recorded_at if facts else None
