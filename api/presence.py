"""A leader's WebSocket: the same conversation as its event stream, with a ping that finds a dead line.

Each event is one text message, ``{"id": position, "event": name, "data": ...}``. The protocol's own ping goes out every
few seconds; a line on which no pong comes back is half open, and the leader counts as disconnected from then on. What
the leader sends is read and ignored, but ``{"kind": "goodbye"}``, which is a polite end.

We close with 1001 when the service stops and with 4401 when the key is revoked.
"""

import asyncio
import logging
from contextlib import aclosing, suppress

import msgspec
from starlette.types import Receive, Scope, Send

from api.admission import require_role
from api.bodies import parsed
from api.channel import FAILED, GOING_AWAY, NORMAL, UNAUTHENTICATED, refuse
from api.keys import Entry
from api.leading import conversation
from api.node import Node
from api.problems import Booting, Malformed, TooDeep
from api.roles import TABLE, Roles
from api.sockets import half_open
from api.streams import Opened
from commands import presence

PATH = "/v1/leaders/{leader_id}/presence"
KEY = f"WS {PATH}"

log = logging.getLogger(__name__)


class Message(msgspec.Struct):
    """One event as a message."""

    id: int
    name: str = msgspec.field(name="event")
    data: msgspec.Raw


_encode = msgspec.json.Encoder().encode


class PresenceSocket:
    """The route of the leaders' WebSockets."""

    path = PATH
    verb = "WS"
    key = KEY
    roles: Roles = TABLE[KEY]

    async def serve(self, node: Node, scope: Scope, channel: tuple[Receive, Send], values: list[str]) -> None:
        """Carry one connection from its handshake to its end."""
        receive, send = channel
        await receive()
        try:
            entry = self._admit(node, scope, values[0])
            node.streams.require_room()
        except Exception as error:  # noqa: BLE001  (whatever it was, the caller is told in the one way)
            await refuse(send, node.health.problem(self.key, error))
            return
        await send({"type": "websocket.accept"})
        with node.streams.opened(entry.key.key_id) as opened:
            code = await self._hold(node, opened, (entry, values[0]), channel)
        with suppress(OSError, RuntimeError):
            await send({"type": "websocket.close", "code": code})

    def _admit(self, node: Node, scope: Scope, leader_id: str) -> Entry:
        if not node.open:
            raise Booting(node.step)
        entry = node.gate.admit(scope, dict(scope["headers"]), node.clock())
        require_role(entry, self.roles, self.key)
        presence.require_may_be(node.desk, entry.caller, leader_id)
        return entry

    async def _hold(self, node: Node, opened: Opened, who: tuple[Entry, str], channel: tuple[Receive, Send]) -> int:
        receive, send = channel
        speaking = asyncio.ensure_future(_speak(node, opened, who, send))
        listening = asyncio.ensure_future(_listen(receive, opened))
        try:
            await asyncio.wait({speaking, listening}, return_when=asyncio.FIRST_COMPLETED)
            if speaking.done():
                speaking.result()
            return _code(opened)
        except Exception as error:
            log.exception("the socket of leader %s failed", who[1])
            node.health.note(f"{KEY}: {error!r}")
            return FAILED
        finally:
            for doing in (speaking, listening):
                doing.cancel()
            await asyncio.gather(speaking, listening, return_exceptions=True)


def _code(opened: Opened) -> int:
    if opened.ending == "revoked":
        return UNAUTHENTICATED
    return NORMAL if opened.ending is None else GOING_AWAY


async def _speak(node: Node, opened: Opened, who: tuple[Entry, str], send: Send) -> None:
    entry, leader_id = who
    async with aclosing(conversation(node, opened, (entry, leader_id, "socket"), None)) as items:  # type: ignore[type-var]
        async for item in items:
            if item is not None:
                message = Message(item[0], item[1], msgspec.Raw(item[2]))
                await send({"type": "websocket.send", "text": _encode(message).decode()})


async def _listen(receive: Receive, opened: Opened) -> None:
    """Until the other side leaves, politely or not."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            opened.left = "half_open" if half_open(message) else None
            return
        text = message.get("text")
        if _is_goodbye(text.encode() if text is not None else message.get("bytes") or b""):
            opened.left = "left"
            return


def _is_goodbye(body: bytes) -> bool:
    """Whether a leader says that it leaves; what is nothing that can be read says nothing."""
    try:
        said = parsed(body)
    except (Malformed, TooDeep):
        return False
    return isinstance(said, dict) and said.get("kind") == "goodbye"
