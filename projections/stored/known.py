"""What stays true of a run for ever, and what every stored projection asks for: its tenant, its queue, its leaders.

A fact that ends an attempt names neither the queue nor the instant at which the attempt began; the facts before it in
the run's stream do. They are remembered here once for all projections, at most ``CARDS`` runs of them, and read from
the journal when they are asked for again. Nothing in a card ever changes its meaning: a leader is kept with the
position from which on it was the leader, and a start with its fence. So a card may know more than the fact that is
being folded, and the answer is the same whoever asks, and when.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from domain.run import run_stream
from domain.run_facts import AttemptStarted, RunReassigned, RunSubmitted
from domain.values import Fact
from journal.mapper import Recorded
from projections.stored.instants import microseconds

CARDS = 20_000
"""Runs of which cards are kept; about 500 bytes each."""

STARTS = 32
"""Starts of attempts of one run that its card keeps."""

STATES = 10_000
"""Folded states of one kind that a projection keeps; about 3 kB each."""

Read = Callable[[str], Iterable[Recorded]]
"""All facts of a stream, in order."""


Told = tuple[type[Fact], str, Recorded]
"""A fact with what every fold asks of it: its type, and the subject of its stream (what follows the first hyphen)."""


def told(facts: Iterable[Recorded]) -> list[Told]:
    """These facts, as folds are told them."""
    return [(recorded.fact.__class__, recorded.stream.partition("-")[2], recorded) for recorded in facts]


class UnknownRun(LookupError):
    """A fact names a run that the journal has no submission of."""


class Start(msgspec.Struct, frozen=True, gc=False):
    """The beginning of an attempt: whose it was, and when, in microseconds (``instants``)."""

    worker: str
    at: int


class Card:
    """One run: tenant, queue, leaders by the position from which on they were, and the last starts by their fences."""

    __slots__ = ("leaders", "queue", "starts", "tenant")

    def __init__(self, tenant: str, queue: str, leaders: list[tuple[int, str | None]]) -> None:
        self.tenant = tenant
        self.queue = queue
        self.leaders = leaders
        self.starts: dict[int, Start] = {}

    def begin(self, fact: Any) -> None:
        """Remember how an attempt began."""
        starts = self.starts
        starts[fact.fence] = Start(fact.worker, microseconds(fact.started_at))
        if len(starts) > STARTS:
            del starts[next(iter(starts))]

    def leader_at(self, position: int) -> str | None:
        """Whose run it was at a position; a reassignment counts from its own position on."""
        leader = None
        for since, leader_id in self.leaders:
            if since > position:
                break
            leader = leader_id
        return leader


class Known:
    """Cards of the runs that facts were lately about; and for each fold, how many states it may keep."""

    def __init__(self, read: Read, cards: int = CARDS, states: int = STATES) -> None:
        self.read = read
        self.states = states
        self.cards: OrderedDict[str, Card] = OrderedDict()
        """Those at hand; a fold that asks at most facts looks here before it asks for a card."""
        self.notes: Mapping[type[Fact], Callable[[str, Recorded], None]] = {
            RunSubmitted: self._submitted,
            AttemptStarted: self._started,
            RunReassigned: self._reassigned,
        }
        """Who remembers what a fact of a type says for ever; noting one twice changes nothing."""
        self._capacity = cards

    def note(self, batch: Iterable[Told]) -> None:
        """Remember what these facts say for ever."""
        notes = self.notes
        for kind, run_id, recorded in batch:
            note = notes.get(kind)
            if note is not None:
                note(run_id, recorded)

    def _submitted(self, run_id: str, recorded: Recorded) -> None:
        self._keep(run_id, _card([recorded]))

    def _started(self, run_id: str, recorded: Recorded) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            card.begin(recorded.fact)

    def _reassigned(self, run_id: str, recorded: Recorded) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            _reassign(card, recorded)

    def _keep(self, run_id: str, card: Card | None) -> None:
        if card is None:
            raise UnknownRun(run_id)
        self.cards[run_id] = card
        if len(self.cards) > self._capacity:
            self.cards.popitem(last=False)

    def card(self, run_id: str) -> Card:
        """What is known of a run.

        Raises:
            UnknownRun: the journal has no submission of it.
        """
        card = self.cards.get(run_id)
        if card is None:
            self._keep(run_id, _card(self.read(run_stream(run_id))))
            card = self.cards[run_id]
        return card

    def start(self, run_id: str, fence: int) -> Start | None:
        """How the attempt under this fence began; None when none did."""
        card = self.cards.get(run_id) or self.card(run_id)
        start = card.starts.get(fence)
        if start is not None:
            return start
        begun = (one.fact for one in self.read(run_stream(run_id)) if isinstance(one.fact, AttemptStarted))
        return next((Start(fact.worker, microseconds(fact.started_at)) for fact in begun if fact.fence == fence), None)


def _card(facts: Iterable[Recorded]) -> Card | None:
    card: Card | None = None
    for recorded in facts:
        fact = recorded.fact
        if isinstance(fact, RunSubmitted):
            card = Card(fact.tenant, fact.queue, [(recorded.position, fact.leader_id)])
        elif card is not None and isinstance(fact, AttemptStarted):
            card.begin(fact)
        elif card is not None and isinstance(fact, RunReassigned):
            _reassign(card, recorded)
    return card


def _reassign(card: Card, recorded: Recorded) -> None:
    if recorded.position > card.leaders[-1][0]:
        card.leaders.append((recorded.position, recorded.fact.leader_id))  # type: ignore[attr-defined]
