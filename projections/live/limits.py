"""Limits: who holds how many leases, and whether one more would exceed a limit in force.

Leases are counted as sets, not as numbers: taking one that is counted already, or giving back one that is not, changes
nothing. A grant that is on the way into the journal counts as well: its place is *earmarked*, until the fact takes it
over, or it is given back because there is no fact. Where the run counts already, because a lease is taken over or
another grant of it is on the way too, only a slot of the worker is lent until one of the two is known. Reservations
and leases that are kept while parked count like any other.

Limits are the slots of a worker, the leases of a queue, of a concurrency key within its queue (one by default), and
of a tenant. Lowering one revokes nothing.
"""

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from domain.claiming import LimitReached
from domain.queue import UNCONFIGURED, QueueConfigured
from projections.live.cards import Card, ConcurrencyKey, QueueKey, WorkerKey

K = TypeVar("K")


class Holding(msgspec.Struct, frozen=True, eq=False):
    """One lease, and everything that it counts in; another one of the same run is another holding."""

    worker: WorkerKey
    queue: QueueKey
    key: ConcurrencyKey | None


class Earmark(NamedTuple):
    """A grant on its way into the journal: ``holding`` is its place in the limits, None when only a slot is lent."""

    run_id: str
    worker: WorkerKey
    holding: Holding | None


