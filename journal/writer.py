"""The one writer: a bounded queue, a thread that drains it, and one transaction for everything it found there.

Batching is natural. While one append waits for its fsync, decisions queue up; the next append takes all of them, up to
``MAX_BATCH``. A single caller never waits for company, and a thousand callers share a handful of fsyncs.

Guards are checked here, against the heads of streams as this writer left them. A head that is not known is read, except
for a stream that the decision itself writes: there the insert is the check. A stale decision is refused alone. When the
insert finds a contradiction, the batch is done again with a savepoint for each decision, and only the guilty one is
refused.

Any other error leaves the outcome open. The end of the chain in storage decides it: where the append would have led, it
happened; where it began, it did not. When storage cannot even tell that, every decision of the batch is answered
"unknown" and the tail is read again before the next append. The writer itself never stops for an error: reads go on,
and appends go on as soon as storage lets them (a full disk that gets space).

Everything of a batch is told to the event loop in one call, in order.
"""

import asyncio
import queue
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from eventsourcing.persistence import IntegrityError

from journal.errors import JournalBusy, JournalClosed, StaleRead
from journal.pending import Pending
from journal.store import Store

MAX_QUEUED = 10_000
"""Decisions that may wait or be under way; beyond it callers are told to come back."""

MAX_BATCH = 2_000
"""Most decisions in one transaction."""

MAX_HEADS = 200_000
"""Heads of streams remembered; a forgotten one costs a look-up when it is next only read."""

Told = Callable[[Sequence[Pending]], None]
"""Takes a finished batch, in the event loop."""


class Writer(ABC):
    """Appends what is submitted, in order. ``submit``, ``drain`` and ``close`` belong to the event loop."""

    def __init__(self, store: Store, told: Told, *, max_queued: int = MAX_QUEUED, max_batch: int = MAX_BATCH) -> None:
        self._store = store
        self._told = told
        self._max_queued = max_queued
        self._max_batch = max_batch
        self._heads: dict[str, int] = {}
        self._tail_unsure = False
        self.landed = 0
        """Up to here storage held facts when it answered again after an error."""
        self._queued = 0
        self._closed = False
        self._idle: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def queued(self) -> int:
        """Decisions that wait or are under way."""
        return self._queued

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept decisions made in this loop."""
        self._loop = loop
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, pending: Pending) -> None:
        """Queue a decision; its waiter is answered once the outcome is known.

        Raises:
            JournalBusy: the queue is full.
            JournalClosed: the writer was closed.
        """
        if self._closed or self._idle is None:
            raise JournalClosed
        if self._queued >= self._max_queued:
            raise JournalBusy(self._queued)
        if self._queued == 0:
            self._idle.clear()
        self._queued += 1
        self._enqueue(pending)

    @abstractmethod
    def _enqueue(self, pending: Pending) -> None:
        """Hand a decision to the writing side."""

    def _finish(self, batch: Sequence[Pending]) -> None:
        """In the event loop: tell the batch's outcome."""
        self._queued -= len(batch)
        try:
            self._told(batch)
        finally:
            if self._queued == 0 and self._idle is not None:
                self._idle.set()

    async def drain(self) -> None:
        """Return once nothing waits and nothing is under way."""
        if self._idle is not None:
            await self._idle.wait()

    async def close(self) -> None:
        """Refuse what comes, finish what is queued, stop."""
        self._closed = True
        await self.drain()

    # On the writing side

    def _commit(self, batch: Sequence[Pending]) -> None:
        """Append what can be appended; afterwards each decision has its outcome."""
        accepted: list[Pending] = []
        attempted = False
        try:
            if self._tail_unsure:
                self._store.tail = self._store.expected = self._store.load_tail()
                self._tail_unsure = False
                self.landed = self._store.tail.position
            heads = self._screen(batch, accepted)
            attempted = bool(accepted)
            if attempted:
                heads = self._append(accepted, heads)
            self._remember(heads)
        except Exception as error:  # noqa: BLE001  (whatever it was, callers wait and the writer must go on)
            if not (attempted and self._happened()):
                self._fail(batch, error)

    def _screen(self, batch: Sequence[Pending], accepted: list[Pending]) -> dict[str, int]:
        heads: dict[str, int] = {}
        for pending in batch:
            pending.error = self._stale(pending, heads)
            if pending.error is None:
                accepted.append(pending)
                for row in pending.rows:
                    heads[row[0]] = row[1]
        return heads

    def _stale(self, pending: Pending, heads: dict[str, int]) -> StaleRead | None:
        """The guard that no longer holds, after the decisions that left ``heads``; None when all hold."""
        known = self._heads
        for stream, version in pending.guards.items():
            head = heads.get(stream)
            if head is None:
                head = known.get(stream)
                if head is None:
                    if any(row[0] == stream for row in pending.rows):
                        continue
                    head = known[stream] = self._store.head(stream)
            if head != version:
                return StaleRead(stream, version, head)
        return None

    def _append(self, accepted: Sequence[Pending], heads: dict[str, int]) -> dict[str, int]:
        try:
            self._store.append(accepted)
        except (IntegrityError, sqlite3.IntegrityError):
            return self._append_each(accepted)
        return heads

    def _append_each(self, accepted: Sequence[Pending]) -> dict[str, int]:
        """Append one by one in one transaction; heads as they are after those that went in."""
        self._heads.clear()
        heads: dict[str, int] = {}
        last: list[Pending] = []

        def take_over() -> None:
            if last and last[0].error is None:
                heads.update((row[0], row[1]) for row in last[0].rows)
            last.clear()

        def admit(pending: Pending) -> bool:
            take_over()
            pending.error = self._stale(pending, heads)
            if pending.error is None:
                last.append(pending)
            return pending.error is None

        self._store.append_each(accepted, admit)
        take_over()
        return heads

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
        store.tail = store.expected = found
        return happened

    def _fail(self, batch: Sequence[Pending], error: Exception) -> None:
        self._heads.clear()
        for pending in batch:
            if pending.error is None:
                pending.error = error

    def _remember(self, heads: dict[str, int]) -> None:
        known = self._heads
        for stream, version in heads.items():
            known.pop(stream, None)
            known[stream] = version
        while len(known) > MAX_HEADS:
            del known[next(iter(known))]


