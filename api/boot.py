"""The boot: one step after the other, each with a name that ``/readyz`` shows, and the same way back at the end.

Open the journal (its lock is what makes this process the only one), open the keys, replay from the last checkpoint,
give every lease a full ttl from now, count absences from now, take every workspace for unknown until it is seen (which
nothing waits for), open the read models, accept callers, start the promises and the checkpoints. Whatever fails on the
way closes what was opened. What is written last, at a clean stop, is a checkpoint.

Files are touched only after the lock is held: a second service on the same data directory changes nothing.
"""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

from api.clock import new_fact_id, new_id
from api.keys import KeyRing, first_admin_key
from api.node import Node
from api.unknowns import Undestroyed, Unseen
from commands.boot import Opening
from commands.desk import Desk
from commands.presence import reseed_leaders
from commands.watching import unknown_since_boot
from journal.checkpoints import CHECKPOINT_NAME
from journal.commit import Journal
from journal.opening import open_journal
from policies.manager import Manager
from projections.checkpointing import Checkpoints
from projections.runner import Runner

log = logging.getLogger(__name__)


class Boot:
    """Brings one node up, and down again."""

    def __init__(self, node: Node, data_dir: Path) -> None:
        self._node = node
        self._data_dir = data_dir
        self._sweeping: list[asyncio.Future[None]] = []
        self._journal: Journal | None = None
        self._opened: Desk | None = None
        self.admin_key: Path | None = None
        """Where an admin key was written, if this start wrote one."""

    async def up(self) -> None:
        """Open everything, in order.

        Raises:
            JournalError: the data directory or a file in it cannot be used; one line says why and what to do.
        """
        try:
            await self._open()
        except BaseException:
            self._node.stage = "failed"
            await self.down()
            raise

    async def _open(self) -> None:
        node = self._node
        node.step = "opening the journal"
        journal = await open_journal(self._data_dir, node.clock, mint=new_fact_id)
        self._journal = journal
        checkpoints = node.checkpoints = Checkpoints(journal, self._data_dir / CHECKPOINT_NAME, node.clock)
        found = await asyncio.to_thread(checkpoints.find)
        opening = Opening(journal, node.clock, new_id, node.settings.timers(), found)
        node.step = "opening the keys"
        keys = KeyRing(self._data_dir)
        node.use_keys(keys)
        self.admin_key = first_admin_key(keys, self._data_dir, node.clock().wall)
        node.step = "replaying the journal"
        while await asyncio.to_thread(opening.replay_some):
            pass
        node.step = "giving every lease its full ttl"
        desk = self._opened = opening.finish()
        desk.fence_required = node.settings.fence_required
        desk.live.limits.tenant_max = node.settings.tenant_max_leases
        checkpoints.follow(opening.kept, opening.checkpoint)
        log.info("replayed %d of %d facts", opening.replayed, journal.position)
        node.step = "counting every absence from now"
        await reseed_leaders(desk)
        node.step = "taking workspaces for unknown"
        await unknown_since_boot(desk)
        node.step = "opening the read models"
        node.runner = Runner(journal, self._data_dir)
        node.runner.start()
        self._listen(desk)
        node.step = "accepting"
        node.desk_or_none = desk
        node.step = "starting the sweeps"
        node.manager = Manager(desk)
        self._sweeping = [asyncio.ensure_future(node.manager.run()), asyncio.ensure_future(checkpoints.run())]
        self._watch()
        node.stage, node.step = "ready", "ready"

    def _listen(self, desk: Desk) -> None:
        node = self._node
        listeners = desk.journal.listeners
        listeners.append(lambda facts: node.attachments.tell(desk, facts))
        listeners.append(node.bells.heard)
        listeners.append(lambda facts: node.followings.heard(desk, facts))
        listeners.append(lambda _: node.health.appended())

    def _watch(self) -> None:
        """Let health ask every part for its first error."""
        node, manager, runner = self._node, self._node.manager, self._node.runner
        checkpoints = node.checkpoints
        assert checkpoints is not None
        assert manager is not None
        assert runner is not None
        journal = node.desk.journal
        manager.on_failure = node.health.storage_failed
        unseen, undestroyed = node.overdue = Unseen(node.desk), Undestroyed(node.desk)
        node.health.sources = {
            "process_manager": (lambda: manager.first_error, manager.acknowledge),
            "presence": (lambda: node.desk.evidence.presence.trouble, lambda: None),
            "observers": (unseen.error, unseen.acknowledge),
            "teardown": (undestroyed.error, undestroyed.acknowledge),
            "projections": (lambda: runner.first_error, runner.acknowledge),
            "checkpoints": (lambda: checkpoints.first_error, checkpoints.acknowledge),
            "journal": (lambda: journal.fault, lambda: setattr(journal, "fault", None)),
        }

    async def down(self) -> None:
        """Close everything, in the other order; what was being appended is finished first."""
        node = self._node
        for sweeping in self._sweeping:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
        await node.close_past()
        if node.runner is not None:
            await node.runner.stop()
        if self._opened is not None:
            await self._finish(self._opened)
        if self._journal is not None:
            if node.checkpoints is not None:
                await node.checkpoints.stop()
            await self._journal.close()
        if node.gate_or_none is not None:
            node.keys.close()

    async def _finish(self, desk: Desk) -> None:
        """Let what goes on for callers that went away come to its end, within the time there is for a drain."""
        if not desk.unfinished:
            return
        _, endless = await asyncio.wait(desk.unfinished, timeout=self._node.settings.drain_s)
        for doing in endless:
            doing.cancel()
        await asyncio.gather(*endless, return_exceptions=True)