class Limits:
    """All leases that are held, reserved or kept, and the limits on them."""

    def __init__(self, tenant_max: int | None = None) -> None:
        self.tenant_max = tenant_max
        self._holdings: dict[str, Holding] = {}
        self._by_worker: dict[WorkerKey, dict[str, None]] = {}
        self._lent: dict[WorkerKey, Counter[str]] = {}
        self._by_queue: Counter[QueueKey] = Counter()
        self._by_key: Counter[ConcurrencyKey] = Counter()
        self._by_tenant: Counter[str] = Counter()
        self._queues: dict[QueueKey, QueueConfigured] = {}

    def configure(self, tenant: str, fact: QueueConfigured) -> None:
        """A queue's limits are these from now on."""
        self._queues[tenant, fact.queue] = fact

    def of_queue(self, queue: QueueKey) -> tuple[int | None, int]:
        """(most leases of the queue or None, most leases of one key)."""
        set_ = self._queues.get(queue)
        if set_ is None:
            return UNCONFIGURED.max_leases, UNCONFIGURED.max_per_key
        return set_.max_leases, set_.max_per_key

    def queues(self, tenant: str) -> Iterable[str]:
        """The queues of a tenant that have limits or leases."""
        named = {queue for owner, queue in self._queues if owner == tenant}
        return named | {queue for (owner, queue), held in self._by_queue.items() if owner == tenant and held}

    def take(self, card: Card, worker: WorkerKey) -> None:
        """The worker has the lease of this run: one more, unless it is counted for it already."""
        before = self._holdings.get(card.run_id)
        if before is not None:
            if before.worker == worker:
                return
            self.give(card.run_id)
        self._holdings[card.run_id] = Holding(worker, card.queue, card.key)
        self._by_worker.setdefault(worker, {})[card.run_id] = None
        self._by_queue[card.queue] += 1
        self._by_tenant[card.queue[0]] += 1
        if card.key is not None:
            self._by_key[card.key] += 1

    def earmark(self, card: Card, worker: WorkerKey) -> Holding | None:
        """A grant of this run to the worker is on the way: the place it has until then; None when a slot is lent."""
        if card.run_id in self._holdings:
            self._lent.setdefault(worker, Counter())[card.run_id] += 1
            return None
        self.take(card, worker)
        return self._holdings[card.run_id]

    def unlend(self, run_id: str, worker: WorkerKey) -> None:
        """A grant for which only a slot was lent is known, one way or the other."""
        lent = self._lent[worker]
        _less(lent, run_id)
        if not lent:
            del self._lent[worker]

    def holding(self, run_id: str) -> Holding | None:
        """What the run's lease counts in, if it is counted."""
        return self._holdings.get(run_id)

    def give(self, run_id: str) -> Holding | None:
        """One lease less; what it had counted in, if it was counted."""
        holding = self._holdings.pop(run_id, None)
        if holding is None:
            return None
        held = self._by_worker[holding.worker]
        del held[run_id]
        if not held:
            del self._by_worker[holding.worker]
        _less(self._by_queue, holding.queue)
        _less(self._by_tenant, holding.queue[0])
        if holding.key is not None:
            _less(self._by_key, holding.key)
        return holding

    def held_by(self, worker: WorkerKey) -> list[str]:
        """The runs whose leases this worker holds, has reserved or keeps, or is about to be granted."""
        return list({**self._by_worker.get(worker, {}), **dict.fromkeys(self._lent.get(worker, ()))})

    def holdings(self, worker: WorkerKey) -> dict[str, Holding]:
        """What each lease of the worker counts in, by run; a lease that ended and was granted anew is another."""
        return {run_id: self._holdings[run_id] for run_id in self._by_worker.get(worker, ())}

    def lent_to(self, worker: WorkerKey) -> int:
        """Runs of which a grant to this worker is on the way while another lease of theirs is still counted."""
        return len(self._lent.get(worker, ()))

    def count(self, worker: WorkerKey) -> int:
        """How many slots of the worker are used."""
        held = self._by_worker.get(worker, {})
        return len(held) + sum(1 for run_id in self._lent.get(worker, ()) if run_id not in held)

    def holders(
        self, *, queue: QueueKey | None = None, key: ConcurrencyKey | None = None, most: int
    ) -> list[tuple[str, str]]:
        """At most so many leases that count in this queue, or under this concurrency key: (run id, worker id)."""
        counted = (
            (run_id, holding.worker[1])
            for run_id, holding in self._holdings.items()
            if (holding.key == key if queue is None else holding.queue == queue)
        )
        return list(itertools.islice(counted, most))

    def tenant_count(self, tenant: str) -> int:
        """How many leases the tenant has."""
        return self._by_tenant[tenant]

    def queue_count(self, queue: QueueKey) -> int:
        """How many leases the queue has."""
        return self._by_queue[queue]

    def total(self) -> int:
        """How many leases there are."""
        return len(self._holdings)

    def queue_full(self, queue: QueueKey) -> bool:
        """Whether the queue, or its tenant, may have no more leases."""
        most = self.of_queue(queue)[0]
        if most is not None and self._by_queue[queue] >= most:
            return True
        return self.tenant_max is not None and self._by_tenant[queue[0]] >= self.tenant_max

    def key_full(self, key: ConcurrencyKey | None) -> bool:
        """Whether the concurrency key may have no more leases."""
        return key is not None and self._by_key[key] >= self.of_queue(key[:2])[1]

    def refuse_one_more(self, card: Card, worker: WorkerKey, slots: int) -> None:
        """Refuse a grant that would exceed a limit, naming it; what this run's lease counts in already is no more.

        Raises:
            LimitReached: slots, max_leases, max_per_key or tenant_max_leases.
        """
        queue, tenant = card.queue, card.queue[0]
        own = 0 if card.run_id in self._holdings else 1
        most, per_key = self.of_queue(queue)
        if self.count(worker) + (card.run_id not in self._by_worker.get(worker, ())) > slots:
            raise LimitReached(limit="slots", value=slots, subject=worker[1])
        if most is not None and self._by_queue[queue] + own > most:
            raise LimitReached(limit="max_leases", value=most, subject=queue[1])
        if card.key is not None and self._by_key[card.key] + own > per_key:
            raise LimitReached(limit="max_per_key", value=per_key, subject=card.key[2])
        if self.tenant_max is not None and self._by_tenant[tenant] + own > self.tenant_max:
            raise LimitReached(limit="tenant_max_leases", value=self.tenant_max, subject=tenant)


def _less(counter: Counter[K], key: K) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
