"""Starting a desk: the journal is replayed into the live index, then every clock about others starts from now.

Time during which no node was up has not passed: a fact that was recorded ``s`` seconds before the journal's last one
counts as ``s`` seconds old, however long the service was away and the replay takes. Leases, reservations and the grace
of a cancel have their whole time from the start.

Only wall instants survive a process, so a wall clock that was set forth between two facts counts as time that passed:
a slice or a quarantine may end early after a restart, which hands a run on, or a worker back, and costs nothing else.
"""

from collections.abc import Callable

from commands.desk import Desk, Timers
from domain.values import Clock, Moment
from journal.commit import Journal

REPLAY_BATCH = 5_000


class Opening:
    """A desk on its way to being usable, one bounded step after the other."""

    def __init__(self, journal: Journal, clock: Clock, mint: Callable[[], str], timers: Timers) -> None:
        self.desk = Desk(journal, clock, mint, timers)
        self._after = 0
        self._last = journal.last_append_at
        self._began = clock()

    def replay_some(self) -> bool:
        """Fold one more batch of the journal into the live index; whether there is more."""
        desk = self.desk
        facts = desk.journal.store.facts_after(self._after, REPLAY_BATCH)
        for recorded in facts:
            self._after = recorded.position
            recorded_at = recorded.meta.recorded_at
            age_s = (self._last - recorded_at).total_seconds() if self._last is not None else 0.0
            desk.live.fold_one(recorded, Moment(recorded_at, self._began.mono - max(0.0, age_s)))
        return len(facts) == REPLAY_BATCH

    def finish(self) -> Desk:
        """Start the clocks and follow the journal from here on."""
        desk = self.desk
        now = desk.clock()
        desk.live.rebase(now, late_s=now.mono - self._began.mono)
        desk.journal.listeners.append(lambda facts: desk.live.fold(facts, desk.clock().mono))
        return desk


def open_desk(journal: Journal, clock: Clock, mint: Callable[[], str], timers: Timers) -> Desk:
    """A desk over a whole journal, in one go."""
    opening = Opening(journal, clock, mint, timers)
    while opening.replay_some():
        pass
    return opening.finish()
