"""What befalls the service itself: ends and starts, on this node or another, other processes, disks and clocks.

One process serves the journal. Others try to start beside it and are refused by the lock, read the same files while
they are written, or begin where it ended. Rarely somebody removes the lock file, and a second process starts while the
first goes on: from then on the first may append nothing, whatever it is asked and whatever is due by its clock.
"""

import asyncio
from collections.abc import Callable, Sequence

from journal.errors import DataDirBusy
from simulation.actors import Chooser
from simulation.broken import LawBroken
from simulation.followers import ReadModel
from simulation.laws import L9, L10, ONE_WRITER
from simulation.messages import Message, sent
from simulation.nodes import NODES, Process
from simulation.reaching import FROZEN_REFUSED, OLD_WRITER, READ_BESIDE, REBUILT_BESIDE, START_REFUSED
from simulation.storage import Fault
from simulation.world import World

AWAY_S = (0.0, 4.0, 60.0)
FROZEN_S = (0.0, 3.0, 20.0)
WALL_S = (-3600.0, -2.0, 2.0, 3600.0)
SKEWS_S = (0.0, -3.0, 3.0, 1.5)
RATES = (1.0, 0.5, 2.0)
FAULTS: tuple[Fault, ...] = ("before", "after", "unknown")

Several = Callable[[], list[Message]]
"""Composes what some say at the same time."""


