"""The ready queue: which queued run is granted next.

Runs wait in *lanes*, one for each queue and set of required labels, ordered by priority (high first), due instant and
submission. A run that is not due yet waits aside until it is. A run whose concurrency key is used up is laid aside
with its key. While a key has room, the best of those that wait for it is back in each lane: one worker may lack the
labels that the best of all asks for, and must not keep others from the next. So whenever a lease of the key ends, or
one that was back leaves its lane without taking the room, the next one follows.

Entries in heaps are never searched: each carries the stamp of its card, and one whose stamp is old is dropped when it
comes to the top, or when too many of them have gathered. Of a queue without queued runs nothing is kept.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush

from projections.live.cards import Card, ConcurrencyKey, Labels, QueueKey
from projections.live.limits import Limits

SPARE = 64
"""Void entries that a heap carries along before it is made anew."""

Rank = tuple[int, datetime, int]
Entry = tuple[Rank, str, int]
"""(rank, run id, stamp)."""
Lanes = dict[Labels, list[Entry]]


class Ready:
    """Queued runs by lane, and those that wait for their instant or their key."""

    def __init__(self, cards: dict[str, Card], limits: Limits) -> None:
        self._cards = cards
        self._limits = limits
        self._lanes: dict[QueueKey, Lanes] = {}
        self._later: list[tuple[datetime, str, int]] = []
        self._by_key: dict[QueueKey, dict[ConcurrencyKey, Lanes]] = {}
        self._aside: dict[QueueKey, int] = {}
        """Most entries that are laid aside with their keys, by queue; void ones count until they are swept out."""
        self._depth: dict[QueueKey, int] = {}
        self._total = 0

    def offer(self, card: Card, due_at: datetime, now: datetime) -> bool:
        """Queue a run that is not queued; whether it is due."""
        card.stamp += 1
        card.due_at, card.ready = due_at, True
        self._depth[card.queue] = self._depth.get(card.queue, 0) + 1
        self._total += 1
        if due_at > now:
            self._wait(card)
            return False
        self._push(card)
        return True

    def withdraw(self, card: Card) -> Card | None:
        """The run is queued no more; the run that follows it into its lane, if one waited for the same key."""
        card.stamp += 1
        if not card.ready:
            return None
        card.ready = False
        self._total -= 1
        self._depth[card.queue] -= 1
        if not self._depth[card.queue]:
            self._forget(card.queue)
            return None
        if card.key is None or self._limits.key_full(card.key):
            return None
        return self._bring_back(card.key, card.labels)

    def _forget(self, queue: QueueKey) -> None:
        for kept in (self._depth, self._lanes, self._by_key, self._aside):
            kept.pop(queue, None)
        if not self._total:
            self._later.clear()

    def _wait(self, card: Card) -> None:
        heappush(self._later, (card.due_at, card.run_id, card.stamp))
        if len(self._later) > 2 * self._total + SPARE:
            self._later = [entry for entry in self._later if self._card(entry[1], entry[2]) is not None]
            heapify(self._later)

    def _push(self, card: Card) -> None:
        lane = self._lanes.setdefault(card.queue, {}).setdefault(card.labels, [])
        heappush(lane, (card.rank, card.run_id, card.stamp))
        if len(lane) > 2 * self._depth[card.queue] + SPARE:
            lane[:] = [entry for entry in lane if self._card(entry[1], entry[2]) is not None]
            heapify(lane)

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

    def key_freed(self, key: ConcurrencyKey) -> list[Card]:
        """A lease of this key has ended: bring back the best run of each lane that waits for it."""
        waiting = self._by_key.get(key[:2], {}).get(key)
        if waiting is None or self._limits.key_full(key):
            return []
        back = [self._bring_back(key, labels) for labels in list(waiting)]
        return [card for card in back if card is not None]

    def _bring_back(self, key: ConcurrencyKey, labels: Labels) -> Card | None:
        keys = self._by_key.get(key[:2], {})
        waiting = keys.get(key, {}).get(labels)
        if waiting is None:
            return None
        card: Card | None = None
        while waiting and card is None:
            _, run_id, stamp = heappop(waiting)
            card = self._card(run_id, stamp)
        if not waiting:
            del keys[key][labels]
        if not keys[key]:
            del keys[key]
        if card is not None:
            self._push(card)
        return card

    def release_keys(self, queue: QueueKey) -> list[Card]:
        """The queue's limit per key was changed: bring back every run that waited for a key."""
        waiting = [lane for lanes in self._by_key.pop(queue, {}).values() for lane in lanes.values()]
        self._aside.pop(queue, None)
        back = [self._card(run_id, stamp) for lane in waiting for _, run_id, stamp in lane]
        for card in back:
            if card is not None:
                self._push(card)
        return [card for card in back if card is not None]

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
                self._lay_aside(card.queue, card.key, card.labels, entry)
        return None

    def _lay_aside(self, queue: QueueKey, key: ConcurrencyKey, labels: Labels, entry: Entry) -> None:
        keys = self._by_key.setdefault(queue, {})
        heappush(keys.setdefault(key, {}).setdefault(labels, []), entry)
        self._aside[queue] = self._aside.get(queue, 0) + 1
        if self._aside[queue] > 2 * self._depth[queue] + SPARE:
            self._sweep(queue)

    def _sweep(self, queue: QueueKey) -> None:
        """Keep of what is laid aside in this queue only what is queued."""
        kept: dict[ConcurrencyKey, Lanes] = {}
        for key, lanes in self._by_key[queue].items():
            for labels, lane in lanes.items():
                left = [entry for entry in lane if self._card(entry[1], entry[2]) is not None]
                if left:
                    heapify(left)
                    kept.setdefault(key, {})[labels] = left
        self._by_key[queue] = kept
        self._aside[queue] = sum(len(lane) for lanes in kept.values() for lane in lanes.values())

    def ahead(self, card: Card, most: int) -> int:
        """How many due runs of its queue come before this one; no more than ``most`` are counted.

        Below an entry of a heap none is better, so only those that come before it are looked at.
        """
        rank, found = card.rank, 0
        for lane in self._lanes.get(card.queue, {}).values():
            places = [0]
            while places and found < most:
                place = places.pop()
                if place < len(lane) and lane[place][0] < rank:
                    found += self._card(lane[place][1], lane[place][2]) is not None
                    places += (2 * place + 1, 2 * place + 2)
        return found

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
