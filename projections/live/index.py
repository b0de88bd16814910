"""The live index: every open run, lease, limit and deadline of this node, folded from facts as they become durable.

It answers what a decision needs at once (who is next, would a limit be exceeded, what falls due) and never decides.
It is folded in the event loop, in the order of positions, before anybody is told of an append, and from the whole
journal at start, so deleting it means nothing.

Monotonic deadlines are made from a fact's wall instants and ``at``, the moment at which the fact is folded. At start
``at`` is placed so that time during which no node was up has not passed: the last fact of the journal counts as
recorded now. Leases then get a full ttl from the start by ``rebase``.

A grant that is on the way into the journal is not a fact yet, and nobody else may have its run or its place:
``earmark`` takes the run out of its queue and counts it, until the fact is folded or ``give_back`` undoes it.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import assert_never

from domain.lease import (
    FenceBumped,
    Lease,
    LeaseBound,
    LeaseExpired,
    LeaseFact,
    LeaseReleased,
    LeaseReserved,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
    SliceEnded,
    Vacant,
)
from domain.queue import QueueConfigured
from domain.run import Absent, Queued, Run
from domain.run_facts import (
    AttemptEnded,
    CancelRequested,
    InputProvided,
    RunClosed,
    RunFact,
    RunParked,
    RunResumed,
    RunSubmitted,
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
from domain.workspace_facts import WorkspaceLost
from evidence.memory import Evidence
from journal.mapper import Recorded
from projections.live.bells import Bells
from projections.live.cards import Card, WorkerKey, card_of, ends
from projections.live.clocks import WorkClocks
from projections.live.deadlines import RUN_KINDS, Deadlines, Graces, Kind, due
from projections.live.fleet import Fleet
from projections.live.grounds import Grounds
from projections.live.leaders import Leaders
from projections.live.limits import Earmark, Limits
from projections.live.places import Places
from projections.live.ready import Ready
from projections.live.tenures import Tenures
from projections.live.turns import Admissions


class Live:
    """What is open, and what it waits for."""

    def __init__(self, evidence: Evidence, graces: Graces, tenant_max: int | None = None) -> None:
        self.cards: dict[str, Card] = {}
        self.limits = Limits(tenant_max)
        self.ready = Ready(self.cards, self.limits)
        self.deadlines = Deadlines()
        self.bells = Bells()
        self.places = Places(self.limits, self.ready, self.bells)
        self.tenures = Tenures(evidence.leases, self.deadlines)
        self.reservations = self.tenures.tokens
        self.fleet = Fleet(self.limits, self.bells, self.deadlines, graces.worker_gone_s)
        self.workers = self.fleet.workers
        self.leaders = Leaders(graces.leader_grace_s, self.deadlines, evidence.presence)
        self.clocks = WorkClocks(evidence, self.remind)
        self.grounds = Grounds(evidence.grounds, self.deadlines, graces)
        self.admissions = Admissions(graces.admission_s, self.deadlines)
        self.doubtful: dict[tuple[str, ...], list[Earmark]] = {}
        """Grants that storage could not tell the outcome of, by run and worker; none for one that was only refused."""
        self.on_deadline: Callable[[], None] = lambda: None
        self._evidence = evidence
        self._replaying = True
        self.bells.may_take = self.fleet.has_room

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
        elif kind == "workspace":
            self.grounds.fold(name, fact, recorded.position, at)  # type: ignore[arg-type]
            if isinstance(fact, WorkspaceLost) and fact.pending:  # its holder is asked, and has its whole time
                self._evidence.leases.lengthen(recorded.meta.correlation_id or "")
        elif kind == "effects":
            self.clocks.fold_effect(name, fact, at)  # type: ignore[arg-type]
        elif kind in ("worker", "presence"):
            tenant, _, its_id = name.partition(":")
            fold = self._worker if kind == "worker" else self.leaders.fold
            fold((tenant, its_id), fact, at)  # type: ignore[arg-type]
        elif isinstance(fact, QueueConfigured):
            self.places.configure(name.partition(":")[0], fact)

    def rebase(self, now: Moment, late_s: float = 0.0) -> None:
        """The journal has been replayed: queue what is queued, and start every clock about others from now.

        Leases, reservations and the grace of a cancel have their whole time again, and every worker is as good as
        heard: nobody could reach us before. Slices and quarantines go on where they were when the last fact was
        recorded; ``late_s`` is how long the replay took, and is charged to nobody.
        """
        self._replaying = False
        self.leaders.rebase()
        self.deadlines.shift(late_s)
        for card in list(self.cards.values()):
            if card.ready:
                card.ready = False
                self._offer(card, card.due_at, now)
            if card.cancel_s is not None:
                self.deadlines.restart(due(now.mono + card.cancel_s, "cancel", (card.run_id,), ""))
        self.tenures.rebase(now, late_s)
        self.clocks.rebase(now, late_s)
        self.grounds.rebase(now, late_s, self.cards.keys())
        self.admissions.rebase(now)
        for worker in self.workers:
            self._evidence.saw_worker(worker, now)
            self.fleet.look_for(worker, now)

    def heard(self, worker: WorkerKey, now: Moment) -> None:
        """A registered worker was heard; it is looked for again when it may be gone."""
        if worker not in self.workers:
            return
        if self._evidence.worker_seen(worker) is None:
            self.fleet.look_for(worker, now)
            self.on_deadline()
        self._evidence.saw_worker(worker, now)

    def remind(self, kind: Kind, mono: float, subject: tuple[str, ...], mark: str) -> None:
        """Have the policies look at this subject at that moment."""
        self.deadlines.add(due(mono, kind, subject, mark))

    def offer_due(self, now: Moment) -> int:
        """Offer the runs that have become due, to those who wait for them too; how many."""
        cards = self.ready.promote(now.wall)
        for card in cards:
            self.bells.ring(card.queue, card.labels)
        return len(cards)

    def _run(self, run_id: str, fact: RunFact, recorded: Recorded, at: Moment) -> None:
        if isinstance(fact, RunSubmitted):
            card = self.cards[run_id] = card_of(fact, recorded.position)
            self._offer(card, fact.due_at, at)
            self.leaders.wants(card.leader, run_id, at.mono)
            self.clocks.submitted(card, fact)
            return
        card_or_none = self.cards.get(run_id)
        if card_or_none is not None:
            self.leaders.fold_run(card_or_none, fact, at)
            self.clocks.fold(card_or_none, fact, at)
            self.admissions.fold(run_id, fact, at)
            if ends(fact):
                self._end(card_or_none, at)
            else:
                self._change(card_or_none, fact, at)

    def _change(self, card: Card, fact: RunFact, at: Moment) -> None:
        match fact:
            case AttemptEnded():
                card.failed_attempts = fact.failed_attempts
                self._offer(card, fact.due_at, at)
            case RunClosed():
                self._closed(card, fact, at)
            case InputProvided() | RunResumed():
                self._offer(card, fact.due_at, at)
            case RunParked():
                self._withdraw(card)
            case CancelRequested():
                card.cancel_s = (fact.settles_at - at.wall).total_seconds()
                self.remind("cancel", at.mono + card.cancel_s, (card.run_id,), "")
            case _:
                pass

    def _closed(self, card: Card, fact: RunClosed, at: Moment) -> None:
        card.failed_attempts = fact.failed_attempts
        if fact.due_at is not None:
            self._offer(card, fact.due_at, at)
        else:  # also a late close, of a run that was queued again meanwhile
            self._withdraw(card)
        if fact.state == "waiting_verdict":
            card.cancel_s = None
            self.deadlines.forget("cancel", (card.run_id,))

    def _offer(self, card: Card, due_at: datetime | None, at: Moment) -> None:
        if due_at is None:
            return
        if self._replaying:
            card.due_at, card.ready = due_at, True
            return
        self._withdraw(card)
        if self.ready.offer(card, due_at, at.wall):
            self.bells.ring(card.queue, card.labels)

    def _end(self, card: Card, at: Moment) -> None:
        self._withdraw(card)
        self.grounds.run_ended(card.run_id, at)
        self.leaders.lets_go(card.leader, card.run_id)
        self.clocks.forget(card.run_id)
        self.fleet.forget_probe(card.run_id)
        del self.cards[card.run_id]
        self._evidence.forget_run(card.run_id)
        self.deadlines.forget_each(RUN_KINDS, (card.run_id,))

    def _withdraw(self, card: Card) -> None:
        if self._replaying:
            card.ready = False
            return
        follower = self.ready.withdraw(card)
        if follower is not None:
            self.bells.ring(follower.queue, follower.labels)

    def _lease(self, run_id: str, fact: LeaseFact, at: Moment) -> None:
        match fact:
            case FenceBumped():
                self._granted(run_id, fact, at)
                self._note_grant(run_id, fact)
            case LeaseBound():
                self._granted(run_id, fact, at)
            case LeaseReserved():
                self._taken(run_id, fact.worker)
                self._note_grant(run_id, fact)
                self.tenures.reserved(run_id, fact, at)
            case ReservationCancelled() | ReservationLapsed():
                self._freed(run_id, at, requeue=True)
            case LeaseExpired():
                self._unheard(run_id, fact.worker)
                self._freed(run_id, at, requeue=False)
            case LeaseReleased() | LeaseRevoked():
                self._freed(run_id, at, requeue=False)
            case SliceEnded():
                self.tenures.sliced(run_id, at)
            case _:
                assert_never(fact)

    def _granted(self, run_id: str, fact: FenceBumped | LeaseBound, at: Moment) -> None:
        self._taken(run_id, fact.worker)
        self.tenures.granted(run_id, fact, at)
        self.grounds.granted(run_id, at)

    def _taken(self, run_id: str, worker_id: str) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            self._withdraw(card)
            self.limits.take(card, (card.queue[0], worker_id))

    def _unheard(self, run_id: str, worker_id: str) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            self.bells.send_away((card.queue[0], worker_id))

    def _freed(self, run_id: str, at: Moment, *, requeue: bool) -> None:
        self.tenures.ended(run_id)
        self._evidence.forget_turns(run_id)
        self.grounds.lease_ended(run_id)
        if not self._replaying:
            for scope in self.grounds.watched_by(run_id, self.limits.holding(run_id)):
                self.remind("observer", at.mono, scope, run_id)
        self.places.free(run_id)
        if requeue and (card := self.cards.get(run_id)) is not None:
            self._offer(card, card.due_at, at)

    def earmark(self, card: Card, worker: WorkerKey) -> Earmark:
        """A grant is on the way into the journal: the run is out of its queue, and counts in every limit."""
        self.ready.withdraw(card)
        return Earmark(card.run_id, worker, self.limits.earmark(card, worker))

    def give_back(self, earmark: Earmark, run: Run | Absent, lease: Lease, now: Moment) -> None:
        """The outcome of a grant is known: what the journal says, with its place given back if there is no fact."""
        if earmark.holding is None:
            self.limits.unlend(earmark.run_id, earmark.worker)
            self.bells.ring_worker(earmark.worker)
        elif isinstance(lease, Vacant) and self.limits.holding(earmark.run_id) is earmark.holding:
            self.places.free(earmark.run_id)
        self.queue_again(earmark.run_id, run, lease, now)

    def queue_again(self, run_id: str, run: Run | Absent, lease: Lease, now: Moment) -> None:
        """Have a run in its queue if the journal says that it is queued, and no grant of it is on the way."""
        card = self.cards.get(run_id)
        if card is None or card.ready or self.limits.holding(run_id) is not None or not isinstance(lease, Vacant):
            return
        if isinstance(run, Run) and isinstance(run.phase, Queued):
            self._offer(card, run.phase.due_at, now)
            self.on_deadline()

    def give_up(self, earmark: Earmark, mono: float) -> None:
        """The journal refuses this grant: give its place back, and see at that moment whether the run is queued."""
        if earmark.holding is None:
            self.limits.unlend(earmark.run_id, earmark.worker)
        elif self.limits.holding(earmark.run_id) is earmark.holding:
            self.places.free(earmark.run_id)
        self._ask_again(earmark, mono)

    def doubt(self, earmark: Earmark, mono: float) -> None:
        """Storage cannot tell the outcome of this grant: ask again at that moment."""
        self._ask_again(earmark, mono).append(earmark)

    def _ask_again(self, earmark: Earmark, mono: float) -> list[Earmark]:
        subject = (earmark.run_id, *earmark.worker)
        self.remind("grant", mono, subject, "")
        self.on_deadline()
        return self.doubtful.setdefault(subject, [])

    def slice_left_s(self, run_id: str, now: Moment) -> float | None:
        """How long the holder may go on before its slice ends; None when there is no slice."""
        ends = self.tenures.ends(run_id) if run_id in self.tenures.held else None
        return None if ends is None else max(0.0, ends - now.mono)

    def _worker(self, worker: WorkerKey, fact: WorkerFact, at: Moment) -> None:
        match fact:
            case WorkerRegistered():
                self.fleet.register(worker, fact)
                self.heard(worker, at)
            case WorkerGone() | WorkerLeft():
                self._unheard_of(worker, at, at.mono)
                self._evidence.forget_worker(worker)
                self.fleet.sign_off(worker)
            case WorkerQuarantined():
                self.fleet.quarantine(worker, fact, at)
            case WorkerReleased():
                self.fleet.release(worker)
            case WorkerDetached():
                self._shorten(worker, fact)
                self._unheard_of(worker, at, at.mono + fact.window_s)
            case WorkerDrained():
                self.bells.ring_worker(worker)
            case _:
                assert_never(fact)

    def _unheard_of(self, worker: WorkerKey, at: Moment, mono: float) -> None:
        """What only this worker can see is unknown from that moment on, unless the worker is heard again."""
        if not self._replaying and self.grounds.seen_only_by(worker, self.limits.held_by(worker)):
            seen = self._evidence.worker_seen(worker) or at
            self.remind("sight", mono, worker, f"{at.mono!r} {seen.wall.isoformat()}")

    def _note_grant(self, run_id: str, fact: FenceBumped | LeaseReserved) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            self.fleet.note_grant((card.queue[0], fact.worker), run_id, fact)

    def _shorten(self, worker: WorkerKey, fact: WorkerDetached) -> None:
        """The worker's last stream was closed by its side: its leases end soon after that unless it is heard again.

        A lease whose loss would spend the run's last attempt, or decide a loss of its ground, keeps its ttl. So do all
        when nobody here knows when it was.
        """
        broke = self._evidence.broke_at(worker, fact.detached_at)
        if self._replaying or broke is None:
            return
        for run_id in self.limits.held_by(worker):
            card, holding = self.cards.get(run_id), self.limits.holding(run_id)
            its_own = holding is not None and holding.worker == worker and not self.grounds.undecided(run_id)
            if its_own and card is not None and card.failed_attempts + 1 < card.max_attempts:
                self.tenures.shorten(run_id, broke, fact.window_s)
