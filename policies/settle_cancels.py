"""Promise: a run whose cancel was asked for is settled when its grace has passed, whatever its holder does."""

from commands.expiring import settle_cancel
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Settle the run if nothing has ended it before."""
    run_id = due.subject[0]
    if run_id not in scene.live.cards:
        return None
    return Do("settle_cancel", lambda desk: settle_cancel(desk, run_id))
