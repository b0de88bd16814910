"""Promise: a quarantined worker whose cool-down has passed is granted one probing run; its end decides the rest."""

from commands.desk import Desk
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Let the worker be granted one run, unless it was released, or quarantined anew, meanwhile."""
    worker = (due.subject[0], due.subject[1])
    quarantined = scene.live.fleet.quarantined.get(worker)
    if quarantined is None or quarantined.until != due.mark:
        return None

    async def cool_down(desk: Desk) -> bool:
        return desk.live.fleet.cool(worker, due.mark)

    return Do("cool_down", cool_down)
