"""What every kind of workspace must be able to do, and how an observer speaks of it.

A *provider* makes bodies, judges whether a body is still the one that was attached to, and destroys it. A workspace
has one body for its whole life, named by an *identity* that no other body will ever have (a pod's UID; a directory's
device, inode and marker; a process's pid, start and boot). All six operations are required. They are asked by
workspace and identity alone, so that a provider that was started anew gives the same answers:

    place        begin the body; placing a workspace again makes no second one
    attach       the body's identity once it is there, or why it is not there yet
    assert_      stamp the body as still wanted, for whoever reaps what nobody wants
    continuity   what is seen of it now: present, gone, ended, replaced, or that nothing can be seen
    memory_fault the words for an end by running out of memory, as far as the backend can know; else None
    teardown     destroy it; a repeat is success, and what does not carry our mark is never touched

An *observer* notices by itself, and speaks in *observations*. It reports and never decides: what follows from a loss
is the service's to say. `gone`, `ended` and `replaced` need positive evidence; whoever cannot see says
`watch_dropped`, and after having looked at everything again `present` and `synced`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from jackline.errors import JacklineError

Kind = Literal["present", "gone", "ended", "replaced", "harness_restarted", "watch_dropped", "synced"]

LOSSES: Final = frozenset({"gone", "ended", "replaced"})
MESSAGE_MAX: Final = 4000  # characters of a message; the service refuses longer ones
DETAIL_MAX: Final = 256  # characters of one detail of an attached body
MEMORY_LIMIT: Final = "memory limit"  # how an end by running out of memory is called everywhere


class NotOurs(JacklineError):
    """What stands in the workspace's place does not carry our mark: it is left alone."""


class PlaceFailed(JacklineError):
    """The body cannot come to be."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class WorkspaceRef:
    """One workspace as a provider is asked about it; without an identity, whatever body was begun for it."""

    workspace_id: str
    identity: str | None = None
    spec: Any = None


@dataclass(frozen=True, slots=True)
class Attached:
    """The body is there."""

    identity: str
    incarnation: int = 0
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotYet:
    """The body is not there yet: what it waits for, and its identity when it exists already."""

    phase: Literal["waiting", "provisioning", "attaching"]
    on: Literal["node", "quota"] | None = None
    message: str | None = None
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of one workspace; everything but the kind may be unknown."""

    kind: Kind
    identity: str | None = None
    incarnation: int | None = None
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    version: str | None = None

    @property
    def is_loss(self) -> bool:
        """Whether it says that the body has ended."""
        return self.kind in LOSSES

    def document(self) -> dict[str, Any]:
        """The observation as it goes over the wire: what is not known is left out."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.message is not None:
            told["message"] = self.message[:MESSAGE_MAX]
        return {name: value for name, value in told.items() if value is not None}


class Provider(Protocol):
    """One kind of workspace."""

    @property
    def name(self) -> str:
        """Which kind: `directory`, `process` or `kubernetes`."""

    async def place(self, workspace_id: str, spec: Any) -> None:
        """Begin the body; raises `PlaceFailed` when it cannot come to be."""

    async def attach(self, ref: WorkspaceRef) -> Attached | NotYet:
        """The body's identity, or why there is none yet; raises `PlaceFailed` when there will be none."""

    async def assert_(self, ref: WorkspaceRef) -> None:
        """Stamp the body as still wanted; one that is gone is none of this operation's business."""

    async def continuity(self, ref: WorkspaceRef) -> Observation:
        """What is seen of the attached body now; `watch_dropped` when nothing can be seen."""

    async def memory_fault(self, ref: WorkspaceRef) -> str | None:
        """`MEMORY_LIMIT` when the last end is known to have been one; None also when the backend cannot know."""

    async def teardown(self, ref: WorkspaceRef) -> bool:
        """Destroy the body: True once it is gone, False while it is going. Raises `NotOurs`."""
