"""The sockets of the server: uvicorn's own, and told apart whether the other side closed one or the line went dead.

A ping goes out every few seconds. When its pong does not come in time uvicorn closes the socket, and would report the
same code as for a process that died. The two are different evidence: a dead line says nothing about who is behind it.
So here the application is told at once, with a code that is never on the wire and a reason of our own, and the line is
cut a moment later, whatever could not be sent on it.

A handshake that was answered with a refusal is complete; uvicorn takes it for one that was forgotten and logs an error,
so here it is told.
"""

from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

ABNORMAL = 1006
UNANSWERED = "a ping was not answered"
CUT_S = 1.0
"""How long the closing frame of a dead line may take to leave."""


class Socket(WebSocketsSansIOProtocol):
    """One socket that tells a dead line from an end."""

    def keepalive_timeout(self) -> None:
        """The pong did not come in time."""
        if not self.close_sent and not self.transport.is_closing():
            self.queue.put_nowait({"type": "websocket.disconnect", "code": ABNORMAL, "reason": UNANSWERED})
            self.loop.call_later(CUT_S, self.transport.abort)
        super().keepalive_timeout()

    async def send(self, message: Any) -> None:
        """Send for the application; the end of a refusal is the end of the handshake."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


def half_open(message: Mapping[str, Any]) -> bool:
    """Whether this disconnect was found by a ping that nobody answered."""
    return message.get("code") == ABNORMAL and message.get("reason") == UNANSWERED
