"""What stands in the way of a queued run: every limit, label and slot that is missing, and who has what is used up.

Asked when somebody looks at a run, never in order to decide: grants go by the same index and are decided elsewhere.
What is found is true at the moment of asking. Examples are given, at most ``SHOWN`` of each, and counts are bounded by
``AHEAD_MAX``, so a look costs the same on a large fleet. A run that the caller's key does not cover is not named: it is
told that there is one, and with which worker.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from commands.desk import Caller, Desk
from domain.lease import Reserved
from domain.run import Queued
from domain.standing import Standing
from domain.values import Moment
from domain.worker import Registered, Worker, worker_stream
from projections.coming import instant_of
from projections.live.cards import Card, WorkerKey
from projections.live.limits import Limits
from projections.outlook import Blocked

SHOWN = 3
"""Holders, workers or runs that are named as examples."""
LOOKED_AT_MAX = 100
"""Workers of which it is looked up whether they are draining or quarantined, when nobody asks."""
AHEAD_MAX = 10_000
"""Runs ahead that are counted; beyond it there are at least so many."""


Sight = Callable[[str], bool]
"""Whether a run may be named to whoever asks."""


class Place(NamedTuple):
    """Where a run stands in its queue: how many due runs come before it, and how many are queued there at all."""

    queue: str
    ahead: int
    depth: int


class Fleet(NamedTuple):
    """Workers that have the labels of a run, as far as they were looked at."""

    able: list[Registered]
    willing: list[Registered]
    free: list[Registered]


def place_of(desk: Desk, standing: Standing) -> Place | None:
    """Where a queued run stands; None when it is not queued."""
    card = desk.live.cards.get(standing.run_id)
    if card is None or not card.ready or standing.state != "queued":
        return None
    return Place(card.queue[1], desk.live.ready.ahead(card, AHEAD_MAX), desk.live.ready.depth(card.queue))


def blocks(desk: Desk, standing: Standing, now: Moment, caller: Caller) -> tuple[Blocked, ...]:
    """Everything that keeps a queued run from being granted now, what is decisive first; nothing for other runs."""
    sees = _sight(desk, caller)
    card, phase, lease = desk.live.cards.get(standing.run_id), standing.known.phase, standing.lease
    if card is None or not isinstance(phase, Queued):
        return ()
    if isinstance(lease, Reserved):
        details: dict[str, Any] = {"worker": lease.worker, "lapses_at": standing.ends_at(lease.lapses_at, now)}
        return (
            Blocked(
                "reserved", f"worker {lease.worker!r} has reserved it", "it binds or the reservation ends", details
            ),
        )
    if phase.due_at > now.wall:
        details = {"due_at": phase.due_at, "reason": phase.reason}
        return (Blocked("not_due", "it is not due yet", "its instant has come", details),)
    limits = _limits(desk.live.limits, card, sees)
    return (*limits, *_workers(desk, card, sees), *_ahead(desk, card), *_asked(desk, card))


def _sight(desk: Desk, caller: Caller) -> Sight:
    """Which runs this caller may be told of by id, and which are only counted."""

    def sees(run_id: str) -> bool:
        card, holding = desk.live.cards.get(run_id), desk.live.limits.holding(run_id)
        if caller.role == "leader" and caller.leaders is not None:
            return card is not None and card.leader is not None and card.leader[1] in caller.leaders
        if caller.role == "worker" and caller.workers is not None:
            return holding is not None and holding.worker[1] in caller.workers
        return True

    return sees


def _limits(limits: Limits, card: Card, sees: Sight) -> Iterator[Blocked]:
    (tenant, queue), key = card.queue, card.key
    most, per_key = limits.of_queue(card.queue)
    until = "one of these leases ends or the limit is raised"
    if most is not None and limits.queue_count(card.queue) >= most:
        held = _named(limits.holders(queue=card.queue, most=SHOWN), sees)
        because = f"queue {queue!r} has reached its limit of {_leases(most)}{_held_by(held)}"
        yield Blocked("queue_full", because, until, {"queue": queue, "limit": most, "held_by": _holders(held)})
    if key is not None and limits.key_full(key):
        held = _named(limits.holders(key=key, most=SHOWN), sees)
        because = f"concurrency key {key[2]!r} has reached its limit of {_leases(per_key)} in queue {queue!r}"
        details = {"concurrency_key": key[2], "limit": per_key, "held_by": _holders(held)}
        yield Blocked("key_full", because + _held_by(held), until, details)
    if limits.tenant_max is not None and limits.tenant_count(tenant) >= limits.tenant_max:
        because = f"tenant {tenant!r} has reached its limit of {_leases(limits.tenant_max)}"
        yield Blocked("tenant_full", because, until, {"limit": limits.tenant_max})


def _leases(count: int) -> str:
    return "1 lease" if count == 1 else f"{count} leases"


def _named(held: list[tuple[str, str]], sees: Sight) -> list[tuple[str | None, str]]:
    return [(run_id if sees(run_id) else None, worker) for run_id, worker in held]


def _held_by(held: list[tuple[str | None, str]]) -> str:
    named = (("another run" if run_id is None else f"run {run_id!r}", worker) for run_id, worker in held)
    return "".join(f"; {run} has one, with worker {worker!r}" for run, worker in named)


def _holders(held: list[tuple[str | None, str]]) -> list[dict[str, str | None]]:
    return [{"run_id": run_id, "worker": worker} for run_id, worker in held]


def _workers(desk: Desk, card: Card, sees: Sight) -> Iterator[Blocked]:
    known = {worker: fact for worker, fact in desk.live.workers.items() if worker[0] == card.queue[0]}
    if not known:
        yield Blocked("no_worker", "no worker is registered", "one is registered and claims this queue", {})
        return
    wanted = dict(card.labels)
    able = [worker for worker, fact in known.items() if not _missing(wanted, fact.labels)]
    fleet = _fleet(desk, able)
    if not able:
        yield _labels_missing(wanted, {worker[1]: fact.labels for worker, fact in known.items()})
    elif not fleet.willing:
        shown = [_unwilling(desk, card, worker) for worker in fleet.able[:SHOWN]]
        because = f"every worker that has its labels is draining or quarantined{_told(shown)}"
        until = "one of them is registered again or released, or another one is registered"
        yield Blocked("workers_unwilling", because, until, {"workers": shown, "count": len(able)})
    elif not fleet.free:
        because = "every worker that has its labels has all its slots in use"
        keys = [((card.queue[0], worker.worker_id), worker.slots) for worker in fleet.willing[:SHOWN]]
        shown = [_used(desk, key, slots, sees) for key, slots in keys]
        until = "one of them is rid of a run or gets more slots, or another one is registered"
        yield Blocked("slots_used", because, until, {"workers": shown, "count": len(able)})


def _fleet(desk: Desk, keys: list[WorkerKey]) -> Fleet:
    """Those of these workers that are able, willing and free; it ends at the first free one, which is enough.

    Of a busy worker nothing more is read once there are enough examples of willing ones.
    """
    fleet = Fleet([], [], [])
    for key in keys:
        free = desk.live.fleet.has_room(key)
        if not free and len(fleet.willing) >= SHOWN:
            continue
        worker: Worker = desk.journal.streams.load(worker_stream(*key))
        if not isinstance(worker, Registered):
            continue
        fleet.able.append(worker)
        if _is_unwilling(desk, key, worker):
            continue
        fleet.willing.append(worker)
        if free:
            fleet.free.append(worker)
            break
    return fleet


def _is_unwilling(desk: Desk, key: WorkerKey, worker: Registered) -> bool:
    fleet = desk.live.fleet
    put_aside = worker.quarantine is not None and (key not in fleet.cooled or fleet.probing(key) > 0)
    return worker.draining or put_aside


def _missing(wanted: dict[str, str], has: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if has.get(name) != value}


def _labels_missing(wanted: dict[str, str], fleet: dict[str, dict[str, str]]) -> Blocked:
    """No worker has the labels: which near misses there are, and what exactly each lacks."""
    near = sorted(fleet.items(), key=lambda one: (len(_missing(wanted, one[1])), one[0]))[:SHOWN]
    misses = [
        {"worker": worker, "missing": (lacks := _missing(wanted, has)), "has": {name: has.get(name) for name in lacks}}
        for worker, has in near
    ]
    told = "; ".join(f"worker {miss['worker']!r} lacks {_pairs(miss['missing'])}" for miss in misses)
    because = f"no registered worker has the labels {_pairs(wanted)}: {told}"
    until = "one that has them is registered and claims this queue"
    return Blocked("labels_missing", because, until, {"wanted": wanted, "near": misses})


def _pairs(labels: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _unwilling(desk: Desk, card: Card, worker: Registered) -> dict[str, Any]:
    quarantine, key = worker.quarantine, (card.queue[0], worker.worker_id)
    return {
        "worker": worker.worker_id,
        "state": "draining" if quarantine is None else "quarantined",
        "reason": None if quarantine is None else quarantine.reason,
        "until": None if quarantine is None else quarantine.until,
        "probing": quarantine is not None and key in desk.live.fleet.cooled,
    }


def _told(unwilling: list[dict[str, Any]]) -> str:
    """These workers in words: why each is granted nothing, until when, and what ends that."""
    return "".join(f"; worker {each['worker']!r} is {_aside(each)}" for each in unwilling)


def _aside(each: dict[str, Any]) -> str:
    if each["until"] is None:
        return "draining until it registers again"
    reason = f"quarantined for {each['reason']!r}"
    if each["probing"]:
        return f"{reason} until its one probing run ends without blame or an operator releases it"
    until = instant_of(each["until"])
    return f"{reason} until {until}, then it may have one probing run, and an operator may release it before"


def _used(desk: Desk, worker: WorkerKey, slots: int, sees: Sight) -> dict[str, Any]:
    held = desk.live.limits.held_by(worker)
    return {"worker": worker[1], "slots": slots, "used": len(held), "runs": list(filter(sees, held[:SHOWN]))}


def _ahead(desk: Desk, card: Card) -> Iterator[Blocked]:
    ahead = desk.live.ready.ahead(card, AHEAD_MAX)
    if ahead == 1:
        yield Blocked("behind", "1 run of its queue comes before it", "that one is granted or has ended", {"ahead": 1})
    elif ahead:
        count = f"at least {ahead}" if ahead == AHEAD_MAX else str(ahead)
        because = f"{count} runs of its queue come before it"
        yield Blocked("behind", because, "those are granted or have ended", {"ahead": ahead})


def _asked(desk: Desk, card: Card) -> Iterator[Blocked]:
    """Nobody asks for this queue just now; whoever claims without waiting does so only for a moment."""
    if not desk.live.bells.asked(card.queue, card.labels):
        because = f"no worker that has its labels waits for queue {card.queue[1]!r} at this moment"
        unwilling = _some_unwilling(desk, card)
        details = {"queue": card.queue[1], "unwilling": unwilling}
        yield Blocked("nobody_asks", because + _told(unwilling), "one claims this queue", details)


def _some_unwilling(desk: Desk, card: Card) -> list[dict[str, Any]]:
    """Workers that might have claimed it and may not: of those with its labels, some; where all are, that is said."""
    wanted, willing, found = dict(card.labels), False, []
    able = (
        key for key, fact in desk.live.workers.items() if key[0] == card.queue[0] and not _missing(wanted, fact.labels)
    )
    for key in islice(able, LOOKED_AT_MAX):
        worker: Worker = desk.journal.streams.load(worker_stream(*key))
        if isinstance(worker, Registered) and _is_unwilling(desk, key, worker):
            found.append(_unwilling(desk, card, worker))
        else:
            willing = True
    return found[:SHOWN] if willing else []
