"""A gate in front of the store: appends wait there while it is shut, or fail there, as on a real disk.

Nothing is replaced: behind the gate is the journal's own store. With SQLite the writer's thread stands at the gate with
its batch; in memory, where the writer is the event loop itself, the batch stands there.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from journal.commit import Journal
from tests.commands.clockwork import BOUND_S


class Gate:
    """Where appends wait or fail."""

    def __init__(self, journal: Journal) -> None:
        self.shut = False
        self._failing: list[bool] = []
        self._held: list[Any] = []
        self._open = threading.Event()
        self._open.set()
        self._reached = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        writer: Any = journal._writer
        store: Any = journal.store
        if journal.kind == "sqlite":
            writer._commit = self._standing(writer._commit)
        else:
            self._hand_over = writer._hand_over
            writer._hand_over = self._hold_back
        self._store = store
        self._load_tail = store.load_tail
        self._landed: Any = None
        store.load_tail = self._tail
        store.append = self._failable(store.append)
        store.append_each = self._failable(store.append_each)

    @asynccontextmanager
    async def closed(self) -> AsyncIterator["Gate"]:
        """Whatever is decided in here stays undecided in the journal until the end."""
        self.shut = True
        self._open.clear()
        self._reached.clear()
        try:
            yield self
        finally:
            self.opens()

    def opens(self) -> None:
        """Let those who wait go through."""
        self.shut = False
        self._open.set()
        held, self._held = self._held, []
        for batch in held:
            self._loop.call_soon(self._hand_over, batch)

    async def reached(self) -> None:
        """Return once something stands at the shut gate."""
        await self._reached.wait()

    def fails(self, times: int = 1, *, after_all: bool = False) -> None:
        """The next appends end with a disk error; ``after_all`` says that what was to be appended is there."""
        self._failing = [after_all] * times

    def _hold_back(self, batch: Any) -> None:
        if self.shut:
            self._held.append(batch)
            self._reached.set()
        else:
            self._hand_over(batch)

    def _standing(self, commit: Callable[[Any], None]) -> Callable[[Any], None]:
        def through(batch: Any) -> None:
            if self.shut:
                self._loop.call_soon_threadsafe(self._reached.set)
                assert self._open.wait(BOUND_S), "the gate stayed shut"
            commit(batch)

        return through

    def _failable(self, append: Callable[[Any], None]) -> Callable[[Any], None]:
        def through(batch: Any) -> None:
            if not self._failing:
                append(batch)
                return
            if self._failing.pop():
                self._land(append, batch)
            message = "disk I/O error"
            raise sqlite3.OperationalError(message)

        return through

    def _land(self, append: Callable[[Any], None], batch: Any) -> None:
        """Have it appended, and leave the store as it is when its commit reports an error."""
        before = self._store.tail
        append(batch)
        self._landed = self._store.tail
        self._store.tail, self._store.expected = before, self._landed

    def _tail(self) -> Any:
        landed, self._landed = self._landed, None
        return self._load_tail() if landed is None else landed
