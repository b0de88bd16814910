"""Deadlines: what falls due when, on the monotonic clock.

A deadline is only a reminder. Whoever acts on it reads the state and the evidence again and may find that nothing is
due any more: the lease was renewed, the slice ended, the reservation was bound. Renewals do not touch this heap; a
lease has one entry at the earliest deadline it may have, and is entered again, later, when that proves too early.
"""

from heapq import heappop, heappush
from typing import Literal, NamedTuple

Kind = Literal["lease", "slice", "reservation", "cancel", "worker", "quarantine"]


class Due(NamedTuple):
    """Something that falls due: ``subject`` is a run or a worker, ``mark`` tells one occasion from the next."""

    mono: float
    kind: Kind
    subject: tuple[str, ...]
    mark: str


class Deadlines:
    """A heap of reminders without duplicates."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._known: set[Due] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due: Due) -> None:
        """Remind at that moment."""
        if due not in self._known:
            self._known.add(due)
            heappush(self._heap, due)

    def next(self) -> float | None:
        """The moment of the next reminder, in monotonic seconds."""
        return self._heap[0].mono if self._heap else None

    def pop_due(self, mono: float, limit: int) -> list[Due]:
        """At most ``limit`` reminders that are due, earliest first; they are forgotten here."""
        due: list[Due] = []
        while self._heap and self._heap[0].mono <= mono and len(due) < limit:
            reminder = heappop(self._heap)
            self._known.discard(reminder)
            due.append(reminder)
        return due
