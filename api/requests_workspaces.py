"""What may be asked about workspaces and turns: bodies and queries, as strict and closed as those of ``api/requests``.

What a value may be beyond its type (the length of an identity, the list of reasons) is the domain's to say. In a batch
of an observer one observation that is not acceptable is answered as refused and costs the others nothing; a body that
has not the shape of its route is refused as a whole.
"""

from typing import Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from api.bodies import UserJson
from api.requests import SAFE_INTEGER, Body, OptionalFence, Query, Reading
from domain.observing import Observation

Kind = Literal["present", "gone", "ended", "replaced", "harness_restarted", "watch_dropped", "synced"]
Provider = Literal["external", "directory", "process", "kubernetes"]
Phase = Literal["placing", "provisioning", "attaching", "running", "teardown", "destroyed", "lost", "provision_failed"]

OBSERVATIONS_MAX = 1_000


class Place(Body):
    """What a run is to stand on."""

    run_id: str
    fence: OptionalFence = None
    provider: Provider = "external"
    scope: str | None = Field(None, description="what one observer watches as a whole, for example a cluster")
    spec: UserJson = None


class Seen(TypedDict):
    """Something that was seen of a body; everything but its kind may be left out."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]
    kind: Kind
    identity: NotRequired[str | None]
    incarnation: NotRequired[int | None]
    reason: NotRequired[str | None]
    message: NotRequired[str | None]
    exit_code: NotRequired[int | None]
    version: NotRequired[str | None]


class SeenOf(Seen):
    """Something that was seen of one of many bodies."""

    workspace_id: str


class Observe(Body):
    """What was seen of one workspace, in order."""

    observations: list[Seen] = Field(min_length=1, max_length=OBSERVATIONS_MAX)


class Part(Body):
    """Which part of a list that is larger than one batch this is; the list applies once its last part came."""

    sync_id: str = Field(min_length=1, max_length=128)
    index: int = Field(ge=0, description="0 for the first part, then one more each")
    last: bool = False


class ObserveScope(Body):
    """What an observer saw of a scope; ``synced`` says that this is all there is."""

    run_id: str = Field(
        description="the observer's own run, which it holds under `fence` for as long as it observes: best one in the "
        "queue `_observers` whose concurrency key is the scope, as a key that is bound to workers must have it. While "
        "its lease is live, a batch of this scope for another run is refused (`scope_observed`)"
    )
    fence: OptionalFence = None
    scope: str = Field(min_length=1, max_length=256)
    observations: list[SeenOf] = Field(default_factory=list, max_length=OBSERVATIONS_MAX)
    synced: bool = False
    part: Part | None = None
    listed_s_ago: float = Field(
        0.0, ge=0, le=86_400, description="how long ago the list was asked for: who was attached since is not absent"
    )
    as_of: int | None = Field(
        None,
        ge=0,
        description="the position that the observer knew before it asked for the list: who was attached to after it "
        "is not absent, however late the batch comes, or how often",
    )


class Attach(Body):
    """Which body the run stands on from now on."""

    identity: str
    incarnation: int = 0
    details: dict[str, str] = Field(default_factory=dict)


class Move(Body):
    """How far the making of the body has come."""

    phase: Literal["waiting", "provisioning", "attaching"]
    on: Literal["node", "quota"] | None = Field(None, description="what it waits for; only with `waiting`")
    message: str | None = None
    identity: str | None = Field(None, description="the body that exists now; only with `attaching`")


class ListWorkspaces(Reading):
    """Which workspaces, from where on; `phase=teardown` lists every body that is to be destroyed.

    A phase that is terminal, or `all`, also lists those whose bodies are gone.
    """

    phase: Phase | None = None
    scope: str | None = None
    provider: Provider | None = None
    run_id: str | None = None
    limit: int = Field(100, ge=1, le=500)
    cursor: str | None = Field(None, pattern=r"^\d{1,18}$")
    all: bool = Field(False, description="also those whose bodies are gone")


class Release(Query):
    """Who lets the workspace go, or that there is nothing left of one that was let go."""

    worker_id: str | None = Field(None, description="the worker that lets it go by itself; left out by everybody else")
    gone: bool = Field(False, description="an operator looked: the body that was to be destroyed is no more")


class AdmitTurn(Body):
    """A prompt is about to be delivered."""

    fence: OptionalFence = None
    workspace_id: str | None = None


class DeliverTurn(Body):
    """The prompt was delivered, to what runs under this incarnation."""

    fence: OptionalFence = None
    incarnation: int | None = Field(None, ge=0, le=SAFE_INTEGER)


class MoveTurn(Body):
    """What the turn is doing."""

    fence: OptionalFence = None
    state: Literal["waiting", "busy", "answer_unread"]


class CompleteTurn(Body):
    """The answer came and was taken."""

    fence: OptionalFence = None


class FailTurn(Body):
    """No answer will come."""

    fence: OptionalFence = None
    code: str = Field(min_length=1, max_length=64)
    message: str | None = Field(None, max_length=4_000)


class NoticeTurn(Body):
    """Something about the turn that has to be said once."""

    fence: OptionalFence = None
    kind: Literal["conversation_new", "memory_limit"]


def observation(seen: Seen) -> Observation:
    """The observation as the domain knows it."""
    return Observation(**{name: value for name, value in seen.items() if name != "workspace_id"})  # type: ignore[arg-type]
