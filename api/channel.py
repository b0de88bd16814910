"""The worker's stream: heartbeats and instructions over one WebSocket, and evidence of the worker's end.

A text message is a heartbeat's body, with a number if the worker wants to tell answers from pushes:
``{"seq": 7, "leases": [...]}`` is answered ``{"seq": 7, "leases": [...]}``, or ``{"seq": 7, "problem": {...}}``. What
the service wants meanwhile comes without a number, and what it wanted before comes at once. ``{"kind": "goodbye"}`` (or
``{"goodbye": true}``) announces a polite end. A message is at most 1 MiB, and the next is read when the last was
answered.

We close with 1001 when the service stops or has heard nothing for ``IDLE_S``, and with 4401 when the key is revoked;
none of these detaches the worker, and neither does a line on which our pings are not answered. A refusal before the
handshake is an ordinary problem document. A process whose worker's id another one has taken over is told so, by the
problem ``worker_in_use``, and its stream is no evidence of anything any more.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Literal

from pydantic import Field
from starlette.types import Receive, Scope, Send

from api.admission import acting, require_role
from api.attachments import PUSHES_MAX, Shown, pending
from api.bodies import Reader
from api.calls import SECURITY, encode
from api.keys import Entry
from api.node import Node
from api.problems import JSON, Booting, Malformed, Problem
from api.requests import SAFE_INTEGER, Body, LeaseRef
from api.roles import TABLE, Roles
from api.sockets import half_open
from api.streams import Opened
from commands import holding, workers
from commands.desk import Caller
from commands.holding import Lessee

PATH = "/v1/workers/{worker_id}/stream"
KEY = f"WS {PATH}"
IDLE_S = 120.0
NORMAL, GOING_AWAY, FAILED, UNAUTHENTICATED = 1000, 1001, 1011, 4401

End = Literal["goodbye", "left", "silent"]

log = logging.getLogger(__name__)


class Message(Body):
    """What a worker says on its stream."""

    seq: int | None = Field(None, ge=0, le=SAFE_INTEGER)
    kind: Literal["heartbeat", "goodbye"] = "heartbeat"
    goodbye: bool = False
    leases: list[LeaseRef] = Field(default_factory=list, max_length=10_000)


_read = Reader(Message).read


class Channel:
    """The route of the workers' streams."""

    path = PATH
    verb = "WS"
    key = KEY
    roles: Roles = TABLE[KEY]

    async def serve(self, node: Node, scope: Scope, channel: tuple[Receive, Send], values: list[str]) -> None:
        """Carry one stream from its handshake to its end."""
        receive, send = channel
        await receive()
        try:
            entry, caller = self._admit(node, scope, values[0])
            node.streams.require_room()
        except Exception as error:  # noqa: BLE001  (whatever it was, the caller is told in the one way)
            await refuse(send, node.health.problem(self.key, error))
            return
        await send({"type": "websocket.accept"})
        await Conversation(node, entry.key.key_id, caller, values[0]).hold(receive, send)

    def _admit(self, node: Node, scope: Scope, worker_id: str) -> tuple[Entry, Caller]:
        if not node.open:
            raise Booting(node.step)
        headers = dict(scope["headers"])
        entry = node.gate.admit(scope, headers, node.clock())
        require_role(entry, self.roles, self.key)
        caller = acting(entry.caller, headers)
        node.desk.require_worker(caller, worker_id, "open a stream as this worker")
        workers.check_known(node.desk, caller, worker_id)
        return entry, caller


async def refuse(send: Send, problem: Problem) -> None:
    """Answer a handshake with a problem document instead."""
    headers = [JSON, *SECURITY, *problem.headers, (b"content-length", b"%d" % len(problem.body))]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": problem.body})


