"""How far a read model has come, and waiting until it has come far enough.

The position rises in the runner's thread; those who wait are in event loops. Each is woken in its own loop by the batch
that reaches what it wants, or told after its bound which position was reached instead.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import NamedTuple

from projections.stored.faults import ReadModelBehind


class _Waiting(NamedTuple):
    position: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class Reached:
    """The position that one read model has reached; ``asked`` is told when somebody waits for a later one."""

    def __init__(self, position: int = 0, asked: Callable[[], None] = lambda: None) -> None:
        self._position = position
        self._asked = asked
        self._waiting: set[_Waiting] = set()
        self._lock = threading.Lock()

    @property
    def position(self) -> int:
        """The position up to which every fact is in the read model."""
        return self._position

    def move(self, position: int) -> None:
        """The read model is now at this position; wakes whoever waited for it. Any thread may call this."""
        with self._lock:
            self._position = position
            woken = [waiting for waiting in self._waiting if waiting.position <= position]
            self._waiting.difference_update(woken)
        for waiting in woken:
            if not waiting.loop.is_closed():
                waiting.loop.call_soon_threadsafe(_wake, waiting.future)

    async def wait_for(self, position: int, timeout_s: float) -> None:
        """Return once the read model has reached this position.

        Raises:
            ReadModelBehind: it had not within ``timeout_s`` seconds.
        """
        waiting = _Waiting(position, loop := asyncio.get_running_loop(), loop.create_future())
        with self._lock:
            if self._position >= position:
                return
            self._waiting.add(waiting)
        self._asked()
        try:
            async with asyncio.timeout(timeout_s):
                await waiting.future
        except TimeoutError:
            raise ReadModelBehind(wanted=position, reached=self._position) from None
        finally:
            with self._lock:
                self._waiting.discard(waiting)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
