"""Streams: server-sent events that outlive no key, hold up nobody, and end when the service says so.

A frame is ``id:`` (where to resume), ``event:`` (what it is) and ``data:`` (one line of JSON). A comment goes out when
nothing else has for ``COMMENT_S`` seconds, so that silence means a broken line and nothing else. A stream reads the
journal when it has sent what it read before, so a slow reader costs one batch of memory and falls behind alone; one
that accepts nothing for ``SLOW_S`` seconds is cut.

Each open stream is known to the service. It ends when its key is revoked or expires, at once, and when the service
stops, with a comment that says so: an end of ours, which is evidence of nothing about the other side.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress

from starlette.types import Receive, Scope, Send

from api.problems import TooManyStreams

COMMENT_S = 15.0
SLOW_S = 60.0

COMMENT = b":\n\n"
STOPPING = b": the service is stopping\n\n"

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
    (b"connection", b"close"),
)


def frame(event_id: str, event: str, data: bytes) -> bytes:
    """One frame; blanks between tokens that would break the line are turned into spaces."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode(), event.encode(), data)


class Opened:
    """One open stream, from the service's side: whose key it is, and whether it should end."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.ending: str | None = None
        """Why it should end: ``stopping`` or ``revoked``."""
        self.left: str | None = None
        """How the other side ended it, where that is known: ``left``, ``half_open`` or ``slow_reader``."""
        self.on_end: Callable[[], None] = lambda: None

    def end(self, why: str) -> None:
        """Ask the stream to end."""
        self.ending = self.ending or why
        self.on_end()


class OpenStreams:
    """Every open stream of this process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: set[Opened] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def require_room(self) -> None:
        """Refuse one stream too many."""
        if len(self._open) >= self.limit:
            raise TooManyStreams(self.limit)

    @contextmanager
    def opened(self, key_id: str) -> Iterator[Opened]:
        """A stream of this key, counted for as long as it is open.

        Raises:
            TooManyStreams: as many are open as are carried.
        """
        self.require_room()
        stream = Opened(key_id)
        if self._stopping:
            stream.end("stopping")
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.discard(stream)

    def stop(self) -> None:
        """The service stops: every stream ends, also those that are opened from now on."""
        self._stopping = True
        for stream in list(self._open):
            stream.end("stopping")

    def revoked(self, key_id: str) -> None:
        """A key is worth nothing any more: its streams end."""
        for stream in list(self._open):
            if stream.key_id == key_id:
                stream.end("revoked")


Frames = Callable[[Opened], AsyncIterator[bytes]]


class Stream:
    """An answer that goes on: frames are made while the stream is open and the client is there."""

    def __init__(self, streams: OpenStreams, key_id: str, frames: Frames) -> None:
        self._streams = streams
        self._key_id = key_id
        self._frames = frames
        streams.require_room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send frames until there are no more, the client leaves, or the stream is to end."""
        with self._streams.opened(self._key_id) as opened:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            pumping = asyncio.ensure_future(self._pump(opened, send))
            leaving = asyncio.ensure_future(_left(receive))
            try:
                await asyncio.wait({pumping, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                pumping.cancel()
                with suppress(asyncio.CancelledError, TimeoutError, OSError):
                    await pumping

    async def _pump(self, opened: Opened, send: Send) -> None:
        async with aclosing(self._frames(opened)) as frames:  # type: ignore[type-var]
            try:
                await _send_some(send, b": open\n\n")
                async for some in frames:
                    await _send_some(send, some)
            except TimeoutError:
                opened.left = "slow_reader"
                raise
        if opened.ending == "stopping":
            await _send_some(send, STOPPING)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_some(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SLOW_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
