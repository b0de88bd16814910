"""A leader's presence over the wire: one conversation, whether it is an event stream or a WebSocket.

It begins with ``hello`` (how the leader is present now, and since when it had been away), then ``settled_while_away``
if anything was, then the facts of its runs (``run.*``) as they happen: ``id`` is the position, ``event`` the topic,
``data`` the fact. ``Last-Event-ID`` resumes after an event: ``hello`` then carries that id, so that a line that breaks
before all was sent again costs nothing. The leader counts as connected from before ``hello`` until the stream
has ended, whatever ends it; an end of ours when the service stops begins no absence.

A leader that takes nothing while too many facts wait (``api/followings.py``) is cut off, and is absent from then on.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from api.bells import within
from api.calls import encode
from api.followings import Following, leader_of
from api.keys import Entry
from api.node import Node
from api.streams import COMMENT_S, Opened
from api.views import FRESH_S
from commands import presence
from domain.presence import ConnectionKind, DropCause, Presence, presence_stream
from domain.run_facts import TERMINAL
from evidence.presence import LeaderKey
from journal.mapper import Recorded
from projections.document import fact_document
from projections.stored.faults import ReadModelBehind
from projections.stored.listing import Listing

AWAY_MAX = 500
"""Settled runs that are told at most to a leader that comes back; the list of runs has them all."""
CATCH_UP = 1_000

Item = tuple[int, str, bytes]
"""(where to resume, name, data)."""


async def conversation(
    node: Node, opened: Opened, who: tuple[Entry, str, ConnectionKind], after: int | None
) -> AsyncIterator[Item | None]:
    """Items for one connection of a leader; None when there has been nothing to say for a while."""
    entry, leader_id, kind = who
    leader = (entry.caller.tenant, leader_id)
    away_since = _away_since(node, leader)
    with node.followings.opened(leader) as following:
        opened.on_end = following.bell.set
        async with presence.present(node.desk, entry.caller, leader_id, kind) as link:
            try:
                position = node.desk.journal.position
                start = position if after is None else min(after, position)
                shown = presence.show_presence(node.desk, entry.caller, leader_id)
                hello = {**shown, "connection_id": link.connection_id, "away_since": away_since}
                yield start, "hello", encode({**hello, "position": position})
                async for settled in _settled_since(node, opened, (leader, following), away_since):
                    told = {"away_since": away_since, "runs": settled}
                    yield None if settled is None else (start, "settled_while_away", encode(told))
                async for item in _items(node, opened, (leader, following), (start, position)):
                    yield item
            finally:
                link.cause = _cause(opened, following)


def _cause(opened: Opened, following: Following) -> DropCause:
    """What the end of the connection is put down to."""
    if opened.ending == "stopping":
        return "server_stopping"
    if following.overrun or opened.left == "slow_reader":
        return "slow_reader"
    return "half_open" if opened.left == "half_open" else "left" if opened.left == "left" else "closed"


def _away_since(node: Node, leader: LeaderKey) -> Any:
    known: Presence = node.desk.journal.streams.load(presence_stream(*leader))
    return None if known.connections else known.zero_since


async def _settled_since(
    node: Node, opened: Opened, who: tuple[LeaderKey, Following], away_since: datetime | None
) -> AsyncIterator[list[dict[str, Any]] | None]:
    """The leader's runs that were settled while it was away, the latest first, once; nothing when none was.

    None for as long as the read model cannot say, which is no reason to let the leader go.
    """
    leader, following = who
    while away_since is not None and opened.ending is None and not following.overrun:
        following.bell.clear()
        try:
            if settled := await _settled_now(node, leader, away_since):
                yield settled
            return
        except ReadModelBehind:
            if not await within(following.bell, COMMENT_S):
                yield None


async def _settled_now(node: Node, leader: LeaderKey, away_since: datetime) -> list[dict[str, Any]]:
    await node.runs.wait_for(node.desk.journal.position, FRESH_S)
    wanted = Listing(state=tuple(sorted(TERMINAL)), leader_id=leader[1], sort="-settled_at", limit=AWAY_MAX)
    found = await node.runs.list(leader[0], wanted)
    fields = ("run_id", "name", "state", "reason", "settled_at")
    return [
        {field: run[field] for field in fields}
        for run in found["items"]
        if str(run["settled_at"]) >= away_since.isoformat().replace("+00:00", "Z")
    ]


async def _items(
    node: Node, opened: Opened, who: tuple[LeaderKey, Following], span: tuple[int, int]
) -> AsyncIterator[Item | None]:
    """What was missed, read back from the journal, then what happens: what came meanwhile waits in ``following``."""
    (leader, following), (after, sent) = who, span
    async for item in _missed(node, leader, after, sent):
        yield item
    while opened.ending is None and not following.overrun:
        following.bell.clear()
        for fact in following.take():
            if fact.position > sent:
                sent = fact.position
                yield _item(fact)
        if not await within(following.bell, COMMENT_S):
            yield None


async def _missed(node: Node, leader: LeaderKey, after: int, until: int) -> AsyncIterator[Item]:
    """Facts of the leader's runs between two positions, read back from the journal in bounded portions."""
    while after < until:
        facts = await node.desk.journal.feed.read(after, CATCH_UP)
        for fact in facts:
            if fact.position <= until and leader_of(node.desk, fact) == leader:
                yield _item(fact)
        after = facts[-1].position if facts else until


def _item(fact: Recorded) -> Item:
    return fact.position, fact.topic, encode(fact_document(fact))
