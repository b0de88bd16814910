"""Whether a concurrent history can be put into one order that a sequential model explains (Wing, Gong, Lowe).

An operation has an instant at which it was called and one at which it was answered; instants are numbers drawn from one
counter, so that "answered before the other was called" is a comparison and needs no clock. A history is *linearizable*
when its operations can be put into a row so that each answer is what the model says at its place, and no operation
stands before one that had been answered when it was called.

An operation that nobody answered (a cut connection, a killed service) has no second instant: it may take its place
anywhere after its call, or nowhere. Two rules keep the search small, and neither can change its verdict:

- an operation that fits and leaves the state as it is is taken at once and never taken back: a row in which it stands
  later stays right when it is moved here;
- an unanswered one is tried only after all answered ones that fit.

A place that was searched before (the same operations done, the same state) is not searched again. The search is bounded
by `MOST_STEPS`; a history that it does not decide within them is *undecided*, which is never taken for an answer: keep
histories at `MOST_OPERATIONS` for one key, and have many keys.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

MOST_OPERATIONS = 500
MOST_STEPS = 500_000

S = TypeVar("S", bound=Hashable)


class Undecided(Exception):
    """The search was given up after `MOST_STEPS`."""


@dataclass(frozen=True)
class Operation:
    """One call: who asked for what, between which instants, and what was told; nothing was told without an answer."""

    client: str
    asked: tuple[Any, ...]
    called: int
    answered: int | None = None
    told: Any = None

    @property
    def unknown(self) -> bool:
        """Whether nobody answered."""
        return self.answered is None


class Model(Protocol[S]):
    """What a sequential service would say."""

    @property
    def initial(self) -> S:
        """The state before anything."""

    def step(self, state: S, operation: Operation) -> S | None:
        """The state after the operation, or None where its answer contradicts the state."""


class _Line:
    """The calls and answers that have no place yet, in the order of their instants: a list with two-way links."""

    def __init__(self, history: Sequence[Operation]) -> None:
        instants = sorted(
            [(one.called, number, True) for number, one in enumerate(history)]
            + [(one.answered, number, False) for number, one in enumerate(history) if one.answered is not None]
        )
        self._marks = [(-1, True), *((number, is_call) for _, number, is_call in instants), (-1, False)]
        self._next = [place + 1 for place in range(len(self._marks))]
        self._before = [place - 1 for place in range(len(self._marks))]
        self._places: dict[int, list[int]] = {}
        for place, (number, _) in enumerate(self._marks):
            self._places.setdefault(number, []).append(place)
        self.waiting = sum(not one.unknown for one in history)

    def first(self) -> Iterator[int]:
        """The operations that were called before any other was answered: one of them is next."""
        place = self._next[0]
        while self._marks[place][1]:
            yield self._marks[place][0]
            place = self._next[place]

    def take(self, number: int) -> None:
        """Give an operation its place."""
        places = self._places[number]
        for place in places:
            self._next[self._before[place]] = self._next[place]
            self._before[self._next[place]] = self._before[place]
        self.waiting -= len(places) - 1

    def put_back(self, number: int) -> None:
        """Take the place of the operation taken last away from it."""
        places = self._places[number]
        for place in reversed(places):
            self._next[self._before[place]] = self._before[self._next[place]] = place
        self.waiting += len(places) - 1


def linearizable(history: Sequence[Operation], model: Model[S], *, most_steps: int = MOST_STEPS) -> bool:
    """Whether one order explains every answer.

    Raises:
        Undecided: that was not found out within this many steps.
    """
    assert len(history) <= MOST_OPERATIONS, (
        f"{len(history)} operations on one key; at most {MOST_OPERATIONS} are decided"
    )
    line, state, done = _Line(history), model.initial, 0
    seen: set[tuple[int, S]] = set()
    taken: list[tuple[int, S, list[tuple[int, S]]]] = []
    choices = _fitting(line, history, model, state)
    for _ in range(most_steps):
        if line.waiting == 0:
            return True
        while not choices:
            if not taken:
                return False
            number, state, choices = taken.pop()
            line.put_back(number)
            done ^= 1 << number
        number, after = choices.pop()
        here = (done | 1 << number, after)
        if here in seen:
            continue
        seen.add(here)
        taken.append((number, state, choices))
        line.take(number)
        done, state = here
        choices = _fitting(line, history, model, state)
    raise Undecided(f"{len(history)} operations, {most_steps} steps")  # noqa: EM102 - the one place that says it


def _fitting(line: _Line, history: Sequence[Operation], model: Model[S], state: S) -> list[tuple[int, S]]:
    """What may be next and what would follow, the best choice last."""
    answered: list[tuple[int, S]] = []
    unknown: list[tuple[int, S]] = []
    for number in line.first():
        operation = history[number]
        after = model.step(state, operation)
        if after is None or (operation.unknown and after == state):
            continue
        if after == state:
            return [(number, after)]
        (unknown if operation.unknown else answered).append((number, after))
    return [*reversed(unknown), *reversed(answered)]
