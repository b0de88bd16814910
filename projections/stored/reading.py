"""Reading the stored projections: off the event loop, each read in one snapshot, with the position that it shows.

A small pool of threads serves all models, each thread with its own query-only connection, so a slow search holds up
neither the event loop nor the folds. ``wait_for`` is how a reader sees what it has just done: it returns once the model
has the position, and says after its bound which one it has reached instead.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from projections.reached import Reached
from projections.stored.database import Database, tracked
from projections.stored.faults import ProjectionsUnusable, ReadModelBehind

READERS = 2
"""Threads that read: as many slow reads as may be under way at a time."""

T = TypeVar("T")

Question = Callable[[sqlite3.Connection, int, str], T]
"""Answers from a snapshot, given the position that it shows and the epoch of the journal."""


class Model:
    """Reads of one projection."""

    def __init__(self, name: str, database: Database, reached: Reached, pool: ThreadPoolExecutor) -> None:
        self.name = name
        self.readable = True
        """False while the rows are of a version that today's questions cannot be put to, until they are rebuilt."""
        self._database = database
        self._reached = reached
        self._pool = pool

    @property
    def position(self) -> int:
        """The position up to which every fact is in the model."""
        return self._reached.position

    async def wait_for(self, position: int, timeout_s: float) -> None:
        """Return once the model has reached this position.

        Raises:
            ReadModelBehind: it had not within ``timeout_s`` seconds.
        """
        await self._reached.wait_for(position, timeout_s)

    async def ask(self, question: Question[T]) -> T:
        """The answer to a question, from one snapshot.

        Raises:
            ReadModelBehind: the rows are still being made again for this version.
        """
        return await self.in_pool(lambda: self.ask_now(question))

    def ask_now(self, question: Question[T]) -> T:
        """Like ``ask``, in the calling thread."""
        with self.snapshot() as (connection, position, epoch):
            return question(connection, position, epoch)

    async def in_pool(self, read: Callable[[], T]) -> T:
        """What ``read`` gives, in a thread that reads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, read)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[tuple[sqlite3.Connection, int, str]]:
        """A connection in one snapshot, the position that it shows, and the epoch of the journal.

        Raises:
            ReadModelBehind: the rows are still being made again, for this version or because the file was spoiled.
        """
        if not self.readable:
            raise ReadModelBehind(wanted=max(1, self.position), reached=0)
        try:
            with self._database.reading() as connection:
                at = tracked(connection, self.name)
                if at is None:
                    raise ReadModelBehind(wanted=max(1, self.position), reached=0)
                yield connection, at.position, at.epoch
        except (sqlite3.Error, ProjectionsUnusable) as error:
            if not self._database.spoiled:
                raise
            raise ReadModelBehind(wanted=max(1, self.position), reached=0) from error


def readers() -> ThreadPoolExecutor:
    """The threads that read."""
    return ThreadPoolExecutor(READERS, thread_name_prefix="projections-read")
