"""Promise: a quarantined worker whose cool-down has passed is granted one probing run; its end decides the rest."""

from commands.desk import Desk
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Let the worker be granted one run, unless it was released, or quarantined anew, meanwhile."""
    worker = (due.subject[0], due.subject[1])
    quarantined = scene.live.quarantined.get(worker)

    async def cooled(desk: Desk) -> None:
        if desk.live.quarantined.get(worker) == quarantined:
            desk.live.cooled.add(worker)
            desk.live.bells.ring_worker(worker)

    return Do("cool_down", cooled) if quarantined is not None and quarantined.until == due.mark else None
