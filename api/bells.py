"""Bells: whoever follows one run waits for its bell, and hears it when anything of that run has become durable.

Rung by the journal for facts, in position order and after they are durable, and by the output route for chunks, which
are not facts. A follower of one run is not woken by the thousand others.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from journal.mapper import Recorded


class RunBells:
    """One bell per run that somebody follows."""

    def __init__(self) -> None:
        self._hung: dict[str, set[asyncio.Event]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._hung.values()))

    @contextmanager
    def hung(self, run_id: str) -> Iterator[asyncio.Event]:
        """A bell for this run, for as long as somebody listens. Clear it, look, then wait."""
        bell = asyncio.Event()
        self._hung.setdefault(run_id, set()).add(bell)
        try:
            yield bell
        finally:
            bells = self._hung[run_id]
            bells.discard(bell)
            if not bells:
                del self._hung[run_id]

    def ring(self, run_id: str) -> None:
        """Something of this run is new."""
        for bell in self._hung.get(run_id, ()):
            bell.set()

    def heard(self, facts: Sequence[Recorded]) -> None:
        """Facts have become durable."""
        if self._hung:
            for run_id in {recorded.meta.correlation_id for recorded in facts}:
                if run_id is not None:
                    self.ring(run_id)


async def within(bell: asyncio.Event, timeout_s: float) -> bool:
    """Whether the bell rang within that many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await bell.wait()
    return bell.is_set()
