"""The place in the journal that an instant means: the last fact that was recorded at or before it.

Facts are taken to be recorded in the order of their instants, as they are unless somebody sets the clock back. Where
that happened the journal passes an instant more than once, and one of those places is meant, the same one every time.
A place is found by halving, so it costs as many reads as the journal's length has binary digits.
"""

from datetime import datetime
from typing import Protocol

from domain.values import Value
from journal.chain import Tail
from journal.mapper import Recorded
from journal.tool_errors import PositionBeyond
from projections.stored.faults import InstantBefore


class Readable(Protocol):
    """A journal that is read by position."""

    def load_tail(self) -> Tail:
        """The end of the journal as it is stored now."""

    def facts_after(self, position: int, limit: int) -> list[Recorded]:
        """At most ``limit`` facts after a position, in order."""


class Place(Value, frozen=True, kw_only=True):
    """A position, and when its fact was recorded; null at position 0, before the first."""

    position: int
    recorded_at: datetime | None


def place_at(source: Readable, at: int | datetime) -> Place:
    """The place that is meant.

    Raises:
        PositionBeyond: the journal does not have it.
        InstantBefore: the journal had no fact at that instant.
    """
    tail = source.load_tail().position
    position = at if isinstance(at, int) else _last_until(source, at, tail)
    if not 0 <= position <= tail:
        raise PositionBeyond(position, tail)
    return Place(position=position, recorded_at=_recorded_at(source, position) if position else None)


def _last_until(source: Readable, wanted: datetime, tail: int) -> int:
    before, after = 0, tail + 1
    while after - before > 1:
        middle = (before + after) // 2
        if _recorded_at(source, middle) <= wanted:
            before = middle
        else:
            after = middle
    if not before:
        raise InstantBefore(wanted.isoformat(), _recorded_at(source, 1).isoformat() if tail else None)
    return before


def _recorded_at(source: Readable, position: int) -> datetime:
    return source.facts_after(position - 1, 1)[0].meta.recorded_at
