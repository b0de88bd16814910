"""A leader connects, drops, returns, and is found to be gone.

``present`` is the one way in which a stream is counted: a context manager around it, so that every exit gives the
connection back, whatever ends it. The live count falls and the instant is fixed at the drop itself; the facts follow,
are tried again until they are in the journal, and carry that instant. A caller that is cancelled does not take the
facts with it.

``settle_absent`` is the loop that settles the runs of a leader that is gone: presence is looked at again immediately
before each run, the presence stream is a guard of each append, and a leader that is back keeps the rest.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal

import msgspec

from commands.desk import Caller, Desk, entries_of, merged, system_caller
from domain.absence import Absence, leader_gone
from domain.presence import (
    Connect,
    ConnectionKind,
    DropCause,
    Presence,
    PresenceFact,
    check_session_ttl,
    connect,
    declare_gone,
    disconnect,
    gone_for_at_least,
    presence_stream,
    reseed,
)
from domain.submission import check_id
from domain.values import Moment, cite
from evidence.presence import LeaderKey
from journal.commit import Decision, Done, Entry
from journal.errors import JournalClosed

SIDE_BY_SIDE = 16
"""Runs of one leader that are settled at the same time."""
RESEED_BATCH = 500
RETRY_S = 0.5

log = logging.getLogger(__name__)

Decide = Callable[[Presence, Moment], list[PresenceFact]]


class Link(msgspec.Struct):
    """One connection while it lasts; ``cause`` is what its end will be put down to."""

    connection_id: str
    cause: DropCause = "closed"


async def _on_presence(desk: Desk, caller: Caller, leader_id: str, decide: Decide) -> Done[Any]:
    stream = presence_stream(caller.tenant, leader_id)

    def decision(now: Moment) -> Decision[Any]:
        presence: Presence = desk.journal.streams.load(stream)
        facts = decide(presence, now)
        entries = [Entry(stream, fact, None) for fact in facts]
        return Decision(entries, {stream: presence.version}, len(facts))

    return await desk.execute(caller, (stream,), decision)


def require_may_be(desk: Desk, caller: Caller, leader_id: str) -> None:
    """Refuse a malformed leader id, or one that is not the caller's."""
    check_id("leader_id", leader_id)
    desk.require_leader_id(caller, leader_id, "be present as this leader")


@asynccontextmanager
async def present(desk: Desk, caller: Caller, leader_id: str, kind: ConnectionKind) -> AsyncIterator[Link]:
    """The leader counts as connected while the body runs; given back on every exit.

    Raises:
        InvalidCommand: the leader's id is malformed, or it has too many connections.
    """
    require_may_be(desk, caller, leader_id)
    leader, link = (caller.tenant, leader_id), Link(desk.mint())
    command = Connect(leader_id=leader_id, connection_id=link.connection_id, kind=kind, boot_id=desk.boot_id)
    desk.evidence.presence.arrive(leader, link.connection_id)
    try:
        await asyncio.shield(_on_presence(desk, caller, leader_id, lambda p, now: connect(p, command, now.wall)))
        yield link
    except asyncio.CancelledError:
        raise
    except Exception:
        link.cause = "failed" if link.cause == "closed" else link.cause
        raise
    finally:
        give_back(desk, leader, link)


def give_back(desk: Desk, leader: LeaderKey, link: Link) -> None:
    """The connection is gone as of now; its facts are appended beside whatever goes on."""
    now = desk.clock()
    desk.evidence.presence.drop(leader, link.connection_id, now.mono)
    desk.afterwards(_record_drop(desk, leader, link, now.wall))


async def _record_drop(desk: Desk, leader: LeaderKey, link: Link, at: datetime) -> None:
    """Record the drop, however often it takes; a session that is heard again meanwhile was not dropped after all."""
    caller, marks, failing = system_caller(leader[0]), desk.evidence.presence, 0

    def decide(presence: Presence, _: Moment) -> list[PresenceFact]:
        if marks.session(leader, link.connection_id) is not None:
            return []
        return disconnect(presence, leader[1], link.connection_id, link.cause, at)

    try:
        while True:
            try:
                done = await _on_presence(desk, caller, leader[1], decide)
                if not done.answer:
                    desk.live.leaders.was_there(leader)
                return
            except JournalClosed:
                return  # the next boot counts the absence from its own start
            except Exception:
                log.exception("the drop of a connection of leader %s could not be recorded yet", leader[1])
                marks.unrecorded_drops += 1 - failing
                failing = 1
                await asyncio.sleep(RETRY_S)
    finally:
        marks.unrecorded_drops -= failing


