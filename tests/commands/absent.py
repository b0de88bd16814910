"""Leaders in the tests of commands: connected for as long as a block lasts, and away for as long as time passes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from commands import presence
from commands.presence import Link, present
from domain.presence import ConnectionKind, Presence, presence_stream
from evidence.presence import LeaderKey
from tests.commands.world import ADMIN, World

GRACE_S = 60.0


def key(leader_id: str = "ada") -> LeaderKey:
    """The leader of the default tenant."""
    return ADMIN.tenant, leader_id


@asynccontextmanager
async def connected(world: World, leader_id: str = "ada", kind: ConnectionKind = "stream") -> AsyncIterator[Link]:
    """The leader has one more connection; at the end its drop is recorded."""
    async with present(world.desk, ADMIN, leader_id, kind) as link:
        yield link
    await recorded(world)


async def recorded(world: World) -> None:
    """What is still to be recorded of drops, is."""
    while world.desk.unfinished:
        await asyncio.wait(world.desk.unfinished)


async def dropped(world: World, leader_id: str = "ada") -> None:
    """The leader was there, and is not any more."""
    async with connected(world, leader_id):
        pass


async def session(world: World, session_id: str = "s1", ttl_s: float = 15.0, leader_id: str = "ada") -> dict[str, Any]:
    """A heartbeat session of the leader is heard."""
    return await presence.keep_session(world.desk, ADMIN, leader_id, session_id, ttl_s)


def known(world: World, leader_id: str = "ada") -> Presence:
    """How the leader is present, as the journal has it."""
    found: Presence = world.desk.journal.streams.load(presence_stream(*key(leader_id)))
    return found


def story(world: World, leader_id: str = "ada") -> list[str]:
    """The kinds of the facts of the leader's presence, in order."""
    stream = world.journal.store.stream(presence_stream(*key(leader_id)))
    return [type(recorded.fact).__name__ for recorded in stream]
