"""A lean HTTP/1.1 client: so little of its own that what is measured is the service.

One connection is one `asyncio.Protocol`, kept open; a request is bytes that were made beforehand or with one join; an
answer is found by its length and given as status and body, unparsed. It understands what the service sends (a length
or no body) and nothing else. What it costs is measured with each figure (`Cost`): CPU of this process and of the
service's, in microseconds per request.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec

HOST = "127.0.0.1"
TICKS = os.sysconf("SC_CLK_TCK")

Answer = tuple[int, bytes]


class Connection(asyncio.Protocol):
    """One kept connection; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._received = b""
        self._waiting: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        self._transport = cast("asyncio.WriteTransport", transport)  # a loop's own class need not derive from it

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits is told."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError())

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Status and body of the answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def data_received(self, data: bytes) -> None:
        """Collect until the answer is whole."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0 or self._waiting is None:
            return
        head = self._received[:end].lower()
        at = head.find(b"content-length: ")
        length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._received) < end + 4 + length:
            return
        answer = int(self._received[9:12]), self._received[end + 4 : end + 4 + length]
        self._received = self._received[end + 4 + length :]
        if not self._waiting.done():
            self._waiting.set_result(answer)

    def close(self) -> None:
        """Give it back."""
        if self._transport is not None:
            self._transport.close()


class Client:
    """The service as a benchmark sees it."""

    def __init__(self, port: int, key: str, pid: int) -> None:
        self.port = port
        self.pid = pid
        self._head = f"\r\nhost: {HOST}\r\nauthorization: Bearer {key}\r\n".encode()
        self._open: list[Connection] = []

    async def connect(self, count: int = 1) -> list[Connection]:
        """So many new connections."""
        loop = asyncio.get_running_loop()
        made = [(await loop.create_connection(Connection, HOST, self.port))[1] for _ in range(count)]
        self._open += made
        return made

    def close(self) -> None:
        """Close every connection."""
        for connection in self._open:
            connection.close()
        self._open.clear()

    def get(self, path: str) -> bytes:
        """A GET, ready to be sent."""
        return b"".join((b"GET ", path.encode(), b" HTTP/1.1", self._head, b"\r\n"))

    def send(self, path: str, body: Any, method: bytes = b"POST") -> bytes:
        """A request with a JSON body, ready to be sent."""
        encoded = msgspec.json.encode(body)
        head = (method, b" ", path.encode(), b" HTTP/1.1", self._head)
        return b"".join(
            (*head, b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(encoded), encoded)
        )

    async def told(self, connection: Connection, request: bytes) -> Any:
        """The parsed body of an answer that must be good."""
        status, body = await connection.ask(request)
        if not 200 <= status < 300:
            message = f"{request[:120]!r} was answered {status}: {body[:500]!r}"
            raise RuntimeError(message)
        return msgspec.json.decode(body) if body else None

    async def submit(self, connection: Connection, count: int, queue: str, **policy: Any) -> list[str]:
        """The ids of so many new runs, submitted in batches."""
        ids: list[str] = []
        for start in range(0, count, 1000):
            wish = {"queue": queue, "policy": policy} if policy else {"queue": queue}
            batch = self.send("/v1/runs/batch", {"runs": [wish] * min(1000, count - start)})
            ids += [run["run_id"] for run in (await self.told(connection, batch))["runs"]]
        return ids

    async def register(self, connection: Connection, worker_id: str, slots: int) -> str:
        """The id of a registered worker."""
        await self.told(connection, self.send(f"/v1/workers/{worker_id}", {"slots": slots}, b"PUT"))
        return worker_id

    async def position(self, connection: Connection) -> int:
        """Where the journal ends."""
        return int((await self.told(connection, self.get("/healthz")))["journal"]["position"])


class Cost:
    """What a measured stretch took: seconds, and CPU seconds of the client and of the service."""

    wall_s = 0.0
    client_s = 0.0
    service_s = 0.0

    def rate(self, count: int) -> float:
        """So many in this time, per second."""
        return round(count / self.wall_s, 1)

    def per(self, count: int) -> dict[str, float]:
        """Rate, and microseconds of CPU for each."""
        return {
            "per_s": self.rate(count),
            "service_cpu_us": round(self.service_s / count * 1e6, 1),
            "client_cpu_us": round(self.client_s / count * 1e6, 1),
        }


@contextmanager
def measured(pid: int) -> Iterator[Cost]:
    """Measure a block."""
    cost = Cost()
    wall, client, service = time.perf_counter(), time.process_time(), cpu_of(pid)
    yield cost
    cost.wall_s = time.perf_counter() - wall
    cost.client_s = time.process_time() - client
    cost.service_s = cpu_of(pid) - service


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used, its threads included."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def side_by_side(connections: Sequence[Connection], work: Callable[[Connection, int], Awaitable[None]]) -> None:
    """Have every connection do its part, all at once."""
    async with asyncio.TaskGroup() as group:
        for number, connection in enumerate(connections):
            group.create_task(_part(work, connection, number))


async def _part(work: Callable[[Connection, int], Awaitable[None]], connection: Connection, number: int) -> None:
    await work(connection, number)
