"""Promise: when the view of a workspace is gone, it is unknown at once, and nothing more follows from that.

A loss itself needs no promise: it is told and decided on in one append, by whoever's report brings it. What nobody
reports is the end of the observer. It is read off the end of its lease, and whatever it watched is then shown as
unknown, with its age, until somebody has seen it again.
"""

from commands.watching import observer_gone
from policies.reaction import Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Take what the observer watched for unknown, unless somebody else watches it by now."""
    scope, run_id = (due.subject[0], due.subject[1]), due.mark
    observer = scene.evidence.grounds.observer(scope)
    if observer is not None and observer.run_id != run_id:
        return None
    return Do("observer_gone", lambda desk: observer_gone(desk, scope, run_id))
