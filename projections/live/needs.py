"""Whether a silence about a workspace says that nobody needs it, and since when it has lasted.

The idle time bounds how long an *orphan* is kept: a body that nobody needs. What a run that is open stands on is needed
by that run, and only somebody whose part it is to assert it can say by silence that it is not. So the clock stands
still for a workspace that is not over, while its run is open and

- nobody holds the run's lease: it is parked, or queued after the death of its worker, and whoever comes back or takes
  it over has yet to look; the clock begins anew with the next grant, or
- whoever would assert it cannot see it: the observer of its scope is blind, or the worker on whose machine a directory
  or a process is has not been heard; it begins anew when it is seen again.

While a run is held, silence about its workspace ends it like any other: that bounds what a pod costs that a holder made
and forgot. Units: seconds on the monotonic scale.
"""

from evidence.memory import Evidence
from projections.live.grounds import LOCAL, GroundCard
from projections.live.index import Live


def stands_still(live: Live, evidence: Evidence, card: GroundCard) -> bool:
    """Whether silence about this workspace says nothing now, because its run is open and nobody could speak."""
    if card.run_id not in live.cards or card.over:
        return False
    blind = card.unknown_from is not None and (card.scope is not None or card.provider in LOCAL)
    return blind or evidence.leases.get(card.run_id) is None


def idle_due(live: Live, evidence: Evidence, workspace_id: str) -> float | None:
    """When its body is to be destroyed unless somebody asserts it; None when no clock runs towards that."""
    card, at = live.grounds.cards.get(workspace_id), live.grounds.idle_due(workspace_id)
    return None if card is None or stands_still(live, evidence, card) else at
