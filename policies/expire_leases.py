"""Promise: a lease that was not renewed is over at its deadline, and its run goes on under somebody else.

Expiry may transfer, only evidence may destroy: nothing is killed and no workspace is touched. The run is queued again,
due at once, unless this spends its last attempt; then it is aborted with its partial salvaged.
"""

from commands.expiring import expire_lease
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Expire the lease if its mark is old; look again if it was renewed; nothing if it has ended meanwhile.

    A held lease whose mark is missing, and that no expiry has taken, gets a new one.
    """
    run_id = due.subject[0]
    mark = scene.evidence.leases.get(run_id)
    if mark is None and scene.live.tenures.held_under(run_id) == due.mark and not scene.evidence.leases.taken(run_id):
        return Do("expire_lease", lambda desk: expire_lease(desk, run_id))
    if mark is None or str(mark.fence) != due.mark:
        return None
    if mark.live(scene.now):
        return Again(mark.deadline)
    card = scene.live.cards.get(run_id)
    last = card is not None and card.failed_attempts + 1 >= card.max_attempts
    waits = last or scene.live.grounds.undecided(run_id)
    if mark.detached and waits and scene.now.mono < mark.ttl_deadline:
        return Again(mark.ttl_deadline)
    return Do("expire_lease", lambda desk: expire_lease(desk, run_id))
