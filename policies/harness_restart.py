"""Promise: a turn that cannot be delivered fails once its admission window has passed, with what was heard of its body.

A harness that never comes back takes no prompt, and nothing else would end such a turn. Turns that were delivered need
no promise here: a restart ends them in the very decision that records it, and waiting on them has no deadline.
"""

from commands.turns import give_up_undelivered
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Fail the turn if it is still undelivered and its window has passed; look again when it has."""
    run_id, turn = due.subject[0], int(due.subject[1])
    at = scene.live.admissions.due(run_id, turn)
    if at is None:
        return None
    if scene.now.mono < at:
        return Again(at)
    return Do("give_up_undelivered", lambda desk: give_up_undelivered(desk, run_id, turn))
