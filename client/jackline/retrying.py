"""When to ask again, and for how long.

A request that was not answered may have taken effect; it is repeated under the same idempotency key until somebody
answers or `patience_s` is spent. Pauses double from `first_s` to `cap_s` and are jittered, so that clients that lost
the service together do not return together; a `Retry-After` is a lower bound for the next pause.

Units: seconds. Failure: when the patience is spent, the last error is the caller's to see.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jackline.clock import Clock
from jackline.errors import JacklineError

Trouble = Callable[[JacklineError, float], None]
"""Told that nobody answers any more: what went wrong, and for how many seconds it is tried again."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How patient a caller is."""

    patience_s: float = 10.0
    first_s: float = 0.1
    cap_s: float = 2.0

    def pauses(self, clock: Clock) -> Iterator[float]:
        """Pauses to make between attempts, without end."""
        pause_s = self.first_s
        while True:
            yield clock.jitter(pause_s)
            pause_s = min(self.cap_s, pause_s * 2)


@dataclass(slots=True)
class Patience:
    """One request's share of patience, from its first attempt on."""

    retry: Retry
    clock: Clock
    started_at: float
    _pauses: Iterator[float]

    @classmethod
    def start(cls, retry: Retry, clock: Clock) -> "Patience":
        """Patience that begins now."""
        return cls(retry, clock, clock.now(), retry.pauses(clock))

    def next_pause(self, at_least_s: float = 0.0) -> float | None:
        """Seconds to wait before the next attempt; None when the patience does not reach that far."""
        pause_s = max(at_least_s, next(self._pauses))
        left_s = self.started_at + self.retry.patience_s - self.clock.now()
        return pause_s if pause_s <= left_s else None
