"""The lease clock: for how long a holder may believe that it still holds a lease.

    trusted_until = asked_at + ttl_s - margin_s

`asked_at` is the holder's own monotonic instant *before* the renewal was asked for. The service counts the ttl from
when it received the request, which cannot be earlier; so a slow answer never stretches the trust, and no two clocks are
ever compared. The margin pays for the difference in their rates and for the time it takes to act on the news.

A renewal has three answers. Renewed: a new trust replaces the old. Lost: stop at once. Nothing: keep asking, and stop
by oneself before `trusted_until`. Trust only moves forward: an answer that overtook a later one does not shorten it.

Boundary: trusted while `now < trusted_until`; at that instant it is over. Units: seconds on one monotonic clock.
"""

from dataclasses import dataclass

MARGIN_SHARE = 0.1  # of the ttl: rates differ by parts per million, so this pays mostly for acting on the news
MARGIN_MIN_S = 0.05
MARGIN_MAX_S = 5.0
RENEW_SHARE = 1 / 3  # two renewals may fail before the lease is in danger
LEAD_SHARE = 0.25  # of the ttl: the most that a stop may take away from the work to end it in good order


@dataclass(frozen=True, slots=True)
class Trust:
    """One confirmed renewal, seen from the holder's side."""

    asked_at: float
    ttl_s: float

    @property
    def margin_s(self) -> float:
        """What is taken off the ttl."""
        return min(MARGIN_MAX_S, max(MARGIN_MIN_S, self.ttl_s * MARGIN_SHARE))

    @property
    def trusted_until(self) -> float:
        """The instant from which the lease must be taken for lost."""
        return self.asked_at + self.ttl_s - self.margin_s

    @property
    def renew_every_s(self) -> float:
        """How long to wait between two renewals."""
        return self.ttl_s * RENEW_SHARE

    def lead_s(self, grace_s: float) -> float:
        """How long before `trusted_until` the work must be told to end, when it is given `grace_s` to do so."""
        return min(grace_s, self.ttl_s * LEAD_SHARE)

    def holds(self, now: float) -> bool:
        """Whether the lease may still be relied on."""
        return now < self.trusted_until

    def later(self, other: "Trust | None") -> "Trust":
        """Whichever of the two reaches further."""
        return self if other is None or self.trusted_until >= other.trusted_until else other
