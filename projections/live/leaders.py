"""Leaders and the open runs that they want: whose absence counts since when, on the monotonic clock.

Folded from presence facts and from who wants which run. The grace of a run starts at the latest of three instants: the
leader's absence, the run's submission or reassignment, and the start of this node.

A leader that has neither an open run nor a connection is forgotten, and so is its reminder; all that is kept is since
when it is absent, because it may want a run without ever connecting.
"""

from typing import assert_never

import msgspec

from domain.presence import (
    LeaderConnected,
    LeaderDisconnected,
    LeaderGone,
    LeaderReturned,
    LeaderVanished,
    PresenceFact,
    PresenceReseeded,
)
from domain.run_facts import RunFact, RunReassigned
from domain.values import Moment
from evidence.presence import LeaderKey, PresenceMarks
from projections.live.cards import Card
from projections.live.deadlines import Deadlines, due


class LeaderCard(msgspec.Struct):
    """One leader with an open run or a recorded presence."""

    recorded: dict[str, float | None] = msgspec.field(default_factory=dict)
    """Counted connections by id, with the ttl of those that are sessions."""
    absent_from: float | None = None
    """Since when the leader has had no connection, in monotonic seconds; None while it is not known to be absent."""
    runs: dict[str, float] = msgspec.field(default_factory=dict)
    """Its open runs, and when each was submitted or reassigned to it, in monotonic seconds."""

    def due(self, run_id: str, grace_s: float) -> float | None:
        """When the grace of a run is over, if the leader is absent."""
        since = self.runs.get(run_id)
        return None if self.absent_from is None or since is None else max(self.absent_from, since) + grace_s


class Leaders:
    """All leaders of this journal that matter to an open run, or are connected."""

    def __init__(self, grace_s: float, deadlines: Deadlines, marks: PresenceMarks) -> None:
        self._cards: dict[LeaderKey, LeaderCard] = {}
        self._away: dict[LeaderKey, float] = {}
        self._grace_s = grace_s
        self._deadlines = deadlines
        self._marks = marks

    def get(self, leader: LeaderKey) -> LeaderCard | None:
        """What is known of a leader."""
        return self._cards.get(leader)

    def items(self) -> list[tuple[LeaderKey, LeaderCard]]:
        """Every leader that is known."""
        return list(self._cards.items())

    def wants(self, leader: LeaderKey | None, run_id: str, mono: float) -> None:
        """The leader, if there is one, wants this run from that moment on."""
        if leader is not None:
            card = self._known(leader)
            card.runs[run_id] = mono
            self._look_after(leader, card, mono)

    def lets_go(self, leader: LeaderKey | None, run_id: str) -> None:
        """The run has ended, or is another leader's now."""
        card = None if leader is None else self._cards.get(leader)
        if leader is not None and card is not None:
            card.runs.pop(run_id, None)
            self._forget_if_idle(leader, card)

    def fold_run(self, card: Card, fact: RunFact, at: Moment) -> None:
        """Take over who wants a run now."""
        if isinstance(fact, RunReassigned):
            self.lets_go(card.leader, card.run_id)
            card.leader = (card.queue[0], fact.leader_id)
            self.wants(card.leader, card.run_id, at.mono)

    def fold(self, leader: LeaderKey, fact: PresenceFact, at: Moment) -> None:
        """Take over a presence fact."""
        card = self._known(leader)
        match fact:
            case LeaderConnected():
                card.recorded[fact.connection_id] = fact.ttl_s if fact.kind == "session" else None
                card.absent_from = None
                self._deadlines.forget("leader", leader)
            case LeaderDisconnected():
                card.recorded.pop(fact.connection_id, None)
            case LeaderVanished():
                dropped = self._marks.take_empty_from(leader)
                card.absent_from = at.mono if dropped is None else min(dropped, at.mono)
            case PresenceReseeded():
                card.recorded = {key: ttl_s for key, ttl_s in card.recorded.items() if ttl_s is not None}
                card.absent_from = None if card.recorded else at.mono
            case LeaderReturned() | LeaderGone():
                pass
            case _:
                assert_never(fact)
        if card.absent_from is not None:
            self._look_after(leader, card, card.absent_from)
        self._forget_if_idle(leader, card)

    def rebase(self) -> None:
        """The journal has been replayed: look at each absent leader when the first of its runs is due, no earlier.

        What was to be looked at for runs that have ended meanwhile is forgotten, so that what is kept follows from
        the present alone and not from how one came to it.
        """
        for leader, card in self._cards.items():
            self._deadlines.forget("leader", leader)
            due_at = [at for run_id in card.runs if (at := card.due(run_id, self._grace_s)) is not None]
            if due_at:
                self._deadlines.add(due(min(due_at), "leader", leader, ""))

    def _known(self, leader: LeaderKey) -> LeaderCard:
        card = self._cards.get(leader)
        if card is None:
            card = self._cards[leader] = LeaderCard(absent_from=self._away.pop(leader, None))
        return card

    def _look_after(self, leader: LeaderKey, card: LeaderCard, since: float) -> None:
        """Look at an absent leader when the grace that starts at ``since`` is over."""
        if card.absent_from is not None and card.runs:
            self._deadlines.add(due(since + self._grace_s, "leader", leader, ""))

    def was_there(self, leader: LeaderKey) -> None:
        """A connection has ended whose arrival was never recorded: the absence counts from its end all the same."""
        card, dropped = self._cards.get(leader), self._marks.take_empty_from(leader)
        if card is not None and card.absent_from is not None and dropped is not None:
            card.absent_from = max(card.absent_from, dropped)
            self._look_after(leader, card, card.absent_from)

    def look_again(self, leader: LeaderKey, mono: float) -> None:
        """What was due at this moment is done: look at the leader when the next of its runs is."""
        card = self._cards.get(leader)
        later = [] if card is None else [at for run in card.runs if (at := card.due(run, self._grace_s) or 0.0) > mono]
        if later:
            self._deadlines.add(due(min(later), "leader", leader, ""))

    def _forget_if_idle(self, leader: LeaderKey, card: LeaderCard) -> None:
        if not card.runs:
            self._deadlines.forget("leader", leader)
            if not card.recorded:
                self._cards.pop(leader, None)
                if card.absent_from is not None:
                    self._away[leader] = card.absent_from
