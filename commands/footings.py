"""The workspaces of a run with their clocks, as an explanation needs them: instants for people."""

from collections.abc import Iterator

from commands.desk import Desk
from commands.showing import stood_on
from domain.standing import Standing
from domain.values import Moment
from domain.workspace import Workspace
from projections.why import Clock
from projections.why_grounds import Footing


def footings(desk: Desk, standing: Standing, now: Moment) -> list[Footing]:
    """Every workspace of a run, in the order in which they were placed."""
    return [_footing(desk, workspace, now) for workspace in stood_on(desk, standing)]


def _footing(desk: Desk, workspace: Workspace, now: Moment) -> Footing:
    grounds, workspace_id = desk.live.grounds, workspace.workspace_id
    card = grounds.cards.get(workspace_id)
    unknown_from = None if card is None else card.unknown_from
    provision, idle = grounds.provision_due(workspace_id), grounds.idle_due(workspace_id)
    return Footing(
        workspace=workspace,
        unknown_age_s=None if unknown_from is None else round(now.mono - unknown_from, 3),
        provision_due=None if provision is None else now.wall_at(provision),
        idle_due=None if idle is None else now.wall_at(idle),
    )


def ground_clocks(desk: Desk, run_id: str, now: Moment) -> Iterator[Clock]:
    """The clocks that run on what the run stands on, and on turns that are not delivered yet."""
    grounds, timers = desk.live.grounds, desk.timers
    for workspace_id in grounds.of_run(run_id):
        provision, idle = grounds.provision_due(workspace_id), grounds.idle_due(workspace_id)
        if provision is not None:
            yield Clock("provisioning", now.wall_at(provision - timers.provisioning_s), now.wall_at(provision))
        if idle is not None:
            yield Clock("idle_reap", now.wall_at(idle - timers.idle_reap_s), now.wall_at(idle))
    for since in desk.live.admissions.of_run(run_id).values():
        yield Clock("admission", now.wall_at(since), now.wall_at(since + timers.admission_s))
