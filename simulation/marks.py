"""The law of marks: whatever a clock may end has the mark that this is judged by, and none is left being judged.

A lease without a mark is live for ever, a workspace without one is never reaped, and a mark that is being judged by an
append that has long ended is never renewed again. Nothing is recorded of marks, so no replay finds that out.
"""

from commands.desk import Desk
from evidence.memory import Evidence
from projections.live.index import Live
from projections.live.needs import idle_due
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


def leases_end(desk: Desk) -> list[float]:
    """When each held lease is over unless it is renewed, in monotonic seconds."""
    marks = desk.evidence.leases
    return [mark.deadline for run_id in desk.live.tenures.held if (mark := marks.get(run_id)) is not None]


def grounds_end(desk: Desk) -> list[float]:
    """When each workspace of a held run is reaped unless it is asserted, in monotonic seconds."""
    live, held = desk.live, desk.live.tenures.held
    cards = [card.workspace_id for card in live.grounds.cards.values() if card.run_id in held]
    return [end for each in cards if (end := idle_due(live, desk.evidence, each)) is not None]
