"""Promise: a run that is quiet, or worked on, for too long is told of, once; by itself that changes nothing.

Silence is never evidence that a leader gave up or that a run is lost. Only a run whose own policy says
``on_quiet: fail_attempt`` has its attempt ended by it.
"""

from typing import Literal

from commands.telling import tell_overdue
from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due


def react(due: Due, scene: Scene) -> Reaction:
    """Tell it if the clock has really run out; look again when it may."""
    run_id = due.subject[0]
    kind: Literal["inactivity", "total"] = "inactivity" if due.kind == "quiet" else "total"
    clock = scene.live.clocks.get(run_id)
    if clock is None:
        return None
    at = scene.live.clocks.quiet_due(run_id) if kind == "inactivity" else clock.total_due()
    if at is None:
        return None
    if scene.now.mono < at:
        return Again(at)
    return Do("tell_overdue", lambda desk: tell_overdue(desk, run_id, kind))
