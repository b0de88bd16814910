"""A Kubernetes API server for tests: real HTTP on loopback, what of its semantics an observer can meet, and faults.

Lists with limit and continuations that expire; watches with bookmarks, `timeoutSeconds`, and 410 in either form beyond
the window; single objects; merge patches; deletions with a UID precondition. Written over bare streams, so that an
answer can be cut after any byte, stalled, or replaced by garbage: `fault` decides that for each request.

The same scenarios run against a real API server (`make test-kubernetes-real`): that keeps this one honest.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.watchers.fake_store import Object, Record, Status, Store, seen_by

BOOKMARK_LEAD_S = 0.1
KINDS = {"pods": "Pod", "nodes": "Node", "sandboxes": "Sandbox", "persistentvolumeclaims": "PersistentVolumeClaim"}


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    plural: str
    namespace: str | None
    name: str | None
    query: dict[str, str]
    headers: dict[str, str]
    body: Object

    @property
    def token(self) -> str:
        """Who asks."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def by_hand(self) -> bool:
        """Whether the test itself asks, for whom nothing ever goes wrong."""
        return self.token == "hands"

    @property
    def watches(self) -> bool:
        """Whether it is a watch."""
        return self.query.get("watch") in ("1", "true")

    @property
    def lists(self) -> bool:
        """Whether it is a list."""
        return self.method == "GET" and self.name is None and not self.watches


@dataclass(frozen=True)
class Fault:
    """What to do to an answer."""

    status: int | None = None
    """Answer this status instead."""
    cut_after: int | None = None
    """Close the connection after so many bytes of the body."""
    stall_after: int | None = None
    """Say nothing more after so many bytes of the body."""
    raw: bytes | None = None
    """Send this as the body instead, again and again if `endless`."""
    endless: bool = False
    twice: bool = False
    """Send every line of a watch twice."""
    expired: bool = False
    """The version, or the continuation, is expired: HTTP 410."""
    refuse: bool = False
    """Close the connection before any answer."""
    headers: dict[str, str] = field(default_factory=dict)


NO_FAULT = Fault()


class Thawed:
    """Never frozen."""

    async def wait(self) -> bool:
        """Go on."""
        return True


THAWED = Thawed()


class FakeApiServer:
    """The server; `store` is what it knows, `fault` what goes wrong."""

    def __init__(self, window: int = 1_000) -> None:
        self.store = Store(window)
        self.fault: Callable[[Asked], Fault | None] = lambda asked: None
        self.after: Callable[[Store], Any] = lambda store: None
        """What kubelets and controllers make of every change."""
        self.asked: list[Asked] = []
        self.tokens: set[str] | None = None
        self.sandboxes = True
        self.frozen = asyncio.Event()
        self.frozen.set()
        self.url = ""
        self._changed = asyncio.Condition()
        self._continuations: dict[str, tuple[int, list[Object]]] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    # Its life

    async def start(self, port: int = 0) -> None:
        """Listen; on the same port again after a stop."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=1 << 22)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Die: every connection breaks, and nobody listens."""
        assert self._server is not None
        self._server.close()
        self.cut()
        for one in self._serving:
            one.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    async def restart(self) -> None:
        """Listen again where it did."""
        await self.start(int(self.url.rpartition(":")[2]))

    def cut(self) -> None:
        """Break every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def write(self, act: Callable[[Store], Any]) -> Any:
        """Change what is stored, and let every watch know."""
        async with self._changed:
            done = act(self.store)
            self.after(self.store)
            self._changed.notify_all()
        return done

    # One request

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        try:
            asked = await _read(reader)
            if asked.by_hand:
                await self._answer(asked, Answer(writer, NO_FAULT, THAWED))
                return
            self.asked.append(asked)
            await self.frozen.wait()
            await self._answer(asked, Answer(writer, self.fault(asked) or NO_FAULT, self.frozen))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, asked: Asked, answer: "Answer") -> None:
        fault = answer.fault
        if fault.refuse:
            return
        if fault.raw is not None:
            await answer.garbage()
            return
        try:
            self._check(asked, fault)
            if asked.watches:
                await self._watch(asked, answer)
            else:
                await answer.whole(200, await self._one(asked))
        except Status as status:
            await answer.whole(status.code, status.document)

    def _check(self, asked: Asked, fault: Fault) -> None:
        if not asked.by_hand and self.tokens is not None and asked.token not in self.tokens:
            raise Status(401, "Unauthorized")
        if fault.status is not None:
            raise Status(fault.status, "Faulty")
        if fault.expired:
            raise Status(410, "Expired", "too old")
        if asked.plural == "sandboxes" and not self.sandboxes:
            raise Status(404, "NotFound", "the server could not find the requested resource")

    async def _one(self, asked: Asked) -> Object:
        if asked.lists:
            return self._list(asked)
        key = (asked.plural, asked.namespace or "", asked.name or "")
        if asked.method == "GET":
            return self.store.find(key)
        if asked.method == "POST":
            done = await self.write(lambda store: store.create(asked.plural, asked.namespace or "", asked.body))
        elif asked.method == "PATCH":
            done = await self.write(lambda store: store.patch(key, asked.body))
        else:
            done = await self.write(lambda store: store.delete(key, asked.body))
        return dict(done)

    # Lists

    def _list(self, asked: Asked) -> Object:
        token = asked.query.get("continue")
        if token is None:
            found = self.store.listed(asked.plural, asked.namespace, asked.query.get("labelSelector", ""))
            version = self.store.version
        else:
            version, found = self._continuations.get(token, (0, []))
            if version < self.store.floor:
                raise Status(410, "Expired", "the provided continue parameter is too old")
        limit = int(asked.query.get("limit", "0")) or len(found)
        metadata = {"resourceVersion": str(version)}
        if found[limit:]:
            metadata["continue"] = f"c{version}.{len(self._continuations)}"
            self._continuations[metadata["continue"]] = (version, found[limit:])
        return {"kind": f"{KINDS[asked.plural]}List", "metadata": metadata, "items": found[:limit]}

    # Watches

    async def _watch(self, asked: Asked, answer: "Answer") -> None:
        version = int(asked.query.get("resourceVersion") or 0)
        ends_at = asyncio.get_running_loop().time() + float(asked.query.get("timeoutSeconds", "60"))
        await answer.begin()
        if version < self.store.floor:
            expired = Status(410, "Expired", "too old resource version").document
            await answer.line({"type": "ERROR", "object": expired})
            return
        while True:
            news = await self._news(version, ends_at - BOOKMARK_LEAD_S)
            for record in news:
                version = record.version
                shown = seen_by(record, asked.namespace, asked.query.get("labelSelector", ""))
                if shown is not None and record.plural == asked.plural:
                    await answer.line({"type": shown[0], "object": shown[1]})
            if not news:
                break
        if asked.query.get("allowWatchBookmarks"):
            metadata = {"resourceVersion": str(max(version, self.store.version)), "creationTimestamp": None}
            await answer.line({"type": "BOOKMARK", "object": {"kind": KINDS[asked.plural], "metadata": metadata}})
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_at):
                await asyncio.Event().wait()

    async def _news(self, version: int, until: float) -> list[Record]:
        """What changed after a version; nothing once it is time for the bookmark."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until), self._changed:
                await self._changed.wait_for(lambda: self.store.version > version)
        return [one for one in self.store.window if one.version > version]


