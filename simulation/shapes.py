"""What the service shows, in a form that can be compared: with the facts, and with itself after a restart."""

from datetime import datetime

import msgspec

from domain.run import Queued
from projections.live.index import Live
from simulation.history import History


def shape(live: Live, history: History) -> dict[str, object]:
    """What the live index says, without what a restart rightly forgets (marks, and when things fall due)."""
    return {
        "open": sorted(live.cards),
        "ready": sorted((card.run_id, card.due_at) for card in live.cards.values() if card.ready),
        "failed": sorted((card.run_id, card.failed_attempts) for card in live.cards.values()),
        "held": {
            worker: sorted(live.limits.held_by(worker)) for worker in _workers(history) if live.limits.count(worker)
        },
        "reserved": dict(sorted(live.reservations.items())),
        "workers": sorted(live.workers),
        "grounds": sorted(
            (card.workspace_id, card.run_id, card.phase, card.teardown, card.kept, card.undecided)
            for card in live.grounds.cards.values()
        ),
        "undelivered": {run_id: sorted(live.admissions.of_run(run_id)) for run_id in sorted(live.cards)},
    }


def differing(one: dict[str, object], other: dict[str, object]) -> list[object]:
    """What two of them say otherwise, by name."""
    return [(name, one[name], other[name]) for name in one if one[name] != other[name]]


def facts_shape(history: History) -> dict[str, object]:
    """The same, as far as the facts alone say it."""
    return {
        "open": sorted(history.open_runs()),
        "ready": ready(history),
        "held": held(history),
        "undelivered": {run_id: _undelivered(history, run_id) for run_id in sorted(history.open_runs())},
        "stood on": sorted((each.workspace_id, each.phase) for each in history.grounds()),
    }


def live_shape(live: Live, history: History) -> dict[str, object]:
    """What the live index says of that."""
    said = shape(live, history)
    said["stood on"] = sorted((card.workspace_id, card.phase) for card in live.grounds.cards.values())
    return {name: said[name] for name in ("open", "ready", "held", "undelivered", "stood on")}


def _undelivered(history: History, run_id: str) -> list[int]:
    return sorted(number for number, turn in history.standing(run_id).known.turns.open.items() if not turn.delivered)


def _workers(history: History) -> list[tuple[str, str]]:
    names = [stream.partition("-")[2].partition(":") for stream in history.states if stream.startswith("worker-")]
    return sorted((tenant, worker_id) for tenant, _, worker_id in names)


def ready(history: History) -> list[tuple[str, datetime]]:
    """The runs that are queued, and when each is due."""
    standings = [history.standing(run_id) for run_id in history.open_runs()]
    phases = [(standing.run_id, standing.known.phase) for standing in standings if standing.state == "queued"]
    return sorted((run_id, phase.due_at) for run_id, phase in phases if isinstance(phase, Queued))


def held(history: History) -> dict[tuple[str, str], list[str]]:
    """The runs that each worker holds, keeps or has reserved."""
    found: dict[tuple[str, str], list[str]] = {}
    for run_id in sorted(history.open_runs()):
        standing = history.standing(run_id)
        worker = getattr(standing.lease, "worker", None)
        if worker is not None:
            found.setdefault((standing.known.submission.tenant, worker), []).append(run_id)
    return dict(sorted(found.items()))


def canonical(answer: object) -> bytes:
    """An answer as it travels: what a remembered one and a fresh one have in common."""
    return msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(answer)), order="sorted")
