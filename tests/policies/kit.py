"""Given what is live, when something falls due, then do this, look again, or nothing: the policies, one at a time."""

from typing import Any

from policies.reaction import Again, Do, Reaction, Scene
from projections.live.deadlines import Due, Kind, due
from tests.commands.world import World


def scene(world: World) -> Scene:
    """What a policy may look at now."""
    return Scene(world.desk.live, world.desk.evidence, world.clock())


def reminder(world: World, kind: Kind) -> Due:
    """The one reminder of this kind."""
    (found,) = [one for one in world.desk.live.deadlines.all() if one.kind == kind]
    return found


def stale(world: World, kind: Kind, subject: tuple[str, ...], mark: str) -> Due:
    """A reminder of an occasion that may be over, due now."""
    return due(world.clock().mono, kind, subject, mark)


def told(reaction: Reaction) -> Any:
    """The name of the command, the seconds on the monotonic clock at which to look again, or None."""
    match reaction:
        case Do(name=name):
            return name
        case Again(mono=mono):
            return mono
        case None:
            return None