async def keep_session(desk: Desk, caller: Caller, leader_id: str, session_id: str, ttl_s: float) -> dict[str, Any]:
    """A heartbeat session is live for another ``ttl_s`` seconds; how the leader is present then."""
    check_session_ttl(ttl_s)
    check_id("session_id", session_id)
    require_may_be(desk, caller, leader_id)
    leader = (caller.tenant, leader_id)
    command = Connect(leader_id=leader_id, connection_id=session_id, kind="session", boot_id=None, ttl_s=ttl_s)
    connect(_presence(desk, leader), command, desk.clock().wall)  # refused before anything is marked
    await end_session(desk, leader, session_id, "expired")
    _hear(desk, leader, session_id, ttl_s)
    await _on_presence(desk, caller, leader_id, lambda p, at: connect(p, command, at.wall))
    return show_presence(desk, caller, leader_id)


def _hear(desk: Desk, leader: LeaderKey, session_id: str, ttl_s: float) -> None:
    """The session has its full ttl from now."""
    marks = desk.evidence.presence
    mark = marks.hear_session(leader, session_id, ttl_s, desk.clock())
    marks.arrive(leader, session_id)
    desk.live.remind("session", mark.deadline, (*leader, session_id), "")
    desk.live.on_deadline()


def _presence(desk: Desk, leader: LeaderKey) -> Presence:
    presence: Presence = desk.journal.streams.load(presence_stream(*leader))
    return presence


async def leave_session(desk: Desk, caller: Caller, leader_id: str, session_id: str) -> dict[str, Any]:
    """A heartbeat session says goodbye."""
    check_id("session_id", session_id)
    require_may_be(desk, caller, leader_id)
    await end_session(desk, (caller.tenant, leader_id), session_id, "left")
    return show_presence(desk, caller, leader_id)


async def end_session(desk: Desk, leader: LeaderKey, session_id: str, cause: Literal["expired", "left"]) -> bool:
    """A session is over: it left, or its ttl ran out; the absence begins at that instant. Whether it was one.

    A session that was heard meanwhile has not expired.
    """
    mark, now = desk.evidence.presence.session(leader, session_id), desk.clock()
    if mark is None or (cause == "expired" and now.mono < mark.deadline):
        return False
    mono = mark.deadline if cause == "expired" else now.mono
    at = now.wall_at(mono)
    desk.evidence.presence.drop(leader, session_id, mono)
    desk.live.deadlines.forget("session", (*leader, session_id))
    recording = desk.afterwards(_record_drop(desk, leader, Link(session_id, cause), at))
    await asyncio.wait({recording}, timeout=RETRY_S)
    return True


async def reseed_leaders(desk: Desk) -> int:
    """After a boot: connections of earlier boots are void, and every absence counts from now; how many leaders.

    Sessions belong to no node: they are as good as heard now, and have their full ttl.
    """
    leaders = [(key, card) for key, card in desk.live.leaders.items() if card.runs or card.recorded]
    for key, card in leaders:
        for connection_id, ttl_s in card.recorded.items():
            if ttl_s is not None:
                _hear(desk, key, connection_id, ttl_s)
    for at in range(0, len(leaders), RESEED_BATCH):
        await _reseed_some(desk, [key for key, _ in leaders[at : at + RESEED_BATCH]])
    return len(leaders)


async def _reseed_some(desk: Desk, leaders: list[LeaderKey]) -> None:
    def decision(now: Moment) -> Decision[None]:
        entries, guards = [], {}
        for tenant, leader_id in leaders:
            stream = presence_stream(tenant, leader_id)
            presence = _presence(desk, (tenant, leader_id))
            if presence.known:
                guards[stream] = presence.version
                entries += [Entry(stream, fact, None) for fact in reseed(presence, leader_id, "boot", now.wall)]
        return Decision(entries, guards, None)

    await desk.execute(system_caller(leaders[0][0]), (), decision)


def absent_for(desk: Desk, leader: LeaderKey, run_id: str, now: Moment) -> float | None:
    """How long the leader has been absent for this run, in seconds; None when it is, or may be, there."""
    card, since = desk.live.leaders.get(leader), _absent_from(desk, leader)
    if card is None or since is None:
        return None
    return _lasted(max(since, card.runs.get(run_id, now.mono)), now, desk.timers.leader_grace_s)


def _lasted(since: float, now: Moment, grace_s: float) -> float:
    """Seconds since then; at the instant that a reminder of its end is for, the whole grace, whatever a float says."""
    return max(now.mono - since, grace_s) if now.mono >= since + grace_s else now.mono - since


def _absent_from(desk: Desk, leader: LeaderKey) -> float | None:
    """Since when the leader has been absent, in monotonic seconds; a drop counts before its fact is there."""
    card, marks = desk.live.leaders.get(leader), desk.evidence.presence
    if card is None or card.absent_from is None or marks.count(leader):
        return None
    return max(card.absent_from, marks.empty_from(leader) or card.absent_from)


