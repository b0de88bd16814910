"""The HTTP protocol with a bound on request heads, which the server's own lacks.

A head (request line and headers) that is longer than ``HEAD_MAX_BYTES`` is answered 431, one that is not complete
``HEAD_S`` seconds after its first byte (or after the connection was made) 408; both connections are closed. So neither
a head without end nor a trickle of bytes costs more than a bounded piece of memory for a bounded time. Bodies have
bounds of their own (``api/bodies.py``).
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_MAX_BYTES = 64 * 1024
HEAD_S = 30.0
HEAD_END = b"\r\n\r\n"

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    """One connection: between requests, in a head, or in a body."""

    _head_bytes: int | None = 0
    """Bytes of the head that is being read; None while a body is."""
    _tail: bytes = b""
    """The last bytes before, in which the end of the head may have begun."""
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head, not for ever."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
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
