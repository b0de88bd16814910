"""The workspaces of a run with their clocks, as an explanation needs them: instants for people."""

from collections.abc import Iterator
from datetime import datetime

from commands.desk import Desk
from commands.showing import stood_on, workspace_of
from domain.standing import Standing
from domain.values import Moment
from domain.workspace import Workspace
from domain.workspace_facts import LossReason
from projections.coming import Clock
from projections.live.needs import idle_due
from projections.why_grounds import Footing

GONE: frozenset[LossReason] = frozenset(
    {"PodDeleted", "Deleted", "DirectoryDeleted", "DirectoryReplaced", "ProcessExited"}
)
"""Losses after which no body is left that could be looked into, or be destroyed for want of an assertion."""


def footings(desk: Desk, standing: Standing, now: Moment, broke_at: datetime | None = None) -> list[Footing]:
    """Every workspace of a run, in the order in which they were placed.

    ``broke_at`` is when the holder's connection broke, if nothing was heard of it since: what only the holder watches
    was then seen by nobody since it was last heard.
    """
    mark = standing.mark
    unheard = None if broke_at is None or mark is None else mark.renewed_at
    return [_footing(desk, workspace, now, unheard) for workspace in stood_on(desk, standing)]


def _footing(desk: Desk, workspace: Workspace, now: Moment, unheard: datetime | None) -> Footing:
    grounds, workspace_id = desk.live.grounds, workspace.workspace_id
    card = grounds.cards.get(workspace_id)
    unknown_from = None if card is None else card.unknown_from
    provision, idle = grounds.provision_due(workspace_id), _idle_due(desk, workspace)
    return Footing(
        workspace=workspace,
        unknown_age_s=None if unknown_from is None else round(now.mono - unknown_from, 3),
        seen_at=unheard if workspace.placed.scope is None and workspace.phase == "running" else None,
        provision_due=None if provision is None else now.wall_at(provision),
        idle_due=None if idle is None else now.wall_at(idle),
    )


def _idle_due(desk: Desk, workspace: Workspace) -> float | None:
    """When the body is destroyed unless somebody asserts it; None where there is none, or where no clock runs."""
    gone = workspace.lost is not None and workspace.lost.reason in GONE
    return None if gone else idle_due(desk.live, desk.evidence, workspace.workspace_id)


def ground_clocks(desk: Desk, run_id: str, now: Moment) -> Iterator[Clock]:
    """The clocks that run on what the run stands on, and on turns that are not delivered yet."""
    grounds, timers = desk.live.grounds, desk.timers
    for workspace_id in grounds.of_run(run_id):
        workspace = workspace_of(desk, workspace_id)
        provision = grounds.provision_due(workspace_id)
        idle = _idle_due(desk, workspace) if isinstance(workspace, Workspace) else None
        if provision is not None:
            begun = now.wall_at(provision - timers.provisioning_s)
            yield Clock("provisioning", begun, now.wall_at(provision), workspace_id=workspace_id)
        if idle is not None:
            seen = now.wall_at(idle - timers.idle_reap_s)
            yield Clock("idle_reap", seen, now.wall_at(idle), workspace_id=workspace_id)
    for turn, since in desk.live.admissions.of_run(run_id).items():
        yield Clock("admission", now.wall_at(since), now.wall_at(since + timers.admission_s), turn=turn)
