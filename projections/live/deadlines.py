"""Deadlines: what falls due when, on the monotonic clock.

A deadline is only a reminder. Whoever acts on it reads the state and the evidence again and may find that nothing is
due any more: the lease was renewed, the slice ended, the reservation was bound. A subject has one reminder of a kind:
the earliest that was asked for on one occasion. Renewals do not touch it; it is entered again, later, when that proves
too early. Whatever ends the occasion forgets it, so that nothing is left of what has ended.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple, get_args

from domain.values import Value

Kind = Literal[
    "leader", "session", "observer", "sight", "provision", "quiet", "total", "slice", "reservation", "lease", "cancel",
    "turn", "idle", "grant", "worker", "quarantine",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In the order in which what falls due at one instant is taken: leader gone before whatever is about a workspace,
that before take-over, slice before lease."""

LEASE_KINDS: tuple[Kind, ...] = ("lease", "slice", "reservation")
RUN_KINDS: tuple[Kind, ...] = (*LEASE_KINDS, "cancel", "quiet", "total")

SPARE = 64
"""Forgotten reminders that are carried along before the heap is made anew."""


class Graces(Value, frozen=True, kw_only=True):
    """How long somebody may be unheard, or something may take, in seconds."""

    worker_gone_s: float = 60.0
    leader_grace_s: float = 60.0
    provisioning_s: float = 120.0
    idle_reap_s: float = 1800.0
    admission_s: float = 90.0


class Due(NamedTuple):
    """Something that falls due: ``subject`` is a run, a worker or the like, ``mark`` tells its occasions apart."""

    mono: float
    rank: int
    kind: Kind
    subject: tuple[str, ...]
    mark: str


def due(mono: float, kind: Kind, subject: tuple[str, ...], mark: str) -> Due:
    """A reminder at this moment."""
    return Due(mono, KINDS.index(kind), kind, subject, mark)


Remind = Callable[[Kind, float, tuple[str, ...], str], None]
"""Asks for a reminder: kind, moment, subject, occasion."""


class Deadlines:
    """A heap of reminders, one for each kind and subject."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._current: dict[tuple[Kind, tuple[str, ...]], Due] = {}

    def __len__(self) -> int:
        return len(self._current)

    def add(self, reminder: Due) -> None:
        """Remind at that moment; earlier, if an earlier one was asked for on the same occasion."""
        key = (reminder.kind, reminder.subject)
        known = self._current.get(key)
        if known is not None and known.mark == reminder.mark and known.mono <= reminder.mono:
            return
        self._current[key] = reminder
        heappush(self._heap, reminder)
        if len(self._heap) > 2 * len(self._current) + SPARE:
            self._heap = list(self._current.values())
            heapify(self._heap)

    def add_again(self, reminder: Due) -> None:
        """Remind later of what was due too early or failed, unless there is a new occasion meanwhile.

        A later reminder on the same occasion is no reason to wait for it.
        """
        known = self._current.get((reminder.kind, reminder.subject))
        if known is None or known.mark == reminder.mark:
            self.add(reminder)

    def restart(self, reminder: Due) -> None:
        """Remind at that moment instead of any other."""
        self.forget(reminder.kind, reminder.subject)
        self.add(reminder)

    def forget(self, kind: Kind, subject: tuple[str, ...]) -> None:
        """The occasion is over."""
        self._current.pop((kind, subject), None)

    def forget_each(self, kinds: Iterable[Kind], subject: tuple[str, ...]) -> None:
        """Every one of these occasions is over."""
        for kind in kinds:
            self.forget(kind, subject)

    def shift(self, seconds: float) -> None:
        """Have everything fall due that much later."""
        later = {key: reminder._replace(mono=reminder.mono + seconds) for key, reminder in self._current.items()}
        self._current, self._heap = later, list(later.values())
        heapify(self._heap)

    def next(self) -> float | None:
        """The moment of the next reminder, in monotonic seconds."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        return heap[0].mono if heap else None

    def due_of(self, kind: Kind, mono: float) -> list[tuple[str, ...]]:
        """Subjects of the reminders of one kind that are due and that nobody has looked at yet, in no order."""
        found, looking = dict[tuple[str, ...], None](), [0]
        while looking:
            at = looking.pop()
            if at < len(self._heap) and self._heap[at].mono <= mono:  # what lies below it in the heap may be due, too
                looking += (2 * at + 1, 2 * at + 2)
                if self._heap[at].kind == kind and self._is_current(self._heap[at]):
                    found[self._heap[at].subject] = None
        return list(found)

    def pop_due(self, mono: float, limit: int) -> list[Due]:
        """At most ``limit`` reminders that are due, earliest first; they are forgotten here."""
        popped: list[Due] = []
        while len(popped) < limit and (at := self.next()) is not None and at <= mono:
            reminder = heappop(self._heap)
            del self._current[reminder.kind, reminder.subject]
            popped.append(reminder)
        return popped

    def all(self) -> list[Due]:
        """Every reminder, earliest first."""
        return sorted(self._current.values())

    def _is_current(self, reminder: Due) -> bool:
        return self._current.get((reminder.kind, reminder.subject)) == reminder
