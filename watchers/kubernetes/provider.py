"""Kubernetes as a provider of workspaces: it makes bodies, judges whether they still are, and destroys them.

Everything is asked of the API server by a name that follows from the workspace's id, so that a provider that was killed
between any two steps gives the same answers when it is started again: a body that was made but not told of is found,
not made twice. What is found under the name is taken for the body only if it carries our marks for this workspace, and
only if its UID is the recorded one or none was recorded. What does not carry our marks is never touched.

A Sandbox is a body's maker, not a body: the identity is its pod's UID. Its own UID and those of the volume claims go
into the details, for whoever wants to stand on the same files in another workspace.

Failure: `PlaceFailed` when there will be no body; `NotOurs` for what is somebody else's; `Blind` when nobody can tell.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import httpx

from jackline.workspaces.contract import (
    MEMORY_LIMIT,
    Attached,
    NotOurs,
    NotYet,
    Observation,
    PlaceFailed,
    WorkspaceRef,
)
from watchers.kubernetes import verdicts
from watchers.kubernetes.server import CLAIMS, PODS, SANDBOXES, ApiServer, Blind, Expired, Refused, Resource
from watchers.kubernetes.shapes import ASSERTED_AT, TERMINAL, WORKSPACE_LABEL, Meta, Pod, Sandbox
from watchers.kubernetes.templates import DEFAULT_TEMPLATE, BadWish, body_name, kind_of, manifest
from watchers.kubernetes.verdicts import POD_DELETED, POD_FAILED, Around, identity_of, uid_of

CLAIMS_MAX: Final = 16
DETAIL_MAX_CHARS: Final = 256
UNFIT: Final = frozenset({httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY})


@dataclass(frozen=True, slots=True)
class Making:
    """Where bodies are made, and from what."""

    namespace: str
    template: Mapping[str, Any] = field(default_factory=lambda: DEFAULT_TEMPLATE)
    any_spec: bool = False


class KubernetesProvider:
    """Bodies in one namespace."""

    name = "kubernetes"

    def __init__(self, server: ApiServer, making: Making, wall: Callable[[], datetime]) -> None:
        self._server = server
        self._making = making
        self._wall = wall

    async def place(self, workspace_id: str, spec: Any) -> None:
        """Make the body; one that lacks quota is made later, when it is asked for again."""
        await self._make(workspace_id, spec)

    async def attach(self, ref: WorkspaceRef) -> Attached | NotYet:
        """The body's identity once everything in it answers, or what it waits for."""
        pod, sandbox = await self._found(ref)
        if pod is not None:
            self._ours(pod.metadata, ref.workspace_id, sandbox)
            return await self._standing(ref, pod, sandbox)
        if ref.identity is not None:
            message = f"there is no pod {self._name(ref)} any more"
            raise PlaceFailed(POD_DELETED, message)
        if sandbox is not None:
            return NotYet("waiting", None, "the sandbox has no pod yet")
        lacking = await self._make(ref.workspace_id, ref.spec)
        return NotYet("waiting", "quota" if lacking else None, lacking)

    async def assert_(self, ref: WorkspaceRef) -> None:
        """Stamp the body as still wanted."""
        resource, found = await self._made(ref)
        if found is not None and self._is_ours(found.metadata, ref.workspace_id):
            stamp = {ASSERTED_AT: self._wall().isoformat()}
            try:
                await self._server.annotate(resource, found.metadata, stamp)
            except Refused as refusal:
                if refusal.status not in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
                    raise

    async def continuity(self, ref: WorkspaceRef) -> Observation:
        """What is seen of the body now."""
        try:
            pod, sandbox = await self._found(ref)
        except (Blind, Expired, Refused) as error:
            return Observation("watch_dropped", ref.identity, reason="WatchDropped", message=str(error))
        uid = uid_of(ref.identity or "")
        if pod is None:
            return Observation("gone", ref.identity, reason=POD_DELETED, message=f"there is no pod {self._name(ref)}")
        if uid is not None and pod.metadata.uid != uid:
            return Observation("replaced", identity_of(pod.metadata.uid), reason=POD_DELETED)
        judged = verdicts.seen(ref.workspace_id, pod, Around(sandbox=sandbox))
        return judged.told[-1] if judged.told else verdicts.present(judged.body)

    async def memory_fault(self, ref: WorkspaceRef) -> str | None:
        """`memory limit` when the main container's last end was one."""
        try:
            pod, _ = await self._found(ref)
        except (Blind, Expired, Refused):
            return None
        if pod is None or (ref.identity is not None and identity_of(pod.metadata.uid) != ref.identity):
            return None
        ended = verdicts.end_of_container(pod.main)
        return MEMORY_LIMIT if ended is not None and ended.reason == "OOMKilled" else None

    async def teardown(self, ref: WorkspaceRef) -> bool:
        """Destroy the body: True once it is gone."""
        resource, found = await self._made(ref)
        if found is None:
            return True
        if resource is PODS and ref.identity is not None and identity_of(found.metadata.uid) != ref.identity:
            return True  # the recorded body is gone; whatever bears its name now is another matter
        if not self._is_ours(found.metadata, ref.workspace_id):
            msg = f"{resource.plural} {found.metadata.name} does not carry our mark for {ref.workspace_id}"
            raise NotOurs(msg)
        if found.metadata.deletion_timestamp is None:
            return not await self._server.delete(resource, found.metadata)
        return False

    # Making

    async def _make(self, workspace_id: str, spec: Any) -> str | None:
        """Make the body; what it lacks, when it is quota."""
        try:
            kind = kind_of(spec, self._making.template)
            made = manifest(
                workspace_id,
                spec,
                self._making.template,
                self._wall().isoformat(),
                any_spec=self._making.any_spec,
            )
        except BadWish as wish:
            raise PlaceFailed(POD_FAILED, str(wish)) from wish
        resource = PODS if kind == "Pod" else SANDBOXES
        try:
            await self._server.create(resource, self._making.namespace, made)
        except Refused as refusal:
            return await self._not_made(resource, workspace_id, refusal)
        return None

    async def _not_made(self, resource: Resource, workspace_id: str, refusal: Refused) -> str | None:
        if refusal.status == httpx.codes.CONFLICT and refusal.reason == "AlreadyExists":
            found = await self._server.get(resource, self._making.namespace, body_name(workspace_id))
            if found is not None and not self._is_ours(found.metadata, workspace_id):
                message = f"{found.metadata.name} is there already, and not ours"
                raise PlaceFailed(POD_FAILED, message) from refusal
            return None
        if refusal.status == httpx.codes.FORBIDDEN and "exceeded quota" in refusal.message:
            return refusal.message
        if refusal.status in UNFIT:
            raise PlaceFailed(POD_FAILED, refusal.message or refusal.reason) from refusal
        raise refusal

    # Looking

    async def _made(self, ref: WorkspaceRef) -> tuple[Resource, Any]:
        """The object that was made for the workspace, and is there now."""
        resource = PODS if kind_of(ref.spec, self._making.template) == "Pod" else SANDBOXES
        return resource, await self._server.get(resource, self._making.namespace, body_name(ref.workspace_id))

    async def _found(self, ref: WorkspaceRef) -> tuple[Pod | None, Sandbox | None]:
        """The workspace's pod, and the sandbox that made it."""
        _, made = await self._made(ref)
        if not isinstance(made, Sandbox):
            return made, None
        pod: Pod | None = await self._server.get(PODS, self._making.namespace, made.pod_name)
        return (pod if pod is not None and pod.sandbox_uid == made.metadata.uid else None), made

    async def _standing(self, ref: WorkspaceRef, pod: Pod, sandbox: Sandbox | None) -> Attached | NotYet:
        identity = identity_of(pod.metadata.uid)
        if ref.identity is not None and ref.identity != identity:
            message = f"another pod bears the name {pod.metadata.name} now"
            raise PlaceFailed(POD_DELETED, message)
        judged = verdicts.seen(ref.workspace_id, pod, Around(sandbox=sandbox))
        if pod.status.phase in TERMINAL:
            ended = judged.told[-1]
            raise PlaceFailed(ended.reason or POD_FAILED, ended.message or "it ended before it was attached to")
        if not pod.scheduled:
            why = pod.condition("PodScheduled")
            lacking = why is not None and why.status == "False"
            return NotYet("waiting", "node" if lacking else None, why.message if why is not None else None)
        if not pod.ready:
            said = judged.body.said or (None, None)
            return NotYet("attaching", None, said[1], identity)
        return Attached(identity, judged.body.incarnation, await self._details(pod, sandbox))

    async def _details(self, pod: Pod, sandbox: Sandbox | None) -> dict[str, str]:
        """Where the body is, and what it keeps its files on."""
        meta = pod.metadata
        details: dict[str, str] = {
            "namespace": meta.namespace or self._making.namespace,
            "pod": meta.name,
            "uid": meta.uid,
            "node": pod.spec.node_name or "",
            "ip": pod.status.pod_ip or "",
        }
        if sandbox is not None:
            details |= {"sandbox": sandbox.metadata.name, "sandbox_uid": sandbox.metadata.uid}
        for claim in pod.claims[:CLAIMS_MAX]:
            found = await self._server.get(CLAIMS, details["namespace"], claim)
            if found is not None:
                details[f"pvc/{claim}"[:DETAIL_MAX_CHARS]] = found.metadata.uid
        return {name: value[:DETAIL_MAX_CHARS] for name, value in details.items() if value}

    def _ours(self, meta: Meta, workspace_id: str, sandbox: Sandbox | None) -> None:
        made = meta if sandbox is None else sandbox.metadata
        if not self._is_ours(made, workspace_id):
            message = f"{made.name} is there already, and not ours"
            raise PlaceFailed(POD_FAILED, message)

    @staticmethod
    def _is_ours(meta: Meta, workspace_id: str) -> bool:
        return meta.ours and meta.label(WORKSPACE_LABEL) == workspace_id

    @staticmethod
    def _name(ref: WorkspaceRef) -> str:
        return body_name(ref.workspace_id)
