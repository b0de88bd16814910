"""The HTTP protocol with bounds on request heads and on requests in advance, which the server's own lacks.

A head (request line and headers) that is longer than ``HEAD_MAX_BYTES`` is answered 431, one that is not complete
``HEAD_S`` seconds after its first byte (or after the connection was made) 408; both connections are closed. So neither
a head without end nor a trickle of bytes costs more than a bounded piece of memory for a bounded time. Bodies have
bounds of their own (``api/bodies.py``).

A client may ask on before it was answered. What it asks in advance is read in pieces, and no further while a request
waits for another's answer; of what arrives all the same, ``HELD_MAX_BYTES`` are kept, and beyond the line is cut. So a
client that asks and does not listen costs a bounded piece of memory too.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_MAX_BYTES = 64 * 1024
HEAD_S = 30.0
HEAD_END = b"\r\n\r\n"
PIECE_BYTES = 4 * 1024
"""How much is read at once of what holds many requests."""
HEADS_AT_ONCE = 16
HELD_MAX_BYTES = 256 * 1024

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    """One connection: between requests, in a head, or in a body."""

    _head_bytes: int | None = 0
    """Bytes of the head that is being read; None while a body is."""
    _tail: bytes = b""
    """The last bytes before, in which the end of the head may have begun."""
    _patience: asyncio.TimerHandle | None = None
    _held: bytes = b""
    """What was said in advance, and is read once the requests before it are being answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head, not for ever."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._held = b""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what the client says, or keep it while an earlier request of its waits to be answered."""
        if self.pipeline or self._held:
            self._hold(self._held + data)
        else:
            self._read(data)

    def on_response_complete(self) -> None:
        """The next request that was sent in advance is answered; after the last of them, more are read."""
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()
        elif self._held:
            held, self._held = self._held, b""
            self._read(held)

    def _read(self, data: bytes) -> None:
        size = PIECE_BYTES if data.count(HEAD_END) > HEADS_AT_ONCE else max(1, len(data))
        for start in range(0, len(data), size):
            if self.pipeline:
                self._hold(data[start:])
                return
            if self._gone:
                return
            self._read_piece(data[start : start + size])

    @property
    def _gone(self) -> bool:
        """Whether the connection is closing, or has become a socket's."""
        transport: Any = self.transport
        return transport is None or transport.is_closing() or transport.get_protocol() is not self

    def _hold(self, data: bytes) -> None:
        self._held = data
        self.flow.pause_reading()
        if len(data) > HELD_MAX_BYTES:
            self._held = b""
            self.transport.close()

    def _read_piece(self, data: bytes) -> None:
        """Count what belongs to a head, and cut a head without end."""
        if self._head_bytes is not None:
            if self._head_bytes == 0 and self._patience is None:
                self._wait_for_head()
            if self._too_large(data):
                self._cut(TOO_LARGE)
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The head was read: what follows is its body."""
        self._head_bytes = None
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body was read: what follows is the next head."""
        self._head_bytes, self._tail = 0, b""
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """The connection is a socket's from here on."""
        self._stop_waiting()
        super().handle_websocket_upgrade()

    def _too_large(self, data: bytes) -> bool:
        """Whether the head is longer than it may be; what comes after its end is body and does not count."""
        before = self._head_bytes or 0
        end = (self._tail + data).find(HEAD_END)
        head = before + len(data) if end < 0 else before - len(self._tail) + end + len(HEAD_END)
        self._head_bytes, self._tail = before + len(data), data[1 - len(HEAD_END) :]
        return head > HEAD_MAX_BYTES

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(HEAD_S, self._cut, TOO_SLOW)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _cut(self, answer: bytes) -> None:
        self._stop_waiting()
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.write(answer)
            transport.close()
