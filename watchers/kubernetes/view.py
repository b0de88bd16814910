"""Pods, sandboxes and nodes put together: which pod is the body of which workspace, and what is to be told of it.

A pod belongs to the workspace that its label names, or that the label of the sandbox names that controls it: a pod
adopted from a warm pool carries no label of ours. One pod is the workspace's body, for the workspace's whole life: the
one that the service knows, else the first that is seen. Any other under the same label is a *candidate*: counted,
never told, because a workspace is not given a second body.

The scope is *complete* while every list that bodies are found by is complete: pods, and where there are sandboxes,
these and their pods. Nodes are not needed for that; without them a silent node is not told apart from a quiet one.

Failure: none of its own; what cannot be mapped to a workspace is left alone.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from jackline.workspaces.contract import Observation
from watchers.kubernetes import verdicts
from watchers.kubernetes.shapes import WORKSPACE_LABEL, Node, Pod, Sandbox
from watchers.kubernetes.verdicts import Around, Body, Judged

log = logging.getLogger(__name__)


class Posting(Protocol):
    """Where what is to be told goes."""

    def tell(self, workspace_id: str, *observations: Observation) -> None:
        """What was seen of one workspace."""

    def complete(self) -> None:
        """The scope is in sight, whole."""

    def blind(self, why: str) -> None:
        """The scope is out of sight."""


class View:
    """One scope, as it is seen."""

    def __init__(self, posting: Posting) -> None:
        self.counts: Counter[str] = Counter()
        self.bodies: dict[str, Body] = {}
        """By UID."""
        self.standing: dict[str, str] = {}
        """The UID of each workspace's body, also of one that is not seen."""
        self.incarnations: dict[str, int] = {}
        """What the service knows, for bodies that are not seen yet."""
        self.watched: list[Watched] = []
        self.on_change: Callable[[str], None] = lambda workspace_id: None
        self._posting = posting
        self._sandboxes: dict[str, Sandbox] = {}
        self._silent: set[str] = set()
        """Nodes that nobody hears from."""
        self._stood_on: dict[str, str] = {}
        """The workspace of each body that the service knows, whatever its labels say."""
        self._others: dict[str, Pod] = {}
        """Pods that are nobody's body: not mapped yet, or candidates."""

    @property
    def in_sight(self) -> bool:
        """Whether everything that there is has been seen, and every change will be."""
        return all(one.complete_now for one in self.watched)

    @property
    def waiting(self) -> frozenset[str]:
        """The UIDs of pods that are nobody's body, or not yet."""
        return frozenset(self._others)

    def know(self, workspace_id: str, uid: str, incarnation: int) -> None:
        """The service says which body is the workspace's."""
        self.incarnations[workspace_id] = incarnation
        self._stood_on[uid] = workspace_id
        before = self.standing.get(workspace_id)
        if before == uid:
            return
        self.standing[workspace_id] = uid
        displaced = self.bodies.pop(before, None) if before is not None else None
        if displaced is not None:
            self._others[displaced.pod.metadata.uid] = displaced.pod
        if (waiting := self._others.get(uid)) is not None:
            self.pod(waiting)

    def statement(self, standing: set[str]) -> Iterator[tuple[str, Observation]]:
        """Every body that is there, as it stands; `standing` are the workspaces that the service knows of no end of."""
        for body in self.bodies.values():
            if body.over:
                yield body.workspace_id, verdicts.ended(body) if body.workspace_id in standing else verdicts.named(body)
            elif body.dropped:
                yield body.workspace_id, verdicts.unheard(body)
            elif body.tellable:
                yield body.workspace_id, verdicts.present(body)

    def forget_all_but(self, workspace_ids: set[str]) -> None:
        """Nobody stands any more on what is neither seen nor known to the service."""
        kept = workspace_ids | {body.workspace_id for body in self.bodies.values()}
        self.standing = {one: uid for one, uid in self.standing.items() if one in kept}
        self.incarnations = {one: mark for one, mark in self.incarnations.items() if one in kept}
        self._stood_on = {uid: one for uid, one in self._stood_on.items() if one in kept}

    # What the reflectors tell

    def pod(self, pod: Pod) -> None:
        """A pod as it is now."""
        uid = pod.metadata.uid
        body = self.bodies.get(uid)
        if body is not None:
            self._judged(verdicts.changed(body, pod, self._around(pod)))
            return
        workspace_id = self._workspace_of(pod)
        if workspace_id is None or self.standing.setdefault(workspace_id, uid) != uid:
            self._put_aside(pod, workspace_id)
            return
        self._others.pop(uid, None)
        known = self.incarnations.get(workspace_id)
        self._judged(verdicts.seen(workspace_id, pod, self._around(pod), known))

    def pod_gone(self, last: Pod, version: str) -> None:
        """A pod that is no more."""
        self._others.pop(last.metadata.uid, None)
        body = self.bodies.get(last.metadata.uid)
        if body is not None:
            self._posting.tell(body.workspace_id, verdicts.deleted(body, last, self._around(last), version))
            del self.bodies[last.metadata.uid]
            self.on_change(body.workspace_id)

    def sandbox(self, sandbox: Sandbox) -> None:
        """A sandbox as it is now; pods that waited for it are mapped."""
        self._sandboxes[sandbox.metadata.uid] = sandbox
        for pod in [one for one in self._others.values() if one.sandbox_uid == sandbox.metadata.uid]:
            self.pod(pod)

    def sandbox_gone(self, last: Sandbox, _version: str) -> None:
        """A sandbox that is no more; its pod is another matter."""
        self._sandboxes.pop(last.metadata.uid, None)

    def node(self, node: Node) -> None:
        """A node as it is now."""
        self._hear(node.metadata.name, silent=node.unreachable)

    def node_gone(self, last: Node, _version: str) -> None:
        """A node that is no more: nobody will hear from it, and its pods are gone only once they are deleted."""
        self._hear(last.metadata.name, silent=True)

    def _hear(self, node_name: str, *, silent: bool) -> None:
        if silent == (node_name in self._silent):
            return
        on_it = [one for one in self.bodies.values() if one.pod.spec.node_name == node_name]
        if not silent:
            self._silent.discard(node_name)
        else:
            # Also while it has no pod: one that is scheduled there later is judged by it.
            self._silent.add(node_name)
        for body in on_it:
            self._judged(verdicts.changed(body, body.pod, self._around(body.pod)))

    def _put_aside(self, pod: Pod, workspace_id: str | None) -> None:
        if workspace_id is not None and pod.metadata.uid not in self._others:
            self.counts["candidates"] += 1
            log.warning("pod %s is not the body of workspace %s", pod.metadata.name, workspace_id)
        self._others[pod.metadata.uid] = pod

    def _judged(self, judged: Judged) -> None:
        body = judged.body
        self.bodies[body.pod.metadata.uid] = body
        if judged.impossible:
            self.counts["impossible"] += 1
            log.error("pod %s runs again after it had ended", body.pod.metadata.name)
        if judged.told:
            self._posting.tell(body.workspace_id, *judged.told)
        self.on_change(body.workspace_id)

    def _workspace_of(self, pod: Pod) -> str | None:
        own = self._stood_on.get(pod.metadata.uid) or pod.metadata.label(WORKSPACE_LABEL)
        sandbox = self._sandboxes.get(pod.sandbox_uid or "")
        return own or (sandbox.metadata.label(WORKSPACE_LABEL) if sandbox is not None else None)

    def _around(self, pod: Pod) -> Around:
        return Around(pod.spec.node_name in self._silent, self._sandboxes.get(pod.sandbox_uid or ""))

    def is_complete(self) -> None:
        """One of the lists is complete; told once all of them are."""
        if self.in_sight:
            self._posting.complete()

    def is_blind(self, why: str) -> None:
        """One of the lists cannot be seen any more."""
        self._posting.blind(why)


class Watched:
    """One of the lists that make up the scope."""

    def __init__(
        self, view: View, seen: Callable[[Any], None], gone: Callable[[Any, str], None], *, needed: bool = True
    ) -> None:
        self.complete_now = not needed
        self._view = view
        self._needed = needed
        self._seen = seen
        self._gone = gone
        view.watched.append(self)

    async def seen(self, found: Any) -> None:
        """An object as it is now."""
        self._seen(found)

    async def gone(self, last: Any, version: str) -> None:
        """An object that is no more."""
        self._gone(last, version)

    async def complete(self) -> None:
        """Everything has been told."""
        self.complete_now = True
        if self._needed:
            self._view.is_complete()

    async def blind(self, why: str) -> None:
        """Nothing is known any more."""
        if self._needed:
            self.complete_now = False
            self._view.is_blind(why)
