"""Folding a journal from its first fact into the rows of a read model: what a rebuild and a comparison have in common.

Rows of runs that settle are handed on as they do, so that only open runs take memory; those of open runs at the end.
Facts are decoded without their metadata, which no row needs. Facts of other aggregates are passed over undecoded.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from journal.chain import Row, Tail
from journal.mapper import Codec, Recorded
from journal.topics import aggregate_of, prefix_of
from projections.stored.runs_fold import Change, RunsFold

WRITE_ROWS = 2_000
"""Rows handed on at a time: a following service waits for its turn no longer than writing these takes."""

REPORT_EVERY = 2_000
"""Facts between two reports of progress."""

T = TypeVar("T")


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


class _Data(msgspec.Struct, Generic[T]):
    """A stored fact without its metadata, which no row needs: not decoding it saves a fifth of the time."""

    data: T


class Refolding:
    """The fold of a journal from its first fact, with what it makes handed to ``sink`` in bounded portions."""

    def __init__(self, source: Source, sink: Callable[[Sequence[Change]], None]) -> None:
        self.sink = sink
        self.position = 0
        self._source = source
        self._fold = RunsFold(source.stream, capacity=sys.maxsize)
        self._made: list[Change] = []
        topics = {topic: kind for topic, kind in source.codec.topics.items() if aggregate_of(topic) in ("run", "lease")}
        self._decoders = {topic: msgspec.json.Decoder(_Data[kind]).decode for topic, kind in topics.items()}  # type: ignore[valid-type]

    def advance(self, upto: int, report: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Fold the facts up to a position; rows of runs that stay open are kept back until ``finish``.

        Raises:
            UnknownTopic, UndecodableFact: the journal holds a fact that this version cannot read.
        """
        rows = self._source.rows_after(self.position)
        while self.position < upto:
            portion = itertools.islice(rows, min(REPORT_EVERY, upto - self.position))
            before = self.position
            self._fold_rows(portion, upto)
            if self.position == before:
                break
            self._made.extend(self._fold.settled())
            if len(self._made) >= WRITE_ROWS:
                self._hand_on()
            report(self.position, upto)
        self._hand_on()
        report(self.position, upto)

    def _fold_rows(self, rows: Iterable[Row], upto: int) -> None:
        decoders, on_run, on_lease = self._decoders, self._fold.on_run, self._fold.on_lease
        for row in rows:
            position, stream, version, topic, state = row[:5]
            if position > upto:
                break
            decode = decoders.get(topic)
            try:
                if decode is None:
                    self._fold_other(row)
                elif topic[0] == "r":
                    on_run(stream[4:], version, position, decode(state).data)
                else:
                    on_lease(stream[6:], position, decode(state).data)
            except msgspec.MsgspecError:
                self._fold_whole(row)
            self.position = position

    def _fold_other(self, row: Row) -> None:
        """Fold a fact under a name of another aggregate, or one that has to become a current fact first."""
        kind = prefix_of(row[1])
        if kind == "effects":
            self._fold.on_effects(row[1].removeprefix("effects-"), row[0])
        elif kind in ("run", "lease"):
            self._fold_whole(row)

    def _fold_whole(self, row: Row) -> None:
        self._fold.absorb(self._source.codec.recorded(row))

    def _hand_on(self) -> None:
        if self._made:
            self.sink(self._made)
            self._made = []

    def finish(self) -> None:
        """Hand on the rows of runs that are open."""
        changes = self._fold.changes()
        for start in range(0, len(changes), WRITE_ROWS):
            self.sink(changes[start : start + WRITE_ROWS])
