"""A proxy before the service that stops forwarding and closes nothing: a line that has gone dead."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx


class Proxy:
    """Carries connections to one place, until it is dead."""

    def __init__(self, url: str) -> None:
        self.dead = asyncio.Event()
        self._target = httpx.URL(url)
        self._pumps: list[asyncio.Future[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one more connection."""
        far_reader, far_writer = await asyncio.open_connection(self._target.host, self._target.port)
        self._writers += [writer, far_writer]
        self._pumps += [asyncio.ensure_future(self._pump(reader, far_writer))]
        self._pumps += [asyncio.ensure_future(self._pump(far_reader, writer))]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(65_536):
            if not self.dead.is_set():
                writer.write(some)

    async def end(self) -> None:
        """Give everything back."""
        for pumping in self._pumps:
            pumping.cancel()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await asyncio.sleep(0)


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The url of a proxy before this one, and the event that makes it dead."""
    proxy = Proxy(url)
    listener = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.start_server(proxy.accept, sock=listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", proxy.dead
    finally:
        server.close()
        await proxy.end()
