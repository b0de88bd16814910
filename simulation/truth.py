"""What is really so outside of the service: bodies that exist or have ended, who works on what, what was said.

The service only hears of these. What it records is held against them: a loss may only be recorded of a body that has
really ended, a workspace may only be reaped when nobody said for the idle time that it is needed, and whoever gives a
lease up has really stopped its work. A body never comes to life again, and no two share an identity.
"""

from collections.abc import Callable, Iterator

import msgspec

from domain.observing import Kind, Observation
from domain.workspace_facts import LossReason
from simulation.clock import Time

SCOPES = ("east", "west")
ENDINGS: tuple[tuple[Kind, LossReason | None, int | None], ...] = (
    ("gone", "PodDeleted", None), ("gone", None, None), ("ended", "Evicted", None), ("ended", "ProcessExited", 9),
    ("ended", "ProcessExited", None), ("replaced", "DirectoryReplaced", None),
)  # fmt: skip
"""Ways in which a body ends: what is seen of it then, the reason, and an exit code."""


class Body(msgspec.Struct):
    """One body: whose workspace it is, under which identity, how often its harness has started, and its end."""

    workspace_id: str
    scope: str | None
    identity: str
    made_s: float
    starts: int = 0
    last_end: str | None = None
    """Why the harness was started anew."""
    end: tuple[Kind, LossReason | None, int | None] | None = None

    def seen(self) -> Observation:
        """What somebody who looks at it sees."""
        if self.end is None:
            kind: Kind = "harness_restarted" if self.last_end is not None else "present"
            return Observation(kind=kind, identity=self.identity, incarnation=self.starts, reason=self.last_end)
        kind, reason, code = self.end
        identity = f"{self.identity}+" if kind == "replaced" else self.identity
        return Observation(kind=kind, identity=identity, reason=reason, exit_code=code)


class Truth:
    """Everything that is so, whoever knows of it."""

    def __init__(self, time: Time | None = None) -> None:
        self.time = time or Time()
        self.note: Callable[[str], None] = lambda situation: None
        """Counts a situation that only somebody outside can tell."""
        self.bodies: dict[str, Body] = {}
        self.asserted: dict[str, float] = {}
        """When a workspace was last said to be needed, and that was acknowledged: seconds since the world began."""
        self.served_s: Callable[[], float] = lambda: 0.0
        """Seconds since the world began, by the clock of whichever node served."""
        self.heard: dict[tuple[str, int], float] = {}
        """When the holder of a run under a fence was last told that it holds it, in served seconds."""
        self.working: set[tuple[str, int]] = set()
        """Runs that are being worked on, each with the fence of whoever does."""

    def make(self, workspace_id: str, scope: str | None, now_s: float) -> Body:
        """The body of this workspace, which is there from now on if it never was."""
        fresh = Body(workspace_id, scope, f"body-{len(self.bodies) + 1}", now_s)
        return self.bodies.setdefault(workspace_id, fresh)

    def alive(self) -> list[Body]:
        """The bodies that are there, in the order in which they were made."""
        return [body for body in self.bodies.values() if body.end is None]

    def of_scope(self, scope: str) -> Iterator[Body]:
        """Every body that a full list of this scope could name."""
        return (body for body in self.bodies.values() if body.scope == scope)

    def ended(self, workspace_id: str, identity: str | None = None) -> bool:
        """Whether the body of this workspace has really ended; None for the identity is any."""
        body = self.bodies.get(workspace_id)
        return body is not None and body.end is not None and identity in (None, body.identity)
