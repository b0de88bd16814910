"""Promise: a workspace that nobody needs is destroyed, one idle time after it was last said to be needed.

What the service itself provides for an open run (``kubernetes``) it asserts itself. A workspace whose run is open is
never reaped while nobody could assert it (`projections.live.needs`): the silence would be charged to the observed.
"""

from commands.reaping import assert_provisioned, reap_idle
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due
from projections.live.needs import stands_still


def react(due: Due, scene: Scene, *, idle_s: float) -> Reaction:
    """Reap it if its time is up; look again if it was asserted, or if silence says nothing now."""
    workspace_id = due.subject[0]
    card, at = scene.live.grounds.cards.get(workspace_id), scene.live.grounds.idle_due(workspace_id)
    if card is None or at is None:
        return None
    if scene.now.mono < at:
        return Again(at)
    if card.provider == "kubernetes" and card.run_id in scene.live.cards and not card.over:
        return Do("assert_provisioned", lambda desk: assert_provisioned(desk, workspace_id))
    if stands_still(scene.live, scene.evidence, card):
        return Again(scene.now.mono + idle_s)
    return Do("reap_idle", lambda desk: reap_idle(desk, workspace_id))
