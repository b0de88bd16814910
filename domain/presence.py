"""A leader's presence: how many connections it has, and since when it has had none.

A leader is named by its id and may have several connections at once: streams, and heartbeat sessions for clients that
cannot stream. Presence is *counted*, never flagged, so both orders of a reconnect come out right: a new connection
that is there before the old one drops goes 1, 2, 1 and the leader was never away.

    connect     adds a connection; after a time with none the leader has returned
    disconnect  removes one; when it was the last, the leader has vanished, and ``zero_since`` is that instant

What may settle runs is not that the count *is* zero but *how long* it has been: a grace timer of an earlier absence
finds a younger ``zero_since`` and does nothing. A leader of which nothing was ever recorded is not gone: the
destructive answer is never the default. Connections that our own stop closes (``server_stopping``) begin no absence;
after a restart those of the earlier boot are void, and the absence begins at the restart (``PresenceReseeded``).

Two clients that share one leader id keep each other's runs alive; that is safe, and is not resolved here.
"""

from datetime import datetime
from typing import Literal, assert_never

import msgspec

from domain.refusal import InvalidCommand
from domain.submission import check_id
from domain.values import Fact, Value

GRACE_S = 60.0
SESSION_TTL_MIN_S = 1.0
SESSION_TTL_MAX_S = 3600.0
CONNECTIONS_MAX = 1_000
"""Connections of one leader; one more is refused rather than counted wrongly."""

ConnectionKind = Literal["stream", "socket", "session"]
DropCause = Literal[
    "closed", "left", "half_open", "slow_reader", "expired", "server_stopping", "node_dead", "failed", "replaced"
]


class Connection(Value, frozen=True, kw_only=True):
    """One live link, and the boot of the node that holds it; a session belongs to no node."""

    kind: ConnectionKind
    boot_id: str | None
    since: datetime
    ttl_s: float | None = None


class Presence(Value, frozen=True, kw_only=True):
    """The connections of one leader; ``zero_since`` is set while there is none and the absence counts."""

    version: int = 0
    connections: dict[str, Connection] = msgspec.field(default_factory=dict)
    zero_since: datetime | None = None
    left_at: datetime | None = None
    """When a connection ended last since the last one came, while others were there."""
    gone_since: datetime | None = None
    """The ``zero_since`` of the absence that has been declared gone, if it has been."""
    gone_version: int = 0
    """The version of the fact that declared it, for citing."""

    @property
    def known(self) -> bool:
        """Whether anything was ever recorded of this leader."""
        return self.version > 0


NEVER_SEEN = Presence()


class LeaderConnected(Fact, frozen=True, kw_only=True):
    """A connection is counted from now on."""

    leader_id: str
    connection_id: str
    kind: ConnectionKind
    boot_id: str | None
    ttl_s: float | None = None
    connected_at: datetime


class LeaderDisconnected(Fact, frozen=True, kw_only=True):
    """A connection is no longer counted."""

    leader_id: str
    connection_id: str
    cause: DropCause
    disconnected_at: datetime


class LeaderVanished(Fact, frozen=True, kw_only=True):
    """The last connection is gone: the absence begins."""

    leader_id: str
    zero_since: datetime


class LeaderReturned(Fact, frozen=True, kw_only=True):
    """The first connection after an absence."""

    leader_id: str
    away_since: datetime


class PresenceReseeded(Fact, frozen=True, kw_only=True):
    """The absence counts from this instant, whatever was seen before it; connections of other boots are void."""

    leader_id: str
    zero_since: datetime
    cause: Literal["boot", "submitted", "reassigned"]


class LeaderGone(Fact, frozen=True, kw_only=True):
    """The absence has lasted longer than the grace. By itself it changes no run; settlements cite it."""

    leader_id: str
    zero_since: datetime
    grace_s: float


PresenceFact = LeaderConnected | LeaderDisconnected | LeaderVanished | LeaderReturned | PresenceReseeded | LeaderGone


class Connect(Value, frozen=True, kw_only=True):
    """A link has completed its handshake."""

    leader_id: str
    connection_id: str
    kind: ConnectionKind
    boot_id: str | None
    ttl_s: float | None = None


def presence_stream(tenant: str, leader_id: str) -> str:
    """The leader's own stream."""
    return f"presence-{tenant}:{leader_id}"


def evolve(presence: Presence, fact: PresenceFact) -> Presence:
    """The presence after one more fact."""
    version = presence.version + 1
    match fact:
        case LeaderConnected():
            link = Connection(kind=fact.kind, boot_id=fact.boot_id, since=fact.connected_at, ttl_s=fact.ttl_s)
            return Presence(version=version, connections={**presence.connections, fact.connection_id: link})
        case LeaderDisconnected():
            rest = {key: link for key, link in presence.connections.items() if key != fact.connection_id}
            left_at = _later(fact.disconnected_at, presence.left_at)
            return msgspec.structs.replace(presence, version=version, connections=rest, left_at=left_at)
        case LeaderVanished():
            return msgspec.structs.replace(presence, version=version, zero_since=fact.zero_since)
        case LeaderReturned():
            return msgspec.structs.replace(presence, version=version, zero_since=None, gone_since=None)
        case PresenceReseeded():
            sessions = {key: link for key, link in presence.connections.items() if link.boot_id is None}
            zero_since = None if sessions else fact.zero_since
            return Presence(version=version, connections=sessions, zero_since=zero_since)
        case LeaderGone():
            return msgspec.structs.replace(presence, version=version, gone_since=fact.zero_since, gone_version=version)
        case _:
            assert_never(fact)


