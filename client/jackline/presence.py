"""Being present as a leader: one line to the service that is opened again whenever it breaks.

The line is the leader's presence stream: the service counts the leader as connected while it lasts, greets it with
`hello`, says what was settled while it was away, and tells the facts of its runs. A stream that breaks is opened again
after a jittered pause, from the last fact that was told. Where streams cannot be kept, a heartbeat session stands in:
at once when they are refused or swallowed (no `hello` within `HELLO_S`), else after `TRIES` attempts in a row. A stream
is then tried again from time to time; the facts of that time are told when a stream is back.

Whoever owns this reads its attributes; `changed` is called after each change. It is written for one event loop and may
be read from any thread.

Bounds: `FACTS_MAX` facts wait for their reader; beyond, the oldest are dropped and `missed` counts them.
Units: seconds. Failure: silence is waited out for ever, because whether it lasts too long is the service's to judge; a
refusal (no such right, a malformed id) ends it, and is left in `failure`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from jackline._async.runs import json_of
from jackline._async.transport import Ask, AsyncTransport
from jackline.address import Address
from jackline.clock import Clock
from jackline.decode import decode, decode_list, member
from jackline.errors import Forbidden, Garbled, Invalid, Problem, RateLimited, Unauthorised, Unknown
from jackline.models import TERMINAL, Fact, Hello, LeaderInfo, Page, Settled
from jackline.retrying import Retry
from jackline.sse import Event, EventParser

HELLO_S = 5.0
TRIES = 3
SESSION_TTL_S = 15.0
SESSION_BEAT_S = 5.0
SESSION_BEATS = 6  # before a stream is tried again
LEAVE_S = 2.0
FACTS_MAX = 10_000
AWAY_PAGE = 200
RECONNECT = Retry(patience_s=0.0, first_s=0.1, cap_s=2.0)
FINAL = (Unauthorised, Forbidden, Invalid)


def leader_path(leader_id: str, *more: str) -> str:
    """The path of a leader, or of something below it."""
    return "/".join(("/v1/leaders", quote(leader_id, safe=""), *(quote(part, safe="") for part in more)))


class Presence:
    """One leader's presence, and what the service tells it."""

    def __init__(self, address: Address, clock: Clock, leader_id: str) -> None:
        self.leader_id = leader_id
        self.by: Literal["stream", "session"] | None = None
        self.away_since: datetime | None = None
        self.settled: list[Settled] = []
        self.facts: deque[Fact] = deque()
        self.missed = 0
        self.failure: Exception | None = None
        self.changed: Callable[[], None] = lambda: None
        self._address = address
        self._clock = clock
        self._parser = EventParser()
        self._session_id = f"session-{clock.new_id()}"
        self._in_session = False
        self._untold: datetime | None = None

    async def run(self) -> None:
        """Be present until cancelled or refused; then leave."""
        transport = AsyncTransport(self._address, RECONNECT, self._clock)
        try:
            await self._stay(transport)
        except Exception as error:  # noqa: BLE001 - whoever waits for this presence is told
            self.failure = error
        finally:
            self._be(None)
            with contextlib.suppress(Problem, Unknown, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._end_session(transport)
            await transport.disconnect()

    async def _stay(self, transport: AsyncTransport) -> None:
        tries, pauses = 0, RECONNECT.pauses(self._clock)
        while True:
            outcome = await self._stream(transport)
            if outcome == "greeted":
                tries, pauses = 0, RECONNECT.pauses(self._clock)
            else:
                tries += TRIES if outcome == "impossible" else 1
            if tries >= TRIES:
                await self._session(transport)
            await asyncio.sleep(next(pauses))

    async def _stream(self, transport: AsyncTransport) -> Literal["greeted", "broken", "impossible"]:
        """Keep one stream for as long as it lasts; whether it ever said hello, and if not, whether it ever will."""
        outcome: Literal["greeted", "broken", "impossible"] = "broken"
        try:
            async with asyncio.timeout(HELLO_S) as bound, self._lines(transport) as lines:
                async for line in lines:
                    frame = self._parser.feed(line)
                    if frame is None:
                        continue
                    if frame.name == "hello":
                        outcome = "greeted"
                        bound.reschedule(None)
                        await self._end_session(transport)
                    self._take(frame)
        except RateLimited as refusal:
            await asyncio.sleep(refusal.retry_after_s or 0.0)
        except (Unknown, Garbled):
            pass
        except (Problem, TimeoutError) as trouble:
            outcome = self._after(trouble)
        finally:
            self._parser.cut()
            self._be("session" if self._in_session else None)
        return outcome

    def _after(self, trouble: Exception) -> Literal["broken", "impossible"]:
        """Whether there will ever be a stream; raises what is final. A restored journal is followed from the start."""
        if isinstance(trouble, Problem) and trouble.code == "position_beyond":
            self._parser.last_id = None
            return "broken"
        if isinstance(trouble, FINAL):
            raise trouble
        return "impossible"

    def _lines(self, transport: AsyncTransport) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        return transport.lines(leader_path(self.leader_id, "presence"), {}, self._parser.last_id)

    def _take(self, frame: Event) -> None:
        document = json_of(frame.data)
        if frame.name == "hello":
            self.away_since = decode(Hello, document).away_since
            self._be("stream")
        elif frame.name == "settled_while_away":
            self.settled += decode_list(Settled, member(document, "runs"))
            self.changed()
        elif frame.name.startswith("run."):
            self._keep(decode(Fact, document))

    def _keep(self, fact: Fact) -> None:
        if len(self.facts) >= FACTS_MAX:
            self.facts.popleft()
            self.missed += 1
        self.facts.append(fact)
        self.changed()

    def _be(self, by: Literal["stream", "session"] | None) -> None:
        self.by = by
        self.changed()

    async def _session(self, transport: AsyncTransport) -> None:
        """Keep a heartbeat session until it is time to try a stream again, or until nobody answers."""
        path = leader_path(self.leader_id, "sessions", self._session_id)
        try:
            for _ in range(SESSION_BEATS):
                if not self._in_session:
                    shown = (await transport.ask(Ask("GET", leader_path(self.leader_id)))).body
                    known = decode(LeaderInfo, shown)
                    self.away_since = None if known.connections else known.zero_since
                    self._untold = self.away_since or self._untold
                await transport.ask(Ask("PUT", path, {"ttl_s": SESSION_TTL_S}))
                self._in_session = True
                self._be("session")
                await self._tell_settled(transport)
                await asyncio.sleep(SESSION_BEAT_S)
        except (Unknown, RateLimited, Garbled):
            self._in_session = False
            self._be(None)

    async def _tell_settled(self, transport: AsyncTransport) -> None:
        """What a stream would have said by itself: which runs were settled while the leader was away."""
        since, cursor = self._untold, None
        while since is not None:
            params: dict[str, Any] = {"leader_id": self.leader_id, "state": sorted(TERMINAL), "sort": "-settled_at"}
            ask = Ask("GET", "/v1/runs", params={**params, "limit": AWAY_PAGE, "cursor": cursor})
            page = decode(Page, (await transport.ask(ask)).body)
            recent = [run for run in page.items if run.settled_at is not None and run.settled_at >= since]
            self.settled += [Settled(run.run_id, run.state, run.name, run.reason, run.settled_at) for run in recent]
            cursor = page.next_cursor
            if len(recent) < len(page.items) or cursor is None:
                break
        self._untold = None
        self.changed()

    async def _end_session(self, transport: AsyncTransport) -> None:
        if self._in_session:
            self._in_session = False
            await transport.ask(Ask("DELETE", leader_path(self.leader_id, "sessions", self._session_id)))