class ThreadWriter(Writer):
    """The writer in a thread of its own: for a store that waits for a disk."""

    def __init__(self, store: Store, told: Told, *, max_queued: int = MAX_QUEUED, max_batch: int = MAX_BATCH) -> None:
        super().__init__(store, told, max_queued=max_queued, max_batch=max_batch)
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread for decisions made in this loop."""
        super().start(loop)
        self._thread.start()

    def _enqueue(self, pending: Pending) -> None:
        self._queue.put(pending)

    async def close(self) -> None:
        """Refuse what comes, finish what is queued, end the thread."""
        await super().close()
        if self._thread.is_alive():
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        assert self._loop is not None
        while True:
            first = self._queue.get()
            if first is None:
                return
            batch = self._drain(first)
            self._commit(batch)
            try:
                self._loop.call_soon_threadsafe(self._finish, batch)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

    def _drain(self, first: Pending) -> list[Pending]:
        batch = [first]
        get = self._queue.get_nowait
        try:
            while len(batch) < self._max_batch:
                pending = get()
                if pending is None:
                    self._queue.put(None)
                    break
                batch.append(pending)
        except queue.Empty:
            pass
        return batch


class LoopWriter(Writer):
    """The writer in the event loop itself: for a store in memory, where a thread would only cost determinism."""

    def __init__(self, store: Store, told: Told, *, max_queued: int = MAX_QUEUED, max_batch: int = MAX_BATCH) -> None:
        super().__init__(store, told, max_queued=max_queued, max_batch=max_batch)
        self._batch: list[Pending] = []

    def _enqueue(self, pending: Pending) -> None:
        if not self._batch:
            assert self._loop is not None
            self._loop.call_soon(self._run_once)
        self._batch.append(pending)

    def _run_once(self) -> None:
        batch, self._batch = self._batch[:self._max_batch], self._batch[self._max_batch:]
        if self._batch:
            assert self._loop is not None
            self._loop.call_soon(self._run_once)
        self._commit(batch)
        self._finish(batch)
