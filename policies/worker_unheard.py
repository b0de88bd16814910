"""Promise: what only one worker could see is unknown once that worker is gone, whatever becomes of its leases.

A worker watches the directories on its own machine. Its stream breaks off and it is not heard again within the
reconnect window, it leaves, or it is given up: from then on nobody sees them, and that is shown with its age. The lease
may go on, because a break alone never spends the last attempt; and a run that is parked has no lease that could end.
"""

from datetime import datetime

from commands.watching import worker_unheard
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Take what only the worker could see for unknown, if there is any, unless the worker was heard since."""
    worker, (broke, since) = (due.subject[0], due.subject[1]), due.mark.split(" ")
    broke_from, heard_at = float(broke), datetime.fromisoformat(since)
    seen = scene.evidence.worker_seen(worker)
    if seen is not None and seen.mono > broke_from:
        return None
    if not scene.live.grounds.seen_only_by(worker, scene.live.limits.held_by(worker)):
        return None
    return Do("worker_unheard", lambda desk: worker_unheard(desk, worker, broke_from, heard_at))
