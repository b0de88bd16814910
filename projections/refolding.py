"""Folding stored facts into read models: what a rebuild, a comparison and a model of the past have in common.

Several projections are folded in one pass: every fact that any of them wants is decoded once, and the rest is passed
over undecoded. They may begin at different positions; each is told only facts after its own. Of a fact's metadata only
the instant is decoded, which is all that a fold may look at.

Trouble of one projection stays its own: it is left behind with its error, and the others go on.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from journal.chain import Row, Tail
from journal.mapper import Codec, Recorded
from projections.stored.known import CARDS, Known, Told, told
from projections.stored.projection import Aside, Folding, Projection, Write

PORTION = 2_000
"""Facts that are decoded and folded at a time."""

OPEN_STATES = 50_000
"""Folded states that each projection may keep: more than a follower, which must leave memory to the service."""

T = TypeVar("T")

Changes = list[tuple[Projection, Write]]


class Source(Protocol):
    """A journal to read: a service's own store, or a file that is opened to read only."""

    codec: Codec
    epoch: str

    def load_tail(self) -> Tail:
        """The end of the journal as it is stored now."""

    def rows_after(self, position: int) -> Iterator[Row]:
        """Every stored row after a position, in order, undecoded."""

    def stream(self, name: str) -> list[Recorded]:
        """All facts of a stream, in order."""

    def facts_after(self, position: int, limit: int, upto: int | None = None) -> list[Recorded]:
        """At most ``limit`` facts after a position and not beyond ``upto``, in order."""


class _Meta(msgspec.Struct, array_like=True, gc=False):
    """The one part of a fact's metadata that a fold may look at, in its place; what follows it is passed over."""

    fact_id: msgspec.Raw
    recorded_at: datetime


class _Stored(msgspec.Struct, Generic[T], array_like=True, gc=False):
    """A stored fact with as little of its metadata as that; one in the older form is decoded whole."""

    meta: _Meta
    data: T


class Start(NamedTuple):
    """Where a projection begins to be folded: after which position, with what put aside before."""

    projection: Projection
    position: int = 0
    aside: Sequence[Aside] = ()


class Refolding:
    """Some projections on their way through a journal."""

    def __init__(self, source: Source, starts: Sequence[Start], states: int = OPEN_STATES) -> None:
        self.position = min((start.position for start in starts), default=0)
        """The position up to which every projection has been folded."""
        self.failures: dict[str, Exception] = {}
        """What went wrong with the projections that were left behind."""
        self._source = source
        self._known = Known(source.stream, max(states, CARDS), states)
        self._begun = [(Folding(start.projection, self._known, start.aside), start.position) for start in starts]
        wanted = frozenset().union(*(folding.facts for folding, _ in self._begun))
        kinds = {topic: kind for topic, kind in source.codec.topics.items() if kind in wanted}
        self._decoders = {topic: msgspec.json.Decoder(_Stored[kind]).decode for topic, kind in kinds.items()}  # type: ignore[valid-type]

    def advance(self, upto: int) -> Iterator[int]:
        """Fold the facts up to a position, a portion at a time; the position after each.

        Raises:
            UnknownTopic, UndecodableFact, UnreadableStorage: the journal cannot be read.
        """
        rows = self._source.rows_after(self.position)
        while self.position < upto:
            facts = self._decoded(itertools.islice(rows, min(PORTION, upto - self.position)))
            if facts is None:
                return
            self._known.note(facts)
            for folding, begun in list(self._begun):
                self._absorb(folding, facts, begun)
            yield self.position

    def finish(self, upto: int) -> None:
        """Fold the facts up to a position."""
        for _ in self.advance(upto):
            pass

    def _decoded(self, rows: Iterable[Row]) -> list[Told] | None:
        """The facts that any projection wants; None when there were no rows."""
        facts: list[Told] = []
        decoders, codec = self._decoders, self._source.codec
        known, before = codec.topics, self.position
        for row in rows:
            position, stream, version, topic, state = row[:5]
            decode = decoders.get(topic)
            if decode is not None:
                try:
                    stored: Any = decode(state)
                    fact = stored.data
                    recorded = Recorded(position, stream, version, topic, fact, stored.meta)
                    facts.append((fact.__class__, stream.partition("-")[2], recorded))
                except msgspec.MsgspecError:
                    facts.extend(told([codec.recorded(row)]))
            elif topic not in known:
                facts.extend(told([codec.recorded(row)]))
            self.position = position
        return None if self.position == before else facts

    def _absorb(self, folding: Folding, facts: list[Told], begun: int) -> None:
        try:
            if facts and facts[0][2].position <= begun:
                facts = [one for one in facts if one[2].position > begun]
            folding.absorb(facts)
        except Exception as error:  # noqa: BLE001  (the others must go on)
            self._leave_behind(folding, error)

    def _leave_behind(self, folding: Folding, error: Exception) -> None:
        self.failures[folding.projection.name] = error
        self._begun = [one for one in self._begun if one[0] is not folding]

    def changes(self) -> Changes:
        """What changed since it was last asked for, projection by projection."""
        made: Changes = []
        for folding, _ in list(self._begun):
            try:
                made.append((folding.projection, folding.changes()))
            except Exception as error:  # noqa: BLE001  (the others must go on)
                self._leave_behind(folding, error)
        return made


def fold_into(
    refolding: Refolding, upto: int, write: Callable[[Changes], None], report: Callable[[int, int], None]
) -> None:
    """Fold up to a position, having ``write`` what came of each ``WRITE_FACTS`` facts."""
    written = refolding.position
    for position in refolding.advance(upto):
        if position - written >= WRITE_FACTS:
            write(refolding.changes())
            written = position
        report(position, upto)
    write(refolding.changes())


WRITE_FACTS = 10_000
"""Facts of which the rows are written at a time: a following service waits for its turn no longer than that takes."""
