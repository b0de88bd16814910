"""An event loop whose time is the clock of the service under test: nothing here waits, and an hour costs nothing.

Timers of the loop (`asyncio.timeout`, `asyncio.sleep`) read the same clock as leases and slices. When nothing is
ready and something waits for time to pass, the clock is moved to that moment at once. When nothing is ready because
a thread is at work (SQLite's writer), the loop really waits for it, with a bound; so it does when nobody waits for
time at all.
"""

import asyncio
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from domain.values import Moment

NOON = Moment(datetime(2026, 1, 1, 12, tzinfo=UTC), 1_000.0)
BOUND_S = 20.0
"""How long a thread may keep the loop waiting, in real seconds; it takes milliseconds."""
LONGEST_S = 10 * 86_400.0
"""How far a test may let the clock run by itself; beyond it, it waits for something that never comes."""


class Clock:
    """The service's clock: both scales go together, unless the wall is set."""

    def __init__(self) -> None:
        self._mono = NOON.mono
        self._wall_ahead_s = 0.0

    def __call__(self) -> Moment:
        wall = NOON.wall + timedelta(seconds=self._mono - NOON.mono + self._wall_ahead_s)
        return Moment(wall, self._mono)

    def go(self, seconds: float) -> None:
        """Let time pass."""
        self._mono += seconds
        assert self._mono < NOON.mono + LONGEST_S, "the clock ran for days: what is waited for never comes"

    def set_wall(self, ahead_s: float) -> None:
        """Somebody sets the wall clock: forth, or back when negative; no time passes."""
        self._wall_ahead_s += ahead_s


class _Patient(selectors.DefaultSelector):
    """Waits for files when a thread is at work, and otherwise for nothing: time is moved instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        """What is ready; after moving the clock when nothing else can happen."""
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None or self.loop.is_abroad():
            ready = super().select(BOUND_S)
            assert ready, f"nothing happened for {BOUND_S:g} s, and nothing is going to"
            return ready
        self.loop.clock.go(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on a clock of its own."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.at_work: list[Callable[[], bool]] = []
        """Questions whether a thread is at work for this loop."""
        self._abroad = 0
        selector = _Patient()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """The monotonic scale of the clock."""
        return self.clock().mono

    def is_abroad(self) -> bool:
        """Whether a thread is at work, so that something will happen without time passing."""
        return self._abroad > 0 or any(question() for question in self.at_work)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """As ever, and noted until it is done."""
        self._abroad += 1
        doing = super().run_in_executor(executor, func, *args)
        doing.add_done_callback(self._home)
        return doing

    def _home(self, _: "asyncio.Future[Any]") -> None:
        self._abroad -= 1
