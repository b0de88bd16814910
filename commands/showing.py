"""Showing a run: its document, joined with what is not a fact (evidence, the last partial, its last position)."""

from datetime import datetime
from typing import Any

from commands.desk import Caller, Desk
from domain.lease import Held
from domain.standing import Standing
from domain.values import Moment
from projections.document import document


def show(desk: Desk, standing: Standing, now: Moment) -> dict[str, Any]:
    """The run as ``GET /v1/runs/{run_id}`` shows it, without its position."""
    run = standing.known
    partial = desk.journal.registers.partial(standing.run_id)
    shown = document(run, standing.lease)
    shown["partial"] = partial.body if partial else None
    shown["workspaces"] = []
    shown["evidence"] = evidence(desk, standing, now)
    return shown


def evidence(desk: Desk, standing: Standing, now: Moment) -> dict[str, datetime | None]:
    """The last-seen marks of a run: instants for people; null where there is no mark."""
    mark, activity = standing.mark, desk.evidence.activity(standing.run_id)
    held = isinstance(standing.lease, Held) and mark is not None
    return {
        "last_renewed_at": mark.renewed_at if held and mark is not None else None,
        "lease_deadline": now.wall_at(mark.deadline) if held and mark is not None else None,
        "last_activity_at": activity.at if activity else None,
        "quiet_since": activity.at if activity else None,
        "unknown_since": None,
    }


def show_run(desk: Desk, caller: Caller, run_id: str) -> dict[str, Any]:
    """One run, with every command that was acknowledged before.

    Raises:
        RunUnknown: there is none under this id in the caller's tenant.
    """
    standing = desk.standing(caller, run_id)
    shown = show(desk, standing, desk.clock())
    shown["position"] = desk.journal.last_position(run_id)
    return shown


def show_effects(desk: Desk, caller: Caller, run_id: str) -> list[dict[str, Any]]:
    """The effects of a run in the order in which they were first claimed."""
    return effects_of(desk.standing(caller, run_id))


def effects_of(standing: Standing) -> list[dict[str, Any]]:
    """Key, state, outcome, resolution and fence of each effect."""
    return [
        {
            "key": key,
            "state": effect.state,
            "outcome": effect.outcome,
            "resolution": effect.resolution,
            "fence": effect.fence,
        }
        for key, effect in standing.effects.effects.items()
    ]
