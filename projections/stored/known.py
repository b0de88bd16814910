"""What stays true of a run for ever, and what every stored projection asks for: its tenant, its queue, its leaders.

A fact that ends an attempt names neither the queue nor the instant at which the attempt began; the facts before it in
the run's stream do. They are remembered here once for all projections, at most ``CARDS`` runs of them, and read from
the journal when they are asked for again. Nothing in a card ever changes its meaning: a leader is kept with the
position from which on it was the leader, and a start with its fence. So a card may know more than the fact that is
being folded, and the answer is the same whoever asks, and when.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from domain.run import run_stream
from domain.run_facts import AttemptStarted, RunReassigned, RunSubmitted
from domain.values import Fact
from journal.mapper import Recorded

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


class Start(NamedTuple):
    """The beginning of an attempt."""

    fence: int
    worker: str
    at: datetime


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
        self.starts[fact.fence] = Start(fact.fence, fact.worker, fact.started_at)
        if len(self.starts) > STARTS:
            del self.starts[next(iter(self.starts))]

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
        self._capacity = cards
        self._cards: dict[str, Card] = {}

    def note(self, batch: Iterable[Told]) -> None:
        """Remember what these facts say for ever; noting one twice changes nothing."""
        cards = self._cards
        for kind, run_id, recorded in batch:
            if kind is AttemptStarted:
                card = cards.get(run_id)
                if card is not None:
                    card.begin(recorded.fact)
            elif kind is RunSubmitted:
                self._keep(run_id, _card([recorded]))
            elif kind is RunReassigned:
                card = cards.get(run_id)
                if card is not None:
                    _reassign(card, recorded)

    def _keep(self, run_id: str, card: Card | None) -> None:
        if card is None:
            raise UnknownRun(run_id)
        self._cards[run_id] = card
        if len(self._cards) > self._capacity:
            del self._cards[next(iter(self._cards))]

    def card(self, run_id: str) -> Card:
        """What is known of a run.

        Raises:
            UnknownRun: the journal has no submission of it.
        """
        card = self._cards.get(run_id)
        if card is None:
            self._keep(run_id, _card(self.read(run_stream(run_id))))
            card = self._cards[run_id]
        return card

    def start(self, run_id: str, fence: int) -> Start | None:
        """How the attempt under this fence began; None when none did."""
        start = self.card(run_id).starts.get(fence)
        if start is not None:
            return start
        begun = (one.fact for one in self.read(run_stream(run_id)) if isinstance(one.fact, AttemptStarted))
        return next((Start(fact.fence, fact.worker, fact.started_at) for fact in begun if fact.fence == fence), None)


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
