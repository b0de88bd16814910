"""What a policy answers when something falls due: do this, look again later, or nothing any more.

A policy is pure: it is given what fell due, the live index, the evidence and the moment, and it changes nothing. The
command that it names reads everything again before it decides, so a policy that is wrong about the present costs one
command and no truth.
"""

from collections.abc import Awaitable, Callable

import msgspec

from commands.desk import Desk
from domain.values import Moment
from evidence.memory import Evidence
from projections.live.deadlines import Due
from projections.live.index import Live


class Do(msgspec.Struct, frozen=True):
    """Carry out this command."""

    name: str
    command: Callable[[Desk], Awaitable[object]]


class Again(msgspec.Struct, frozen=True):
    """It is not due yet: look again at that moment, in monotonic seconds."""

    mono: float


class Scene(msgspec.Struct, frozen=True):
    """What a policy may look at."""

    live: Live
    evidence: Evidence
    now: Moment


Reaction = Do | Again | None
Policy = Callable[[Due, Scene], Reaction]
