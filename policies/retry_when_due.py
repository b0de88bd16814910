"""Promise: a queued run may be claimed from its due instant on, and a claim that waits for one is told then.

Due instants are calendar times, so they follow the wall clock. A run whose schedule was replaced meanwhile is not
offered twice: its older entry carries an older stamp.
"""

from domain.values import Moment
from projections.live.index import Live


def offer_due(live: Live, now: Moment) -> int:
    """Offer the runs that have become due; how many."""
    return live.offer_due(now)


def next_in_s(live: Live, now: Moment) -> float | None:
    """Seconds until the next run becomes due, by the wall clock."""
    due_at = live.ready.next_due()
    return None if due_at is None else max(0.0, (due_at - now.wall).total_seconds())
