"""The application: the routes on one framework object, made by a function and never at import.

Nothing here listens or opens a file. Every route but ``/livez`` and ``/readyz`` is an ``Endpoint`` and is found by the
tree; those two go the framework's ordinary road and need no key. There is no documentation page (it would load scripts
from elsewhere), no cross-origin sharing and no cookie: a key travels in a header, so another site cannot use it.

The application does not come into being while a route has no row in the table of roles.
"""

from collections.abc import Iterable
from importlib import metadata
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from api import roles
from api.calls import SECURITY, Endpoint, Tree, respond
from api.channel import Channel
from api.node import Node
from api.presence import PresenceSocket
from api.problems import JSON, MethodNotAllowed, Problem, RouteUnknown, problem_of
from api.routes import (
    claims,
    effects,
    facts,
    health,
    holding,
    journal,
    keys,
    leaders,
    observers,
    projections,
    queues,
    runs,
    turns,
    workers,
    workspaces,
)
from api.wire_service import Live, Ready

ROUTERS = (
    claims, holding, workers, leaders, runs, facts, effects, turns, workspaces, observers, queues, projections, keys,
    journal, health,
)  # fmt: skip
PLAIN = {"/livez": "GET /livez", "/readyz": "GET /readyz"}


def endpoints() -> Iterable[Endpoint]:
    """Every route of the interface."""
    return (route for module in ROUTERS for route in module.router.routes if isinstance(route, Endpoint))


class Application(FastAPI):
    """The routes of one node."""

    def __init__(self, node: Node) -> None:
        super().__init__(
            title="Jackline",
            version=metadata.version("jackline-server"),
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            separate_input_output_schemas=False,
        )
        self.node = node
        self.tree = Tree()
        self._add_plain()
        sockets = (Channel(), PresenceSocket())
        for socket in sockets:
            self.tree.add(socket.verb, socket.path, socket)
        for route in endpoints():
            self.router.routes.append(route)
            self.tree.add(route.verb, route.path, route)
        roles.check([*PLAIN.values(), *(socket.key for socket in sockets), *(route.key for route in endpoints())])

    def _add_plain(self) -> None:
        node = self.node

        @self.get("/livez", response_model=Live, tags=["service"])
        async def livez() -> dict[str, str]:
            """The process answers."""
            return {"status": "ok"}

        @self.get("/readyz", response_model=Ready, responses={503: {"model": Ready}}, tags=["service"])
        async def readyz() -> JSONResponse:
            """Whether the service has booted (200), or at which step it is (503)."""
            status = 200 if node.stage == "ready" else 503
            return JSONResponse({"status": node.stage, "step": node.step}, status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the route and let it answer; what is nowhere is answered as a problem."""
        kind = scope["type"]
        if kind == "lifespan" or (scope["path"] in PLAIN and scope.get("method") == "GET"):
            await super().__call__(scope, receive, _secured(send))
            return
        scope["app"] = self
        method = "WS" if kind == "websocket" else scope["method"]
        try:
            found = self._find(method, scope)
        except (MethodNotAllowed, RouteUnknown) as refusal:
            await _refuse(kind, receive, send, problem_of(refusal))
            return
        route, values = found
        await route.serve(self.node, scope, (receive, send), values)

    def _find(self, method: str, scope: Scope) -> tuple[Any, list[str]]:
        if scope["path"] in PLAIN:
            raise MethodNotAllowed(method, ["GET"])
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        found = self.tree.find(method, path)
        if found is None:
            raise RouteUnknown(scope["path"])
        return found


async def _refuse(kind: str, receive: Receive, send: Send, problem: Problem) -> None:
    headers = (JSON, *SECURITY, *problem.headers)
    if kind == "http":
        await respond(send, problem.status, headers, problem.body)
        return
    await receive()
    length = (b"content-length", b"%d" % len(problem.body))
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": [*headers, length]})
    await send({"type": "websocket.http.response.body", "body": problem.body})


def _secured(send: Send) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *SECURITY]
        await send(message)

    return secured


def build_app(node: Node) -> Application:
    """The application of this node.

    Raises:
        TableIncomplete: a route has no row in the table of roles, or a row has no route.
    """
    return Application(node)
