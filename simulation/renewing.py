"""When a holder renews its leases, and until when it trusts them, by its own clock and nobody else's.

It goes by the client's own lease clock (`jackline.lease`). Where its second is too long it renews late and trusts for
too long: it loses leases that it believes it holds, and what it then writes must be refused. Where its second is too
short it renews more often than it must, and lets leases go that it still has, which costs time and nothing else.
"""

from jackline.lease import RENEW_SHARE, Trust
from simulation.clock import OwnClock

Lease = tuple[str, int]
"""A run and a fence."""
IDLE_S = 2.0
"""Own seconds between two heartbeats of whoever holds nothing."""


class Renewals:
    """What one holder knows of its leases' time."""

    def __init__(self, clock: OwnClock) -> None:
        self.clock = clock
        self.share = RENEW_SHARE
        """After which part of the ttl it renews; the client's is a third."""
        self._trusts: dict[Lease, Trust] = {}
        self._asked_at = clock().mono

    def asked(self) -> float:
        """It asks for something now: its own instant, before it is answered."""
        return self.clock().mono

    def beats(self) -> float:
        """As `asked`, where it asks for all that it holds."""
        self._asked_at = self.clock().mono
        return self._asked_at

    def confirmed(self, lease: Lease, asked_at: float, ttl_s: float) -> None:
        """It was told that it has this lease."""
        self._trusts[lease] = Trust(asked_at, ttl_s).later(self._trusts.get(lease))

    def forget(self, lease: Lease) -> None:
        """It has this lease no more."""
        self._trusts.pop(lease, None)

    def trusts(self, lease: Lease) -> bool:
        """Whether it believes that it has this lease."""
        trust = self._trusts.get(lease)
        return trust is not None and trust.holds(self.clock().mono)

    def over(self) -> list[tuple[Lease, float]]:
        """The leases that it does not trust any more, each with its ttl."""
        now = self.clock().mono
        return [(lease, trust.ttl_s) for lease, trust in self._trusts.items() if not trust.holds(now)]

    def due_in_s(self) -> float:
        """True seconds until it renews."""
        every_s = min((trust.ttl_s * self.share for trust in self._trusts.values()), default=IDLE_S)
        return self.clock.lasts_s(max(0.0, self._asked_at + every_s - self.clock().mono))
