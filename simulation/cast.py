"""The cast of a world and its network: who may do what next, and how it is delivered.

`step` does one thing: somebody sends a message (now, late, twice, or beside others), a body comes to be or ends, time
passes, the wall is set, the disk fails, the service is restarted or killed. How a world ends is `simulation.ending`'s.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from domain.lease import Lease
from journal.errors import Unavailable
from simulation.actors import Actor, Chooser
from simulation.acts import CAUSES, GROUND_ACTS, GROUNDED, LEADER_ACTS, PASSING_S, STEPS, WORKER_ACTS
from simulation.attending import LEADERS
from simulation.clock import OwnClock
from simulation.holders import Holder
from simulation.leaders import Leader
from simulation.marks import grounds_end, leases_end
from simulation.messages import Message
from simulation.observers import OBSERVER_ACTS, Observer
from simulation.operating import Operating
from simulation.pacing import Pacing
from simulation.plots import Plots, Stage
from simulation.providers import Provider
from simulation.truth import ENDINGS, SCOPES, Body
from simulation.workers import Worker
from simulation.world import World

LATE = 6
"""Messages that the network holds back at most."""
BEAT_S = 1.0
"""How often holders are heard whose ground, and not their lease, comes to its end."""
JUST_BEFORE_S, ROUNDING_S = 0.01, 1e-6
"""Seconds before something is over that the disk fails, if it does."""
RECENT = 12
"""Messages of which a second delivery may follow."""


class Cast:
    """Everybody in one world."""

    def __init__(self, world: World, chooser: Chooser) -> None:
        self.world = world
        self.chooser = chooser
        slots = {"ada": 2, "bob": 1, "cyd": 3}
        self.workers = [Worker(name, most, chooser, world.truth) for name, most in slots.items()]
        self.observers = [Observer(name, chooser, world.truth, world.history) for name in ("obi", "ova")]
        self.holders = {
            worker.name: Holder(worker, world.truth, world.history.ground, lambda: world.clock.longest_s)
            for worker in self.workers
        }
        self.leader = Leader("lea", chooser, self._hear_of, self._state_of, OwnClock("lea", world.time))
        self.provider = Provider(chooser, world.truth)
        self._steps = STEPS
        self.held_back: list[Message] = []
        self._recent: list[Message] = []
        self.operating = Operating(world, chooser, self._several)
        everybody = (*self.workers, *self.observers)
        self.plots = Plots(Stage(world, chooser, self.workers, self.observers, self.holders, self.leader))
        self.pacing = Pacing(world, chooser, self.leader, everybody)

    def _hear_of(self, run_id: str) -> None:
        for worker in self.workers:
            worker.runs.append(run_id)

    def _state_of(self, run_id: str) -> str:
        return self.world.history.standing(run_id).state

    async def begin(self) -> None:
        """The service starts, the workers register, and there is something to do."""
        self._steps = self.chooser.pick((STEPS, STEPS, GROUNDED, GROUNDED, GROUNDED))
        await self.world.start()
        await self._connect()
        for message in [worker.register() for worker in (*self.workers, *self.observers)]:
            await self.world.deliver(message)
        for message in [self.leader.submit() for _ in range(3)] + [self.leader.watch(scope) for scope in SCOPES]:
            await self.world.deliver(message)
        self.world.check()

    async def step(self, what: str | None = None) -> None:
        """One thing happens; then the service's view is compared with what was recorded."""
        await self._act_of(what or self.chooser.pick(self._steps))()
        await self.world.recorded()
        self.world.check()

    def _act_of(self, step: str) -> Callable[[], Awaitable[None]]:
        """Who does it, and how: the cast itself, or whatever part of it has a step of this name."""
        parts = (part for part in (self.operating, self.pacing, self.plots) if hasattr(part, step))
        act: Callable[[], Awaitable[None]] = getattr(next(parts, self), step, None) or getattr(self, f"_{step}")
        return act

    def _compose(self, worker: bool) -> Message | None:
        if not worker:
            idle = self._steps is GROUNDED and not any(each.held for each in self.workers)
            return _act(self.leader, "submit" if idle else self.chooser.pick(LEADER_ACTS))
        who = self.chooser.pick([worker for worker in self.workers if not worker.frozen] or self.workers)
        return self._begins(who) or _act(who, self.chooser.pick(WORKER_ACTS))

    def _begins(self, who: Worker) -> Message | None:
        """What a worker says that is not known any more, or has nothing to do."""
        if who.estranged:
            return who.register()
        idle = self._steps is GROUNDED and not who.held and self.chooser.chance(70)
        return who.ask() if idle else None

    def _compose_any(self) -> Message | None:
        """Something that somebody says at the same time as others."""
        kind = self.chooser.pick(("worker",) * 5 + ("leader",) * 2 + ("ground",) * 2 + ("turn", "observer"))
        match kind:
            case "worker" | "leader":
                return self._compose(worker=kind == "worker")
            case "observer":
                return self._observes()
            case _:
                return self._holds(kind)

    def _holds(self, kind: str) -> Message | None:
        """A worker does something with its ground or its turns."""
        awake = [worker for worker in self.workers if not worker.frozen]
        acting = [worker for worker in awake if worker.held]
        who = self.chooser.pick(acting or awake or self.workers)
        begins = self._begins(who)
        if begins is not None:
            return begins
        acts = GROUND_ACTS if kind == "ground" else ("admit", "turn", "turn")
        return _act(self.holders[who.name], self.chooser.pick(acts)) or _act(self.holders[who.name], "place")

    def _observes(self) -> Message | None:
        awake = [observer for observer in self.observers if not observer.frozen]
        who = self.chooser.pick(awake or self.observers)
        if who.estranged:
            return who.register()
        return _act(who, self.chooser.pick(OBSERVER_ACTS) if who.held or self.chooser.chance(30) else "watch")

    async def _ground(self) -> None:
        await self._send(self._holds("ground"))

    async def _turn(self) -> None:
        await self._send(self._holds("turn"))

    async def _observer(self) -> None:
        await self._send(self._observes())

    async def _wanted(self) -> None:
        """Somebody wants a scope to be watched, whether or not it is."""
        await self._send(self.leader.watch(self.chooser.pick(SCOPES)))

    async def _nature(self) -> None:
        """A body ends or is destroyed, or what runs inside starts anew: nobody is told of it by this."""
        truth, history = self.world.truth, self.world.history
        doomed = [each.workspace_id for each in history.grounds() if each.awaits_teardown]
        bodies = truth.alive()
        busy = [body for body in bodies if self._has_turns(body)]
        bodies = busy if busy and self.chooser.chance(60) else bodies
        what = self.chooser.pick(("restart", "restart", "end", "destroy"))
        if what == "destroy" and doomed:
            await self._send(self.provider.destroy(self.chooser.pick(doomed)))
        elif bodies and what == "restart":
            body = self.chooser.pick(bodies)
            body.starts, body.last_end = body.starts + 1, self.chooser.pick(("OOMKilled", "Error"))
            self.world.tell("nature", f"restarts what is in {body.identity}")
        elif bodies:
            body = self.chooser.pick(bodies)
            body.end = self.chooser.pick(ENDINGS)
            self.world.tell("nature", f"ends {body.identity}: {body.end[1] or body.end[0]}")

    def _has_turns(self, body: Body) -> bool:
        """Whether turns wait for what runs in this body."""
        workspace = self.world.history.ground(body.workspace_id)
        run = None if workspace is None else self.world.history.standing(workspace.placed.run_id).known
        return run is not None and any(turn.workspace_id == body.workspace_id for turn in run.turns.open.values())

    async def _send(self, message: Message | None) -> None:
        if message is None:
            return
        self._recent = [*self._recent, message][-RECENT:]
        if len(self.held_back) < LATE and self.chooser.chance(6):
            self.world.tell("network", f"holds back: {message.caller.principal} {message.text}")
            self.held_back.append(message)
        else:
            await self.world.deliver(message)

    async def _send_worker(self) -> None:
        await self._send(self._compose(worker=True))

    async def _send_leader(self) -> None:
        if self.chooser.chance(5):
            await self._send(self.leader.release(self.chooser.pick(self.workers).name))
        elif self.chooser.chance(2):
            await self._send(self.leader.quarantine(self.chooser.pick(self.workers).name))
        else:
            await self._send(self._compose(worker=False))

    async def _late(self) -> None:
        if self.held_back:
            message = self.chooser.pick(self.held_back)
            self.held_back.remove(message)
            await self.world.deliver(message)

    async def _repeat(self) -> None:
        if self._recent:
            await self.world.deliver(self.chooser.pick(self._recent))

    def _several(self) -> list[Message]:
        composed = [self._compose_any() for _ in range(self.chooser.pick((2, 3, 4)))]
        messages = [message for message in composed if message is not None]
        self._recent = [*self._recent, *messages][-RECENT:]
        return messages

    async def _together(self) -> None:
        messages = self._several()
        if messages and self.chooser.chance(20):
            messages.append(messages[0])
        await self.world.deliver_together(messages)

    async def _time(self) -> None:
        await self.world.pass_time(self.chooser.pick(PASSING_S))

    async def _long_time(self) -> None:
        await self.world.pass_time(30.0)

    async def _beat(self) -> None:
        for worker in (*self.workers, *self.observers):
            if not worker.frozen:
                worker.mistrust()
                await self.world.deliver(worker.heartbeat())

    async def _freeze(self) -> None:
        worker = self.chooser.pick((*self.workers, *self.observers))
        worker.frozen = not worker.frozen
        self.world.tell(worker.name, "is frozen" if worker.frozen else "goes on")

    async def _stall(self) -> None:
        """One worker is not heard for longer than a ttl, and then goes on with what it was about to say."""
        who = self.chooser.pick([worker for worker in self.workers if worker.held] or self.workers)
        self.world.tell(who.name, "stalls")
        if self.chooser.chance(30):
            await self.world.deliver(who.detach())
        for _ in range(self.chooser.pick((1, 3, 5))):
            await self.world.pass_time(2.0)
            for worker in (*self.workers, *self.observers):
                if worker is not who and not worker.frozen:
                    await self.world.deliver(worker.heartbeat())
        for act in ("effect", "effect", self.chooser.pick(("close", "save", "park"))):
            await self._send(_act(who, act))

    async def _slice(self) -> None:
        """Somebody is heard until its slice ends, and its line breaks right then."""
        held = [(worker, run_id) for worker in self.workers if not worker.frozen for run_id in worker.held]
        sliced = [each for each in held if getattr(self._lease(each[1]), "slice_ends_at", None) is not None]
        if not sliced:
            return
        who, run_id = self.chooser.pick(sliced)
        for _ in range(8):
            if getattr(self._lease(run_id), "sliced", False):
                await self.world.deliver(who.detach())
                await self.world.pass_time(1.5)
                return
            await self._beat()
            await self.world.pass_time(1.0)

    def _lease(self, run_id: str) -> Lease:
        return self.world.history.standing(run_id).lease

    async def _exchange(self) -> None:
        """A turn is admitted, what runs inside starts anew, and only then the prompt is delivered, or was before."""
        who = self.chooser.pick([worker for worker in self.workers if worker.held] or self.workers)
        holder = self.holders[who.name]
        await self._send(holder.admit())
        if self.chooser.chance(40):
            await self._send(holder.turn())
        bodies = [
            body for body in self.world.truth.alive() if any(body.workspace_id == at for at, _, _ in holder.placed)
        ]
        for body in bodies:
            body.starts, body.last_end = body.starts + 1, "Error"
        for act in ("tell", "tell", "turn"):
            await self._send(_act(holder, act))

    async def _unnoticed(self) -> None:
        await self.world.pass_time(self.chooser.pick(PASSING_S), noticed=False)

    async def _sign_off(self) -> None:
        worker = self.chooser.pick(self.workers)
        worker.estranged = True
        await self._send(worker.drain() if self.chooser.chance(50) else worker.leave())

    async def _at_its_end(self) -> None:
        """Something is not renewed until it is over, and everybody speaks while that is on its way into the journal."""
        leases, grounds = leases_end(self.world.desk), grounds_end(self.world.desk)
        end = self.chooser.pick(self.chooser.pick([ends for ends in (leases, grounds) if ends] or [[0.0]]))
        while (left_s := end - self.world.clock.now.mono - JUST_BEFORE_S) > ROUNDING_S:
            await self.world.pass_time(left_s if end in leases else min(left_s, BEAT_S))
            for holder in self.holders.values() if end in grounds and end not in leases else ():
                await self._send(holder.worker.heartbeat() if not holder.worker.frozen else None)
        if end <= self.world.clock.now.mono:
            return
        if self.chooser.chance(50):
            await self.operating.disk()
        await self.world.pass_time(max(JUST_BEFORE_S, end - self.world.clock.now.mono), noticed=False)
        awake = [holder for holder in self.holders.values() if not holder.worker.frozen]
        saying = [holder.worker.heartbeat() for holder in awake]
        saying += [message for holder in awake for message in holder.need_all()]
        saying += [message for holder in awake if (message := holder.worker.save()) is not None]
        await self.world.deliver_meanwhile(saying)

    async def _connect(self) -> None:
        leader_id = self.chooser.pick(LEADERS)
        self.world.tell(leader_id, "connects")
        with suppress(Unavailable):
            await self.world.attendance.connect(self.world.desk, leader_id, self.world.clock.served_s)

    async def _drop(self) -> None:
        links = self.world.attendance.links
        if links:
            link, cause = self.chooser.pick(links), self.chooser.pick(CAUSES)
            self.world.tell(link.leader_id, f"drops a link: {cause}")
            await self.world.attendance.drop(link, cause, self.world.clock.served_s)

    async def _return_in_the_middle(self) -> None:
        """A grace runs out, and the leader comes back while its runs are being settled."""
        self.world.clock.advance(self.chooser.pick((11.9, 12.0, 12.1)))
        await asyncio.gather(self.world.manager.step(), self._connect())


def _act(who: Actor | Holder, act: str) -> Message | None:
    message: Message | None = getattr(who, act)()
    return message
