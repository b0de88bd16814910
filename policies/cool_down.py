"""Promise: a quarantined worker whose cool-down has passed is granted one probing run; its end decides the rest."""

from commands.desk import Desk
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Let the worker be granted one run."""
    worker = (due.subject[0], due.subject[1])

    async def cooled(desk: Desk) -> None:
        desk.live.cooled.add(worker)
        desk.live.bells.ring_worker(worker)

    return Do("cool_down", cooled) if worker in scene.live.workers else None
