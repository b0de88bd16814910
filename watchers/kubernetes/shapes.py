"""The part of Kubernetes' objects that an observer needs, read from raw JSON and forgiving about everything else.

Unknown fields are ignored, missing ones are empty, nulls count as missing; a field of a wrong type makes the object
unreadable (`msgspec.ValidationError`), which is the caller's to treat as *not knowing*. Instants and versions stay the
opaque texts that they are: versions are compared for equality only, instants are never computed with (a deletion's
instant lies in the future, and a forced deletion moves it back).

A body's identity is its UID. Names are only where to ask.
"""

from typing import Any

import msgspec

MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "jackline"
WORKSPACE_LABEL = "jackline.dev/workspace"
ASSERTED_AT = "jackline.dev/asserted-at"
CONTAINER = "jackline.dev/container"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
SANDBOX_POD_LABEL = "agents.x-k8s.io/sandbox-name-hash"
SANDBOX_POD_NAME = "agents.x-k8s.io/pod-name"
SANDBOX_KIND = "Sandbox"
TERMINAL = frozenset({"Failed", "Succeeded"})


class Shape(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all shapes: immutable, camel case on the wire."""


class Owner(Shape, frozen=True):
    """One owner reference."""

    kind: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Shape, frozen=True):
    """What every object says about itself."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    def label(self, name: str) -> str | None:
        """The value of one label."""
        return (self.labels or {}).get(name)

    def annotation(self, name: str) -> str | None:
        """The value of one annotation."""
        return (self.annotations or {}).get(name)

    @property
    def ours(self) -> bool:
        """Whether Jackline made this body; whatever is not labelled so is never deleted."""
        return self.label(MANAGED_BY) == OURS


class Condition(Shape, frozen=True):
    """One condition: a type, whether it holds, and why."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class Ended(Shape, frozen=True):
    """How a container ended."""

    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    message: str | None = None


class Waiting(Shape, frozen=True):
    """Why a container does not run yet."""

    reason: str | None = None
    message: str | None = None


class ContainerState(Shape, frozen=True):
    """What a container is doing, or did last."""

    waiting: Waiting | None = None
    terminated: Ended | None = None


class ContainerStatus(Shape, frozen=True):
    """One container as the kubelet sees it."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    container_id: str | None = msgspec.field(name="containerID", default=None)
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class Container(Shape, frozen=True):
    """A container that was asked for."""

    name: str = ""


class Claimed(Shape, frozen=True):
    """A volume claim that a pod mounts."""

    claim_name: str = ""


class Volume(Shape, frozen=True):
    """A volume of a pod, as far as it is a claim."""

    persistent_volume_claim: Claimed | None = None


class PodSpec(Shape, frozen=True):
    """What was asked for."""

    node_name: str | None = None
    containers: list[Container] | None = None
    volumes: list[Volume] | None = None


class PodStatus(Shape, frozen=True):
    """What came of it."""

    phase: str = ""
    reason: str | None = None
    message: str | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(Shape, frozen=True):
    """A pod."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type."""
        return next((one for one in self.status.conditions or () if one.type == kind), None)

    @property
    def ready(self) -> bool:
        """Whether everything in it answers."""
        found = self.condition("Ready")
        return found is not None and found.status == "True"

    @property
    def scheduled(self) -> bool:
        """Whether it has a node."""
        return bool(self.spec.node_name)

    @property
    def main(self) -> ContainerStatus | None:
        """The container that the harness runs in: the annotated one, else the first that was asked for."""
        statuses = self.status.container_statuses or []
        asked = self.spec.containers or []
        wanted = (
            self.metadata.annotation(CONTAINER)
            or self.metadata.annotation(DEFAULT_CONTAINER)
            or (asked[0].name if asked else None)
        )
        return next((one for one in statuses if one.name == wanted), statuses[0] if statuses else None)

    @property
    def sandbox_uid(self) -> str | None:
        """The sandbox that controls it, if one does."""
        owners = self.metadata.owner_references or ()
        return next((one.uid for one in owners if one.controller and one.kind == SANDBOX_KIND), None)

    @property
    def claims(self) -> tuple[str, ...]:
        """The names of the volume claims that it mounts."""
        volumes = (one.persistent_volume_claim for one in self.spec.volumes or ())
        return tuple(one.claim_name for one in volumes if one is not None and one.claim_name)


class Taint(Shape, frozen=True):
    """A taint of a node."""

    key: str = ""


class NodeSpec(Shape, frozen=True):
    """A node's taints."""

    taints: list[Taint] | None = None


class NodeStatus(Shape, frozen=True):
    """A node's conditions."""

    conditions: list[Condition] | None = None


class Node(Shape, frozen=True):
    """A node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def unreachable(self) -> bool:
        """Whether nobody hears from it: what is said about its pods is from before that."""
        silent = any(one.type == "Ready" and one.status == "Unknown" for one in self.status.conditions or ())
        return silent or any(one.key == "node.kubernetes.io/unreachable" for one in self.spec.taints or ())


class SandboxSpec(Shape, frozen=True):
    """Whether the sandbox is meant to run."""

    operating_mode: str = "Running"


class SandboxStatus(Shape, frozen=True):
    """A sandbox's conditions; it has no phase."""

    conditions: list[Condition] | None = None


class Sandbox(Shape, frozen=True):
    """A Sandbox of agents.x-k8s.io: it keeps a name and volumes while its pods come and go."""

    metadata: Meta = Meta()
    spec: SandboxSpec = SandboxSpec()
    status: SandboxStatus = SandboxStatus()

    @property
    def suspended(self) -> Condition | None:
        """Why its pod is being taken away on purpose; None while it is meant to run."""
        told = next((one for one in self.status.conditions or () if one.type == "Suspended"), None)
        if self.spec.operating_mode != "Suspended":
            return None  # the condition may linger after a resume
        return told if told is not None and told.status == "True" else Condition("Suspended", "True", "Suspending")

    @property
    def pod_name(self) -> str:
        """The pod it stands on: its own name, unless it adopted one from a warm pool."""
        return self.metadata.annotation(SANDBOX_POD_NAME) or self.metadata.label(SANDBOX_POD_NAME) or self.metadata.name


class VolumeClaim(Shape, frozen=True):
    """A persistent volume claim, as far as its identity goes."""

    metadata: Meta = Meta()


class ListMeta(Shape, frozen=True):
    """Where a list stands, and how to go on with it."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class Page(Shape, frozen=True):
    """One page of a list; its objects are read one by one."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class Change(Shape, frozen=True):
    """One line of a watch."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class About(Shape, frozen=True):
    """Which object a refusal is about."""

    name: str | None = None


class Status(Shape, frozen=True):
    """What the server says when it refuses."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: About | None = None


def without_nulls(raw: bytes | msgspec.Raw) -> Any:
    """The JSON value with every null member left out: to the API, null and absent are the same."""
    return _pruned(msgspec.json.decode(raw))


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _pruned(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_pruned(inner) for inner in value if inner is not None]
    return value
