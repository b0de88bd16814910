"""The laws of what a run stands on, as they can be seen in one decision: loss, identity, turns.

Checked against what was recorded, like the others (``simulation.laws``): a workspace is lost at most once, and only by
an end that was seen; it keeps its identity and never returns to an earlier phase; what nobody sees stays as it is; a
turn ends once, and only in the attempt that it was admitted in.
"""

from collections.abc import Sequence

from domain.lease import Held
from domain.run import Run
from domain.run_facts import RunSettled
from domain.standing import Standing
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnCut, TurnFailed
from domain.values import Fact
from domain.workspace import OVER, Workspace, WorkspacePhase, workspace_stream
from domain.workspace_facts import HarnessRestarted, WorkspaceLost, WorkspacePlaced
from simulation.broken import LawBroken

Entries = Sequence[tuple[str, Fact]]

L7 = "L7: a workspace is lost once"
GROUND = "a workspace has one body for life"
TURNS = "a turn ends once, in its attempt"

ORDER: tuple[WorkspacePhase, ...] = (
    "placing", "provisioning", "attaching", "running", "teardown", "destroyed", "lost", "provision_failed",
)  # fmt: skip


def check_ground(before: Standing, entries: Entries, after: Standing) -> None:
    """Raise unless every law about workspaces and turns that one decision can break holds for it."""
    if not before.workspaces and not after.workspaces and not _turns(before):
        return
    was = {each.workspace_id: each for each in before.workspaces}
    for workspace in after.workspaces:
        facts = [fact for stream, fact in entries if stream == workspace_stream(workspace.workspace_id)]
        _lost_once(was.get(workspace.workspace_id), facts)
        _one_body(was.get(workspace.workspace_id), workspace, facts)
    _lost_by_evidence(before, entries)
    _turns_end_once(before, [fact for _, fact in entries])
    _no_turn_outlives_its_mark(after)


def _turns(standing: Standing) -> int:
    return standing.run.turns.last if isinstance(standing.run, Run) else 0


def _lost_once(before: Workspace | None, facts: Sequence[Fact]) -> None:
    lost = [fact for fact in facts if isinstance(fact, WorkspaceLost)]
    if lost and (before is None or before.phase != "running"):
        phase = None if before is None else before.phase
        raise LawBroken(L7, f"a workspace that is {phase} was lost", facts)


def _one_body(before: Workspace | None, after: Workspace, facts: Sequence[Fact]) -> None:
    if before is None:
        if not isinstance(facts[0], WorkspacePlaced):
            raise LawBroken(GROUND, "a workspace began without being placed", facts)
        return
    if before.identity is not None and after.identity != before.identity:
        raise LawBroken(GROUND, f"{before.identity!r} became {after.identity!r}", facts)
    if after.incarnation < before.incarnation:
        raise LawBroken(GROUND, f"incarnation {before.incarnation} fell to {after.incarnation}", facts)
    if before.phase != after.phase and (before.phase in OVER or ORDER.index(after.phase) < ORDER.index(before.phase)):
        raise LawBroken(GROUND, f"{before.phase} became {after.phase}", facts)
    if before.destroyed_at is not None and facts:
        raise LawBroken(GROUND, "something was recorded of a body that is destroyed", facts)


def _lost_by_evidence(before: Standing, entries: Entries) -> None:
    """A run is lost with its ground only when a loss of that ground is recorded, and cited."""
    settled = [fact for _, fact in entries if isinstance(fact, RunSettled) and fact.reason == "workspace_lost"]
    now = {stream for stream, fact in entries if isinstance(fact, WorkspaceLost)}
    earlier = {workspace_stream(each.workspace_id) for each in before.workspaces if each.lost is not None}
    for fact in settled:
        if not any(cited.rpartition("@")[0] in now | earlier for cited in fact.cites):
            raise LawBroken(L7, "settled by a loss that is not recorded", [fact])


def _turns_end_once(before: Standing, facts: Sequence[Fact]) -> None:
    run, lease = before.run, before.lease
    ends = [fact for fact in facts if isinstance(fact, TurnCompleted | TurnFailed | TurnCut)]
    numbers = [fact.turn for fact in ends]
    if not isinstance(run, Run) or len(numbers) != len(set(numbers)) or not run.turns.open.keys() >= set(numbers):
        raise LawBroken(TURNS, "a turn that is not under way ended", ends)
    for fact in facts:
        if isinstance(fact, TurnAdmitted) and not (isinstance(lease, Held) and lease.fence == fact.fence):
            raise LawBroken(TURNS, f"admitted under fence {fact.fence}, which is not held", [fact])
    restarted = any(isinstance(fact, HarnessRestarted) for fact in facts)
    if not restarted and any(isinstance(fact, TurnCut) and not fact.cites for fact in ends):
        raise LawBroken(TURNS, "cut without a restart", ends)


def _no_turn_outlives_its_mark(after: Standing) -> None:
    if not isinstance(after.run, Run):
        return
    incarnations = {each.workspace_id: each.incarnation for each in after.workspaces}
    for turn in after.run.turns.open.values():
        now = incarnations.get(turn.workspace_id or "", 0)
        if turn.delivered and turn.mark is not None and turn.mark < now:
            raise LawBroken(TURNS, f"turn {turn.turn} waits under mark {turn.mark}, and the harness is at {now}")
