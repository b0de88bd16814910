"""Promise: a lease is held in one go for at most its slice, plus one ttl to save in. Nothing is counted or killed."""

from commands.expiring import end_slice_of
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Journal the slice's end if the lease is still held under the fence that the slice belongs to."""
    run_id, fence = due.subject[0], int(due.mark)
    mark = scene.evidence.leases.get(run_id)
    if mark is None or mark.fence != fence:
        return None
    return Do("end_slice", lambda desk: end_slice_of(desk, run_id, fence))
