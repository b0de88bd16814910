"""The cast of a world and its network: who may do what next, and how it is delivered.

`step` does one thing: somebody sends a message (now, late, twice, or beside others), time passes, the wall is set, the
disk fails, the service is restarted or killed. `let_go` ends a world: everybody stops, what is open is cancelled, and
time passes until nothing is due.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from commands import presence, steering
from domain.presence import DropCause
from journal.errors import Unavailable
from simulation.actors import Actor, Chooser
from simulation.attending import LEADERS
from simulation.leaders import Leader
from simulation.messages import Message
from simulation.storage import Fault
from simulation.workers import Worker
from simulation.world import World

PASSING_S = (0.1, 0.5, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0)
AWAY_S = (0.0, 4.0, 60.0)
WALL_S = (-3600.0, -2.0, 2.0, 3600.0)
LATE = 6
"""Messages that the network holds back at most."""
RECENT = 12
"""Messages of which a second delivery may follow."""
CAUSES: tuple[DropCause, ...] = ("closed", "left", "half_open", "slow_reader", "failed")
FAULTS: tuple[Fault, ...] = ("before", "after", "unknown")

WORKER_ACTS = (
    *("claim",) * 5, *("claim_by_id",) * 2, "reserve", "bind", "bind", "give_reservation_back", *("save",) * 3,
    *("effect",) * 6, *("park",) * 4, "hand_back", *("close",) * 4, "close_all", "report_stop", "detach",
)  # fmt: skip
LEADER_ACTS = (
    *("submit",) * 6, *("answer",) * 6, *("resume",) * 5, *("pause",) * 2, "cancel", *("judge",) * 4, "retry",
    *("reconcile",) * 3, "limit", "reassign", "acknowledge", "acknowledge",
)  # fmt: skip
STEPS = (
    *("send_worker",) * 45, *("send_leader",) * 22, *("beat",) * 9, *("time",) * 12, "long_time", *("unnoticed",) * 2,
    *("connect",) * 4, *("drop",) * 2, *("session",) * 4, "goodbye", "return_in_the_middle", *("together",) * 9,
    *("late",) * 3, *("repeat",) * 4, *("freeze",) * 2, "sign_off", "wall", "disk", "restart", "kill", "audit",
)  # fmt: skip


class Cast:
    """Everybody in one world."""

    def __init__(self, world: World, chooser: Chooser) -> None:
        self.world = world
        self.chooser = chooser
        self.workers = [Worker("ada", 2, chooser), Worker("bob", 1, chooser), Worker("cyd", 3, chooser)]
        self.leader = Leader("lea", chooser, self._hear_of, self._state_of)
        self._held_back: list[Message] = []
        self._recent: list[Message] = []

    def _hear_of(self, run_id: str) -> None:
        for worker in self.workers:
            worker.runs.append(run_id)

    def _state_of(self, run_id: str) -> str:
        return self.world.history.standing(run_id).state

    async def begin(self) -> None:
        """The service starts, the workers register, and there is something to do."""
        await self.world.start()
        await self._connect()
        for message in [worker.register() for worker in self.workers] + [self.leader.submit() for _ in range(3)]:
            await self.world.deliver(message)
        self.world.check()

    async def step(self, what: str | None = None) -> None:
        """One thing happens; then the service's view is compared with what was recorded."""
        act: Callable[[], object] = getattr(self, f"_{what or self.chooser.pick(STEPS)}")
        await act()  # type: ignore[misc]
        await self.world.recorded()
        self.world.check()

    def _compose(self, worker: bool) -> Message | None:
        if not worker:
            return _act(self.leader, self.chooser.pick(LEADER_ACTS))
        who = self.chooser.pick([worker for worker in self.workers if not worker.frozen] or self.workers)
        return _act(who, "register" if who.estranged else self.chooser.pick(WORKER_ACTS))

    async def _send(self, message: Message | None) -> None:
        if message is None:
            return
        self._recent = [*self._recent, message][-RECENT:]
        if len(self._held_back) < LATE and self.chooser.chance(6):
            self.world.tell("network", f"holds back: {message.caller.principal} {message.text}")
            self._held_back.append(message)
        else:
            await self.world.deliver(message)

    async def _send_worker(self) -> None:
        await self._send(self._compose(worker=True))

    async def _send_leader(self) -> None:
        if self.chooser.chance(5):
            await self._send(self.leader.release(self.chooser.pick(self.workers).name))
        else:
            await self._send(self._compose(worker=False))

    async def _late(self) -> None:
        if self._held_back:
            message = self.chooser.pick(self._held_back)
            self._held_back.remove(message)
            await self.world.deliver(message)

    async def _repeat(self) -> None:
        if self._recent:
            await self.world.deliver(self.chooser.pick(self._recent))

    def _several(self) -> list[Message]:
        composed = [self._compose(worker=self.chooser.chance(70)) for _ in range(self.chooser.pick((2, 3, 4)))]
        return [message for message in composed if message is not None]

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
        for worker in self.workers:
            if not worker.frozen:
                await self.world.deliver(worker.heartbeat())

    async def _freeze(self) -> None:
        worker = self.chooser.pick(self.workers)
        worker.frozen = not worker.frozen
        self.world.tell(worker.name, "is frozen" if worker.frozen else "goes on")

    async def _sign_off(self) -> None:
        worker = self.chooser.pick(self.workers)
        worker.estranged = True
        await self._send(worker.drain() if self.chooser.chance(50) else worker.leave())

    async def _unnoticed(self) -> None:
        await self.world.pass_time(self.chooser.pick(PASSING_S), noticed=False)

    async def _wall(self) -> None:
        self.world.set_wall(self.chooser.pick(WALL_S))

    async def _disk(self) -> None:
        self.world.fail_next(self.chooser.pick(FAULTS))

    async def _restart(self) -> None:
        await self.world.restart(self.chooser.pick(AWAY_S))

    async def _kill(self) -> None:
        lands, away_s = self.chooser.chance(50), self.chooser.pick(AWAY_S)
        await self.world.crash_during(self._several(), lands=lands, away_s=away_s)

    async def _connect(self) -> None:
        leader_id = self.chooser.pick(LEADERS)
        self.world.tell(leader_id, "connects")
        with suppress(Unavailable):
            await self.world.attendance.connect(self.world.desk, leader_id, self.world.clock.now.mono)

    async def _drop(self) -> None:
        links = self.world.attendance.links
        if links:
            link, cause = self.chooser.pick(links), self.chooser.pick(CAUSES)
            self.world.tell(link.leader_id, f"drops a link: {cause}")
            await self.world.attendance.drop(link, cause, self.world.clock.now.mono)

    async def _session(self) -> None:
        leader_id, session_id, ttl_s = self.chooser.pick(LEADERS), self.chooser.pick(("s1", "s2")), 5.0
        world = self.world
        message = self.leader.message(
            f"keeps session {session_id} of {leader_id}",
            lambda desk, caller: presence.keep_session(desk, caller, leader_id, session_id, ttl_s),
        )
        reply = await world.deliver(message)
        if reply.refused is None and not reply.unknown:
            world.attendance.heard(leader_id, session_id, world.clock.now.mono + ttl_s)

    async def _goodbye(self) -> None:
        leader_id, session_id = self.chooser.pick(LEADERS), self.chooser.pick(("s1", "s2"))
        message = self.leader.message(
            f"ends session {session_id} of {leader_id}",
            lambda desk, caller: presence.leave_session(desk, caller, leader_id, session_id),
        )
        self.world.attendance.left(leader_id, session_id, self.world.clock.now.mono)
        await self.world.deliver(message)

    async def _return_in_the_middle(self) -> None:
        """A grace runs out, and the leader comes back while its runs are being settled."""
        self.world.clock.advance(self.chooser.pick((11.9, 12.0, 12.1)))
        await asyncio.gather(self.world.manager.step(), self._connect())

    async def _audit(self) -> None:
        self.world.check_replay()

    async def let_go(self) -> None:
        """Everybody stops; what is open is cancelled; nothing is left."""
        self.world.tell("world", "is let go")
        self.world.heal()
        for run_id in self.world.history.open_runs():
            message = self.leader.message(
                f"cancels {run_id[-5:]}",
                lambda desk, caller, run_id=run_id: steering.cancel(desk, caller, run_id, keep_workspaces=False),  # type: ignore[misc]
            )
            await self.world.deliver(message)
        for link in list(self.world.attendance.links):
            await self.world.attendance.drop(link, "closed", self.world.clock.now.mono)
        await self.world.pass_time(600.0)
        await self.world.recorded()
        self.world.check()
        self.world.check_quiet()
        self.world.check_replay()


def _act(who: Actor, act: str) -> Message | None:
    message: Message | None = getattr(who, act)()
    return message
