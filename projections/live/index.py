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
from projections.live.cards import Card, Grant, WorkerKey, card_of, ends
from projections.live.clocks import WorkClocks
from projections.live.deadlines import LEASE_KINDS, RUN_KINDS, Deadlines, Graces, Kind, due
from projections.live.fleet import Fleet
from projections.live.grounds import Grounds
from projections.live.leaders import Leaders
from projections.live.limits import Earmark, Limits
from projections.live.places import Places
from projections.live.ready import Ready
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
        self.reservations: dict[str, str] = {}
        """Reservation token to run id."""
        self.fleet = Fleet(self.limits, self.bells, self.deadlines, graces.worker_gone_s)
        self.workers = self.fleet.workers
        self.leaders = Leaders(graces.leader_grace_s, self.deadlines, evidence.presence)
        self.clocks = WorkClocks(evidence, self.remind)
        self.grounds = Grounds(evidence.grounds, self.deadlines, graces)
        self.admissions = Admissions(graces.admission_s, self.deadlines)
        self.doubtful: dict[tuple[str, ...], Earmark] = {}
        """Grants that storage could not tell the outcome of, by run and worker."""
        self.on_deadline: Callable[[], None] = lambda: None
        self._evidence = evidence
        self._held: dict[str, Grant] = {}
        self._tokens: dict[str, tuple[str, float]] = {}
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
                self._restart("cancel", now.mono + card.cancel_s, (card.run_id,), "")
        for run_id, (token, length_s) in self._tokens.items():
            self._restart("reservation", now.mono + length_s, (run_id,), token)
        for run_id, held in self._held.items():
            self._held[run_id] = held._replace(slice_mono=None if held.slice_mono is None else held.slice_mono + late_s)
            self._evidence.leases.grant(run_id, held.fence, now.mono + held.ttl_s, now)
            self._restart("lease", now.mono + held.ttl_s, (run_id,), str(held.fence))
        self.clocks.rebase(now, late_s)
        self.grounds.rebase(now, late_s, self.cards.keys())
        self.admissions.rebase(now)
        for worker in self.workers:
            self._evidence.saw_worker(worker, now)
            self.fleet.look_for(worker, now)

    def _restart(self, kind: Kind, mono: float, subject: tuple[str, ...], mark: str) -> None:
        self.deadlines.forget(kind, subject)
        self.remind(kind, mono, subject, mark)

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
                self._requeue(card, fact.due_at, at)
            case RunClosed():
                self._closed(card, fact, at)
            case InputProvided() | RunResumed():
                self._requeue(card, fact.due_at, at)
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

    def _requeue(self, card: Card, due_at: datetime | None, at: Moment) -> None:
        if due_at is not None:
            self._offer(card, due_at, at)

    def _offer(self, card: Card, due_at: datetime, at: Moment) -> None:
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
        for kind in RUN_KINDS:
            self.deadlines.forget(kind, (card.run_id,))

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
                length_s = (fact.lapses_at - at.wall).total_seconds()
                self.reservations[fact.token] = run_id
                self._tokens[run_id] = (fact.token, length_s)
                self.remind("reservation", at.mono + length_s, (run_id,), fact.token)
            case ReservationCancelled() | ReservationLapsed():
                self._freed(run_id, at, requeue=True)
            case LeaseExpired():
                self._unheard(run_id, fact.worker)
                self._freed(run_id, at, requeue=False)
            case LeaseReleased() | LeaseRevoked():
                self._freed(run_id, at, requeue=False)
            case SliceEnded():
                self._sliced(run_id, at)
            case _:
                assert_never(fact)

    def _granted(self, run_id: str, fact: FenceBumped | LeaseBound, at: Moment) -> None:
        self._forget_token(run_id)
        self._taken(run_id, fact.worker)
        self._evidence.leases.grant(run_id, fact.fence, at.mono + fact.ttl_s, at)
        self.grounds.granted(run_id, at)
        self.remind("lease", at.mono + fact.ttl_s, (run_id,), str(fact.fence))
        mono = None if fact.slice_ends_at is None else at.mono + (fact.slice_ends_at - at.wall).total_seconds()
        self._held[run_id] = Grant(fact.ttl_s, fact.fence, mono)
        if mono is not None:
            self.remind("slice", mono, (run_id,), str(fact.fence))

    def _taken(self, run_id: str, worker_id: str) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            self._withdraw(card)
            self.limits.take(card, (card.queue[0], worker_id))

    def _unheard(self, run_id: str, worker_id: str) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            self.bells.send_away((card.queue[0], worker_id))

    def _forget_token(self, run_id: str) -> None:
        reserved = self._tokens.pop(run_id, None)
        if reserved is not None:
            del self.reservations[reserved[0]]
            self.deadlines.forget("reservation", (run_id,))

    def _freed(self, run_id: str, at: Moment, *, requeue: bool) -> None:
        self._forget_token(run_id)
        self._held.pop(run_id, None)
        self._evidence.leases.drop(run_id)
        for kind in LEASE_KINDS:
            self.deadlines.forget(kind, (run_id,))
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
            card = self.cards.get(earmark.run_id)
            if card is not None and isinstance(run, Run) and isinstance(run.phase, Queued):
                self._offer(card, run.phase.due_at, now)
                self.on_deadline()

    def give_up(self, earmark: Earmark) -> None:
        """The journal refuses this grant: give its place back, and leave the run to its next fact."""
        if earmark.holding is None:
            self.limits.unlend(earmark.run_id, earmark.worker)
        elif self.limits.holding(earmark.run_id) is earmark.holding:
            self.places.free(earmark.run_id)

    def doubt(self, earmark: Earmark, mono: float) -> None:
        """Storage cannot tell the outcome of this grant: ask again at that moment."""
        subject = (earmark.run_id, *earmark.worker)
        self.doubtful[subject] = earmark
        self.remind("grant", mono, subject, "")
        self.on_deadline()

    def _sliced(self, run_id: str, at: Moment) -> None:
        self.deadlines.forget("slice", (run_id,))
        held = self._held.get(run_id)
        if held is not None:
            self._evidence.leases.extend(run_id, at.mono + held.ttl_s)
            self.remind("lease", at.mono + held.ttl_s, (run_id,), str(held.fence))

    def slice_left_s(self, run_id: str, now: Moment) -> float | None:
        """How long the holder may go on before its slice ends; None when there is no slice."""
        held = self._held.get(run_id)
        return None if held is None or held.slice_mono is None else max(0.0, held.slice_mono - now.mono)

    def _worker(self, worker: WorkerKey, fact: WorkerFact, at: Moment) -> None:
        match fact:
            case WorkerRegistered():
                self.fleet.register(worker, fact)
                self.heard(worker, at)
            case WorkerGone() | WorkerLeft():
                self._evidence.forget_worker(worker)
                self.fleet.sign_off(worker)
            case WorkerQuarantined():
                self.fleet.quarantine(worker, fact, at)
            case WorkerReleased():
                self.fleet.release(worker)
            case WorkerDetached():
                self._shorten(worker, at.mono + fact.window_s)
            case WorkerDrained():
                self.bells.ring_worker(worker)
            case _:
                assert_never(fact)

    def _note_grant(self, run_id: str, fact: FenceBumped | LeaseReserved) -> None:
        card = self.cards.get(run_id)
        if card is not None:
            self.fleet.note_grant((card.queue[0], fact.worker), run_id, fact)

    def _shorten(self, worker: WorkerKey, deadline: float) -> None:
        """The worker's last stream was closed by its side: its leases end by then unless it is heard again.

        A lease whose loss would spend the run's last attempt, or decide a loss of its ground, keeps its ttl.
        """
        if self._replaying:
            return
        for run_id in self.limits.held_by(worker):
            card, held, holding = self.cards.get(run_id), self._held.get(run_id), self.limits.holding(run_id)
            its_own = holding is not None and holding.worker == worker and not self.grounds.undecided(run_id)
            if its_own and held is not None and card is not None and card.failed_attempts + 1 < card.max_attempts:
                self._evidence.leases.shorten(run_id, deadline)
                self.remind("lease", deadline, (run_id,), str(held.fence))
