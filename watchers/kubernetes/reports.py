"""What the observer says to the service, and asks of it: one small port, and its HTTP.

Everything goes under the observer's own fence. `FenceLost` means that another observes the scope: stop at once.
`Unknown` means that nobody answered, and what was said may or may not have been heard: say it again, since the same
observation of the same version is taken once.

Bounds: a batch of `BATCH_MAX` observations, pages of `PAGE` workspaces.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote

from jackline._async.transport import Ask, AsyncTransport
from jackline.models import LeaseRef
from jackline.workspaces.contract import Observation

BATCH_MAX: Final = 1_000
PAGE: Final = 500

Seen = tuple[str, Observation]


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a full list a batch is."""

    sync_id: str
    index: int
    last: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Observations of one scope, in order; with `part` they are part of everything that there is."""

    seen: Sequence[Seen]
    part: Part | None = None
    listed_s_ago: float = 0.0
    as_of: int | None = None
    """The position of the service that was known before everything was listed; see `Reports.as_of`."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a batch."""

    applied: int = 0
    ignored: int = 0
    refused: tuple[tuple[str, str], ...] = ()
    """Workspace and code of each observation that was not acceptable."""


@dataclass(frozen=True, slots=True)
class Known:
    """A workspace of the scope as the service knows it."""

    workspace_id: str
    phase: str
    identity: str | None = None
    incarnation: int = 0
    details: dict[str, str] = field(default_factory=dict)
    spec: Any = None
    teardown: bool = False
    to_assert: bool = False
    waiting: str | None = None


class Reports(Protocol):
    """The service, as an observer needs it."""

    as_of: int | None
    """Up to which position the last answer of `workspaces` speaks: whoever is attached to later is not in it."""

    async def tell(self, batch: Batch) -> Taken:
        """Hand on a batch."""

    async def workspaces(self, phase: str | None = None) -> list[Known]:
        """The scope's workspaces whose body may be there: all of them, or those in one phase."""

    async def boot(self) -> str:
        """Which life of the service answers: after a restart it knows of nothing that it was told before."""

    async def move(self, workspace_id: str, body: dict[str, Any]) -> None:
        """How far the making of a body has come."""

    async def attach(self, workspace_id: str, body: dict[str, Any]) -> None:
        """The workspace stands on this body."""

    async def still_needed(self, workspace_id: str) -> None:
        """Say so; refused once it is not."""


class HttpReports:
    """The service over HTTP."""

    def __init__(self, transport: AsyncTransport, observer_id: str, lease: LeaseRef, scope: str) -> None:
        self._transport = transport
        self._observer = f"/v1/observers/{quote(observer_id, safe='')}/observations"
        self._lease = lease
        self._scope = scope
        self.as_of: int | None = None

    async def tell(self, batch: Batch) -> Taken:
        """Hand on a batch."""
        body: dict[str, Any] = {
            "run_id": self._lease.run_id,
            "fence": self._lease.fence,
            "scope": self._scope,
            "observations": [{"workspace_id": one, **seen.document()} for one, seen in batch.seen],
            "synced": batch.part is not None,
        }
        if batch.part is not None:
            part = batch.part
            body |= {"part": {"sync_id": part.sync_id, "index": part.index, "last": part.last}}
            body |= {"listed_s_ago": batch.listed_s_ago, "as_of": batch.as_of}
        answer = (await self._transport.ask(Ask("POST", self._observer, body))).body
        refused = tuple((str(one["workspace_id"]), str(one["code"])) for one in answer.get("refused", ()))
        return Taken(int(answer["applied"]), int(answer["ignored"]), refused)

    async def workspaces(self, phase: str | None = None) -> list[Known]:
        """The scope's workspaces, page by page."""
        found: list[Known] = []
        params = {"scope": self._scope, "provider": "kubernetes", "phase": phase, "limit": PAGE, "cursor": None}
        while True:
            page = (await self._transport.ask(Ask("GET", "/v1/workspaces", params=params))).body
            if params["cursor"] is None:
                self.as_of = int(page["position"])
            found += [known(one) for one in page["items"]]
            params["cursor"] = page["next_cursor"]
            if params["cursor"] is None:
                return found

    async def boot(self) -> str:
        """Which life of the service answers."""
        return str((await self._transport.ask(Ask("GET", "/healthz"))).body["journal"]["boot_id"])

    async def move(self, workspace_id: str, body: dict[str, Any]) -> None:
        """How far the making of a body has come."""
        await self._post(workspace_id, "phase", body)

    async def attach(self, workspace_id: str, body: dict[str, Any]) -> None:
        """The workspace stands on this body."""
        await self._post(workspace_id, "attach", body)

    async def still_needed(self, workspace_id: str) -> None:
        """Say so."""
        await self._post(workspace_id, "assert", {})

    async def _post(self, workspace_id: str, verb: str, body: dict[str, Any]) -> None:
        await self._transport.ask(Ask("POST", f"/v1/workspaces/{quote(workspace_id, safe='')}/{verb}", body))


def known(document: dict[str, Any]) -> Known:
    """A workspace's document, as far as it concerns an observer."""
    waiting = document.get("waiting")
    return Known(
        workspace_id=str(document["workspace_id"]),
        phase=str(document["phase"]),
        identity=document.get("identity"),
        incarnation=int(document.get("incarnation") or 0),
        details=dict(document.get("details") or {}),
        spec=document.get("spec"),
        teardown=bool(document.get("teardown")),
        to_assert=bool(document.get("to_assert")),
        waiting=f"{waiting['on']}: {waiting['message']}" if waiting else None,
    )
