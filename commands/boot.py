"""Starting a desk: the journal is replayed into the live index, then every clock about others starts from now.

With a checkpoint only the facts that the present still follows from are read, and then whatever came after it; without
one, everything. The index is the same either way (``projections.live.kept``). A checkpoint that turns out to list what
the journal does not hold is left aside, and the replay begins anew.

Time during which no node was up has not passed: a fact that was recorded ``s`` seconds before the journal's last one
counts as ``s`` seconds old, however long the service was away and the replay takes. Leases, reservations and the grace
of a cancel have their whole time from the start.

Only wall instants survive a process, so a wall clock that was set forth between two facts counts as time that passed:
a slice or a quarantine may end early after a restart, which hands a run on, or a worker back, and costs nothing else.
"""

import logging
from collections.abc import Callable, Sequence

from commands.desk import Desk, Timers
from domain.values import Clock, Moment
from journal.checkpoints import Checkpoint
from journal.commit import Journal
from journal.mapper import Recorded
from projections.live.kept import Kept

REPLAY_BATCH = 5_000

log = logging.getLogger(__name__)


class Opening:
    """A desk on its way to being usable, one bounded step after the other."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        mint: Callable[[], str],
        timers: Timers,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._make: Callable[[], Desk] = lambda: Desk(journal, clock, mint, timers)
        self.desk = self._make()
        self.kept = Kept()
        """What a start at the end of this replay would have to read."""
        self.replayed = 0
        """Facts that were read for it."""
        self.checkpoint = checkpoint
        """The checkpoint that is gone by; None when there is none, or it was left aside."""
        self._store = journal.store
        self._after = 0
        self._listed = 0
        self._last = journal.last_append_at
        self._began = clock()

    def replay_some(self) -> bool:
        """Fold one more batch into the live index; whether there is more."""
        if self.checkpoint is not None and self._after < self.checkpoint.position:
            return self._replay_listed(self.checkpoint)
        facts = self._store.facts_after(self._after, REPLAY_BATCH)
        self._fold(facts)
        return len(facts) == REPLAY_BATCH

    def _replay_listed(self, checkpoint: Checkpoint) -> bool:
        listed = checkpoint.positions[self._listed : self._listed + REPLAY_BATCH]
        facts = self._store.facts_at(listed)
        if len(facts) != len(listed):
            log.warning("the checkpoint lists facts that the journal does not hold; the whole journal is read instead")
            self.checkpoint, self.desk, self.kept, self._after, self.replayed = None, self._make(), Kept(), 0, 0
            return True
        self._fold(facts)
        self._listed += len(listed)
        if self._listed == len(checkpoint.positions):
            self._after = self.kept.position = checkpoint.position
        return True

    def _fold(self, facts: Sequence[Recorded]) -> None:
        for recorded in facts:
            self._after = recorded.position
            recorded_at = recorded.meta.recorded_at
            age_s = (self._last - recorded_at).total_seconds() if self._last is not None else 0.0
            self.desk.live.fold_one(recorded, Moment(recorded_at, self._began.mono - max(0.0, age_s)))
        self.kept.fold(facts)
        self.replayed += len(facts)

    def finish(self) -> Desk:
        """Start the clocks and follow the journal from here on."""
        desk = self.desk
        now = desk.clock()
        desk.live.rebase(now, late_s=now.mono - self._began.mono)
        desk.journal.listeners.append(lambda facts: desk.live.fold(facts, desk.clock().mono))
        return desk


def open_desk(
    journal: Journal, clock: Clock, mint: Callable[[], str], timers: Timers, checkpoint: Checkpoint | None = None
) -> Desk:
    """A desk over a journal, in one go."""
    opening = Opening(journal, clock, mint, timers, checkpoint)
    while opening.replay_some():
        pass
    return opening.finish()
