"""Who is connected right now, as this node sees it, and when each heartbeat session was last heard.

The journal says which connections are counted. Here is what is known a moment earlier: a connection counts as live
from its handshake on, while its fact is on the way, and as dead from its drop on, even when the fact that says so
fails and has to be tried again. A settlement by absence needs both to agree that nobody is there.
"""

import msgspec

from domain.values import Moment

LeaderKey = tuple[str, str]
"""(tenant, leader id)."""


class SessionMark(msgspec.Struct, frozen=True):
    """When a session ends unless it is heard again, on the monotonic scale, and its ttl in seconds."""

    deadline: float
    ttl_s: float


class PresenceMarks:
    """Live connections by leader, and the marks of sessions."""

    def __init__(self) -> None:
        self._live: dict[LeaderKey, set[str]] = {}
        self._sessions: dict[tuple[LeaderKey, str], SessionMark] = {}
        self._empty_from: dict[LeaderKey, float] = {}
        self._last_drop: dict[LeaderKey, float] = {}
        """When a connection of a leader ended last, while others were there: a session may be found out later."""
        self.unrecorded_drops = 0
        """Drops whose fact could not be appended at the first attempt, and still is not."""

    def arrive(self, leader: LeaderKey, connection_id: str) -> None:
        """A connection is there."""
        self._live.setdefault(leader, set()).add(connection_id)
        self._last_drop.pop(leader, None)
        self._empty_from.pop(leader, None)

    def drop(self, leader: LeaderKey, connection_id: str, mono: float) -> None:
        """A connection is gone since that moment, in monotonic seconds."""
        live = self._live.get(leader)
        if live is not None and connection_id in live:
            live.discard(connection_id)
            last = self._last_drop[leader] = max(mono, self._last_drop.get(leader, mono))
            if not live:
                del self._live[leader], self._last_drop[leader]
                self._empty_from[leader] = last
        self._sessions.pop((leader, connection_id), None)

    def empty_from(self, leader: LeaderKey) -> float | None:
        """The moment of the drop that left the leader without connection, while its fact is not there yet."""
        return self._empty_from.get(leader)

    def take_empty_from(self, leader: LeaderKey) -> float | None:
        """The moment of the drop that left the leader without connection, told once: to whom the fact came."""
        return self._empty_from.pop(leader, None)

    def count(self, leader: LeaderKey) -> int:
        """How many connections are live."""
        return len(self._live.get(leader, ()))

    def hear_session(self, leader: LeaderKey, session_id: str, ttl_s: float, now: Moment) -> SessionMark:
        """A session was heard: it has its full ttl from now."""
        mark = self._sessions[leader, session_id] = SessionMark(now.mono + ttl_s, ttl_s)
        return mark

    def session(self, leader: LeaderKey, session_id: str) -> SessionMark | None:
        """The mark of a session, if it is live."""
        return self._sessions.get((leader, session_id))

    @property
    def trouble(self) -> str | None:
        """What is wrong just now, for people; it clears by itself."""
        failing = self.unrecorded_drops
        return f"{failing} dropped connections of leaders could not be recorded yet" if failing else None

    def sizes(self) -> dict[str, int]:
        """How many marks are kept."""
        return {"connections": sum(map(len, self._live.values())), "sessions": len(self._sessions)}
