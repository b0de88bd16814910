"""What a desk keeps in memory, in a form that can be compared: with another desk's, or with nothing at all."""

from typing import Any

import msgspec

from commands.desk import Desk

COOL = ("quarantine",)
"""Reminders whose passing is no fact, so that a replay cannot know of it."""


def books(desk: Desk) -> dict[str, Any]:
    """Everything that the live index knows about the present, without moments and without void entries."""
    live = desk.live
    return {
        "cards": {run_id: _card(card) for run_id, card in sorted(live.cards.items())},
        "leases": {run_id: (grant.ttl_s, grant.fence) for run_id, grant in sorted(live.tenures.held.items())},
        "holdings": {run_id: msgspec.structs.astuple(held) for run_id, held in sorted(live.limits._holdings.items())},
        "by_worker": {worker: sorted(held) for worker, held in live.limits._by_worker.items() if held},
        "by_queue": dict(+live.limits._by_queue),
        "by_key": dict(+live.limits._by_key),
        "by_tenant": dict(+live.limits._by_tenant),
        "limits": dict(live.limits._queues),
        "depth": dict(live.ready._depth),
        "queued": _queued(desk),
        "reservations": dict(live.reservations),
        "workers": dict(live.workers),
        "quarantined": {key: (q.until, q.probe) for key, q in live.fleet.quarantined.items()},
        "reminders": sorted((due.kind, due.subject, due.mark) for due in live.deadlines.all() if due.kind not in COOL),
        "marks": {run_id: mark.fence for run_id, mark in sorted(desk.evidence.leases._marks.items())},
        "seen": sorted(desk.evidence._seen),
        "grounds": {each: _ground(card) for each, card in live.grounds.cards.items()},
        "stood_on": {run_id: (live.grounds.of_run(run_id), live.grounds.ever_of(run_id)) for run_id in live.cards},
        "to_destroy": [card.workspace_id for card in live.grounds.all_to_destroy()],
        "unknown": sorted(card.workspace_id for card in live.grounds.unknown()),
        "undelivered": {run_id: sorted(live.admissions.of_run(run_id)) for run_id in live.cards},
    }


def _card(card: Any) -> tuple[Any, ...]:
    return (card.queue, card.labels, card.rank, card.key, card.ready, card.failed_attempts, card.max_attempts)


def _ground(card: Any) -> tuple[Any, ...]:
    """A workspace without its moments; whether a clock of it runs is among the reminders."""
    return (
        card.run_id, card.worker, card.provider, card.scope, card.order, card.phase, card.teardown, card.kept,
        card.undecided, card.unknown_since, card.unknown_cause, card.provisioning_from is None,
    )  # fmt: skip


def _queued(desk: Desk) -> list[str]:
    """Runs that a claim could come to, now or later: each once."""
    ready = desk.live.ready
    lanes = [entry for lanes in ready._lanes.values() for lane in lanes.values() for entry in lane]
    aside = [
        entry for keys in ready._by_key.values() for lanes in keys.values() for lane in lanes.values() for entry in lane
    ]
    found = [(run_id, stamp) for _, run_id, stamp in (*lanes, *aside)]
    found += [(run_id, stamp) for _, run_id, stamp in ready._later]
    return sorted(run_id for run_id, stamp in found if ready._card(run_id, stamp) is not None)


def leftovers(desk: Desk) -> dict[str, int]:
    """How much of what belongs to runs, workers and calls under way is kept; nothing is, when nothing is under way."""
    live, ready, limits = desk.live, desk.live.ready, desk.live.limits
    sizes = {
        "cards": len(live.cards),
        "held": len(live.tenures.held),
        "tokens": len(live.tenures.promised),
        "reservations": len(live.reservations),
        "doubtful": len(live.doubtful),
        "bells": len(live.bells),
        "lines": len(live.bells._lines),
        "deadlines": len(live.deadlines),
        "holdings": limits.total(),
        "by_worker": len(limits._by_worker),
        "lent": len(limits._lent),
        "by_queue": len(limits._by_queue),
        "by_key": len(limits._by_key),
        "by_tenant": len(limits._by_tenant),
        "depth": len(ready._depth),
        "lanes": len(ready._lanes),
        "later": len(ready._later),
        "aside": len(ready._by_key),
        "locks": len(desk.journal._locks),
        "queued": desk.journal.queued,
        "unfinished": len(desk.unfinished),
        "admissions": len(live.admissions),
        **{f"grounds by {name}": size for name, size in live.grounds.sizes().items()},
        **{f"evidence of {name}": size for name, size in desk.evidence.sizes().items()},
    }
    return {name: size for name, size in sizes.items() if size}
