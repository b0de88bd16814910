"""Promise: a grant of which storage could not tell the outcome is found out, and its run is not forgotten."""

from commands.granting import find_out
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Ask the journal again while the grant is in doubt."""
    if due.subject not in scene.live.doubtful:
        return None
    return Do("find_out_grant", lambda desk: find_out(desk, due.subject))
