"""Facts after a position, in order, in bounded batches, with a wake-up when there are more.

The last ``RECENT`` facts are kept in memory, so that a follower at the end costs no query; older ones are read from the
store. Nothing beyond the published position is ever given out: what a listener has not been told yet, no follower sees.

``after`` may be called from any thread. ``wait`` and ``follow`` belong to the event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from journal.mapper import Recorded

RECENT = 20_000
"""Facts kept in memory for followers at the end."""

MAX_BATCH = 2_000
"""Most facts that one read gives, whatever the caller asks for."""


class FactSource(Protocol):
    """Where older facts are read."""

    def facts_after(self, position: int, limit: int, upto: int | None = None) -> list[Recorded]:
        """At most ``limit`` facts after a position and not beyond ``upto``, in order."""


class Feed:
    """The published facts of a journal, from a starting position that storage already holds."""

    def __init__(self, source: FactSource, position: int, recent: int = RECENT) -> None:
        self._source = source
        self._keep = recent
        self._window: tuple[int, list[Recorded]] = (position, [])
        self._waiting: dict[asyncio.Future[bool], int] = {}
        self.position = position

    def after(self, position: int, limit: int = MAX_BATCH) -> list[Recorded]:
        """At most ``limit`` published facts after a position, in order; empty when there are none."""
        limit = min(limit, MAX_BATCH)
        before, facts = self._window
        if position >= before:
            return facts[position - before : position - before + limit]
        return self._source.facts_after(position, limit, min(before, self.position))

    def publish(self, facts: Sequence[Recorded]) -> None:
        """Give out facts that have become durable; they follow the ones before."""
        if not facts:
            return
        if facts[0].position != self.position + 1:  # what is missing between is in storage only
            self._window = (facts[0].position - 1, [])
        window = self._window[1]
        window.extend(facts)
        self.position = facts[-1].position
        if len(window) > 2 * self._keep:
            kept = window[-self._keep :]
            self._window = (self.position - len(kept), kept)
        self._wake(self.position)

    def _wake(self, position: int) -> None:
        if not self._waiting:
            return
        for future, wanted in list(self._waiting.items()):
            if wanted <= position:
                del self._waiting[future]
                if not future.done():
                    future.set_result(True)

    async def wait(self, position: int, timeout_s: float | None = None) -> bool:
        """True as soon as ``position`` is published; False when ``timeout_s`` seconds pass first."""
        if self.position >= position:
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[future] = position
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(future, None)

    async def follow(self, after: int, limit: int = MAX_BATCH) -> AsyncIterator[list[Recorded]]:
        """Batches of facts after a position, without end; waits when there are no more."""
        position = after
        while True:
            batch = await self.read(position, limit)
            if batch:
                position = batch[-1].position
                yield batch
            else:
                await self.wait(position + 1)

    async def read(self, position: int, limit: int = MAX_BATCH) -> list[Recorded]:
        """Like ``after``, without holding up the event loop while older facts are read."""
        if position >= self._window[0]:
            return self.after(position, limit)
        return await asyncio.to_thread(self.after, position, limit)
