"""The one writer: a bounded queue, batches made up in the event loop, one transaction for each.

Batching is natural. While one append waits for its fsync, decisions gather in the next batch, up to ``MAX_BATCH``. A
single caller never waits for company, and a thousand callers share a handful of fsyncs. One batch is being written and
one may wait behind it, so the writing thread is never idle while there is work.

A decision joins a batch if its guards hold against the heads of streams as the batches before will leave them; a stale
one is refused alone, and told together with the batch, when the streams it lost to have become visible. A head that is
not known is read, except for a stream that begins with the decision: there the insert is the check. Positions and
hashes are given here as well, so that the writing thread does little more than wait for SQLite: it needs the
interpreter a few times for each batch, and asks for a short switch interval to get it.

Whatever did not go straight is done carefully: one decision after another in one transaction, with guards compared with
storage and a savepoint each, so that only the guilty one is refused. That is the case when the insert finds a
contradiction, and when the batch before did not end where this one begins.

Any other error leaves the outcome open. The end of the chain in storage decides it: where the append would have led, it
happened; where it began, it did not. When storage cannot even tell that, the decisions of the batch are answered
"unknown", and nothing is appended until the end of the chain has been read again. The writer itself never stops for an
error: reads go on, and appends go on as soon as storage lets them (a full disk that gets space).

Everything of a batch is told to the event loop in one call, in order.
"""

import asyncio
import queue
import sqlite3
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from eventsourcing.persistence import IntegrityError

from journal.chain import Tail
from journal.errors import JournalBusy, JournalClosed, JournalError, StaleRead, UnreadableStorage
from journal.pending import Batch, Pending
from journal.store import Store

MAX_QUEUED = 10_000
"""Decisions that may wait or be under way; beyond it callers are told to come back."""

MAX_BATCH = 2_000
"""Most decisions in one transaction."""

HAND_OVER_AT = 512
"""Decisions at which a batch is handed over while the loop goes on deciding; others wait for the loop's turn."""

MAX_HEADS = 200_000
"""Heads of streams remembered; beyond it all are forgotten but those of facts under way, and are read when needed."""

SWITCH_INTERVAL_S = 0.00005
"""How long the event loop may keep the interpreter from the writing thread; Python's own default is 5 ms."""

Told = Callable[[Sequence[Pending]], None]
"""Takes a finished batch's decisions, in the event loop."""


