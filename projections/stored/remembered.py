"""Folded states of streams that a projection follows, at most so many; one that was forgotten is folded again.

What is read again is read only up to the fact that is being folded, so the answer does not depend on what was kept.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from domain.values import Fact
from domain.workspace_facts import WorkspacePlaced
from journal.mapper import Recorded
from projections.stored.known import Known

S = TypeVar("S")


def placed_for(run_id: str, fact: Fact) -> str:
    """The run of a workspace, after one more fact of it: what a rebuild decodes has no other name of it."""
    return fact.run_id if isinstance(fact, WorkspacePlaced) else run_id


class Remembered(Generic[S]):
    """The states of one kind of stream, as of the last fact of each."""

    def __init__(self, known: Known, initial: S, evolve: Callable[[Any, Any], Any]) -> None:
        self._read = known.read
        self._most = known.states
        self._initial = initial
        self._evolve = evolve
        self._states: OrderedDict[str, S] = OrderedDict()

    def after(self, recorded: Recorded) -> S:
        """The state of a fact's stream after that fact."""
        stream = recorded.stream
        state = self._states.pop(stream, None)
        if state is None:
            state = self._initial
            if recorded.version > 1:
                for earlier in self._read(stream):
                    if earlier.position < recorded.position:
                        state = self._evolve(state, earlier.fact)
        after: S = self._evolve(state, recorded.fact)
        self._states[stream] = after
        if len(self._states) > self._most:
            self._states.popitem(last=False)
        return after