class Conversation:
    """One open stream of one worker."""

    def __init__(self, node: Node, key_id: str, caller: Caller, worker_id: str) -> None:
        self._node = node
        self._key_id = key_id
        self._caller = caller
        self._worker_id = worker_id
        self._worker = (caller.tenant, worker_id)

    @property
    def idle_s(self) -> float:
        """How long the worker may say nothing before the stream is given up."""
        return max(IDLE_S, 2 * self._node.settings.worker_gone_s)

    async def hold(self, receive: Receive, send: Send) -> None:
        """Talk until either side ends it, and note what the end is evidence of."""
        with (
            self._node.streams.opened(self._key_id) as opened,
            self._node.attachments.attached(self._worker) as pushes,
        ):
            self._node.desk.live.heard(self._worker, self._node.clock())
            for lease in pending(self._node.desk, self._worker)[:PUSHES_MAX]:
                pushes.put_nowait({"leases": [lease]})
            end = await self._talk(opened, pushes, receive, send)
        if end != "left":
            with suppress(OSError, RuntimeError):
                await send({"type": "websocket.close", "code": _code(opened, end)})
        elif opened.ending is None and not self._node.attachments.is_attached(self._worker):
            await self._detached()

    async def _talk(self, opened: Opened, pushes: asyncio.Queue[Shown], receive: Receive, send: Send) -> End | None:
        """How the other side ended it; None when we did."""
        ours = asyncio.Event()
        opened.on_end = ours.set
        if opened.ending is not None:
            return None
        listening = asyncio.ensure_future(self._listen(receive, send))
        others = [asyncio.ensure_future(_push(pushes, send)), asyncio.ensure_future(ours.wait())]
        try:
            await asyncio.wait({listening, *others}, return_when=asyncio.FIRST_COMPLETED)
            return listening.result() if listening.done() else None
        except Exception as error:
            log.exception("the stream of worker %s failed", self._worker_id)
            self._node.health.note(f"{KEY}: {error!r}")
            return None
        finally:
            for doing in (listening, *others):
                doing.cancel()
            await asyncio.gather(listening, *others, return_exceptions=True)

    async def _listen(self, receive: Receive, send: Send) -> End:
        while True:
            try:
                async with asyncio.timeout(self.idle_s):
                    message = await receive()
            except TimeoutError:
                return "silent"
            if message["type"] == "websocket.disconnect":
                return "silent" if half_open(message) else "left"
            text = message.get("text")
            said, answer = await self._answer(text.encode() if text is not None else message.get("bytes") or b"")
            if said is not None and (said.goodbye or said.kind == "goodbye"):
                return "goodbye"
            await send({"type": "websocket.send", "text": encode(answer).decode()})

    async def _answer(self, body: bytes) -> tuple[Message | None, Shown]:
        said: Message | None = None
        try:
            if not body:
                problem = "it is empty"
                raise Malformed(problem)
            said, _ = _read(body)
            if said.goodbye or said.kind == "goodbye":
                return said, {}
            leases = [Lessee(lease["run_id"], lease["fence"]) for lease in said.leases]
            answers = await holding.heartbeat(self._node.desk, self._caller, self._worker_id, leases)
            answer: Shown = {"leases": answers}
        except Exception as error:  # noqa: BLE001  (one message that fails does not end the stream)
            answer = {"problem": self._node.health.problem(KEY, error).document}
        if said is not None and said.seq is not None:
            answer = {"seq": said.seq, **answer}
        return said, answer

    async def _detached(self) -> None:
        self._node.attachments.give_up_claims(self._worker)
        try:
            await workers.detached(self._node.desk, self._caller, self._worker_id)
        except Exception as error:  # the leases then end by their full ttl
            log.exception("worker %s was detached, and that could not be recorded", self._worker_id)
            self._node.health.note(f"{KEY}: {error!r}")


async def _push(pushes: asyncio.Queue[Shown], send: Send) -> None:
    while True:
        pushed = await pushes.get()
        await send({"type": "websocket.send", "text": encode(pushed).decode()})


def _code(opened: Opened, end: End | None) -> int:
    if end == "goodbye":
        return NORMAL
    if opened.ending == "revoked":
        return UNAUTHENTICATED
    return GOING_AWAY if opened.ending is not None or end == "silent" else FAILED
