"""A proxy that loses answers: what was asked has happened, and whoever asked is never told.

It carries bytes between its clients and a service. Now and then, by its seed, it throws away what the service answers
and cuts both connections: the command was carried out and its client cannot know. It runs in a thread of its own.
"""

import asyncio
import threading
from typing import Self

from tests.system.calling import HOST
from tests.system.load import chances


class Cutting:
    """Between clients and a service, for as long as the context is open."""

    def __init__(self, service_port: int, seed: int, share: float) -> None:
        self.service_port = service_port
        self.share = share
        self.answers = 0
        self.cuts = 0
        self.port = 0
        self._chance = chances(seed)
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._carry, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._over.wait()
        server.close()
        for carrying in asyncio.all_tasks() - {asyncio.current_task()}:
            carrying.cancel()
            await asyncio.wait([carrying])

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection(HOST, self.service_port)
            try:
                await self._both_ways(reader, forth, back, writer)
            finally:
                forth.close()
        except OSError:
            return
        finally:
            writer.close()

    async def _both_ways(
        self,
        asked: asyncio.StreamReader,
        forth: asyncio.StreamWriter,
        answered: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        ways = [asyncio.ensure_future(self._pass_on(asked, forth)), asyncio.ensure_future(self._answer(answered, back))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            self.answers += 1
            if self._chance.random() < self.share:
                self.cuts += 1
                return
            writer.write(data)
            await writer.drain()
