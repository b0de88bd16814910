"""Read models in the world: the one that the service keeps in a file, and that of a process beside it.

A model outlives the process that wrote it. Whoever goes on with it has nothing but the file and the position in it, so
it begins with empty hands wherever its predecessor left off. What two models of one journal say at one position must be
the same, to the byte, whoever folded them, in however many lives, and by whichever road.
"""

import sqlite3
from collections.abc import Callable, Sequence

from journal.mapper import Recorded
from journal.memory import MemoryStore
from projections.comparing import Difference, first_difference
from projections.refolding import Refolding, Start
from projections.stored.catalogue import PROJECTIONS
from projections.stored.database import create_tables, scratch
from projections.stored.known import Known, told
from projections.stored.projection import Folding
from simulation.broken import LawBroken
from simulation.laws import L9, ORDER

FOLLOWED = 7
"""Runs that an incremental model keeps folded: few, so that it has to read back."""
Stream = Callable[[str], list[Recorded]]


class ReadModel:
    """One file of read models, and whoever folds into it at present."""

    def __init__(self) -> None:
        self.position = 0
        """Up to here it was folded; it is kept in the file."""
        self.connection: sqlite3.Connection = scratch()
        for projection in PROJECTIONS:
            create_tables(self.connection, projection.tables, "")
        self._known: Known
        self._foldings: list[Folding] = []

    def go_on(self, stream: Stream) -> None:
        """Somebody takes it over, who knows nothing but what is in it."""
        self._known = Known(stream, FOLLOWED, FOLLOWED)
        self._foldings = [Folding(projection, self._known) for projection in PROJECTIONS]

    def absorb(self, facts: Sequence[Recorded]) -> None:
        """Fold what comes next."""
        for recorded in facts:
            if recorded.position != self.position + 1:
                raise LawBroken(ORDER, f"a follower at {self.position} was given {recorded.position}", [recorded])
            self.position = recorded.position
        if not facts:
            return
        news = told(facts)
        self._known.note(news)
        with self.connection:
            for folding in self._foldings:
                folding.absorb(news)
                folding.changes()(self.connection, "")
                if folding.aside:
                    raise LawBroken(L9, f"{folding.projection.name} cannot fold a fact", [*folding.aside.values()])

    def rebuild(self, store: MemoryStore, upto: int) -> None:
        """Fold an empty model up to a position, in bulk."""
        refolding = Refolding(store, [Start(projection) for projection in PROJECTIONS])
        refolding.finish(upto)
        for _, write in refolding.changes():
            write(self.connection, "")
        self.position = refolding.position

    def differs_from(self, other: "ReadModel") -> Difference | None:
        """The first row in which two of them differ."""
        found = (first_difference(self.connection, other.connection, projection) for projection in PROJECTIONS)
        return next((one for one in found if one is not None), None)

    def close(self) -> None:
        """Give it back."""
        self.connection.close()
