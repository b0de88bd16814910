"""Time as those outside the service see it: everybody renews when its own clock says that it is time.

A worker, an observer or a leader whose clock is right is never late. One whose second is twice as long is, and loses
what it believes to have; one whose second is half as long renews twice as often. The wall of each is off as well, which
nobody is told and nobody may go by.
"""

from collections.abc import Sequence

from commands import presence
from jackline.lease import RENEW_SHARE
from simulation.actors import Chooser
from simulation.attending import LEADERS
from simulation.clock import OwnClock
from simulation.leaders import Leader
from simulation.operating import RATES, SKEWS_S
from simulation.reaching import SESSION_SLOW
from simulation.workers import Worker
from simulation.world import World

LIVED_S = (2.0, 5.0, 8.0, 12.0)
SHARES = (RENEW_SHARE, RENEW_SHARE, 0.8)
"""After which part of the ttl a holder renews; nobody can make it be the first."""
SESSION_TTL_S = 5.0
SESSIONS = ("s1", "s2")
WAKE_UPS = 200
SOONEST_S = 0.05


class Pacing:
    """The clocks of everybody but the service; the cast's steps of these names are its."""

    def __init__(self, world: World, chooser: Chooser, speaker: Leader, holders: Sequence[Worker]) -> None:
        self._world = world
        self._chooser = chooser
        self._speaker = speaker
        self._holders = holders
        self._clocks = {leader_id: OwnClock(leader_id, world.time) for leader_id in LEADERS}
        self._clocks[speaker.name] = speaker.clock
        self._shares = dict.fromkeys(self._clocks, RENEW_SHARE)
        self._asked: dict[tuple[str, str], float] = {}
        """When each session was last asked for, by its leader's clock."""

    async def live(self) -> None:
        """Time passes, and everybody is heard in time, as far as it knows."""
        world = self._world
        seconds = self._chooser.pick(LIVED_S)
        world.tell("clock", f"{seconds:g} true s pass; everybody renews by its own")
        until = world.time.true_s + seconds
        for _ in range(WAKE_UPS):
            left_s = until - world.time.true_s
            if left_s <= 0:
                return
            passing_s = min(left_s, max(SOONEST_S, self._due_in_s()))
            await world.pass_time(passing_s * world.clock.own.rate, told=False)
            await self._renew()

    def _awake(self) -> list[Worker]:
        return [each for each in self._holders if not each.frozen]

    def _due_in_s(self) -> float:
        waits = [each.renewals.due_in_s() for each in self._awake()]
        return min([*waits, *(self._session_due_in_s(session) for session in self._asked)], default=1.0)

    def _session_due_in_s(self, session: tuple[str, str]) -> float:
        clock = self._clocks[session[0]]
        return clock.lasts_s(max(0.0, self._asked[session] + SESSION_TTL_S * self._shares[session[0]] - clock().mono))

    async def _renew(self) -> None:
        for each in self._awake():
            each.mistrust()
            if each.renewals.due_in_s() <= 0 and each.held:
                await self._world.deliver(each.heartbeat())
            elif each.renewals.due_in_s() <= 0:
                each.renewals.beats()
        for session in [each for each in self._asked if self._session_due_in_s(each) <= 0]:
            await self._keep(session)

    async def session(self) -> None:
        """A leader's session is heard."""
        await self._keep((self._chooser.pick(LEADERS), self._chooser.pick(SESSIONS)))

    async def _keep(self, session: tuple[str, str]) -> None:
        (leader_id, session_id), world = session, self._world
        clock = self._clocks[leader_id]
        asked_at, before = clock().mono, self._asked.get(session)
        trusted = before is not None and asked_at - before < SESSION_TTL_S
        if trusted and clock.rate < 1 and world.attendance.session_over(leader_id, session_id, world.clock.served_s):
            world.history.reached.note(SESSION_SLOW)
        message = self._speaker.message(
            f"keeps session {session_id} of {leader_id}",
            lambda desk, caller: presence.keep_session(desk, caller, leader_id, session_id, SESSION_TTL_S),
        )
        reply = await world.deliver(message)
        if reply.refused is None and not reply.unknown:
            self._asked[session] = asked_at
            world.attendance.heard(leader_id, session_id, world.clock.served_s + SESSION_TTL_S)

    async def slow_session(self) -> None:
        """A leader whose clock is slow, and who is late as well, keeps a session for as long as it believes in it."""
        leader_id = self._chooser.pick(LEADERS)
        clock, self._shares[leader_id] = self._clocks[leader_id], SHARES[-1]
        clock.tune(self._chooser.pick(SKEWS_S), min(RATES))
        self._world.tell(leader_id, f"has a clock of its own: {clock.told()}")
        await self._keep((leader_id, self._chooser.pick(SESSIONS)))
        await self.live()

    async def goodbye(self) -> None:
        """A session says goodbye."""
        leader_id, session_id = self._chooser.pick(LEADERS), self._chooser.pick(SESSIONS)
        self._asked.pop((leader_id, session_id), None)
        message = self._speaker.message(
            f"ends session {session_id} of {leader_id}",
            lambda desk, caller: presence.leave_session(desk, caller, leader_id, session_id),
        )
        self._world.attendance.left(leader_id, session_id, self._world.clock.served_s)
        await self._world.deliver(message)

    async def drift(self) -> None:
        """The clock of somebody outside goes otherwise from now on."""
        who = self._chooser.pick([*self._holders, None])
        clock = self._clocks[self._chooser.pick(LEADERS)] if who is None else who.clock
        jump_s = self._chooser.pick((0.0, 0.0, 3600.0, -3600.0))
        clock.tune(self._chooser.pick(SKEWS_S) + jump_s, self._chooser.pick(RATES))
        if who is None:
            self._shares[clock.name] = self._chooser.pick(SHARES)
        else:
            who.renewals.share = self._chooser.pick(SHARES)
        self._world.tell(clock.name, f"has a clock of its own: {clock.told() or 'it goes right'}")
