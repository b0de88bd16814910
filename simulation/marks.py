"""The law of marks: whatever a clock may end has the mark that this is judged by, and none is left being judged.

A lease without a mark is live for ever, a workspace without one is never reaped, and a mark that is being judged by an
append that has long ended is never renewed again. Nothing is recorded of marks, so no replay finds that out.
"""

from commands.desk import Desk
from evidence.memory import Evidence
from projections.live.index import Live
from simulation.broken import LawBroken

MARKED = "marks: a held lease and a workspace have theirs, and none is left being judged"


def check_marks(live: Live, evidence: Evidence) -> None:
    """Raise unless every held lease and every workspace has its mark, with no append under way."""
    for run_id, held in live.tenures.held.items():
        mark = evidence.leases.get(run_id)
        if mark is None or mark.fence != held.fence:
            raise LawBroken(MARKED, f"the lease of {run_id} under fence {held.fence} has {mark!r}")
    for workspace_id in live.grounds.cards:
        if evidence.grounds.last_asserted(workspace_id) is None:
            raise LawBroken(MARKED, f"the workspace {workspace_id} was never asserted")
    if left := evidence.sizes()["under way"]:
        raise LawBroken(MARKED, f"{left} marks are still being judged")


def ends_of(desk: Desk) -> list[list[float]]:
    """When what is judged by a mark is over unless it is renewed, in monotonic seconds: leases, and workspaces."""
    live, marks = desk.live, desk.evidence.leases
    leases = [mark.deadline for run_id in live.tenures.held if (mark := marks.get(run_id)) is not None]
    grounds = [idle for workspace_id in live.grounds.cards if (idle := live.grounds.idle_due(workspace_id)) is not None]
    return [ends for ends in (leases, grounds) if ends]
