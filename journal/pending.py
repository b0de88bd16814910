"""One decision on its way into the journal: encoded facts, guards, register writes, and the answer to remember.

It is made in the event loop, appended by the writer, and resolved in the event loop again. Exactly one side holds it at
a time, so it needs no lock. After the writer is done either ``error`` is set, or ``first`` is the position of its first
fact (0 when it only wrote registers).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from domain.values import Fact
from journal.mapper import Meta, Recorded
from journal.registers import Write

StoredFact = tuple[str, int, str, bytes, str | None]
"""A fact that is ready to be stored: stream, version, topic, state, correlation id."""


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


class Pending:
    """A decision between being decided and being durable."""

    __slots__ = (
        "command", "error", "facts", "first", "guards", "held", "rows", "settled", "stored", "waiter", "writes",
    )

    def __init__(
        self,
        rows: Sequence[StoredFact],
        facts: Sequence[tuple[Fact, Meta]] = (),
        *,
        guards: Mapping[str, int],
        writes: Sequence[Write] = (),
        command: Command | None = None,
    ) -> None:
        self.rows = rows
        self.facts = facts
        self.guards = guards
        self.writes = writes
        self.command = command
        self.first = 0
        self.error: BaseException | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.settled = False
        self.stored: Sequence[Recorded] = ()
        self.held: Sequence[str] = ()

    def recorded(self) -> Sequence[Recorded]:
        """The facts in their places, once the writer is done."""
        first = self.first
        self.stored = [
            Recorded(first + index, row[0], row[1], row[2], fact, meta)
            for index, (row, (fact, meta)) in enumerate(zip(self.rows, self.facts, strict=True))
        ]
        return self.stored
