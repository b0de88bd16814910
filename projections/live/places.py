"""Places in the limits: when one becomes free, whoever waits for it is told.

A place is free when a lease has ended, when a grant that was on its way did not happen, and when a limit was raised.
What may fit now depends on which limits are in force: the runs of the same concurrency key, those of the same queue,
or, where a tenant has a limit of its own, those of all its queues.
"""

from domain.queue import QueueConfigured
from projections.live.bells import Bells
from projections.live.cards import QueueKey
from projections.live.limits import Limits
from projections.live.ready import Ready


class Places:
    """Gives places back, and rings for those who may have them now."""

    def __init__(self, limits: Limits, ready: Ready, bells: Bells) -> None:
        self._limits = limits
        self._ready = ready
        self._bells = bells

    def free(self, run_id: str) -> None:
        """A lease, or the attempt to grant one, is over: others may have its place."""
        holding = self._limits.give(run_id)
        if holding is None:
            return
        self._bells.ring_worker(holding.worker)
        for card in [] if holding.key is None else self._ready.key_freed(holding.key):
            self._bells.ring(card.queue, card.labels)
        if self._limits.tenant_max is not None:
            for queue in self._ready.queues(holding.queue[0]):
                self._ring_lanes((holding.queue[0], queue))
        elif self._limits.of_queue(holding.queue)[0] is not None:
            self._ring_lanes(holding.queue)

    def configure(self, tenant: str, fact: QueueConfigured) -> None:
        """A queue has these limits now; what they let in may be claimed."""
        self._limits.configure(tenant, fact)
        queue = (tenant, fact.queue)
        for card in self._ready.release_keys(queue):
            self._bells.ring(queue, card.labels)
        self._ring_lanes(queue)

    def _ring_lanes(self, queue: QueueKey) -> None:
        for labels in self._ready.lanes(queue):
            self._bells.ring(queue, labels)