class Operating:
    """Everything that is done to the service; the cast's steps of these names are its."""

    def __init__(self, world: World, chooser: Chooser, several: Several) -> None:
        self._world = world
        self._chooser = chooser
        self._several = several
        self._beside: ReadModel | None = None
        """What a process beside the service has read; None before it began."""

    async def restart(self) -> None:
        """It stops in good order, with a checkpoint or without, and starts again where it was."""
        if self._chooser.chance(60):
            self._world.write_checkpoint()
        await self._world.restart(self._chooser.pick(AWAY_S))

    async def checkpoint(self) -> None:
        """It leaves a checkpoint, and goes on."""
        self._world.write_checkpoint()

    async def hand_over(self) -> None:
        """It stops or is killed, and another node goes on with its files."""
        node = self._another()
        if self._chooser.chance(40):
            self._world.write_checkpoint()
        if self._chooser.chance(50):
            await self._world.restart(self._chooser.pick(AWAY_S), node=node)
        else:
            await self._killed(node, lambda: None)

    async def kill(self) -> None:
        """It is killed under messages, and starts again where it was."""
        await self._killed(None, lambda: None)

    async def freeze_service(self) -> None:
        """It is frozen with appends in flight while another one tries to start; then it is killed, and followed."""
        frozen_s, node = self._chooser.pick(FROZEN_S), self._another()

        def meanwhile() -> None:
            self._world.clock.advance(frozen_s)
            self._refused(node, "is frozen")
            self._world.history.reached.note(FROZEN_REFUSED)

        await self._killed(node if self._chooser.chance(60) else None, meanwhile)

    async def _killed(self, node: str | None, meanwhile: Callable[[], None]) -> None:
        lands, away_s = self._chooser.chance(50), self._chooser.pick(AWAY_S)
        messages = self._several()
        await self._world.crash_during(messages, lands=lands, away_s=away_s, node=node, meanwhile=meanwhile)
        if messages and self._chooser.chance(60):
            await self._world.deliver(self._chooser.pick(messages))

    async def contend(self) -> None:
        """Another process tries to start on the same files, and changes nothing."""
        self._refused(self._chooser.pick(NODES), "serves")
        self._world.history.reached.note(START_REFUSED)

    def _refused(self, node: str, how: str) -> None:
        world = self._world
        writer = world.process.store.files.stored_writer
        try:
            process = Process(world.nodes[node], world.files, world.mint)
        except DataDirBusy as busy:
            world.tell("service", f"starts beside {world.process.name}, which {how}", f"! {busy.code}", node)
        else:
            process.end()
            raise LawBroken(ONE_WRITER, f"{node} has the journal that {world.process.name} {how}", world.story[-5:])
        if writer != world.process.store.files.stored_writer:
            raise LawBroken(ONE_WRITER, f"{node} was refused, and claimed the journal", world.story[-5:])

    async def usurp(self) -> None:
        """Somebody removes the lock file; another node starts, and the one before goes on until it is killed."""
        world, old = self._world, self._world.process
        await world.recorded()
        messages = self._several()
        await world.attendance.killed(world.desk, world.clock.served_s)
        world.attendance.restarted(world.clock.served_s, world.clock.served_s)
        world.files.remove_lock()
        world.tell("service", "loses its lock: the file was removed")
        await world.start(self._another())
        await self._goes_on(old, messages)
        old.end()
        world.tell("service", "is killed", node=old.name)
        world.check()

    async def _goes_on(self, old: Process, messages: Sequence[Message]) -> None:
        """The process that lost the journal is asked, and keeps what promises it can."""
        world, position = self._world, self._world.history.position
        for message in messages:
            reply = await sent(message, old.desk)
            world.tell(message.caller.principal, message.text, reply.text, old.name)
            if reply.position is not None and reply.position > position:
                raise LawBroken(ONE_WRITER, f"{old.name} acknowledged {message.text!r}", [reply])
            if reply.refused == "journal_taken":
                world.history.reached.note(OLD_WRITER)
        await old.manager.step()
        if world.history.position != position:
            raise LawBroken(ONE_WRITER, f"{old.name} appended to the journal of {world.process.name}", messages)

    async def beside(self) -> None:
        """Another process reads or rebuilds the read models while the service is writing."""
        await asyncio.gather(self._world.deliver_together(self._several()), self._reads())

    async def _reads(self) -> None:
        for _ in range(self._chooser.pick((0, 1, 2, 3))):
            await asyncio.sleep(0)
        if self._beside is not None and self._chooser.chance(70):
            self._read_on(self._beside)
            self._world.history.reached.note(READ_BESIDE)
            return
        store = self._world.files.opened()
        verdict, end = store.verify(), store.tail.position
        if not verdict.ok:
            raise LawBroken(L9, f"read beside the service, the chain is broken: {verdict.problem}")
        if end < self._world.replies.acknowledged:
            raise LawBroken(L10, f"{self._world.replies.acknowledged} was acknowledged, and a reader sees {end}")
        self._beside = self._world.another_model()
        self._beside.rebuild(store, end)
        self._beside.go_on(store.stream)
        self._world.history.reached.note(REBUILT_BESIDE)
        self._world.tell("reader", f"rebuilds up to {end}")

    def _read_on(self, beside: ReadModel) -> None:
        """The process beside folds whatever there is by now."""
        beside.absorb(self._world.files.opened().facts_after(beside.position, 1_000_000))
        self._world.tell("reader", f"has read up to {beside.position}")

    async def audit(self) -> None:
        """Everything is folded anew and compared, also with what was read beside the service."""
        self._world.check_replay()
        if self._beside is not None:
            self._read_on(self._beside)
            difference = self._world.model.differs_from(self._beside)
            if difference is not None:
                raise LawBroken(L9, "what another process read differs from what the service says", [difference])

    async def wall(self) -> None:
        """Somebody sets the wall of the node that serves."""
        self._world.set_wall(self._chooser.pick(WALL_S))

    async def tune(self) -> None:
        """The clock of some node goes otherwise from now on."""
        world = self._world
        own = world.nodes[self._chooser.pick(NODES)]
        world.clock.tune(own, self._chooser.pick(SKEWS_S), self._chooser.pick(RATES))
        world.tell("clock", "goes right" if not own.told() else own.told(), node=own.name)

    async def disk(self) -> None:
        """The disk is about to fail."""
        self._world.fail_next(self._chooser.pick(FAULTS))

    def _another(self) -> str:
        return self._chooser.pick([name for name in NODES if name != self._world.process.name])
