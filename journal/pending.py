"""Decisions on their way into the journal, and the batch that carries several of them into one transaction.

A ``Pending`` is one decision: encoded facts, guards, register writes, the answer to remember. A ``Batch`` gives the
facts of its decisions the positions and hashes that follow a given end of the chain. Both are made in the event loop,
appended by the writer, and resolved in the event loop again; exactly one side holds them at a time, so they need no
lock. After the writer is done a decision either has an ``error``, or ``first`` is the position of its first fact (0
when it only wrote registers).
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from domain.values import Fact
from journal.chain import Tail, link
from journal.mapper import Meta, Recorded
from journal.registers import Write

StoredFact = tuple[str, int, str, bytes, str | None]
"""A fact that is ready to be stored: stream, version, topic, state, correlation id."""


EMPTY: Mapping[str, int] = MappingProxyType({})


class Command(NamedTuple):
    """The answer that is remembered under a command id."""

    command_id: str
    request_digest: str | None
    answer: bytes


class CommandRow(NamedTuple):
    """What is remembered: the request it answered, the positions of its first and last fact, the answer."""

    request_digest: str | None
    first: int
    last: int
    answer: bytes


class Pending(msgspec.Struct, eq=False):
    """A decision between being decided and being durable."""

    rows: Sequence[StoredFact]
    facts: Sequence[tuple[Fact, Meta]] = ()
    guards: Mapping[str, int] = EMPTY
    writes: Sequence[Write] = ()
    command: Command | None = None
    first: int = 0
    error: BaseException | None = None
    settled: bool = False
    stored: Sequence[Recorded] = ()
    held: Sequence[str] = ()
    waiter: asyncio.Future[None] | None = None

    def recorded(self) -> Sequence[Recorded]:
        """The facts in their places, once the writer is done."""
        position = self.first
        if len(self.rows) == 1:
            row, (fact, meta) = self.rows[0], self.facts[0]
            self.stored = (Recorded(position, row[0], row[1], row[2], fact, meta),)
        else:
            self.stored = tuple(
                Recorded(position + index, row[0], row[1], row[2], fact, meta)
                for index, (row, (fact, meta)) in enumerate(zip(self.rows, self.facts, strict=True))
            )
        return self.stored


class Batch:
    """Decisions that are appended together, from the end of the chain at ``before`` to the one at ``after``.

    ``parameters`` are the rows of ``stored_events``, one after another. ``refused`` are decisions that were found stale
    while the batch was made up; they are told together with it. ``size`` counts both. ``straight`` says that it was
    appended as it was made.
    """

    __slots__ = ("accepted", "before", "hash", "parameters", "position", "refused", "size", "straight")

    def __init__(self, before: Tail) -> None:
        self.before = before
        self.position, self.hash = before
        self.accepted: list[Pending] = []
        self.refused: list[Pending] = []
        self.parameters: list[Any] = []
        self.size = 0
        self.straight = False

    @classmethod
    def of(cls, pendings: Sequence[Pending], before: Tail) -> "Batch":
        """A batch of these decisions."""
        batch = cls(before)
        for pending in pendings:
            batch.add(pending)
        return batch

    @property
    def after(self) -> Tail:
        """Where the chain ends after it."""
        return Tail(self.position, self.hash)

    def refuse(self, pending: Pending) -> None:
        """Let a decision that cannot be appended be told with this batch."""
        self.refused.append(pending)
        self.size += 1

    def add(self, pending: Pending) -> None:
        """Give a decision's facts the next positions."""
        self.accepted.append(pending)
        self.size += 1
        position, digest = self.position, self.hash
        pending.first = position + 1 if pending.rows else 0
        parameters = self.parameters
        for stream, version, topic, state, correlation_id in pending.rows:
            position += 1
            digest = link(digest, position, stream, version, topic, state)
            parameters += (position, stream, version, topic, state, correlation_id, digest)
        self.position, self.hash = position, digest
