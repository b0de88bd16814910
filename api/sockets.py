"""The sockets of the server: uvicorn's own, and told apart whether the other side closed one or the line went dead.

A ping goes out every few seconds. When its pong does not come in time uvicorn closes the socket, and would report the
same code as for a process that died. The two are different evidence: a dead line says nothing about who is behind it.
So here the application is told at once, with a code that is never on the wire and a reason of our own, and the line is
cut a moment later, whatever could not be sent on it.

What the other side may leave with us is bounded. Pongs that it does not read pile up: beyond ``UNREAD_MAX_BYTES`` the
line is taken for a dead one. A message may come in at most ``FRAGMENTS_MAX`` pieces, since empty ones count towards no
limit on bytes; beyond, the socket is closed with 1009, as for a message that is too long.

A handshake that was answered with a refusal is complete; uvicorn takes it for one that was forgotten and logs an error,
so here it is told.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.typing import BytesLike

ABNORMAL = 1006
UNANSWERED = "a ping was not answered"
CUT_S = 1.0
"""How long the closing frame of a dead line may take to leave."""
UNREAD_MAX_BYTES = 1024 * 1024
FRAGMENTS_MAX = 10_000


class Socket(WebSocketsSansIOProtocol):
    """One socket that tells a dead line from an end."""

    def keepalive_timeout(self) -> None:
        """The pong did not come in time."""
        if not self.close_sent and not self.transport.is_closing():
            self.queue.put_nowait({"type": "websocket.disconnect", "code": ABNORMAL, "reason": UNANSWERED})
            self.loop.call_later(CUT_S, self.transport.abort)
        super().keepalive_timeout()

    def handle_ping(self) -> None:
        """Answer a ping, unless the answers to many before it were not taken."""
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > UNREAD_MAX_BYTES:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": ABNORMAL, "reason": UNANSWERED})
            self.transport.abort()
            return
        super().handle_ping()

    def handle_text(self, piece: Frame) -> None:
        """Take the first piece of a text."""
        if piece.fin and not _is_text([piece.data]):
            self._fail(CloseCode.INVALID_DATA, "not UTF-8")
        else:
            super().handle_text(piece)

    def handle_cont(self, piece: Frame) -> None:
        """Take another piece of a message, unless it has come in too many, or says that it is text and is none."""
        if len(self.frames) >= FRAGMENTS_MAX:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"more than {FRAGMENTS_MAX} pieces")
        elif piece.fin and self.curr_msg_data_type == "text" and not _is_text([*self.frames, piece.data]):
            self._fail(CloseCode.INVALID_DATA, "not UTF-8")
        elif not self.close_sent:
            super().handle_cont(piece)

    def _fail(self, code: CloseCode, reason: str) -> None:
        """Close because of what the other side said; what it says meanwhile is not heard any more."""
        self.frames = []
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    async def send(self, message: Any) -> None:
        """Send for the application; the end of a refusal is the end of the handshake.

        What is said to a socket that has just ended is dropped: its listener is told of the end, and how it came.
        """
        if message["type"] == "websocket.send":
            await self.writable.wait()
            if self.disconnected or self.close_sent:
                return
            with suppress(ClientDisconnected):
                await super().send(message)
            return
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


def _is_text(pieces: Sequence[BytesLike]) -> bool:
    try:
        b"".join(pieces).decode()
    except UnicodeDecodeError:
        return False
    return True


def half_open(message: Mapping[str, Any]) -> bool:
    """Whether this disconnect was found by a ping that nobody answered."""
    return message.get("code") == ABNORMAL and message.get("reason") == UNANSWERED
