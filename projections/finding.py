"""The place in the journal that somebody means: a position, or an instant; one rule for whoever looks back.

An instant means the last fact that was recorded at or before it. A place before the first fact, beyond the last, or an
instant that has not come is refused, wherever it is asked for: there is nothing there that could be shown.

Facts are taken to be recorded in the order of their instants, as they are unless somebody sets the clock back. Where
that happened the journal passes an instant more than once, and one of those places is meant, the same one every time.
A place is found by halving, so it costs as many reads as the journal's length has binary digits.
"""

import re
from datetime import UTC, datetime
from typing import Protocol

from domain.refusal import InvalidCommand, Refusal
from domain.values import Value
from journal.chain import Tail
from journal.mapper import Recorded
from journal.tool_errors import PositionBeyond
from projections.stored.faults import InstantBefore

AT_MAX_CHARS = 64
PLACES = "a position (1 or more) or an RFC 3339 instant with its offset, like 2026-01-31T12:00:00Z"

_POSITION = re.compile(r"[0-9]{1,18}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[-+ ]\d\d:\d\d)")
_BLANK_FOR_PLUS = re.compile(r" (\d\d:\d\d)$")
"""What a query makes of the plus of an offset."""


class InstantBeyond(Refusal):
    """The instant has not come yet."""

    code = "instant_beyond"

    def __init__(self, instant: datetime, now: datetime) -> None:
        super().__init__(
            f"nothing is known of {instant.isoformat()}: it is {now.isoformat()} now",
            instant=instant.isoformat(),
            now=now.isoformat(),
        )


class Readable(Protocol):
    """A journal that is read by position."""

    def load_tail(self) -> Tail:
        """The end of the journal as it is stored now."""

    def facts_after(self, position: int, limit: int) -> list[Recorded]:
        """At most ``limit`` facts after a position, in order."""


class Place(Value, frozen=True, kw_only=True):
    """A position, and when its fact was recorded."""

    position: int
    recorded_at: datetime


def meant(text: str, now: datetime) -> int | datetime:
    """The position or the instant that is written here.

    Raises:
        InvalidCommand: it is neither.
        InstantBeyond: it has not come yet.
    """
    wanted = _written(text)
    if isinstance(wanted, datetime) and wanted > now:
        raise InstantBeyond(wanted, now)
    return wanted


def _written(text: str) -> int | datetime:
    if _POSITION.fullmatch(text) and int(text) > 0:
        return int(text)
    if _INSTANT.fullmatch(text):
        try:
            return datetime.fromisoformat(_BLANK_FOR_PLUS.sub(r"+\1", text).upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise InvalidCommand(field="at", value=text[:AT_MAX_CHARS], limit=PLACES)


def place_at(source: Readable, at: int | datetime) -> Place:
    """The place that is meant.

    Raises:
        InvalidCommand: it is before the first position.
        PositionBeyond: the journal does not have it.
        InstantBefore: the journal had no fact at that instant.
    """
    tail = source.load_tail().position
    position = at if isinstance(at, int) else _last_until(source, at, tail)
    if position < 1:
        raise InvalidCommand(field="at", value=position, limit=PLACES)
    if position > tail:
        raise PositionBeyond(position, tail)
    return Place(position=position, recorded_at=_recorded_at(source, position))


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
