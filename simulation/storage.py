"""The journal's files, and a process's view of them with faults on demand and a witness of every decision.

An append can fail before it changes anything, after everything is stored, or so that storage cannot even tell: the
three ways in which a disk, or a connection to one, goes away. In the third, nothing can be read for a moment either:
the next look at a stream fails as well. The witness is told each decision with its facts and register writes as they
land, whether or not anybody is ever answered. A store can also *die* with its process, at the n-th append: from then on
it neither takes nor tells anything.

`Files` outlive every process. Each process has a store of its own over them, which knows where the journal ended when
this process looked last, as one connection to a file does; what another process appended meanwhile it learns by being
refused. The directory is a real one: the lock in it is the kernel's, and the checkpoint is read and written by the
service's own code.
"""

import contextlib
import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, cast

from eventsourcing.persistence import ApplicationRecorder, OperationalError, PersistenceError

from journal.application import JournalApplication, MemoryJournal
from journal.chain import Tail
from journal.checkpoints import CHECKPOINT_NAME
from journal.errors import UnreadableStorage
from journal.lock import LOCK_NAME, DirLock
from journal.mapper import DEFAULT_CODEC, Recorded
from journal.memory import MemoryStore
from journal.pending import Batch, CommandRow, Pending
from journal.registers import Write

SHARED = Path("/dev/shm")  # noqa: S108  (the directory in it is made under a name that nobody can guess)
"""Where there is memory to be had as a directory, nothing waits for a disk."""

Fault = Literal["before", "after", "unknown"]
GONE = "the simulated storage is gone"
Witness = Callable[[Sequence[Recorded], Sequence[Write]], None]


class FaultyStore(MemoryStore):
    """The memory store as one process sees it; it fails once when it is told to."""

    files: MemoryStore
    """What is stored, whoever stored it."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Fault | None = None
        self.witness: Witness = lambda facts, writes: None
        self._blind = self._unread = False
        self.appends = 0
        self.dies_at: tuple[int, Literal["before", "after"]] | None = None
        self.dead = False

    def revive(self) -> None:
        """It dies no more."""
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
        """The end of the chain as it is stored, unless storage has just become unreadable."""
        self._refuse_if_dead()
        blind, self._blind = self._blind, False
        if blind:
            raise _broken()
        return self.files.tail

    def _require_place(self, before: Tail) -> None:
        self.stored_epoch, self.stored_writer = self.files.stored_epoch, self.files.stored_writer
        super()._require_place(before)
        if before != self.files.tail:
            message = f"the journal ends at {self.files.tail.position}, and {before.position} was expected"
            raise OperationalError(message)

    def _take(self, batch: Batch) -> None:
        super()._take(batch)
        self.files.tail = self.tail
        for pending in batch.accepted:
            self.witness(pending.recorded(), pending.writes)


class FaultyJournal(MemoryJournal):
    """The application of one process over its store."""

    def __init__(self, store: FaultyStore) -> None:
        self._opened = store
        JournalApplication.__init__(self, {"PERSISTENCE_MODULE": "journal.memory:MemoryFactory"}, DEFAULT_CODEC)

    def construct_recorder(self) -> ApplicationRecorder:
        """The store that it was given."""
        return self._opened

    @property
    def store(self) -> FaultyStore:
        """The recorder under its own type."""
        return cast(FaultyStore, self.recorder)


class Files:
    """A data directory with a journal that is kept in memory."""

    def __init__(self, mint: Callable[[], str]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="jackline-world-", dir=SHARED if SHARED.is_dir() else None)
        self.place = Path(self._directory.name)
        self.checkpoint = self.place / CHECKPOINT_NAME
        self._mint = mint
        self._stored = FaultyStore()
        self._stored.bind(DEFAULT_CODEC, mint(), mint())
        self._stored.files = self._stored
        self._locks: list[DirLock] = []

    @property
    def tail(self) -> Tail:
        """Where the journal ends."""
        return self._stored.tail

    def locked(self) -> DirLock:
        """The lock on the directory.

        Raises:
            DataDirBusy: another process has it.
        """
        lock = DirLock(self.place)
        self._locks.append(lock)
        return lock

    def remove_lock(self) -> None:
        """Somebody removes the lock file: whoever has locked it has locked a file that is none any more."""
        (self.place / LOCK_NAME).unlink(missing_ok=True)

    def opened(self) -> FaultyStore:
        """The journal as a process sees it that opens it to read."""
        store = copy.copy(self._stored)
        store.tail = store.expected = self._stored.tail
        return store

    def claimed(self) -> FaultyStore:
        """The journal as a process sees it that opens it to write, which nobody else does from now on."""
        self._stored.stored_writer = self._mint()
        store = self.opened()
        store.writer = self._stored.stored_writer
        return store

    def close(self) -> None:
        """Nothing of it is left."""
        for lock in self._locks:
            lock.release()
        self._directory.cleanup()


def _broken() -> PersistenceError:
    return PersistenceError(GONE)
