"""Showing a run: its document, joined with what is not a fact (evidence, the last partial, its last position)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from commands.desk import Caller, Desk
from domain.lease import Held
from domain.standing import Standing
from domain.values import Moment
from domain.workspace import Unplaced, Workspace, workspace_stream
from projections.document import document
from projections.ground_document import brief
from projections.hindsight import open_turns
from projections.live.grounds import REMEMBERED_MAX

PREFIX = workspace_stream("")


def show(desk: Desk, standing: Standing, now: Moment) -> dict[str, Any]:
    """The run as ``GET /v1/runs/{run_id}`` shows it, without its position."""
    run = standing.known
    partial = desk.journal.registers.partial(standing.run_id)
    shown = document(run, standing.lease)
    shown["partial"] = partial.body if partial else None
    shown["workspaces"] = [brief(workspace) for workspace in stood_on(desk, standing)]
    shown["evidence"] = evidence(desk, standing, now)
    return {**shown, **open_turns(standing)}


def stood_on(desk: Desk, standing: Standing) -> list[Workspace]:
    """The workspaces of a run in the order in which they were placed, those that were destroyed included."""
    found = dict.fromkeys(ever_of(desk, standing.run_id))
    now = {workspace.workspace_id: workspace for workspace in standing.workspaces}
    found.update(dict.fromkeys(now))
    shown = [now.get(workspace_id) or workspace_of(desk, workspace_id) for workspace_id in found]
    return [workspace for workspace in shown if isinstance(workspace, Workspace)]


def ever_of(desk: Desk, run_id: str) -> tuple[str, ...]:
    """The ids of the workspaces of a run: of an open one from the index, of an ended one from the journal."""
    if run_id in desk.live.cards:
        return desk.live.grounds.ever_of(run_id)
    streams = desk.journal.store.streams_of(run_id, PREFIX, REMEMBERED_MAX)
    return tuple(stream.removeprefix(PREFIX) for stream in streams)


def workspace_of(desk: Desk, workspace_id: str) -> Workspace | Unplaced:
    """A workspace as of the last durable append."""
    found: Workspace | Unplaced = desk.journal.streams.load(workspace_stream(workspace_id))
    return found


def unknown_since(workspaces: Iterable[Workspace]) -> datetime | None:
    """Since when it is unknown whether one of them is there: the oldest; null when none is."""
    return min((each.unknown_since for each in workspaces if each.unknown_since is not None), default=None)


def evidence(desk: Desk, standing: Standing, now: Moment) -> dict[str, datetime | None]:
    """The last-seen marks of a run: instants for people; null where there is no mark."""
    mark, activity = standing.mark, desk.evidence.activity(standing.run_id)
    held = isinstance(standing.lease, Held) and mark is not None
    return {
        "last_renewed_at": mark.renewed_at if held and mark is not None else None,
        "lease_deadline": now.wall_at(mark.deadline) if held and mark is not None else None,
        "last_activity_at": activity.at if activity else None,
        "quiet_since": activity.at if activity else None,
        "unknown_since": unknown_since(standing.workspaces),
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
