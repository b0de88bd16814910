"""A proxy that loses what it carries: answers, the ends of streams, or everything from one instant on.

It carries bytes between its clients and a service. Now and then, by its seed, it hands on only the beginning of what
the service says, often nothing, and cuts both connections: what was asked has happened, and whoever asked is never
told. It can be told to swallow: then it carries nothing any more and closes nothing, so that each side sees a line that
is merely silent. It runs in a thread of its own.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self

from tests.system.calling import HOST
from tests.system.load import chances
from tests.waiting import BOUND_S


class Cutting:
    """Between clients and a service, for as long as the context is open."""

    def __init__(self, service_port: int, seed: int, share: float = 0.0) -> None:
        self.service_port = service_port
        self.share = share
        self.swallows = False
        self.answers = 0
        self.cuts = 0
        self.port = 0
        self._chance = chances(seed)
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._carrying: set[asyncio.Future[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(BOUND_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._over.wait()
        server.close()
        for carrying in self._carrying:
            carrying.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carrying = asyncio.ensure_future(self._carry(reader, writer))
        self._carrying.add(carrying)
        carrying.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection(HOST, self.service_port)
            try:
                await _first_of(self._pass_on(reader, forth), self._answer(back, writer))
            finally:
                forth.close()
        except OSError:
            return
        finally:
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if not self.swallows:
                writer.write(data)
                await writer.drain()
        await self._silent()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            self.answers += 1
            if self.swallows:
                continue
            if self._chance.random() < self.share:
                self.cuts += 1
                writer.write(data[: self._chance.choice((0, self._chance.randrange(len(data))))])
                return
            writer.write(data)
            await writer.drain()
        await self._silent()

    async def _silent(self) -> None:
        """One side has ended: while everything is swallowed, the other is not told."""
        if self.swallows:
            await self._over.wait()


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    """Return once one has come to its end; the others are cancelled."""
    going = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in going:
            way.cancel()
        await asyncio.gather(*going, return_exceptions=True)
