"""Cards and limits made by hand, for the parts of the live index one at a time."""

from typing import Any

from domain.queue import QueueConfigured
from projections.live.cards import Card, Labels, labels_of
from projections.live.limits import Limits
from projections.live.ready import Ready
from tests.commands.clockwork import NOON

QUEUE = ("t", "q")
WORKER = ("t", "w")


def card(run_id: str, *, key: str | None = None, labels: dict[str, str] | None = None, **more: Any) -> Card:
    """A run that is due at noon, in the one queue."""
    made = Card(
        run_id=run_id,
        queue=QUEUE,
        labels=labels_of(labels or {}),
        priority=0,
        key=None if key is None else (*QUEUE, key),
        order=int(run_id[1:]),
        leader=None,
        due_at=NOON.wall,
    )
    for name, value in more.items():
        setattr(made, name, value)
    return made


class Books:
    """A ready queue over its cards and limits."""

    def __init__(self, tenant_max: int | None = None) -> None:
        self.cards: dict[str, Card] = {}
        self.limits = Limits(tenant_max)
        self.ready = Ready(self.cards, self.limits)

    def offer(self, *cards: Card, in_s: float = 0.0) -> None:
        """Queue these, due so many seconds after noon."""
        for one in cards:
            self.cards[one.run_id] = one
            self.ready.offer(one, NOON.after(in_s).wall, NOON.wall)

    def take(self, labels: Labels = ()) -> str | None:
        """The run that is granted next to a worker with these labels, taken."""
        found = self.ready.pick([QUEUE], labels)
        if found is not None:
            self.ready.withdraw(found)
            self.limits.take(found, WORKER)
        return None if found is None else found.run_id

    def free(self, run_id: str) -> list[str]:
        """The lease of this run ends; the runs that come back for it."""
        holding = self.limits.give(run_id)
        assert holding is not None
        return [] if holding.key is None else [back.run_id for back in self.ready.key_freed(holding.key)]

    def limit(self, most: int | None, per_key: int) -> None:
        """The queue has these limits from now on."""
        self.limits.configure("t", QueueConfigured(queue="q", max_leases=most, max_per_key=per_key))
