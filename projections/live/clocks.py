"""The clocks of work itself: how long a run has been quiet, and how long it has been worked on.

*quiet* starts at the attempt's start or the last activity, stands still while a tool call is in flight (up to its
ceiling), goes on while the run is parked, and means nothing while the run is queued. What its holder waited for is not
its silence: the answer or the resumption that it gets under a kept lease begins a stretch. *total* starts at the first
attempt, stands still while the run is parked, and starts anew when its leader extends it. A restart of the service
opens no new quiet stretch: what was told before it is not told again until there is activity.

A restart forgets which tool calls are in flight. Nobody is charged for that: where silence would end the attempt, an
attempt that was under way at the start may be in a tool call until there is activity, and has the ceiling of one.

A clock of 0 seconds is none. Everything is on the monotonic scale, in seconds. Nothing here decides; it knows when to
look.
"""

import msgspec

from domain.effects import EffectCompleted, EffectFact, EffectFailed, EffectIntended
from domain.quiet import TOOL_CEILING_S
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    InputProvided,
    RunClosed,
    RunFact,
    RunParked,
    RunResumed,
    RunSubmitted,
    TimeoutAcknowledged,
    WorkerTimeout,
)
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnFailed, TurnMoved
from domain.values import Moment
from evidence.memory import Evidence
from projections.live.cards import Card
from projections.live.deadlines import Remind


class WorkClock(msgspec.Struct):
    """The clocks of one open run that has been started."""

    quiet_after_s: float
    total_after_s: float
    since: float | None = None
    """When the total began to count; None before the first attempt."""
    parked_from: float | None = None
    queued: bool = True
    """Whether nobody has the run: then nobody is quiet."""
    told_quiet: bool = False
    """Whether the present quiet stretch has been told."""
    told_total: bool = False
    ends_attempt: bool = False
    """Whether a quiet stretch ends the attempt, by the run's own policy."""
    blind_from: float | None = None
    """The start of the service after which nothing was heard yet: a tool call may be in flight."""

    def total_due(self) -> float | None:
        """When the total runs out; None while it stands still or has been told."""
        if self.since is None or self.parked_from is not None or self.told_total or not self.total_after_s:
            return None
        return self.since + self.total_after_s


class WorkClocks:
    """The clocks of every open run."""

    def __init__(self, evidence: Evidence, remind: Remind) -> None:
        self._clocks: dict[str, WorkClock] = {}
        self._evidence = evidence
        self._remind = remind

    def __len__(self) -> int:
        return len(self._clocks)

    def get(self, run_id: str) -> WorkClock | None:
        """The clocks of a run that has been started."""
        return self._clocks.get(run_id)

    def submitted(self, card: Card, fact: RunSubmitted) -> None:
        """A new run: nothing counts yet."""
        self._clocks[card.run_id] = WorkClock(
            quiet_after_s=fact.policy.quiet_after_s,
            total_after_s=fact.policy.total_after_s,
            ends_attempt=fact.policy.on_quiet == "fail_attempt",
        )

    def forget(self, run_id: str) -> None:
        """The run has ended."""
        self._clocks.pop(run_id, None)

    def rebase(self, now: Moment, late_s: float) -> None:
        """The service has just started: its absence is nobody's silence and nobody's work."""
        for run_id, clock in self._clocks.items():
            if clock.since is not None:
                clock.since += late_s
                clock.parked_from = None if clock.parked_from is None else clock.parked_from + late_s
                acting = not clock.queued and clock.parked_from is None
                clock.blind_from = now.mono if clock.ends_attempt and acting else None
                self._evidence.active(run_id, now)
                self._look(run_id, clock, now.mono)

    def fold(self, card: Card, fact: RunFact, at: Moment) -> None:
        """Take over one fact of an open run."""
        clock = self._clocks.get(card.run_id)
        if clock is None:
            return
        if isinstance(fact, AttemptStarted | AttemptEnded | RunClosed):
            self._evidence.forget_tools(card.run_id)
        match fact:
            case AttemptStarted():
                clock.since = at.mono if clock.since is None else clock.since
                clock.queued = False
                self._unpark(clock, at.mono)
                self.active(card.run_id, at)
            case RunParked() | RunClosed(state="waiting_verdict"):
                clock.queued = False
                clock.parked_from = at.mono if clock.parked_from is None else clock.parked_from
            case InputProvided(due_at=due_at) | RunResumed(due_at=due_at) | AttemptEnded(due_at=due_at):
                self._goes_on(card.run_id, clock, at, queued=due_at is not None, ended=isinstance(fact, AttemptEnded))
            case RunClosed(state="queued"):
                self._goes_on(card.run_id, clock, at, queued=True, ended=True)
            case TurnAdmitted() | TurnMoved() | TurnCompleted() | TurnFailed(by="holder"):
                self.active(card.run_id, at)
            case _:
                self._fold_telling(card.run_id, clock, fact, at)

    def fold_effect(self, run_id: str, fact: EffectFact, at: Moment) -> None:
        """Take over one fact of a run's ledger: what only a holder writes is activity."""
        if isinstance(fact, EffectIntended | EffectCompleted | EffectFailed):
            self.active(run_id, at)

    def _fold_telling(self, run_id: str, clock: WorkClock, fact: RunFact, at: Moment) -> None:
        match fact:
            case WorkerTimeout(kind="inactivity"):
                clock.told_quiet = True
            case WorkerTimeout(kind="total"):
                clock.told_total = True
            case TimeoutAcknowledged(kind="total", answer="extend"):
                clock.told_total, clock.since = False, at.mono
                clock.parked_from = None if clock.parked_from is None else at.mono
                self._look(run_id, clock, at.mono)
            case _:
                pass

    def _goes_on(self, run_id: str, clock: WorkClock, at: Moment, *, queued: bool, ended: bool) -> None:
        if ended and not queued:
            return  # what becomes of it is the next fact
        clock.queued = clock.queued or queued
        self._unpark(clock, at.mono)
        if clock.queued:
            self._look(run_id, clock, at.mono)
        else:
            self.active(run_id, at)

    def _unpark(self, clock: WorkClock, mono: float) -> None:
        if clock.parked_from is not None and clock.since is not None:
            clock.since += mono - clock.parked_from
        clock.parked_from = None

    def active(self, run_id: str, now: Moment) -> None:
        """There was activity: a new stretch begins."""
        clock = self._clocks.get(run_id)
        if clock is not None:
            clock.told_quiet, clock.blind_from = False, None
            self._evidence.active(run_id, now)
            self._look(run_id, clock, now.mono)

    def _look(self, run_id: str, clock: WorkClock, mono: float) -> None:
        if not clock.told_quiet and not clock.queued and clock.quiet_after_s:
            self._remind("quiet", mono + clock.quiet_after_s, (run_id,), "")
        due = clock.total_due()
        if due is not None:
            self._remind("total", due, (run_id,), "")

    def quiet_due(self, run_id: str) -> float | None:
        """When the present quiet stretch is long enough to be told; None when it was, or nothing was started."""
        clock, activity = self._clocks.get(run_id), self._evidence.activity(run_id)
        if clock is None or activity is None or clock.told_quiet or clock.queued or not clock.quiet_after_s:
            return None
        tools = [each for each in (self._evidence.tool_since(run_id), clock.blind_from) if each is not None]
        return max([activity.mono, *(tool_from + TOOL_CEILING_S for tool_from in tools)]) + clock.quiet_after_s
