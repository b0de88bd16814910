"""Time, chance and identity: the only module of the client that reads a clock, draws a number or mints an id.

Everything else is handed a `Clock`, so that a test moves time instead of waiting for it.

The monotonic reading is the one that leases are judged by. On Linux it is CLOCK_BOOTTIME, which goes on while a
machine is suspended: a laptop that slept for an hour has not kept its leases, and must know so when it wakes.
It is the same for every process since boot, so a worker may write an instant that its keeper process compares.

Units: seconds. Failure: none; where CLOCK_BOOTTIME is missing, the ordinary monotonic clock is used.
"""

import random
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

if sys.platform == "linux":

    def monotonic() -> float:
        """Seconds since boot, suspension included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def monotonic() -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()


def wall() -> datetime:
    """The instant as people write it; nothing is decided by it, it is only compared and shown."""
    return datetime.now(UTC)


def new_id() -> str:
    """A fresh random id: an idempotency key, or the tail of a worker's name."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Clock:
    """What the client may ask of the world: the monotonic instant, a number in [0, 1), a fresh id."""

    now: Callable[[], float]
    chance: Callable[[], float]
    new_id: Callable[[], str]

    def jitter(self, seconds: float) -> float:
        """Between half of `seconds` and the whole: many clients that failed together do not return together."""
        return seconds * (0.5 + self.chance() / 2)


SYSTEM = Clock(now=monotonic, chance=random.SystemRandom().random, new_id=new_id)
