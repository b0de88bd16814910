"""Promise: a worker that was unheard for long and holds no lease is no longer counted on; no lease is shortened.

A claim of it that waits is as good as a word from it.
"""

from commands.expiring import give_up_worker
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene, *, gone_s: float) -> Reaction:
    """Give the worker up if it is unheard and holds nothing; look again when that may be so."""
    worker = (due.subject[0], due.subject[1])
    seen = scene.evidence.worker_seen(worker)
    if seen is None or worker not in scene.live.workers:
        return None
    if scene.now.mono < seen.mono + gone_s:
        return Again(seen.mono + gone_s)
    if scene.live.fleet.busy(worker):
        return Again(scene.now.mono + gone_s)
    return Do("give_up_worker", lambda desk: give_up_worker(desk, *worker))
