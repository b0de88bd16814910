"""What runs stand on: `client.workspaces`.

Whoever places a workspace for a run holds that run and shows its fence. From then on the workspace is named by its own
id: what is seen of it is reported, that it is still wanted is asserted, and what follows is the service's to say.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypedDict, Unpack
from urllib.parse import quote

from jackline._sync.transport import Ask, Transport
from jackline.decode import decode
from jackline.models import LeaseRef
from jackline.retrying import Retry
from jackline.workspaces.contract import Observation
from jackline.workspaces.models import (
    Asserted,
    Observed,
    Placed,
    ScopePart,
    Seen,
    Workspace,
    WorkspaceFilter,
    WorkspacePage,
)


class PlaceOptions(TypedDict, total=False):
    """What may be said of a workspace when it is placed."""

    provider: Literal["external", "directory", "process", "kubernetes"]
    scope: str | None
    spec: Any


class ScopeOptions(TypedDict, total=False):
    """What may be said of a batch about a scope beside what was seen."""

    synced: bool
    part: ScopePart
    listed_s_ago: float
    as_of: int


def workspace_path(workspace_id: str, *more: str) -> str:
    """The path of a workspace, or of something below it."""
    return "/".join(("/v1/workspaces", quote(workspace_id, safe=""), *more))


class Observer:
    """Reports what is seen of a whole scope, under the fence of the run by which the observer was appointed."""

    def __init__(self, transport: Transport, observer_id: str, lease: LeaseRef, scope: str) -> None:
        self._transport = transport
        self._path = f"/v1/observers/{quote(observer_id, safe='')}/observations"
        self._lease = lease
        self.scope = scope

    def report(self, seen: Sequence[tuple[str, Observation]], **options: Unpack[ScopeOptions]) -> Observed:
        """What became of up to 1,000 observations, each of a workspace; with `synced` the absent ones are gone."""
        observations = [{"workspace_id": name, **observation.document()} for name, observation in seen]
        body = {"run_id": self._lease.run_id, "fence": self._lease.fence, "scope": self.scope}
        ask = Ask("POST", self._path, {**body, "observations": observations, **options})
        return decode(Observed, (self._transport.ask(ask)).body)


class Workspaces:
    """Operations on workspaces."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _post(self, path: str, body: Any, key: str | None = None, retry: Retry | None = None) -> Any:
        return (self._transport.ask(Ask("POST", path, body, key=key), retry)).body

    def place(self, lease: LeaseRef, *, key: str | None = None, **options: Unpack[PlaceOptions]) -> Placed:
        """A new workspace for the run that is held under this lease; its body is yours to make."""
        body = {"run_id": lease.run_id, "fence": lease.fence, **options}
        return decode(Placed, self._post("/v1/workspaces", body, key))

    def show(self, workspace_id: str, *, min_position: int | None = None) -> Workspace:
        """The workspace as it is now."""
        ask = Ask("GET", workspace_path(workspace_id), params={"min_position": min_position})
        return decode(Workspace, (self._transport.ask(ask)).body)

    def page(self, **narrow: Unpack[WorkspaceFilter]) -> WorkspacePage:
        """One page of workspaces; go on with `cursor=page.next_cursor`."""
        reply = self._transport.ask(Ask("GET", "/v1/workspaces", params=dict(narrow)))
        return decode(WorkspacePage, reply.body)

    def list(self, **narrow: Unpack[WorkspaceFilter]) -> Iterator[Workspace]:
        """Every workspace of all pages; `phase="teardown"` gives all whose body is to be destroyed."""
        while True:
            page = self.page(**narrow)
            yield from page.items
            if page.next_cursor is None:
                return
            narrow["cursor"] = page.next_cursor

    def phase(
        self,
        workspace_id: str,
        phase: Literal["waiting", "provisioning", "attaching"],
        **told: str | None,
    ) -> Workspace:
        """Say how far the making of the body has come; `on` and `message` with waiting, `identity` with attaching."""
        body = {"phase": phase, **{name: value for name, value in told.items() if value is not None}}
        return decode(Workspace, self._post(workspace_path(workspace_id, "phase"), body))

    def attach(self, workspace_id: str, identity: str, *, incarnation: int = 0, details: Any = None) -> Workspace:
        """Stand on this body from now on, and on no other."""
        body = {"identity": identity, "incarnation": incarnation, "details": dict(details or {})}
        return decode(Workspace, self._post(workspace_path(workspace_id, "attach"), body))

    def observe(
        self, workspace_id: str, observations: Sequence[Observation | Seen], *, key: str | None = None
    ) -> Workspace:
        """Report what was seen of one workspace, in order, and see what it has become."""
        told = [one.document() if isinstance(one, Observation) else dict(one) for one in observations]
        path = workspace_path(workspace_id, "observations")
        return decode(Workspace, self._post(path, {"observations": told}, key))

    def assert_(self, workspace_id: str) -> Asserted:
        """Say that the workspace is still wanted; refused once its run has settled or it is over."""
        return decode(Asserted, self._post(workspace_path(workspace_id, "assert"), {}))

    def release(self, workspace_id: str, *, worker_id: str | None = None) -> Workspace:
        """Have the body destroyed: its provider is told. A worker that lets it go by itself says who it is."""
        params = {"worker_id": worker_id}
        reply = self._transport.ask(Ask("DELETE", workspace_path(workspace_id), params=params))
        return decode(Workspace, reply.body)

    def say_gone(self, workspace_id: str) -> Workspace:
        """An operator looked: the body that was to be destroyed is no more, and nobody is left to tell."""
        reply = self._transport.ask(Ask("DELETE", workspace_path(workspace_id), params={"gone": "true"}))
        return decode(Workspace, reply.body)

    def observer(self, observer_id: str, lease: LeaseRef, scope: str) -> Observer:
        """An observer of a whole scope: `lease` is that of the run in queue `_observers` by which it was appointed."""
        return Observer(self._transport, observer_id, lease, scope)
