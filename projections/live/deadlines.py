"""Deadlines: what falls due when, on the monotonic clock.

A deadline is only a reminder. Whoever acts on it reads the state and the evidence again and may find that nothing is
due any more: the lease was renewed, the slice ended, the reservation was bound. Renewals do not touch this heap; a
lease has one entry at the earliest deadline it may have, and is entered again, later, when that proves too early.
"""

from heapq import heappop, heappush
from typing import Literal, NamedTuple

Kind = Literal["slice", "reservation", "lease", "cancel", "worker", "quarantine"]
KINDS: tuple[Kind, ...] = ("slice", "reservation", "lease", "cancel", "worker", "quarantine")
"""In the order in which what falls due at one instant is taken: a slice ends before its lease does."""


class Due(NamedTuple):
    """Something that falls due: ``subject`` is a run or a worker, ``mark`` tells one occasion from the next."""

    mono: float
    rank: int
    kind: Kind
    subject: tuple[str, ...]
    mark: str


def due(mono: float, kind: Kind, subject: tuple[str, ...], mark: str) -> Due:
    """A reminder at this moment."""
    return Due(mono, KINDS.index(kind), kind, subject, mark)


class Deadlines:
    """A heap of reminders without duplicates."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._known: set[Due] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, reminder: Due) -> None:
        """Remind at that moment."""
        if reminder not in self._known:
            self._known.add(reminder)
            heappush(self._heap, reminder)

    def next(self) -> float | None:
        """The moment of the next reminder, in monotonic seconds."""
        return self._heap[0].mono if self._heap else None

    def pop_due(self, mono: float, limit: int) -> list[Due]:
        """At most ``limit`` reminders that are due, earliest first; they are forgotten here."""
        popped: list[Due] = []
        while self._heap and self._heap[0].mono <= mono and len(popped) < limit:
            reminder = heappop(self._heap)
            self._known.discard(reminder)
            popped.append(reminder)
        return popped
