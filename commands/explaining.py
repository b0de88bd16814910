"""Explaining a run: why it is as it is, and, when it is queued and nobody takes it, what stands in the way."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from commands.desk import Caller, Desk
from commands.footings import footings, ground_clocks
from commands.showing import unknown_since
from domain.run import Queued
from domain.standing import Standing
from domain.values import Moment
from domain.worker import Registered, Worker, worker_stream
from journal.mapper import Recorded
from projections.live.cards import Card, QueueKey
from projections.outlook import Blocked
from projections.why import Case, Clock, why
from projections.why_grounds import with_grounds

FACTS_MAX = 10_000
"""Facts of one run that an explanation looks at: the latest ones, and the submission."""


def explain(desk: Desk, caller: Caller, run_id: str) -> dict[str, Any]:
    """State, the facts that led to it, evidence, fence, clocks and what happens next.

    Raises:
        RunUnknown: there is none under this id in the caller's tenant.
    """
    standing, now = desk.standing(caller, run_id), desk.clock()
    activity = desk.evidence.activity(run_id)
    active_at = activity.at if activity else None
    case = Case(
        now=now,
        blocked=blocked(desk, standing, now),
        last_activity_at=active_at,
        quiet_since=active_at,
        unknown_since=unknown_since(standing.workspaces),
        clocks=tuple(_clocks(desk, run_id, now)),
    )
    facts = _facts(desk, run_id)
    return with_grounds(why(standing, facts, case), standing, footings(desk, standing, now), facts, now)


def _clocks(desk: Desk, run_id: str, now: Moment) -> Iterator[Clock]:
    """The clocks about the run's leader and about its work, as far as they are running."""
    card, work, grace_s = desk.live.cards.get(run_id), desk.live.clocks.get(run_id), desk.timers.leader_grace_s
    leader = None if card is None or card.leader is None else desk.live.leaders.get(card.leader)
    gone = None if leader is None else leader.due(run_id, grace_s)
    if gone is not None:
        yield Clock("leader_grace", now.wall_at(gone - grace_s), now.wall_at(gone))
    quiet, activity = desk.live.clocks.quiet_due(run_id), desk.evidence.activity(run_id)
    if quiet is not None:
        yield Clock("inactivity", activity.at if activity else None, now.wall_at(quiet))
    total = None if work is None else work.total_due()
    if work is not None and total is not None:
        yield Clock("total", now.wall_at(total - work.total_after_s), now.wall_at(total))
    yield from ground_clocks(desk, run_id, now)


def _facts(desk: Desk, run_id: str) -> list[Recorded]:
    facts = desk.journal.store.facts_of(run_id, 0, FACTS_MAX)
    kept, page = deque(facts, maxlen=FACTS_MAX), facts
    while len(page) == FACTS_MAX:
        page = desk.journal.store.facts_of(run_id, page[-1].position, FACTS_MAX)
        kept.extend(page)
    return list(kept) if kept[0] is facts[0] else [facts[0], *kept]


def blocked(desk: Desk, standing: Standing, now: Moment) -> Blocked | None:
    """What keeps a queued, due run from being granted, and what would change that; None when nothing does."""
    card, phase = desk.live.cards.get(standing.run_id), standing.known.phase
    if card is None or not isinstance(phase, Queued) or standing.state != "queued" or phase.due_at > now.wall:
        return None
    return _limit(desk, card) or _workers(desk, card) or _ahead(desk, card)


def _limit(desk: Desk, card: Card) -> Blocked | None:
    limits, queue = desk.live.limits, card.queue[1]
    most, per_key = limits.of_queue(card.queue)
    until = "one of these leases ends or the limit is raised"
    if most is not None and limits.queue_count(card.queue) >= most:
        return Blocked(f"queue {queue!r} has reached its limit of {_leases(most)}", until)
    if card.key is not None and limits.key_full(card.key):
        because = f"concurrency key {card.key[2]!r} has reached its limit of {_leases(per_key)} in queue {queue!r}"
        return Blocked(because, until)
    if limits.queue_full(card.queue):
        return Blocked(f"tenant {card.queue[0]!r} has reached its limit of {_leases(limits.tenant_max)}", until)
    return None


def _leases(count: int | None) -> str:
    return "1 lease" if count == 1 else f"{count} leases"


def _workers(desk: Desk, card: Card) -> Blocked | None:
    tenant = card.queue[0]
    known = [desk.journal.streams.load(worker_stream(*worker)) for worker in desk.live.workers if worker[0] == tenant]
    if not known:
        return Blocked("no worker is registered", "one is registered and claims this queue")
    able = [worker for worker in known if _has_labels(worker, card)]
    if not able:
        because = f"no registered worker has the labels {dict(card.labels)!r}"
        return Blocked(because, "one that has them is registered and claims this queue")
    willing = [worker for worker in able if not worker.draining and worker.quarantine is None]
    if not willing:
        because = "every worker that has its labels is draining or quarantined"
        return Blocked(because, "one of them is registered again or released, or another one is registered")
    if all(desk.live.limits.count((tenant, worker.worker_id)) >= worker.slots for worker in willing):
        because = "every worker that has its labels has all its slots in use"
        return Blocked(because, "one of them is rid of a run or gets more slots, or another one is registered")
    return None


def _has_labels(worker: Worker, card: Card) -> bool:
    return isinstance(worker, Registered) and all(worker.labels.get(name) == value for name, value in card.labels)


def _ahead(desk: Desk, card: Card) -> Blocked | None:
    ahead = _position(desk, card.queue, card)
    if not ahead:
        return None
    if ahead == 1:
        return Blocked("1 run of its queue comes before it", "that one is granted or has ended")
    return Blocked(f"{ahead} runs of its queue come before it", "those are granted or have ended")


def _position(desk: Desk, queue: QueueKey, card: Card) -> int:
    others = (other for other in desk.live.cards.values() if other.queue == queue and other.ready)
    return sum(1 for other in others if other.rank < card.rank)
