"""The shape of every aggregate: an initial state, a total ``evolve``, and decisions that return facts.

``evolve(state, fact) -> state`` accepts every fact ever recorded and never refuses; deciding happens elsewhere and
raises a typed ``Refusal`` when the answer is no. Nothing happened is an answer: a repeat of a satisfied command
decides no facts.

Every state counts the facts it was folded from (``version``); a decision that read a state is guarded by that
version. A decision that concerns several aggregates of one run is collected in a ``Draft``, evidence first; adding a
fact returns its citation, so that a later fact of the same decision can name it before it has a position.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from domain.values import Fact, cite

S = TypeVar("S")
F = TypeVar("F")


def fold(evolve: Callable[[S, F], S], initial: S, facts: Iterable[F]) -> S:
    """The state after these facts."""
    state = initial
    for fact in facts:
        state = evolve(state, fact)
    return state


class Draft:
    """Facts of one decision in the order in which they will be recorded, each with the stream it belongs to."""

    def __init__(self, versions: dict[str, int]) -> None:
        self.versions = versions
        """The version of every stream that the decision read: what its append is guarded by."""
        self._heads = dict(versions)
        self.entries: list[tuple[str, Fact]] = []

    def begin(self, stream: str) -> None:
        """Read a stream that has no facts yet, so that this decision may begin it."""
        self.versions[stream] = self._heads[stream] = 0

    def add(self, stream: str, fact: Fact) -> str:
        """Append a fact to the decision; its citation."""
        version = self._heads[stream] + 1
        self._heads[stream] = version
        self.entries.append((stream, fact))
        return cite(stream, version)
