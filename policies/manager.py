"""The process manager's loop: wait until something falls due, let its policy react, carry out the command.

A failing command never stops the loop: it is logged and counted, its first error stays in ``/healthz`` until the same
promise is kept again or an operator acknowledges it, and the reminder is set again a little later. Commands run side
by side, not many more than ``SIDE_BY_SIDE`` at a time, and a long one holds up no other.

``step`` does everything that is due now and is what tests and the simulator drive; ``run`` calls it in real time.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from commands.desk import Desk
from domain.values import Moment
from policies import (
    assertion,
    cool_down,
    end_sessions,
    end_slices,
    expire_leases,
    find_out_grants,
    give_up_workers,
    harness_restart,
    lapse_reservations,
    observer_gone,
    provisioning,
    retry_when_due,
    settle_cancels,
    settle_leaderless,
    tell_when_overdue,
    worker_unheard,
)
from policies.reaction import Again, Do, Policy, Scene
from projections.live.deadlines import Due, Kind

SIDE_BY_SIDE = 64
BATCH = SIDE_BY_SIDE
RETRY_S = 1.0
"""How long a command that failed waits before it is tried again."""
LONGEST_SLEEP_S = 60.0

LOOP = "process_manager"
"""The name under which the loop's own failures are told."""

log = logging.getLogger(__name__)


class Manager:
    """Keeps the promises of one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.first_error: str | None = None
        self.on_failure: Callable[[str, Exception], object] = lambda *_: None
        """Told of every promise that failed, by its name, and why."""
        self._failing: str | None = None
        self._going: set[asyncio.Future[None]] = set()
        self._wake = asyncio.Event()
        self._policies: dict[Kind, Policy] = {
            "leader": partial(settle_leaderless.react, grace_s=desk.timers.leader_grace_s),
            "session": end_sessions.react,
            "quiet": tell_when_overdue.react,
            "total": tell_when_overdue.react,
            "lease": expire_leases.react,
            "slice": end_slices.react,
            "reservation": lapse_reservations.react,
            "cancel": settle_cancels.react,
            "grant": find_out_grants.react,
            "worker": partial(give_up_workers.react, gone_s=desk.timers.worker_gone_s),
            "quarantine": cool_down.react,
            "observer": observer_gone.react,
            "sight": worker_unheard.react,
            "provision": provisioning.react,
            "idle": partial(assertion.react, idle_s=desk.timers.idle_reap_s),
            "turn": harness_restart.react,
        }
        desk.live.on_deadline = self._wake.set

    async def run(self) -> None:
        """Keep the promises until cancelled."""
        while True:
            try:
                self._wake.clear()
                found = self._begin()
                self._cleared(LOOP)
                if not found:
                    await self._sleep()
                elif len(self._going) >= SIDE_BY_SIDE:
                    await asyncio.wait(self._going, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                await self._abandon()
                raise
            except Exception as error:  # noqa: BLE001  (the loop goes on, whatever happens)
                self._failed(LOOP, error)
                await asyncio.sleep(RETRY_S)

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(self.next_in_s(self.desk.clock())):
                await self._wake.wait()
        except TimeoutError:
            pass

    def next_in_s(self, now: Moment) -> float:
        """Seconds until something may be due; at most ``LONGEST_SLEEP_S``."""
        mono = self.desk.live.deadlines.next()
        deadline_s = None if mono is None else max(0.0, mono - now.mono)
        waits = [LONGEST_SLEEP_S, deadline_s, retry_when_due.next_in_s(self.desk.live, now)]
        return min(wait for wait in waits if wait is not None)

    async def step(self) -> int:
        """Do what is due now, to its end; how much there was."""
        found = self._begin()
        while self._going:
            await asyncio.wait(self._going)
        return found

    def _begin(self) -> int:
        """Begin what is due now, in its order; how much there was."""
        desk, now = self.desk, self.desk.clock()
        offered = retry_when_due.offer_due(desk.live, now)
        due = desk.live.deadlines.pop_due(now.mono, BATCH)
        scene = Scene(desk.live, desk.evidence, now)
        for reminder in due:
            do = self._react(reminder, scene)
            if do is not None:
                going = asyncio.ensure_future(self._carry_out(reminder, do))
                self._going.add(going)
                going.add_done_callback(self._going.discard)
        return offered + len(due)

    async def _abandon(self) -> None:
        for going in list(self._going):
            going.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)

    def _react(self, reminder: Due, scene: Scene) -> Do | None:
        try:
            reaction = self._policies[reminder.kind](reminder, scene)
        except Exception as error:  # noqa: BLE001  (a reminder that nobody understands must not cost the others)
            self._failed(reminder.kind, error)
            self._remind(reminder, scene.now.mono + RETRY_S)
            return None
        self._cleared(reminder.kind)
        if isinstance(reaction, Again):
            self._remind(reminder, reaction.mono)
            return None
        return reaction

    async def _carry_out(self, reminder: Due, do: Do) -> None:
        try:
            done = await do.command(self.desk)
        except Exception as error:  # noqa: BLE001  (one promise that fails must not cost the others)
            self._failed(do.name, error)
            self._remind(reminder, self.desk.clock().mono + RETRY_S)
            return
        if done is not None and not done:
            self._look_again(reminder)
            return
        self.counts[do.name] += 1
        self._cleared(do.name)

    def _look_again(self, reminder: Due) -> None:
        """The command found nothing to do, because something had changed meanwhile: there may be a later occasion.

        Where the policy would do the same again at once, somebody else is at it: it is looked at a little later, since
        a promise is never forgotten while its policy has something to do.
        """
        now = self.desk.clock()
        reaction = self._policies[reminder.kind](reminder, Scene(self.desk.live, self.desk.evidence, now))
        if reaction is not None:
            self._remind(reminder, reaction.mono if isinstance(reaction, Again) else now.mono + RETRY_S)

    def _remind(self, reminder: Due, mono: float) -> None:
        self.desk.live.deadlines.add_again(reminder._replace(mono=mono))
        self._wake.set()  # the loop may be asleep until a later one

    def _failed(self, name: str, error: Exception) -> None:
        log.exception("promise %s failed and will be tried again", name)
        self.failures[name] += 1
        self.on_failure(name, error)
        if self.first_error is None:
            self.first_error, self._failing = f"{name}: {error!r}", name

    def _cleared(self, name: str) -> None:
        if self._failing == name:
            self.acknowledge()

    def acknowledge(self) -> None:
        """An operator has seen the first error, or it has cleared by itself."""
        self.first_error = self._failing = None
