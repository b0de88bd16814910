"""Short plots that chance alone hardly ever strings together: what must follow upon what for a situation to come about.

Each takes a run that is being worked on, and does two or three things to it in a row. Everything else goes on as it is.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from commands import steering
from domain.run_facts import State
from domain.values import NULL, to_json
from simulation.actors import Chooser, short
from simulation.holders import Holder
from simulation.leaders import Leader
from simulation.messages import Message
from simulation.observers import Observer
from simulation.truth import ENDINGS, Body
from simulation.workers import Worker
from simulation.world import World

SILENT_S = 2.0


class Stage(NamedTuple):
    """Whom the plots are about."""

    world: World
    chooser: Chooser
    workers: Sequence[Worker]
    observers: Sequence[Observer]
    holders: Mapping[str, Holder]
    leader: Leader

    @property
    def everybody(self) -> Sequence[Worker]:
        """Workers and observers."""
        return (*self.workers, *self.observers)


class Acting(NamedTuple):
    """Somebody at work on a run, under a fence."""

    who: Worker
    run_id: str
    fence: int


class Plots:
    """The plots; the cast's steps of these names are its."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._chooser = stage.chooser
        self._world = stage.world

    async def last_moment(self) -> None:
        """A leader has enough, and within the grace its worker closes the run all the same, or its ground is lost."""
        acting = self._acting("running")
        if acting is None:
            return
        await self._world.deliver(self._cancels(acting.run_id))
        body = self._body(acting)
        if body is not None and self._chooser.chance(40):
            await self._ends(acting, body)
        else:
            await self._world.deliver(acting.who.close_of(acting.run_id, acting.fence))

    async def unexplained(self) -> None:
        """What a run stands on exits; its holder tells it, and then is not heard, closes, or is told to stop."""
        acting = self._acting("running", grounded=True)
        body = None if acting is None else self._body(acting)
        if acting is None or body is None:
            return
        body.end = ("ended", "ProcessExited", 9)
        await self._told(acting, body)
        what = self._chooser.pick(("silent", "silent", "closes", "cancelled"))
        if what == "closes":
            await self._world.deliver(acting.who.close_of(acting.run_id, acting.fence))
        elif what == "cancelled":
            await self._world.deliver(self._cancels(acting.run_id))
            await self._silent(acting)
        else:
            await self._silent(acting)

    async def parked_ground(self) -> None:
        """A run waits with its lease kept, and what it stands on is lost meanwhile."""
        acting = self._acting("running", grounded=True)
        body = None if acting is None else self._body(acting)
        if acting is None or body is None:
            return
        await self._world.deliver(acting.who.park_of(acting.run_id, acting.fence, kept=True))
        await self._ends(acting, body)

    async def restarted_turns(self) -> None:
        """Turns wait, are busy, or are yet to be delivered when what runs inside starts anew."""
        acting = self._acting("running", grounded=True)
        body = None if acting is None else self._body(acting)
        if acting is None or body is None:
            return
        holder = self._stage.holders[acting.who.name]
        for what in ("delivers", "is busy with"):
            await self._sent(holder.admit_in(acting.run_id, acting.fence, body.workspace_id))
            await self._sent(holder.step_last("delivers"))
            await self._sent(holder.step_last(what))
        await self._sent(holder.admit_in(acting.run_id, acting.fence, body.workspace_id))
        body.starts, body.last_end = body.starts + 1, "OOMKilled"
        await self._told(acting, body)
        await self._sent(holder.step_last("delivers"))

    async def kept_and_answered(self) -> None:
        """A run waits with its lease kept, and is answered while its holder is still there."""
        acting = self._acting("running")
        if acting is None:
            return
        who, run_id, fence = acting
        await self._world.deliver(who.park_of(run_id, fence, kept=True))
        yes = to_json("yes")
        await self._world.deliver(
            self._stage.leader.message(
                f"answers {short(run_id)}", lambda desk, caller: steering.answer(desk, caller, run_id, yes)
            )
        )

    async def taken_while_parked(self) -> None:
        """A run waits without a holder, and somebody takes it over by its id."""
        acting = self._acting("running")
        others = [each for each in self._stage.workers if acting is not None and each is not acting.who]
        if acting is None:
            return
        await self._world.deliver(acting.who.park_of(acting.run_id, acting.fence, kept=False))
        await self._world.deliver(self._chooser.pick(others).claim_of(acting.run_id))

    async def lost_before_the_verdict(self) -> None:
        """A run is closed, and what it stands on ends before anybody has judged it."""
        acting = self._acting("running", grounded=True)
        body = None if acting is None else self._body(acting)
        if acting is None or body is None:
            return
        await self._world.deliver(acting.who.close_of(acting.run_id, acting.fence))
        await self._ends(acting, body)

    async def late_effect(self) -> None:
        """A worker that began an effect is silent until its lease is over, and then says that it is done."""
        acting = self._acting("running")
        if acting is None:
            return
        who, run_id, fence = acting
        await self._world.deliver(who.effect_of(run_id, fence, ("begins", "mail", NULL)))
        await self._silent(acting)
        await self._world.deliver(who.effect_of(run_id, fence, ("completes", "mail", NULL)))

    async def late_list(self) -> None:
        """An observer lists its scope; before the list arrives, somebody attaches to a body that is not in it."""
        acting = self._acting("running")
        watched = [(who, *lease) for who in self._stage.observers if not who.frozen for lease in who.held.items()]
        if acting is None or not watched:
            return
        who, run_id, fence = self._chooser.pick(watched)
        listing, holder = who.list_of(run_id, fence), self._stage.holders[acting.who.name]
        await self._sent(holder.place(who.scope_of(run_id)))
        if holder.placed:
            await self._world.deliver(holder.attaches(holder.placed[-1][0]))
        await self._world.deliver(listing)

    async def _silent(self, acting: Acting) -> None:
        """Nothing is heard of this worker for longer than a ttl, while everybody else is."""
        for _ in range(5):
            await self._world.pass_time(SILENT_S)
            for each in self._stage.everybody:
                if each is not acting.who and not each.frozen:
                    await self._world.deliver(each.heartbeat())

    async def _ends(self, acting: Acting, body: Body) -> None:
        body.end = self._chooser.pick(ENDINGS)
        await self._told(acting, body)

    async def _told(self, acting: Acting, body: Body) -> None:
        self._world.tell("nature", f"has {body.identity} {body.end[1] or body.end[0] if body.end else 'restarted'}")
        await self._world.deliver(self._stage.holders[acting.who.name].tells(body))

    async def _sent(self, message: Message | None) -> None:
        if message is not None:
            await self._world.deliver(message)

    def _cancels(self, run_id: str) -> Message:
        keep = self._chooser.chance(50)
        return self._stage.leader.message(
            f"cancels {short(run_id)} at the last moment",
            lambda desk, caller: steering.cancel(desk, caller, run_id, keep_workspaces=keep),
        )

    def _acting(self, state: State, *, grounded: bool = False) -> Acting | None:
        """Somebody awake who holds a run in this state, as far as the facts say so, too."""
        history = self._world.history
        found = [
            Acting(who, run_id, fence)
            for who in self._stage.workers
            if not who.frozen
            for run_id, fence in who.held.items()
            if history.standing(run_id).state == state and history.standing(run_id).lease.fence == fence
        ]
        found = [each for each in found if self._body(each) is not None] if grounded else found
        return self._chooser.pick(found) if found else None

    def _body(self, acting: Acting) -> Body | None:
        """A body that is there and that the run stands on."""
        running = [each for each in self._world.history.standing(acting.run_id).workspaces if each.phase == "running"]
        bodies = (self._world.truth.bodies.get(each.workspace_id) for each in running)
        return next((body for body in bodies if body is not None and body.end is None), None)
