"""The ready queue: which queued run is granted next.

Runs wait in *lanes*, one for each queue and set of required labels, ordered by priority (high first), due instant and
submission. A run that is not due yet waits aside until it is. A run whose concurrency key is used up is laid aside
with its key, and comes back, best first, when a lease of that key ends. Entries in heaps are never searched: each
carries the stamp of its card, and one whose stamp is old is dropped when it comes to the top.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import heappop, heappush

from projections.live.cards import Card, ConcurrencyKey, Labels, QueueKey
from projections.live.limits import Limits

Rank = tuple[int, datetime, int]
Entry = tuple[Rank, str, int]
"""(rank, run id, stamp)."""


class Ready:
    """Queued runs by lane, and those that wait for their instant or their key."""

    def __init__(self, cards: dict[str, Card], limits: Limits) -> None:
        self._cards = cards
        self._limits = limits
        self._lanes: dict[QueueKey, dict[Labels, list[Entry]]] = {}
        self._later: list[tuple[datetime, str, int]] = []
        self._by_key: dict[ConcurrencyKey, list[Entry]] = {}
        self._depth: dict[QueueKey, int] = {}

    def offer(self, card: Card, due_at: datetime, now: datetime) -> bool:
        """Queue a run; whether it is due."""
        self.withdraw(card)
        card.due_at, card.ready = due_at, True
        self._depth[card.queue] = self._depth.get(card.queue, 0) + 1
        if due_at > now:
            heappush(self._later, (due_at, card.run_id, card.stamp))
            return False
        self._push(card)
        return True

    def withdraw(self, card: Card) -> None:
        """The run is queued no more, or is about to be queued anew."""
        card.stamp += 1
        if card.ready:
            card.ready = False
            self._depth[card.queue] -= 1
            if not self._depth[card.queue]:
                del self._depth[card.queue]

    def _push(self, card: Card) -> None:
        lane = self._lanes.setdefault(card.queue, {}).setdefault(card.labels, [])
        heappush(lane, (card.rank, card.run_id, card.stamp))

    def next_due(self) -> datetime | None:
        """The instant at which the next run that waits becomes due, if there is one."""
        later = self._later
        while later and self._card(later[0][1], later[0][2]) is None:
            heappop(later)
        return later[0][0] if later else None

    def promote(self, now: datetime) -> list[Card]:
        """Move the runs that have become due into their lanes; which they are."""
        due: list[Card] = []
        while self._later and self._later[0][0] <= now:
            _, run_id, stamp = heappop(self._later)
            card = self._card(run_id, stamp)
            if card is not None:
                self._push(card)
                due.append(card)
        return due

    def key_freed(self, key: ConcurrencyKey) -> Card | None:
        """A lease of this key has ended: bring back the best run that waits for it."""
        waiting = self._by_key.get(key)
        while waiting:
            _, run_id, stamp = heappop(waiting)
            card = self._card(run_id, stamp)
            if card is not None:
                self._push(card)
                break
        else:
            card = None
        if waiting is not None and not waiting:
            del self._by_key[key]
        return card

    def release_keys(self, queue: QueueKey) -> list[Card]:
        """The queue's limit per key was changed: bring back every run that waited for a key."""
        back: list[Card] = []
        for key in [key for key in self._by_key if key[:2] == queue]:
            for _, run_id, stamp in self._by_key.pop(key):
                card = self._card(run_id, stamp)
                if card is not None:
                    self._push(card)
                    back.append(card)
        return back

    def pick(self, queues: Iterable[QueueKey], labels: Labels) -> Card | None:
        """The best due run of these queues for a worker with these labels, within the limits; it stays queued."""
        best: Entry | None = None
        for queue in queues:
            if queue in self._lanes and not self._limits.queue_full(queue):
                for lane in self._matching(queue, labels):
                    head = self._head(lane)
                    if head is not None and (best is None or head < best):
                        best = head
        return None if best is None else self._cards[best[1]]

    def _matching(self, queue: QueueKey, labels: Labels) -> Iterator[list[Entry]]:
        lanes = self._lanes[queue]
        for wanted in [wanted for wanted, lane in lanes.items() if not lane]:
            del lanes[wanted]
        has = frozenset(labels)
        return (lane for wanted, lane in lanes.items() if has.issuperset(wanted))

    def _head(self, lane: list[Entry]) -> Entry | None:
        while lane:
            entry = lane[0]
            card = self._card(entry[1], entry[2])
            if card is not None and not self._limits.key_full(card.key):
                return entry
            heappop(lane)
            if card is not None and card.key is not None:
                heappush(self._by_key.setdefault(card.key, []), entry)
        return None

    def _card(self, run_id: str, stamp: int) -> Card | None:
        card = self._cards.get(run_id)
        return card if card is not None and card.stamp == stamp and card.ready else None

    def lanes(self, queue: QueueKey) -> list[Labels]:
        """The sets of labels that queued runs of this queue ask for."""
        return [labels for labels, lane in self._lanes.get(queue, {}).items() if lane]

    def depth(self, queue: QueueKey) -> int:
        """How many runs of the queue are queued, due or not."""
        return self._depth.get(queue, 0)

    def queues(self, tenant: str) -> set[str]:
        """The queues of a tenant in which runs are queued."""
        return {queue for owner, queue in self._depth if owner == tenant}
