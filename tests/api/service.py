"""A service under test: booted for real in a directory of its own, asked in process or over a socket.

Every successful JSON answer is held against the model that its route declares, so each test of a route is also a test
of the contract. `Service` asks in process; `listening` puts the same node behind a real socket on loopback.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from pydantic import TypeAdapter

from api.app import Application, build_app
from api.boot import Boot
from api.calls import Endpoint
from api.clock import system_clock
from api.keys import Wanted
from api.node import Node
from api.serve import server_of
from api.settings import Settings
from domain.values import Clock

FOLLOWED_S = 30.0
JSON = {"Content-Type": "application/json"}


class Service:
    """A booted node and a client that holds the admin key."""

    def __init__(self, node: Node, app: Application, key: str) -> None:
        self.node = node
        self.app = app
        self.key = key
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """The answer to one request; `key` and `headers` replace the admin key and add to the head."""
        key = options.pop("key", self.key)
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **options.pop("headers", {})}
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        answer = await self.http.request(method, path, content=content, headers=headers, **options)
        self._hold_to_contract(method, path, answer)
        return answer

    async def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The JSON of an answer that must not be a refusal; of a list, everything recorded so far."""
        if method == "GET":
            await self._followed(path)
        answer = await self.ask(method, path, body, **options)
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """The problem document of an answer that must be a refusal."""
        answer = await self.ask(method, path, body, **options)
        assert answer.status_code >= 400, answer.text
        assert "application/problem+json" == answer.headers["content-type"]
        document: dict[str, Any] = answer.json()
        assert answer.status_code == document["status"]
        return document

    async def _followed(self, path: str) -> None:
        """Wait until the read model behind a list has what is recorded, however slow this machine is just now."""
        runner, name = self.node.runner, httpx.URL(path).path.rpartition("/")[2]
        if runner is not None and name in runner.models:
            await runner.models[name].wait_for(self.node.desk.journal.position, FOLLOWED_S)

    def made_key(self, role: Any, name: str | None = None, **ids: Any) -> str:
        """The token of a fresh key."""
        bounds: dict[str, Any] = {field: tuple(value) for field, value in ids.items()}
        wanted = Wanted(name=name or f"some-{role}", role=role, **bounds)
        return self.node.keys.make(wanted, "test", self.node.clock().wall)[1]

    async def submitted(self, **wish: Any) -> str:
        """The id of a fresh run."""
        return str((await self.ok("POST", "/v1/runs", wish))["run_id"])

    async def held(self, worker: str = "w1", **wish: Any) -> str:
        """The id of a fresh run that this worker holds under fence 1."""
        run_id = await self.submitted(**wish)
        await self.ok("PUT", f"/v1/workers/{worker}", {"slots": 100})
        claim = await self.ok("POST", f"/v1/runs/{run_id}/claim", {"worker_id": worker})
        assert 1 == claim["fence"]
        return run_id

    def _hold_to_contract(self, method: str, path: str, answer: httpx.Response) -> None:
        if answer.status_code >= 400 or "application/json" not in answer.headers.get("content-type", ""):
            return
        found = self.app.tree.find(method, httpx.URL(path).raw_path.split(b"?")[0])
        if found is not None and isinstance(found[0], Endpoint) and found[0].response_model is not None:
            assert answer.status_code == found[0].good
            TypeAdapter(found[0].response_model).validate_json(answer.content)


@asynccontextmanager
async def running(data_dir: Path, clock: Clock = system_clock, **settings: Any) -> AsyncIterator[Service]:
    """A service, booted in this directory, and closed at the end."""
    node = Node(Settings(data_dir=data_dir, **settings), clock, "boot-under-test")
    boot = Boot(node, data_dir)
    await boot.up()
    service = Service(node, build_app(node), (data_dir / "admin.key").read_text())
    try:
        yield service
    finally:
        await service.http.aclose()
        node.stop_taking()
        await boot.down()


@asynccontextmanager
async def listening(service: Service) -> AsyncIterator[str]:
    """The url of the service behind a real socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = server_of(service.node)
    serving = asyncio.ensure_future(server.serve([listener]))
    host, port = listener.getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        service.node.streams.stop()
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving
