"""Promise: the runs of a leader that is gone are settled after its grace, each re-checked; nobody else's ever are.

The question is how long there has been no connection, not whether there is none. A reminder of an earlier absence
finds a younger one and looks again when that one is due; a leader that is back needs nothing.
"""

from commands.presence import settle_absent
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene, *, grace_s: float) -> Reaction:
    """Settle what is due for this leader; look again when the next of its runs is."""
    leader = (due.subject[0], due.subject[1])
    card = scene.live.leaders.get(leader)
    if card is None or card.absent_from is None or scene.evidence.presence.count(leader):
        return None
    pending = [at for run_id in card.runs if (at := card.due(run_id, grace_s)) is not None]
    if not pending:
        return None
    if min(pending) > scene.now.mono:
        return Again(min(pending))
    return Do("settle_leaderless", lambda desk: settle_absent(desk, *leader))
