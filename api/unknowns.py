"""What nobody can see just now: the workspaces whose continuity is unknown, with their age, and the alarm about it.

*Unknown* is not *gone*: nothing follows from it but that it is shown. An unknown that lasts is somebody's watch that
has failed unnoticed, so once the oldest is ``observer_alarm_s`` seconds old the service counts as degraded, until it is
seen again. What is left of a run that has ended is nobody's to watch, and does not count. Ages are on the monotonic
clock: time during which no node was up has not passed.
"""

from itertools import islice
from typing import Any

from commands.desk import Desk
from projections.live.grounds import GroundCard

SHOWN_MAX = 100
"""Unknowns that are listed; all are counted."""


def unknowns(desk: Desk) -> list[dict[str, Any]]:
    """The longest unknown workspaces, with since when and how long."""
    now = desk.clock().mono
    return [
        {
            "workspace_id": card.workspace_id,
            "run_id": card.run_id,
            "scope": card.scope,
            "cause": card.unknown_cause,
            "since": card.unknown_since,
            "age_s": round(_age_s(card, now), 3),
        }
        for card in islice(desk.live.grounds.unknown(), SHOWN_MAX)
    ]


def observers(desk: Desk) -> dict[str, Any]:
    """How many workspaces and scopes there are, and what became of the observations since this process started."""
    grounds, marks, now = desk.live.grounds, desk.evidence.grounds, desk.clock().mono
    watching = [
        {"scope": scope[1], "run_id": observer.run_id, "silent_s": round(now - observer.seen.mono, 3)}
        for scope, observer in islice(marks.observers(), SHOWN_MAX)
    ]
    return {
        "workspaces": len(grounds),
        "unknown": grounds.sizes()["unknown"],
        "scopes": marks.sizes()["observers"],
        "watching": watching,
        "observations": dict(marks.counts),
        "first_error": alarm(desk),
    }


def alarm(desk: Desk) -> str | None:
    """What is wrong, for people, when a workspace has been unknown for too long; it clears by itself."""
    oldest, bound_s = next(desk.live.grounds.unknown(), None), desk.timers.observer_alarm_s
    if oldest is None:
        return None
    age_s = _age_s(oldest, desk.clock().mono)
    if age_s < bound_s:
        return None
    return f"workspace {oldest.workspace_id} has been unknown for {age_s:.0f} s ({oldest.unknown_cause})"


def _age_s(card: GroundCard, mono: float) -> float:
    return 0.0 if card.unknown_from is None else mono - card.unknown_from
