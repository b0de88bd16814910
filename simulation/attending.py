"""Who is connected in a world, as it really is: links that are open, sessions that are heard, and since when nobody is.

The service is told of a link by its handshake and of its end by the construct around it, as over the wire. What is
known here is known from outside, so that the service's count can be held against it: a half-open link is one that
nobody is behind any more, which the service cannot see until a ping finds it.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from commands.desk import Caller, Desk
from commands.presence import Link, present
from domain.presence import DropCause

LEADERS = ("lea", "leo")


class Open(msgspec.Struct):
    """A link that the service holds."""

    leader_id: str
    around: AbstractAsyncContextManager[Link]
    link: Link


class Attendance:
    """The links and sessions of every leader."""

    def __init__(self) -> None:
        self.links: list[Open] = []
        self._sessions: dict[tuple[str, str], float] = {}
        self._dropped: dict[str, float] = {}

    async def connect(self, desk: Desk, leader_id: str, now: float) -> None:
        """One more link of this leader, once its handshake is recorded."""
        around = present(desk, Caller(principal=leader_id, role="leader"), leader_id, "stream")
        link = await around.__aenter__()
        self.links.append(Open(leader_id, around, link))
        self._dropped[leader_id] = now

    async def drop(self, open_link: Open, cause: DropCause, now: float) -> None:
        """This link ends."""
        self.links.remove(open_link)
        self._dropped[open_link.leader_id] = max(now, self._dropped.get(open_link.leader_id, now))
        open_link.link.cause = cause
        await open_link.around.__aexit__(None, None, None)

    def heard(self, leader_id: str, session_id: str, until: float) -> None:
        """A session is heard: it lasts until then."""
        self._sessions[leader_id, session_id] = until

    def session_over(self, leader_id: str, session_id: str, now: float) -> bool:
        """Whether a session that was heard has run out by now."""
        return self._sessions.get((leader_id, session_id), now + 1.0) <= now

    def left(self, leader_id: str, session_id: str, now: float) -> None:
        """A session said goodbye."""
        until = self._sessions.pop((leader_id, session_id), 0.0)
        self._dropped[leader_id] = max(min(until, now), self._dropped.get(leader_id, 0.0))

    def absent_s(self, leader_id: str, now: float) -> float:
        """How long nobody has been there; 0 while somebody is."""
        if any(each.leader_id == leader_id for each in self.links):
            return 0.0
        ends = [until for (leader, _), until in self._sessions.items() if leader == leader_id]
        return max(0.0, now - max([self._dropped.get(leader_id, 0.0), *ends]))

    def ids(self, leader_id: str) -> set[str]:
        """The ids of the leader's open links."""
        return {each.link.connection_id for each in self.links if each.leader_id == leader_id}

    async def killed(self, desk: Desk, now: float) -> None:
        """The service dies: its links are gone, and it records nothing of that."""
        desk.afterwards = _never  # type: ignore[method-assign]
        for each in list(self.links):
            await self.drop(each, "closed", now)
        self.restarted(now, now)

    def restarted(self, now: float, went: float) -> None:
        """The service starts: nobody could reach it before, and a session has the rest of its ttl again."""
        for leader_id in LEADERS:
            self._dropped[leader_id] = now
        self._sessions = {key: until + now - went for key, until in self._sessions.items() if until > went}


def _never(doing: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
    doing.close()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
