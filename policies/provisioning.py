"""Promise: a body that is being made is attached to within its budget, or its attempt fails and is told why.

The clock stands still while nobody can see the body, and does not run while it waits for capacity. A fault is never a
loss: there was nothing to lose yet.
"""

from commands.reaping import time_out_provisioning
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Time the making out if its budget is spent; look again when it is."""
    workspace_id = due.subject[0]
    at = scene.live.grounds.provision_due(workspace_id)
    if at is None:
        return None
    if scene.now.mono < at:
        return Again(at)
    return Do("time_out_provisioning", lambda desk: time_out_provisioning(desk, workspace_id))
