"""The worker's stream: heartbeats over a WebSocket, and instructions pushed at once.

The messages are those of the heartbeat call, with a `seq` that tells answers from pushes. The stream is also evidence:
when it breaks without a goodbye the service takes the worker for detached and lets its runs be taken over after the
reconnect window (1 s by default). So a broken stream is opened again at once, and whoever renews is woken so that the
leases are confirmed by the other road meanwhile.

Units: seconds. Bounds: a message of 1 MiB. Failure: a heartbeat without answer is `Unknown`, never a no.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from jackline._async.transport import as_instance
from jackline.address import Address
from jackline.clock import Clock
from jackline.decode import decode, decode_list, parsed
from jackline.errors import Garbled, Unknown, problem
from jackline.models import LeaseRef, Renewal
from jackline.retrying import Retry
from jackline.worker.log import Log

RECONNECT = Retry(first_s=0.05, cap_s=2.0)
OPEN_TIMEOUT_S = 5.0
PING_S = 10.0
MAX_MESSAGE = 1 << 20


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the service: an answer, by the number of what it answers, or something pushed."""

    seq: int | None = None
    leases: Any = None
    problem: Any = None


@dataclass(frozen=True, slots=True)
class Refused:
    """What a problem must say to be one."""

    code: str
    status: int


class WorkerStream:
    """One worker's stream to the service, opened again whenever it breaks."""

    def __init__(
        self, address: Address, worker_id: str, clock: Clock, log: Log, *, instance: str | None = None
    ) -> None:
        self._instance = instance
        self._path = f"/v1/workers/{quote(worker_id, safe='')}/stream"
        self._address = address
        self._clock = clock
        self._log = log
        self._socket: ClientConnection | None = None
        self._waiting: dict[int, asyncio.Future[list[Renewal]]] = {}
        self._seq = 0
        self._told = False
        self.on_push: Callable[[list[Renewal]], None] = lambda renewals: None
        self.on_change: Callable[[], None] = lambda: None

    @property
    def open(self) -> bool:
        """Whether heartbeats can go this way now."""
        return self._socket is not None

    async def run(self) -> None:
        """Keep the stream open until cancelled; then say goodbye."""
        pauses = RECONNECT.pauses(self._clock)
        while True:
            try:
                async with self._connect() as socket:
                    pauses, self._told = RECONNECT.pauses(self._clock), False
                    await self._listen(socket)
            except InvalidStatus as error:
                self._tell("stream_refused", status=error.response.status_code)
                self._address = self._address.again()
                await asyncio.sleep(self._clock.jitter(RECONNECT.cap_s))
            except (OSError, TimeoutError, WebSocketException) as error:
                self._tell("stream_broken", error=str(error) or type(error).__name__)
                self._address = self._address.again()
            finally:
                self._closed()
            await asyncio.sleep(next(pauses))

    def _tell(self, happening: str, **values: Any) -> None:
        """Log once per time without a stream, not once per attempt to open it."""
        if not self._told:
            self._told = True
            self._log(happening, **values)

    async def heartbeat(self, leases: Sequence[LeaseRef], timeout_s: float) -> list[Renewal]:
        """The service's answer about each lease.

        Raises:
            Unknown: there was none.
            Problem: it refused the heartbeat.
        """
        if self._socket is None:
            msg = "the worker's stream is not open"
            raise Unknown(msg)
        self._seq += 1
        seq = self._seq
        answer: asyncio.Future[list[Renewal]] = asyncio.get_running_loop().create_future()
        self._waiting[seq] = answer
        body = {"seq": seq, "leases": [{"run_id": one.run_id, "fence": one.fence} for one in leases]}
        try:
            async with asyncio.timeout(timeout_s):
                await self._socket.send(json.dumps(body))
                return await answer
        except (TimeoutError, WebSocketException) as error:
            msg = f"no answer on the worker's stream: {str(error) or type(error).__name__}"
            raise Unknown(msg) from error
        finally:
            self._waiting.pop(seq, None)

    def _connect(self) -> connect:
        key = self._address.key
        return connect(
            self._address.url.replace("http", "ws", 1) + self._path,
            additional_headers=({"Authorization": f"Bearer {key}"} if key else {}) | as_instance(self._instance),
            open_timeout=OPEN_TIMEOUT_S,
            close_timeout=1.0,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            max_size=MAX_MESSAGE,
            proxy=None if self._address.loopback else True,
        )

    async def _listen(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.on_change()
        try:
            async for text in socket:
                self._hear(text)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError, TimeoutError, WebSocketException):
                async with asyncio.timeout(1.0):
                    await socket.send(json.dumps({"goodbye": True}))
            raise

    def _hear(self, text: str | bytes) -> None:
        try:
            said = decode(Said, parsed(text, "a message"))
            renewals = decode_list(Renewal, said.leases) if said.problem is None else []
            refusal = None if said.problem is None else decode(Refused, said.problem)
        except Garbled as error:
            self._log("stream_garbled", error=str(error), message=repr(text[:120]))
            return
        waiting = None if said.seq is None else self._waiting.get(said.seq)
        if waiting is None:
            self.on_push(renewals)
        elif waiting.done():
            pass
        elif refusal is not None:
            waiting.set_exception(problem(refusal.status, said.problem))
        else:
            waiting.set_result(renewals)

    def _closed(self) -> None:
        was_open, self._socket = self._socket is not None, None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Unknown("the worker's stream broke"))
        if was_open:
            self.on_change()
