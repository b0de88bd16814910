"""The journal's storage in memory, with faults on demand and a witness of every decision that becomes durable.

An append can fail before it changes anything, after everything is stored, or so that storage cannot even tell: the
three ways in which a disk, or a connection to one, goes away. In the third, nothing can be read for a moment either:
the next look at a stream fails as well. The witness is told each decision with its facts and register writes as they
land, whether or not anybody is ever answered. A store can also *die* with its process, at the n-th append: from then on
it neither takes nor tells anything, until it is opened anew.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, cast

from eventsourcing.persistence import ApplicationRecorder, PersistenceError
from eventsourcing.popo import POPOFactory

from journal.application import JournalApplication, MemoryJournal
from journal.chain import Tail
from journal.errors import UnreadableStorage
from journal.mapper import DEFAULT_CODEC, Recorded
from journal.memory import MemoryStore
from journal.pending import Batch, CommandRow, Pending
from journal.registers import Write

Fault = Literal["before", "after", "unknown"]
GONE = "the simulated storage is gone"
Witness = Callable[[Sequence[Recorded], Sequence[Write]], None]


class FaultyStore(MemoryStore):
    """The memory store that fails once when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Fault | None = None
        self.witness: Witness = lambda facts, writes: None
        self._blind = self._unread = False
        self.appends = 0
        self.dies_at: tuple[int, Literal["before", "after"]] | None = None
        self.dead = False

    def revive(self) -> None:
        """Another process opens it: it dies no more."""
        self.dead, self.dies_at, self.fault = False, None, None
        self.is_well()

    def is_well(self) -> None:
        """Whatever is there can be read again."""
        self._unread = False

    def stream(self, name: str) -> list[Recorded]:
        """All facts of a stream, unless storage has just become unreadable."""
        unread, self._unread = self._unread, False
        if unread:
            raise UnreadableStorage(GONE)
        return super().stream(name)

    def command(self, command_id: str) -> CommandRow | None:
        """What is remembered of a command."""
        self._refuse_if_dead()
        return super().command(command_id)

    def stored_at(self, stream: str, version: int) -> tuple[int, bytes] | None:
        """What is stored there."""
        self._refuse_if_dead()
        return super().stored_at(stream, version)

    def _refuse_if_dead(self) -> None:
        if self.dead:
            raise _broken()

    def append(self, batch: Batch) -> None:
        """Take over the whole batch or nothing, and fail as told."""
        with self._failing():
            super().append(batch)

    def append_each(self, pendings: Sequence[Pending]) -> None:
        """Take over those whose guards hold, and fail as told."""
        with self._failing():
            super().append_each(pendings)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        self._refuse_if_dead()
        self.appends += 1
        dies = None if self.dies_at is None or self.dies_at[0] != self.appends else self.dies_at[1]
        if dies == "before":
            self.dead = True
            raise _broken()
        fault, self.fault = self.fault, None
        if fault == "before":
            raise _broken()
        yield
        if dies == "after":
            self.dead = True
            raise _broken()
        if fault is not None:
            self._blind = self._unread = fault == "unknown"
            raise _broken()

    def load_tail(self) -> Tail:
        """The end of the chain, unless storage has just become unreadable."""
        self._refuse_if_dead()
        blind, self._blind = self._blind, False
        if blind:
            raise _broken()
        return super().load_tail()

    def _take(self, batch: Batch) -> None:
        super()._take(batch)
        for pending in batch.accepted:
            self.witness(pending.recorded(), pending.writes)


class FaultyFactory(POPOFactory):
    """The library's factory that gives the store above."""

    def application_recorder(self) -> ApplicationRecorder:
        """An empty store."""
        return FaultyStore()


class FaultyJournal(MemoryJournal):
    """The application over the store above; it outlives every restart of the service."""

    def __init__(self, journal_id: str, epoch: str) -> None:
        self._ids = (journal_id, epoch)
        JournalApplication.__init__(self, {"PERSISTENCE_MODULE": "simulation.storage:FaultyFactory"}, DEFAULT_CODEC)

    @property
    def store(self) -> FaultyStore:
        """The recorder under its own type."""
        return cast(FaultyStore, self.recorder)


def _broken() -> PersistenceError:
    return PersistenceError(GONE)