async def settle_absent(desk: Desk, tenant: str, leader_id: str) -> int:
    """Settle, park or tell the runs of a leader whose absence has outlasted the grace; how many.

    The fact that it is gone comes first. Then each run, with presence looked at again immediately before, and its
    stream a guard of the append: a leader that is back keeps the rest. One run that fails costs no other; the first
    failure is raised when all have been tried.
    """
    leader, now = (tenant, leader_id), desk.clock()
    card = desk.live.leaders.get(leader)
    due = [] if card is None else [run_id for run_id in card.runs if outlasted(desk, leader, run_id, now)]
    if not due:
        desk.live.leaders.look_again(leader, now.mono)
        return 0
    await _declare(desk, leader)
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(run_id: str) -> bool:
        async with gate:
            return await settle_one(desk, leader, run_id)

    done = await asyncio.gather(*(one(run_id) for run_id in due), return_exceptions=True)
    for failure in done:
        if isinstance(failure, BaseException):
            raise failure  # whoever asked tries again soon, and not only when the next of its runs is due
    desk.live.leaders.look_again(leader, now.mono)
    return sum(map(bool, done))


async def settle_first(desk: Desk, leader: LeaderKey | None, run_id: str) -> None:
    """Leader gone comes before take-over: settle this run if its leader's absence has outlasted the grace."""
    if leader is not None and outlasted(desk, leader, run_id, desk.clock()):
        await _declare(desk, leader)
        await settle_one(desk, leader, run_id)


async def settle_wanted(desk: Desk, run_id: str) -> None:
    """The same for whatever would give this run to somebody, or put down an expiry of it on the way."""
    card = desk.live.cards.get(run_id)
    if card is not None:
        await settle_first(desk, card.leader, run_id)


async def settle_overdue(desk: Desk) -> None:
    """Leader gone comes before take-over by queue, too: settle whom the loop has not come to yet, if it is late."""
    for tenant, leader_id in desk.live.deadlines.due_of("leader", desk.clock().mono):
        await settle_absent(desk, tenant, leader_id)


def outlasted(desk: Desk, leader: LeaderKey, run_id: str, now: Moment) -> bool:
    """Whether the leader's absence has outlasted the grace of this run."""
    absent_s = absent_for(desk, leader, run_id, now)
    return absent_s is not None and absent_s >= desk.timers.leader_grace_s


async def _declare(desk: Desk, leader: LeaderKey) -> None:
    """Journal that the leader is gone, unless it is back: what was true before a wait is looked at again."""
    grace_s = desk.timers.leader_grace_s

    def decide(presence: Presence, now: Moment) -> list[PresenceFact]:
        since = _absent_from(desk, leader)
        return [] if since is None else declare_gone(presence, leader[1], _lasted(since, now, grace_s), grace_s)

    await _on_presence(desk, system_caller(leader[0]), leader[1], decide)


async def settle_one(desk: Desk, leader: LeaderKey, run_id: str) -> bool:
    """One run of a leader that is gone; nothing when the leader is back or the run has ended meanwhile."""
    caller = system_caller(leader[0])
    stream, grace_s = presence_stream(*leader), desk.timers.leader_grace_s

    def decision(now: Moment) -> Decision[None]:
        presence = _presence(desk, leader)
        absent_s = absent_for(desk, leader, run_id, now)
        if absent_s is None or run_id not in desk.live.cards or presence.zero_since is None:
            return Decision((), {}, None)
        if not gone_for_at_least(presence, absent_s, grace_s) or presence.gone_since != presence.zero_since:
            return Decision((), {}, None)
        standing = desk.standing(caller, run_id)
        absence = Absence(
            leader_id=leader[1],
            zero_since=presence.zero_since,
            grace_s=grace_s,
            cites=(cite(stream, presence.gone_version),),
        )
        draft = leader_gone(standing, absence, desk.remains(standing), now)
        guards = merged([standing.versions, {stream: presence.version}])
        return Decision(entries_of(draft.entries, run_id), guards, None)

    done = await desk.execute(caller, (run_id,), decision)
    return done.position is not None


def show_presence(desk: Desk, caller: Caller, leader_id: str) -> dict[str, Any]:
    """How a leader is present, and how many open runs it has."""
    leader = (caller.tenant, leader_id)
    check_id("leader_id", leader_id)
    presence = _presence(desk, leader)
    card = desk.live.leaders.get(leader)
    return {
        "leader_id": leader_id,
        "connections": len(presence.connections),
        "zero_since": presence.zero_since,
        "open_runs": len(card.runs) if card else 0,
    }


def list_leaders(desk: Desk, caller: Caller) -> list[dict[str, Any]]:
    """The leaders of the caller's tenant that are connected or have open runs, by id."""
    named = sorted(leader_id for (tenant, leader_id), _ in desk.live.leaders.items() if tenant == caller.tenant)
    return [show_presence(desk, caller, leader_id) for leader_id in named]
