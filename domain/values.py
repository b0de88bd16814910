"""The small values that every room speaks: facts, moments, user JSON, citations.

A *fact* is a frozen struct in the past tense. It carries everything needed to believe it later: resulting values
(fence, deadline), never deltas or settings to compute them from. Its stored name is given by the closed table in
``journal.topics``; nothing here knows how facts are kept.

A *moment* is one reading of the service's clock in both of its scales. ``wall`` (aware, UTC) goes into facts, for
people and for calendar times; ``mono`` (seconds, arbitrary origin) decides every duration, so that a wall clock set
back or forth settles nothing and hands nothing on.

*User JSON* (payloads, results, partials, questions) is kept as the bytes that arrived: the service never looks
inside, so replay returns exactly what was sent.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

Json = msgspec.Raw
"""One JSON value as bytes."""

NULL = Json(b"null")
"""Nothing: a value that is absent and one that was sent as null are the same."""


class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An immutable value; equal when its fields are.

    It is made from values that are there already, so it is in no cycle, and nobody need look whether it is.
    """


class Fact(Value, frozen=True, kw_only=True):
    """Something that happened, in the past tense."""


class Moment(msgspec.Struct, frozen=True):
    """One instant in both scales of the service's clock: ``wall`` for people, ``mono`` seconds for durations."""

    wall: datetime
    mono: float

    def after(self, seconds: float) -> "Moment":
        """The moment that many seconds later on both scales."""
        return Moment(self.wall + timedelta(seconds=seconds), self.mono + seconds)

    def wall_at(self, mono: float) -> datetime:
        """The wall instant, by this reading, at which the monotonic scale shows ``mono``."""
        return self.wall + timedelta(seconds=mono - self.mono)


Clock = Callable[[], Moment]
"""Gives the present moment; chosen once, in the composition root."""


def later(instant: datetime, seconds: float) -> datetime:
    """The instant ``seconds`` later."""
    return instant + timedelta(seconds=seconds)


def to_json(value: Any) -> Json:
    """The JSON bytes of a plain Python value.

    Raises:
        TypeError: the value has no JSON form.
    """
    return Json(msgspec.json.encode(value))


def of_json(raw: Json) -> Any:
    """The plain Python value of JSON bytes."""
    return msgspec.json.decode(raw)


def digest(raw: Json) -> str:
    """SHA-256, in hexadecimal, of the canonical form of a JSON value: sorted keys, no blanks.

    Two payloads are the same when their digests are, however their keys were ordered.
    """
    canonical = msgspec.json.encode(msgspec.json.decode(raw), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def cite(stream: str, version: int) -> str:
    """The citation of one fact: ``stream@version``, which never changes once the fact is recorded."""
    return f"{stream}@{version}"


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
