"""Something that goes on beside its caller: a task of the caller's event loop, or a thread with a loop of its own.

Both faces of the client keep a leader present by the same coroutine; only where it runs differs, and that difference
is all that is here. What goes on says that something has changed (`stir`); who waits names the state that it has seen
(`mark`), so that a change between looking and waiting is not missed.

Units: seconds. Failure: what the coroutine raises stays with it; it is expected to leave its failure where its owner
looks.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

STOP_S = 5.0  # how long a stop waits for a thread that is cleaning up

Work = Callable[[], Coroutine[Any, Any, None]]


class AsyncAside:
    """A task of the running event loop."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._stirred = asyncio.Event()
        self._doing: asyncio.Task[None] | None = None
        self.mark = 0

    def stir(self) -> None:
        """Something has changed."""
        self.mark += 1
        self._stirred.set()

    async def start(self) -> None:
        """Begin."""
        self._doing = asyncio.create_task(self._work())

    async def after(self, mark: int, timeout_s: float | None = None) -> None:
        """Return once something has changed since `mark` was read, or after `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.mark == mark:
                    self._stirred.clear()
                    await self._stirred.wait()

    async def stop(self) -> None:
        """Cancel it, and wait until it has cleaned up."""
        if self._doing is not None:
            self._doing.cancel()
            await asyncio.gather(self._doing, return_exceptions=True)


class Aside:
    """A thread of its own, which ends with the process."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._stirred = threading.Condition()
        self._begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._doing: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._main, name="jackline-leader", daemon=True)
        self.mark = 0

    def stir(self) -> None:
        """Something has changed."""
        with self._stirred:
            self.mark += 1
            self._stirred.notify_all()

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._begun.wait()

    def after(self, mark: int, timeout_s: float | None = None) -> None:
        """Return once something has changed since `mark` was read, or after `timeout_s`."""
        with self._stirred:
            self._stirred.wait_for(lambda: self.mark != mark, timeout_s)

    def stop(self) -> None:
        """Cancel it, and wait until it has cleaned up."""
        if self._loop is None or self._doing is None:
            return
        with contextlib.suppress(RuntimeError):  # its loop has ended already
            self._loop.call_soon_threadsafe(self._doing.cancel)
        self._thread.join(STOP_S)

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._doing = asyncio.create_task(self._work())
        self._begun.set()
        await asyncio.gather(self._doing, return_exceptions=True)