class Writer(ABC):
    """Appends what is submitted, in order. All but ``_commit`` belongs to the event loop."""

    ahead = 1
    """Batches that may be handed over and not yet finished."""

    def __init__(self, store: Store, told: Told, *, max_queued: int = MAX_QUEUED, max_batch: int = MAX_BATCH) -> None:
        self._store = store
        self._told = told
        self._max_queued = max_queued
        self._max_batch = max_batch
        self._heads: dict[str, int] = {}
        self._last = Batch(store.tail)
        self._open: Batch | None = None
        self._ready: deque[Batch] = deque()
        self._under_way: deque[Batch] = deque()
        self._strayed = False
        self._flush_planned = False
        self._tail_unsure = False
        self._queued = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.landed = 0
        """Up to here storage held facts when it answered again after an error."""

    @property
    def queued(self) -> int:
        """Decisions that wait or are under way."""
        return self._queued

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept decisions made in this loop."""
        self._loop = loop

    def submit(self, pending: Pending) -> asyncio.Future[None]:
        """Queue a decision; done once its outcome is known, which is then in the decision itself.

        Raises:
            JournalBusy: the queue is full.
            JournalClosed: the writer was closed.
        """
        loop = self._loop
        if loop is None or self._closed:
            raise JournalClosed
        if self._queued >= self._max_queued:
            raise JournalBusy(self._queued)
        pending.waiter = waiter = loop.create_future()
        self._join(pending)
        self._queued += 1
        if self._queued == 1:
            self._idle.clear()
        if not self._flush_planned:
            self._flush_planned = True
            loop.call_soon(self._flush_soon)
        elif self._last.size >= HAND_OVER_AT and len(self._under_way) < self.ahead:
            self._flush()
        return waiter

    def fresh(self, stream: str) -> None:
        """Note that a stream has no facts yet, so that a guard on it need not ask storage."""
        self._heads.setdefault(stream, 0)

    async def drain(self) -> None:
        """Return once nothing waits and nothing is under way."""
        await self._idle.wait()

    async def close(self) -> None:
        """Refuse what comes, finish what is queued, stop."""
        self._closed = True
        await self.drain()

    # Making up batches

    def _join(self, pending: Pending) -> None:
        batch = self._open
        if batch is None or batch.size >= self._max_batch:
            batch = self._begin(self._last.after)
        pending.error = self._contradiction(pending)
        if pending.error is not None:
            batch.refuse(pending)
            return
        batch.add(pending)
        heads = self._heads
        for row in pending.rows:
            heads[row[0]] = row[1]

    def _begin(self, before: Tail) -> Batch:
        batch = self._open = self._last = Batch(before)
        self._ready.append(batch)
        return batch

    def _contradiction(self, pending: Pending) -> JournalError | None:
        """The guard that does not hold after everything before this decision; None when all hold."""
        heads = self._heads
        written: set[str] | None = None
        for stream, version in pending.guards.items():
            head = heads.get(stream)
            if head is None:
                if written is None:
                    written = {row[0] for row in pending.rows}
                if version == 0 and stream in written:
                    continue
                try:
                    head = heads[stream] = self._store.head(stream)
                except UnreadableStorage as error:
                    return error
            if head != version:
                return StaleRead(stream, version, head)
        return None

    def _flush_soon(self) -> None:
        self._flush_planned = False
        self._flush()

    def _flush(self) -> None:
        """Hand over what is ready, as far as the writing side takes it."""
        if self._strayed and not self._under_way:
            self._make_up_again()
        while self._ready and not self._strayed and len(self._under_way) < self.ahead:
            batch = self._ready.popleft()
            self._under_way.append(batch)
            if batch is self._open:
                self._open = None
            self._hand_over(batch)

    def _make_up_again(self) -> None:
        """After an append that did not go straight: begin where storage ends, with heads read anew."""
        self._strayed = False
        self._heads.clear()
        waiting = [pending for batch in self._ready for pending in (*batch.accepted, *batch.refused)]
        self._ready.clear()
        self._last = Batch(self._store.tail)
        self._open = None
        for pending in waiting:
            self._join(pending)

    def _forget_heads(self) -> None:
        """Forget all heads but those that storage does not have yet."""
        coming = {
            row[0] for batch in (*self._under_way, *self._ready) for pending in batch.accepted for row in pending.rows
        }
        self._heads = {stream: head for stream, head in self._heads.items() if stream in coming}

    @abstractmethod
    def _hand_over(self, batch: Batch) -> None:
        """Give a batch to the writing side, which calls ``_commit`` and then, in the loop, ``_finish``."""

    def _finish(self, batch: Batch) -> None:
        """In the event loop: tell a batch's outcome, after the writing side has got its next one."""
        self._under_way.popleft()
        self._queued -= batch.size
        if not batch.straight:
            self._strayed = True
        self._flush()
        if len(self._heads) > MAX_HEADS:
            self._forget_heads()
        try:
            self._told(batch.accepted)
            if batch.refused:
                self._told(batch.refused)
        finally:
            if self._queued == 0:
                self._idle.set()

    # On the writing side

    def _commit(self, batch: Batch) -> None:
        """Append what can be appended; afterwards each decision has its outcome."""
        store = self._store
        attempted = False
        try:
            if self._tail_unsure:
                store.tail = store.load_tail()
                self._tail_unsure = False
                self.landed = store.tail.position
            attempted = True
            if batch.before != store.tail or not self._append_straight(batch):
                store.append_each(batch.accepted)
        except Exception as error:  # noqa: BLE001  (whatever it was, callers wait and the writer must go on)
            if not (attempted and self._happened()):
                for pending in batch.accepted:
                    pending.error = pending.error or error

    def _append_straight(self, batch: Batch) -> bool:
        """Whether the batch went in as it was made up."""
        if batch.accepted:
            try:
                self._store.append(batch)
            except (IntegrityError, sqlite3.IntegrityError):
                return False
        batch.straight = True
        return True

    def _happened(self) -> bool:
        """After an error in an append: whether the end of the chain is where the append would have led."""
        store = self._store
        before = store.tail
        try:
            found = store.load_tail()
        except Exception:  # noqa: BLE001  (storage that cannot be read leaves the outcome open)
            self._tail_unsure = True
            return False
        happened = found == store.expected != before
        store.tail = found
        return happened


class ThreadWriter(Writer):
    """The writer in a thread of its own: for a store that waits for a disk."""

    ahead = 2

    def __init__(self, store: Store, told: Told, *, max_queued: int = MAX_QUEUED, max_batch: int = MAX_BATCH) -> None:
        super().__init__(store, told, max_queued=max_queued, max_batch=max_batch)
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread for decisions made in this loop."""
        super().start(loop)
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        self._thread.start()

    async def close(self) -> None:
        """Refuse what comes, finish what is queued, end the thread."""
        await super().close()
        if self._thread.is_alive():
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _hand_over(self, batch: Batch) -> None:
        self._queue.put(batch)

    def _run(self) -> None:
        assert self._loop is not None
        while (batch := self._queue.get()) is not None:
            self._commit(batch)
            try:
                self._loop.call_soon_threadsafe(self._finish, batch)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more


class LoopWriter(Writer):
    """The writer in the event loop itself: for a store in memory, where a thread would only cost determinism."""

    def _hand_over(self, batch: Batch) -> None:
        assert self._loop is not None
        self._commit(batch)
        self._loop.call_soon(self._finish, batch)
