"""Attention: a clock that stands still while this process does not run.

Whoever is silent is missed after a while, and the service can only tell by listening. A process that was stopped
(SIGSTOP, a debugger, a hypervisor), got no core, or did not get to its event loop has not listened: what its operating
system's clock counted meanwhile says nothing about anybody else. So the clock is looked at twice in ``STALL_S`` or more
often; when it was not, the time in between is its own, is charged to nobody, and every duration goes on from where it
was. Calendar times follow the wall, as ever.
"""

import asyncio
import logging
import threading

from domain.values import Clock, Moment

STALL_S = 1.0
"""How long nobody may have looked at the clock without this being our own absence."""
LOOK_S = 0.4

log = logging.getLogger(__name__)


class AttentiveClock:
    """The moments of another clock, without the time in which nobody looked at it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked = clock().mono
        self._absence = threading.Lock()
        self.absent_s = 0.0
        """How much of the time since its making was our own absence, in seconds."""

    def __call__(self) -> Moment:
        """The present moment."""
        now = self._clock()
        if now.mono - self._looked > STALL_S:
            self._count(now.mono)
        self._looked = max(self._looked, now.mono)
        return Moment(now.wall, now.mono - self.absent_s)

    def _count(self, mono: float) -> None:
        with self._absence:
            away_s = mono - self._looked
            if away_s > STALL_S:  # another thread may have counted it meanwhile
                self.absent_s += away_s
                self._looked = mono
                log.warning("this process did not run for %.1f s; nobody else is charged for it", away_s)

    async def look(self) -> None:
        """Look at the clock until cancelled."""
        while True:
            self()
            await asyncio.sleep(LOOK_S)
