"""The hash chain: silent damage and tampering are found, and named by position.

Each fact stores SHA-256 over the previous fact's hash and everything that identifies it: position, version, topic,
stream and bytes. The first one follows the hash of the journal's own id, so facts cannot be moved between journals.
The tail (last position and hash) is kept in a row of its own, written in the append's transaction: without it, facts
cut off at the end would leave a perfect chain.

The form that is hashed is unambiguous: numbers and topic hold no blank, and the stream's length precedes it.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from journal.errors import JournalError
from journal.topics import own_run

Row = tuple[int, str, int, str, bytes, str | None, bytes]
"""A stored fact: position, stream, version, topic, state, hash of the chain up to it; before the hash the correlation
that it is filed under, which may be None when the stream is named after it."""


class Tail(NamedTuple):
    """Where the journal ends: the last position (0 when empty) and the hash stored there."""

    position: int
    hash: bytes


class Verdict(msgspec.Struct, frozen=True):
    """What a verification found: facts read, and the first position at which something is wrong, with what."""

    ok: bool
    facts: int
    first_bad_position: int | None = None
    problem: str | None = None


Read = Callable[[Row], str | None]
"""Reads the fact in a row and gives its correlation id, or raises the journal's own error."""


def genesis(journal_id: str) -> bytes:
    """The hash before the first fact of a journal."""
    return hashlib.sha256(b"jackline journal " + journal_id.encode()).digest()


def link(previous: bytes, position: int, stream: str, version: int, topic: str, state: bytes) -> bytes:  # noqa: PLR0913
    """The hash of the fact at a position, after the hash ``previous``; six values because each is in the hash."""
    head = f"{position} {version} {topic} {len(stream)} {stream} "
    return hashlib.sha256(previous + head.encode() + state).digest()


def verify_rows(rows: Iterable[Row], before: Tail, tail: Tail, read: Read) -> Verdict:
    """What is found in rows that should lead from ``before`` to ``tail``; ends at the first bad one.

    Nothing after a bad row can be judged, so it is not read.
    """
    facts = 0
    try:
        for row in rows:
            problem = _problem_of(row, before, read)
            if problem is not None:
                return Verdict(False, facts, before.position + 1, problem)
            facts += 1
            before = Tail(row[0], row[6])
    except JournalError as error:
        return Verdict(False, facts, before.position + 1, error.message)
    if before.position != tail.position:
        problem = f"the journal ends at {before.position}, and its tail record says {tail.position}"
        return Verdict(False, facts, min(before.position, tail.position) + 1, problem)
    if before.hash != tail.hash:
        return Verdict(False, facts, tail.position, "its hash is not the one in the tail record")
    return Verdict(True, facts)


def _plausible(row: Row, state: object) -> bool:
    """Whether each column holds what it was made for: damage may turn any of them into anything."""
    numbers = all(isinstance(number, int) for number in (row[0], row[2]))
    return numbers and all(isinstance(text, str) for text in (row[1], row[3])) and isinstance(state, bytes)


def _problem_of(row: Row, before: Tail, read: Read) -> str | None:
    position, stream, version, topic, state, correlation_id, stored = row
    if isinstance(state, str):  # a tool that rewrites a value may leave text where bytes were
        state = state.encode()
    if not _plausible(row, state):
        return "a column of it holds what no fact has there"
    if position != before.position + 1:
        return f"position {position} follows {before.position}"
    if link(before.hash, position, stream, version, topic, state) != stored:
        return "its hash does not follow from the fact and the hash before it"
    try:
        found = read(row)
    except JournalError as error:
        return error.message
    if found != correlation_id and (correlation_id is not None or found != own_run(stream)):
        return f"it is filed under correlation {correlation_id!r}, and belongs to {found!r}"
    return None
