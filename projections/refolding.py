"""Folding stored facts into read models: what a rebuild, a comparison and a model of the past have in common.

Several projections are folded in one pass: every fact that any of them wants is decoded once, and the rest is passed
over undecoded. They may begin at different positions; each is told only facts after its own. Of a fact's metadata only
the instant is decoded, which is all that a fold may look at. Where a fact goes is found by its topic, at once for all.

A half of all streams may be folded alone, so that two processes can do a half each: a position belongs to a half.

Trouble of one projection stays its own: it is left behind with its error, and the others go on.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from domain.values import Fact
from journal.chain import Tail
from journal.fact_tables import StoredRow, half_of
from journal.mapper import Codec, Recorded
from projections.stored.known import CARDS, Known
from projections.stored.projection import Aside, Folding, Handler, Projection, Write

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

    def portion_after(self, position: int, upto: int, half: int | None = None) -> tuple[int, list[StoredRow]]:
        """Some positions after one, not beyond ``upto``: the last, and what facts (of a half) are decoded from."""

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


def _in_another_form(state: bytes) -> Any:
    """Stands for the decoder of a topic that facts have no more."""
    raise msgspec.DecodeError


Halves = tuple[int, int]
"""A position for each half of all streams (``half_of``)."""


class Start(NamedTuple):
    """Where a projection begins to be folded: after which position of each half, with what put aside before."""

    projection: Projection
    positions: Halves = (0, 0)
    aside: Sequence[Aside] = ()


Targets = tuple[tuple[Folding, Handler], ...]
"""Who folds facts of one type, and which fold that is."""


class Route(NamedTuple):
    """What becomes of the facts of one topic: how they are decoded (None: nobody wants them), and who gets them."""

    decode: Callable[[bytes], Any] | None
    targets: Targets


_OTHER = Route(_in_another_form, ())


class Refolding:
    """Some projections on their way through a journal.

    Each fact goes straight from its bytes to the few handlers that its type has: what a fact costs beyond them is most
    of what a rebuild costs.
    """

    def __init__(
        self, source: Source, starts: Sequence[Start], *, half: int | None = None, states: int = OPEN_STATES
    ) -> None:
        self.half = half
        """The half of all streams that is folded; None for both."""
        self.position = min((position for start in starts for position in self._ours(start.positions)), default=0)
        """The position up to which every projection has been folded."""
        self.failures: dict[str, Exception] = {}
        """What went wrong with the projections that were left behind."""
        self._source = source
        self._known = Known(source.stream, max(states, CARDS), states)
        self._notes = self._known.notes if any(start.projection.asks for start in starts) else {}
        self._begun = [(Folding(start.projection, self._known, start.aside), start.positions) for start in starts]
        kinds = frozenset(self._notes).union(*(folding.facts for folding, _ in self._begun))
        self._decoders = {kind: msgspec.json.Decoder(_Stored[kind]).decode for kind in kinds}  # type: ignore[valid-type]
        self._targets: dict[type[Fact], Targets] = {}
        self._routes: dict[str, Route] = {}
        self._route()

    def _ours(self, positions: Halves) -> Sequence[int]:
        """Those of the halves that are folded."""
        return positions if self.half is None else (positions[self.half],)

    def _route(self) -> None:
        """Find out anew who folds what; the note that is taken of a fact comes before every fold."""
        for kind in self._decoders:
            self._targets[kind] = tuple(
                (folding, self._handler(folding, begun, kind))
                for folding, begun in self._begun
                if kind in folding.handlers
            )
        self._routes.update(
            (topic, Route(self._decoders.get(kind), self._targets.get(kind, ())))
            for topic, kind in self._source.codec.topics.items()
        )

    def _handler(self, folding: Folding, begun: Halves, kind: type[Fact]) -> Handler:
        """The fold's own handler, behind what it must not be told: facts that it has, and subjects put aside."""
        handle, aside = folding.handlers[kind], folding.aside
        if max(self._ours(begun)) <= self.position and not aside:
            return handle

        def guarded(subject: str, recorded: Recorded) -> None:
            if recorded.position > begun[half_of(recorded.stream)] and subject not in aside:
                handle(subject, recorded)

        return guarded

    def advance(self, upto: int) -> Iterator[int]:
        """Fold the facts up to a position, a portion at a time; the position after each.

        Raises:
            UnknownTopic, UndecodableFact, UnreadableStorage: the journal cannot be read.
        """
        while self.position < upto:
            end, rows = self._source.portion_after(self.position, upto, self.half)
            self._fold(rows)
            self.position = end
            yield end

    def finish(self, upto: int) -> None:
        """Fold the facts up to a position."""
        for _ in self.advance(upto):
            pass

    def _fold(self, rows: Sequence[StoredRow]) -> None:
        routes, notes = self._routes, self._notes
        decode: Callable[[bytes], Any] | None
        for row in rows:
            position, stream, version, topic, state = row
            decode, targets = routes.get(topic, _OTHER)
            if decode is None:
                continue
            try:
                stored = decode(state)
                recorded = Recorded(position, stream, version, topic, stored.data, stored.meta)
            except msgspec.MsgspecError:
                recorded = self._source.codec.recorded(row)
                targets = self._targets.get(recorded.fact.__class__, ())
            subject, note = stream.partition("-")[2], notes.get(recorded.fact.__class__)
            if note is not None:
                note(subject, recorded)
            for folding, handle in targets:
                try:
                    handle(subject, recorded)
                except Exception as error:  # noqa: BLE001  (the others must go on)
                    self._failed(folding, subject, recorded, error)

    def _failed(self, folding: Folding, subject: str, recorded: Recorded, error: Exception) -> None:
        """Put the fact aside, or leave the projection behind; the others go on."""
        try:
            folding.failed(subject, recorded, error)
        except Exception as found:  # noqa: BLE001  (the others must go on)
            self._leave_behind(folding, found)
        self._route()

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
                self._route()
        return made


def fold_into(
    refolding: Refolding, upto: int, write: Callable[[Changes], None], report: Callable[[int, int], None]
) -> None:
    """Fold up to a position, having ``write`` what came of each ``WRITE_FACTS`` facts."""
    written, portion = refolding.position, WRITE_FACTS if refolding.half is None else 2 * WRITE_FACTS
    for position in refolding.advance(upto):
        if position - written >= portion:
            write(refolding.changes())
            written = position
        report(position, upto)
    write(refolding.changes())


WRITE_FACTS = 10_000
"""Facts of which the rows are written at a time: a following service waits for its turn no longer than that takes."""
