"""The live index: every open run, lease, limit and deadline of this node, folded from facts as they become durable.

It answers what a decision needs at once (who is next, would a limit be exceeded, what falls due) and never decides.
It is folded in the event loop, in the order of positions, before anybody is told of an append, and from the whole
journal at start, so deleting it means nothing.

Monotonic deadlines are made from a fact's wall instants and ``at``, the moment at which the fact is folded. At start
``at`` is placed so that time during which no node was up has not passed: the last fact of the journal counts as
recorded now. Leases then get a full ttl from the start by ``rebase``.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import assert_never

from domain.lease import (
    FenceBumped,
    LeaseBound,
    LeaseExpired,
    LeaseFact,
    LeaseReleased,
    LeaseReserved,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
    SliceEnded,
)
from domain.queue import QueueConfigured
from domain.run import Absent, Queued, Run
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    InputProvided,
    RunClosed,
    RunFact,
    RunParked,
    RunResumed,
    RunSettled,
    RunSubmitted,
    VerdictRendered,
)
from domain.values import Moment
from domain.worker import (
    WorkerDetached,
    WorkerDrained,
    WorkerFact,
    WorkerGone,
    WorkerLeft,
    WorkerQuarantined,
    WorkerRegistered,
    WorkerReleased,
)
from evidence.memory import Evidence
from journal.mapper import Recorded
from projections.live.bells import Bells
from projections.live.cards import Card, WorkerKey, card_of
from projections.live.deadlines import Deadlines, Due, Kind, due
from projections.live.limits import Limits
from projections.live.ready import Ready


class Live:
    """What is open, and what it waits for."""

    def __init__(self, evidence: Evidence, worker_gone_s: float, tenant_max: int | None = None) -> None:
        self.cards: dict[str, Card] = {}
        self.limits = Limits(tenant_max)
        self.ready = Ready(self.cards, self.limits)
        self.deadlines = Deadlines()
        self.bells = Bells()
        self.reservations: dict[str, str] = {}
        """Reservation token to run id."""
        self.workers: dict[WorkerKey, WorkerRegistered] = {}
        self.cooled: set[WorkerKey] = set()
        """Quarantined workers whose cool-down has passed."""
        self.on_deadline: Callable[[], None] = lambda: None
        self._evidence = evidence
        self._worker_gone_s = worker_gone_s
        self._held: dict[str, tuple[float, int]] = {}
        self._tokens: dict[str, str] = {}
        self._replayed: dict[tuple[str, ...], Due] | None = {}

    def fold(self, facts: Iterable[Recorded], mono: float) -> None:
        """Take over facts that have become durable, in order; ``mono`` is now."""
        for recorded in facts:
            self.fold_one(recorded, Moment(recorded.meta.recorded_at, mono))
        self.on_deadline()

    def fold_one(self, recorded: Recorded, at: Moment) -> None:
        """Take over one fact; ``at`` is the moment at which it counts as recorded."""
        stream, fact = recorded.stream, recorded.fact
        kind, _, name = stream.partition("-")
        if kind == "run":
            self._run(name, fact, recorded, at)  # type: ignore[arg-type]
        elif kind == "lease":
            self._lease(name, fact, at)  # type: ignore[arg-type]
        elif kind == "worker":
            tenant, _, worker_id = name.partition(":")
            self._worker((tenant, worker_id), fact, at)  # type: ignore[arg-type]
        elif isinstance(fact, QueueConfigured):
            self._queue(name.partition(":")[0], fact)

    def rebase(self, now: Moment) -> None:
        """The journal has been replayed: queue what is queued, and start every clock about others from now.

        Every lease gets a full ttl and every worker is as good as heard, whenever they were last seen.
        """
        replayed, self._replayed = self._replayed or {}, None
        for card in [card for card in self.cards.values() if card.ready]:
            self.ready.offer(card, card.due_at, now.wall)
        for reminder in replayed.values():
            self.deadlines.add(reminder)
        for run_id, (ttl_s, fence) in self._held.items():
            self._evidence.leases.grant(run_id, fence, now.mono + ttl_s, now)
            self.remind("lease", now.mono + ttl_s, (run_id,), str(fence))
        for worker in self.workers:
            self.heard(worker, now)

    def heard(self, worker: WorkerKey, now: Moment) -> None:
        """A worker was heard; it is looked for again when it may be gone."""
        if self._evidence.worker_seen(worker) is None:
            self.remind("worker", now.mono + self._worker_gone_s, worker, "")
        self._evidence.saw_worker(worker, now)

    def remind(self, kind: Kind, mono: float, subject: tuple[str, ...], mark: str) -> None:
        """Have the policies look at this subject at that moment."""
        reminder = due(mono, kind, subject, mark)
        if self._replayed is None:
            self.deadlines.add(reminder)
        elif kind != "lease":
            self._replayed[(kind, *subject)] = reminder

    def _run(self, run_id: str, fact: RunFact, recorded: Recorded, at: Moment) -> None:
        if isinstance(fact, RunSubmitted):
            card = self.cards[run_id] = card_of(fact, recorded.position)
            self._offer(card, fact.due_at, at)
            return
        card_or_none = self.cards.get(run_id)
        if card_or_none is not None:
            self._change(card_or_none, fact, at)

    def _change(self, card: Card, fact: RunFact, at: Moment) -> None:
        match fact:
            case AttemptStarted():
                self._withdraw(card)
                self._evidence.active(card.run_id, at)
            case AttemptEnded() | RunClosed():
                card.failed_attempts = fact.failed_attempts
                self._requeue(card, fact.due_at, at)
                if isinstance(fact, RunClosed) and fact.state in ("succeeded", "failed"):
                    self._end(card)
            case InputProvided() | RunResumed():
                self._requeue(card, fact.due_at, at)
            case RunParked():
                self._withdraw(card)
            case CancelRequested():
                mono = at.mono + (fact.settles_at - at.wall).total_seconds()
                self.remind("cancel", mono, (card.run_id,), "")
            case RunSettled() | VerdictRendered():
                self._end(card)
            case _:
                pass

    def _requeue(self, card: Card, due_at: datetime | None, at: Moment) -> None:
        if due_at is not None:
            self._offer(card, due_at, at)

    def _offer(self, card: Card, due_at: datetime, at: Moment) -> None:
        if self._replayed is not None:
            card.due_at, card.ready = due_at, True
        elif self.ready.offer(card, due_at, at.wall):
            self.bells.ring(card.queue, card.labels)

    def _end(self, card: Card) -> None:
        self._withdraw(card)
        del self.cards[card.run_id]
        self._evidence.forget_run(card.run_id)
        if self._replayed is not None:
            for kind in ("slice", "reservation", "cancel"):
                self._replayed.pop((kind, card.run_id), None)

    def _withdraw(self, card: Card) -> None:
        if self._replayed is None:
            self.ready.withdraw(card)
        else:
            card.ready = False

    def _lease(self, run_id: str, fact: LeaseFact, at: Moment) -> None:
        match fact:
            case FenceBumped() | LeaseBound():
                self._granted(run_id, fact, at)
            case LeaseReserved():
                self._taken(run_id, fact.worker)
                self.reservations[fact.token] = run_id
                self._tokens[run_id] = fact.token
                mono = at.mono + (fact.lapses_at - at.wall).total_seconds()
                self.remind("reservation", mono, (run_id,), fact.token)
            case ReservationCancelled() | ReservationLapsed():
                self._freed(run_id, at, requeue=True)
            case LeaseExpired() | LeaseReleased() | LeaseRevoked():
                self._freed(run_id, at, requeue=False)
            case SliceEnded():
                self._sliced(run_id, at)
            case _:
                assert_never(fact)

    def _granted(self, run_id: str, fact: FenceBumped | LeaseBound, at: Moment) -> None:
        self._forget_token(run_id)
        self._taken(run_id, fact.worker)
        self._held[run_id] = (fact.ttl_s, fact.fence)
        self._evidence.leases.grant(run_id, fact.fence, at.mono + fact.ttl_s, at)
        self.remind("lease", at.mono + fact.ttl_s, (run_id,), str(fact.fence))
        if fact.slice_ends_at is not None:
            mono = at.mono + (fact.slice_ends_at - at.wall).total_seconds()
            self.remind("slice", mono, (run_id,), str(fact.fence))

    def _taken(self, run_id: str, worker_id: str) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            self._withdraw(card)
            self.limits.take(card, (card.queue[0], worker_id))

    def _forget_token(self, run_id: str) -> None:
        token = self._tokens.pop(run_id, None)
        if token is not None:
            del self.reservations[token]

    def _freed(self, run_id: str, at: Moment, *, requeue: bool) -> None:
        self._forget_token(run_id)
        self._held.pop(run_id, None)
        self._evidence.leases.drop(run_id)
        self.give_back(run_id)
        card = self.cards.get(run_id)
        if requeue and card is not None:
            self._offer(card, card.due_at, at)

    def give_back(self, run_id: str) -> None:
        """A lease, or the attempt to grant one, is over: others may have its place."""
        holding = self.limits.give(run_id)
        if holding is None:
            return
        self.bells.ring_worker(holding.worker)
        freed = None if holding.key is None else self.ready.key_freed(holding.key)
        if freed is not None:
            self.bells.ring(freed.queue, freed.labels)
        if self.limits.tenant_max is not None or self.limits.of_queue(holding.queue)[0] is not None:
            for labels in self.ready.lanes(holding.queue):
                self.bells.ring(holding.queue, labels)

    def _sliced(self, run_id: str, at: Moment) -> None:
        held = self._held.get(run_id)
        if held is not None:
            self._evidence.leases.extend(run_id, at.mono + held[0])
            self.remind("lease", at.mono + held[0], (run_id,), str(held[1]))

    def _worker(self, worker: WorkerKey, fact: WorkerFact, at: Moment) -> None:
        match fact:
            case WorkerRegistered():
                self.workers[worker] = fact
                self.heard(worker, at)
                self.bells.ring_worker(worker)
            case WorkerGone() | WorkerLeft():
                self.workers.pop(worker, None)
                self._evidence.forget_worker(worker)
            case WorkerQuarantined():
                self.cooled.discard(worker)
                mono = at.mono + (fact.until - at.wall).total_seconds()
                self.remind("quarantine", mono, worker, fact.until.isoformat())
            case WorkerReleased():
                self.cooled.discard(worker)
                self.bells.ring_worker(worker)
            case WorkerDetached() | WorkerDrained():
                pass
            case _:
                assert_never(fact)

    def _queue(self, tenant: str, fact: QueueConfigured) -> None:
        self.limits.configure(tenant, fact)
        queue = (tenant, fact.queue)
        for card in self.ready.release_keys(queue):
            self.bells.ring(queue, card.labels)
        for labels in self.ready.lanes(queue):
            self.bells.ring(queue, labels)

    def requeue_if_queued(self, card: Card, run: Run | Absent, now: Moment) -> None:
        """A grant of this run did not happen: it is queued as the journal says, if it is."""
        if isinstance(run, Run) and isinstance(run.phase, Queued):
            self._offer(card, run.phase.due_at, now)

    def shorten(self, worker: WorkerKey, deadline: float) -> None:
        """The worker's last stream was closed by its side: its leases end by then unless it is heard again.

        A lease whose loss would spend the run's last attempt keeps its ttl.
        """
        for run_id in self.limits.held_by(worker):
            card, held = self.cards.get(run_id), self._held.get(run_id)
            if card is not None and held is not None and card.failed_attempts + 1 < card.max_attempts:
                self._evidence.leases.shorten(run_id, deadline)
                self.remind("lease", deadline, (run_id,), str(held[1]))
        self.on_deadline()
