"""In-process locks by key: decisions about the same run are taken one after another, others side by side.

They only save wasted decisions; what keeps the journal right are the guards of each append. Uncontended they cost a
dictionary entry, which goes when the key is free, so nothing is left behind. Keys are taken in sorted order, so two
decisions never wait for each other. A free key goes to the one that waits longest.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

Waiters = deque[asyncio.Future[None]]


class Locks:
    """Exclusive keys of one event loop."""

    def __init__(self) -> None:
        self._held: dict[str, Waiters | None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def try_take(self, keys: Sequence[str]) -> bool:
        """Whether all keys were free and are now taken; otherwise none is."""
        held = self._held
        for key in keys:
            if key in held:
                return False
        for key in keys:
            held[key] = None
        return True

    async def quiet(self, key: str) -> None:
        """Return once nobody holds a key."""
        if key in self._held:
            await self._take_one(key)
            self._release_one(key)

    async def take(self, keys: Sequence[str]) -> None:
        """Take all keys, which are sorted and distinct, waiting for those that are not free."""
        taken: list[str] = []
        try:
            for key in keys:
                await self._take_one(key)
                taken.append(key)
        except BaseException:
            self.release(taken)
            raise

    async def _take_one(self, key: str) -> None:
        if key not in self._held:
            self._held[key] = None
            return
        waiters = self._held[key]
        if waiters is None:
            waiters = self._held[key] = deque()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._release_one(key)  # it was handed over in the same moment, and goes on to the next
            raise

    def release(self, keys: Sequence[str]) -> None:
        """Give keys back; each goes to the one that waits longest for it."""
        held = self._held
        for key in keys:
            if held[key] is None:
                del held[key]
            else:
                self._release_one(key)

    def _release_one(self, key: str) -> None:
        waiters = self._held[key]  # None, or those who wait
        while waiters:
            place = waiters.popleft()
            if not place.done():
                place.set_result(None)
                return
        del self._held[key]