class Answer:
    """One answer, with whatever is to be done to it."""

    def __init__(self, writer: asyncio.StreamWriter, fault: Fault, frozen: asyncio.Event | Thawed) -> None:
        self.fault = fault
        self._writer = writer
        self._frozen = frozen
        self._sent = 0

    async def whole(self, code: int, document: Object) -> None:
        """A whole document."""
        body = json.dumps(document).encode()
        await self._head(code, len(body))
        await self._send(body)

    async def begin(self) -> None:
        """The head of a stream that lasts until the connection ends."""
        await self._head(200, None)

    async def line(self, document: Object) -> None:
        """One line of a stream."""
        for _ in range(2 if self.fault.twice else 1):
            await self._send(json.dumps(document).encode() + b"\n")

    async def garbage(self) -> None:
        """Whatever was asked for, instead of an answer."""
        assert self.fault.raw is not None
        await self._head(self.fault.status or 200, None)
        await self._send(self.fault.raw)
        while self.fault.endless:
            await self._send(self.fault.raw)

    async def _head(self, code: int, length: int | None) -> None:
        headers = {"Content-Type": "application/json", "Connection": "close", **self.fault.headers}
        if length is not None:
            headers["Content-Length"] = str(length)
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._writer.write(f"HTTP/1.1 {code} Said\r\n{told}\r\n".encode())
        await self._writer.drain()

    async def _send(self, content: bytes) -> None:
        await self._frozen.wait()
        stop = min((one for one in (self.fault.cut_after, self.fault.stall_after) if one is not None), default=None)
        if stop is not None and self._sent + len(content) > stop:
            self._writer.write(content[: stop - self._sent])
            await self._writer.drain()
            if self.fault.stall_after is not None:
                await asyncio.Event().wait()
            self._writer.transport.abort()
            raise ConnectionAbortedError
        self._writer.write(content)
        self._sent += len(content)
        await self._writer.drain()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    words = [unquote(word) for word in parts.path.strip("/").split("/")]
    words = words[2:] if words[0] == "api" else words[3:]
    namespace = None
    if words[0] == "namespaces":
        namespace, words = words[1], words[2:]
    name = words[1] if len(words) > 1 else None
    content = json.loads(body) if body else {}
    return Asked(method, words[0], namespace, name, dict(parse_qsl(parts.query)), headers, content)


@asynccontextmanager
async def fake_apiserver(window: int = 1_000) -> AsyncIterator[FakeApiServer]:
    """A running server, ended with the test."""
    server = FakeApiServer(window)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