def connect(presence: Presence, command: Connect, now: datetime) -> list[PresenceFact]:
    """Facts that follow when a link is there; none when it is counted already, as a session with this very ttl."""
    check_id("leader_id", command.leader_id)
    check_id("connection_id", command.connection_id)
    counted = presence.connections.get(command.connection_id)
    if counted is not None and counted.kind != command.kind:
        raise InvalidCommand(field="connection_id", value=command.connection_id, limit=f"that of no {counted.kind}")
    if counted is not None and (command.kind != "session" or counted.ttl_s == command.ttl_s):
        return []
    if counted is None and len(presence.connections) >= CONNECTIONS_MAX:
        limit = f"at most {CONNECTIONS_MAX} of one leader"
        raise InvalidCommand(field="connections", value=len(presence.connections) + 1, limit=limit)
    facts: list[PresenceFact] = []
    if presence.zero_since is not None and not presence.connections:
        facts.append(LeaderReturned(leader_id=command.leader_id, away_since=presence.zero_since))
    connected = LeaderConnected(
        leader_id=command.leader_id,
        connection_id=command.connection_id,
        kind=command.kind,
        boot_id=command.boot_id,
        ttl_s=command.ttl_s,
        connected_at=now,
    )
    return [connected, *facts]


def disconnect(
    presence: Presence, leader_id: str, connection_id: str, cause: DropCause, at: datetime
) -> list[PresenceFact]:
    """Facts that follow when a link is gone since ``at``; none when it was not counted.

    The last one begins an absence, unless it was our own stop that closed it.
    """
    if connection_id not in presence.connections:
        return []
    facts: list[PresenceFact] = [
        LeaderDisconnected(leader_id=leader_id, connection_id=connection_id, cause=cause, disconnected_at=at)
    ]
    if len(presence.connections) == 1 and cause != "server_stopping":
        facts.append(LeaderVanished(leader_id=leader_id, zero_since=_later(at, presence.left_at)))
    return facts


def _later(at: datetime, other: datetime | None) -> datetime:
    """The later one: the end of a session may be found out after a stream dropped that outlived it."""
    return at if other is None else max(at, other)


def reseed(
    presence: Presence, leader_id: str, cause: Literal["boot", "submitted", "reassigned"], now: datetime
) -> list[PresenceFact]:
    """Facts that make a leader's absence count from now: at a boot, or under a run of a leader without connection.

    A live connection is never clobbered, except at a boot, where those of earlier boots are void; an absence that
    counts already is kept unless the observer itself was away.
    """
    sessions = any(link.boot_id is None for link in presence.connections.values())
    if cause == "boot" and sessions:
        stale = any(link.boot_id is not None for link in presence.connections.values())
        return [PresenceReseeded(leader_id=leader_id, zero_since=now, cause=cause)] if stale else []
    if cause != "boot" and (presence.connections or presence.zero_since is not None):
        return []
    return [PresenceReseeded(leader_id=leader_id, zero_since=now, cause=cause)]


def absent(presence: Presence) -> bool:
    """Whether the leader is known to have no connection; one that was never seen is not absent."""
    return not presence.connections and presence.zero_since is not None


def gone_for_at_least(presence: Presence, absent_s: float, grace_s: float) -> bool:
    """Whether the leader has had no connection for the whole grace; one that was never seen is not gone.

    ``absent_s`` is how long the absence has lasted on the monotonic clock.
    """
    return absent(presence) and absent_s >= grace_s


def declare_gone(presence: Presence, leader_id: str, absent_s: float, grace_s: float) -> list[PresenceFact]:
    """The fact that the absence has outlasted the grace, once for each absence."""
    if not gone_for_at_least(presence, absent_s, grace_s) or presence.gone_since == presence.zero_since:
        return []
    assert presence.zero_since is not None
    return [LeaderGone(leader_id=leader_id, zero_since=presence.zero_since, grace_s=grace_s)]


def check_session_ttl(ttl_s: float) -> None:
    """Refuse a session whose ttl is out of bounds."""
    if not SESSION_TTL_MIN_S <= ttl_s <= SESSION_TTL_MAX_S:
        limit = f"between {SESSION_TTL_MIN_S:g} and {SESSION_TTL_MAX_S:g}"
        raise InvalidCommand(field="ttl_s", value=ttl_s, limit=limit)
