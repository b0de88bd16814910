"""Death at every step: the service dies under each canonical scenario, before and after every single append.

It also dies while a projection takes a batch over, and as the process manager is about to carry out a promise. Where
it dies nobody is answered any more. Another node, whose wall is off, goes on with what is stored, which must be the
state of a prefix of what happened that contains everything acknowledged; whoever was not answered says the same again;
the scenario goes on to its end, faults stop, and all must settle within the bounds of `simulation.ending.calm`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from journal.mapper import Recorded
from policies.manager import Manager
from simulation.broken import LawBroken
from simulation.cast import Cast
from simulation.ending import PLAIN, calm
from simulation.laws import L10
from simulation.messages import Message, Reply, sent
from simulation.scenarios import SCENARIOS, Beat, Scenario
from simulation.world import World

Where = Literal["before", "after", "projection", "reaction"]
PLACES: tuple[Where, ...] = ("before", "after", "projection", "reaction")
STEPS_MAX = 200
"""Steps at which one scenario is killed at most; a scenario that has more is none that is short."""
NEXT, NEXT_SKEW_S = "n2", -3.0
"""Who goes on, and how far its wall is off."""


class Died(NamedTuple):
    """One scenario and one kind of place: at how many steps it was killed."""

    scenario: str
    where: Where
    steps: int


class Doomed:
    """One world that dies once, at the n-th step of one kind."""

    def __init__(self, scenario: Scenario, where: Where, at: int) -> None:
        self.world = World()
        self.died = False
        self._scenario = scenario
        self._where = where
        self._at = at
        self._counted = 0
        self._acknowledged = 0

    async def play(self) -> None:
        """The scenario with its death, and what comes after.

        Raises:
            LawBroken: something that was acknowledged is not there, a law does not hold, or something does not settle.
        """
        cast = Cast(self.world, PLAIN)
        await self._begin(cast)
        try:
            for beat in self._scenario(cast):
                await self._take(beat)
                if self._store.dead:
                    await self._rise(beat)
            self._store.revive()
            self._counted = STEPS_MAX  # what comes after is not killed
            await calm(cast)
        finally:
            await self.world.abandon()

    @property
    def _store(self) -> Any:
        return self.world.store

    async def _begin(self, cast: Cast) -> None:
        world = self.world
        await world.start()
        await world.attendance.connect(world.desk, "lea", world.clock.served_s)
        for who in (*cast.workers[:2], *cast.observers):
            await world.deliver(who.register())
        self._arm()

    def _arm(self) -> None:
        match self._where:
            case "before" | "after":
                self._store.dies_at = (self._store.appends + self._at, self._where)
            case "projection":
                self.world.desk.journal.listeners.insert(0, self._dies_in_a_projection)
            case "reaction":
                self.world.manager = _Mortal(self.world.manager, self._counts)

    def _counts(self) -> bool:
        """One more step of that kind; whether it is the last one."""
        self._counted += 1
        if self._counted == self._at:
            self._store.dead = True
        return bool(self._store.dead)

    def _dies_in_a_projection(self, _: Sequence[Recorded]) -> None:
        if self._counts():
            message = "the process is gone"
            raise RuntimeError(message)

    async def _take(self, beat: Beat) -> None:
        world = self.world
        if beat is None and self.died:
            return  # what became of the run otherwise leaves nothing to say here
        if beat is None:
            raise LawBroken(L10, "a scenario has nothing to say where it should", world.story[-5:])
        if isinstance(beat, Message):
            reply = await sent(beat, world.desk)
            self._hear(beat, Reply(unknown=True) if self._store.dead else reply)
        elif isinstance(beat, float):
            await world.pass_time(beat)
        else:
            await beat()
            if not self._store.dead:
                await asyncio.sleep(0)
                await asyncio.sleep(0)

    def _hear(self, message: Message, reply: Reply) -> None:
        self.world.tell(message.caller.principal, message.text, reply.text)
        self._acknowledged = max(self._acknowledged, reply.position or 0)
        message.heard(reply)

    async def _rise(self, beat: Beat) -> None:
        """Another node goes on with what is stored; whoever was not answered says the same again."""
        self.died = True
        world = self.world
        world.tell("service", "dies")
        await world.abandon()
        if world.history.position < self._acknowledged:
            raise LawBroken(L10, f"{self._acknowledged} was acknowledged", [world.history.position])
        world.clock.tune(world.nodes[NEXT], NEXT_SKEW_S, 1.0)
        await world.start(NEXT)
        world.check()
        if isinstance(beat, Message):
            self._hear(beat, await sent(beat, world.desk))
        elif isinstance(beat, float):
            await world.pass_time(beat)  # what was to be waited for has begun anew


class _Mortal(Manager):
    """The process manager, which may die as it is about to carry something out."""

    def __init__(self, manager: Manager, counts: Callable[[], bool]) -> None:
        super().__init__(manager.desk)
        self._counts = counts

    async def _carry_out(self, reminder: Any, do: Any) -> None:
        if not self._counts():
            await super()._carry_out(reminder, do)


def die_at_every_step(name: str, where: Where) -> Died:
    """Kill the service at each step of this kind in a scenario, in a world of its own each time.

    Raises:
        LawBroken: see `Doomed.play`; the message tells the scenario and the step.
    """
    for at in range(1, STEPS_MAX):
        doomed = Doomed(SCENARIOS[name], where, at)
        try:
            asyncio.run(doomed.play())
        except LawBroken as late:
            broken = doomed.world.broken if isinstance(doomed.world.broken, LawBroken) else late
            told = "\n".join(doomed.world.story[-40:])
            raise LawBroken(broken.law, f"{name}, killed {where} step {at}: {broken}\n{told}") from broken
        finally:
            doomed.world.close()
        if not doomed.died:
            return Died(name, where, at - 1)
    message = f"{name} has more than {STEPS_MAX} steps"
    raise ValueError(message)


def lines() -> Iterator[str]:
    """Kill every scenario at every step; one line for each, and one for all."""
    deaths = 0
    for name in SCENARIOS:
        counted = {where: die_at_every_step(name, where).steps for where in PLACES}
        deaths += sum(counted.values())
        yield (
            f"{name:<40} {counted['before']:>3} appends before, {counted['after']:>3} after, "
            f"{counted['projection']:>3} in a projection, {counted['reaction']:>3} in a reaction"
        )
    yield f"{deaths} deaths: nothing acknowledged was lost, and everything settled"
