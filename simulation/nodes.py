"""Nodes: machines on which the service may run, and the lives that it has on them.

At most one process serves a journal. It has the lock of the data directory, a view of the files, a clock, marks and
caches of its own, and nothing of what another process knew: what it needs it reads from the journal, by the checkpoint
that somebody left there or without. A process that was killed, or whose lock was lost, is a `Process` that nobody
serves by any more; what it still tries to append must be refused.
"""

from collections.abc import Callable

from commands.boot import Opening
from commands.desk import Desk, Timers
from commands.presence import reseed_leaders
from commands.watching import unknown_since_boot
from journal.checkpoints import Checkpoint, CheckpointUnusable, read_checkpoint, write_checkpoint
from journal.commit import Journal
from policies.manager import Manager
from projections.live.kept import rules
from simulation.clock import OwnClock
from simulation.storage import FaultyJournal, Files, Witness

NODES = ("n1", "n2", "n3")


class Process:
    """One life of the service on one node, from its lock to its end.

    Raises:
        DataDirBusy: another process has the directory.
    """

    def __init__(self, node: OwnClock, files: Files, mint: Callable[[], str]) -> None:
        self.node = node
        self.name = node.name
        self._files = files
        self._mint = mint
        self._lock = files.locked()
        self.application = FaultyJournal(files.claimed())
        self.store = self.application.store
        self.desk: Desk
        self.manager: Manager
        self._opening: Opening

    def witnessed(self, witness: Witness) -> None:
        """Have somebody told whatever this process makes durable."""
        self.store.witness = witness

    def replay(self, timers: Timers, *, by_checkpoint: bool = True) -> Checkpoint | None:
        """Read what there is; the checkpoint that was gone by, if there was one."""
        journal = Journal(self.application, self.node, self._mint)
        journal.start()
        found = self._found() if by_checkpoint else None
        self._opening = Opening(journal, self.node, self._mint, timers, found)
        while self._opening.replay_some():
            pass
        self.desk = self._opening.finish()
        return self._opening.checkpoint

    def _found(self) -> Checkpoint | None:
        try:
            return read_checkpoint(self._files.checkpoint, self.store, rules())
        except CheckpointUnusable:
            return None

    async def accept(self) -> None:
        """Void what earlier lives counted, and begin to keep promises."""
        await reseed_leaders(self.desk)
        await unknown_since_boot(self.desk)
        self.manager = Manager(self.desk)

    def write_checkpoint(self) -> int:
        """Leave a checkpoint for whoever starts next; the position that it is of."""
        kept = self._opening.kept
        while facts := self.desk.journal.feed.after(kept.position):
            kept.fold(facts)
        checkpoint = Checkpoint(kept.position, kept.positions())
        write_checkpoint(self._files.checkpoint, self.store, checkpoint, rules(), self.node().wall)
        return checkpoint.position

    def end(self) -> None:
        """It is gone: it appends nothing more, and its lock is the kernel's again."""
        self.store.dead = True
        self._lock.release()
