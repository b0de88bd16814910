"""Submitting runs: one, many at once, or again.

An idempotency key in the body belongs to the tenant and queue for ever: the run's id is made from it, so the same key
can make no second run on whatever road it comes. The same key with the same body is answered as the first time; with
another body it is refused. A batch is one append, all or none.

Who may be one leader only submits as that one, unless told otherwise by the body: nobody else would see the run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from commands.desk import Caller, Desk, NotAllowed, merged
from domain.decider import fold
from domain.presence import NEVER_SEEN, Presence, PresenceFact, evolve, presence_stream, reseed
from domain.refusal import InvalidCommand
from domain.run import Absent, Run, run_stream
from domain.steering import again
from domain.steering import submit as submitted
from domain.submission import ID_MAX_CHARS, SubmissionMismatch, Submit, check, run_id_of
from domain.values import Moment, Value
from journal.commit import Decision, Done, Entry

BATCH_MAX = 1_000
NAMED_MAX = 10
"""Leaders that a refusal names."""


class Wish(Value, frozen=True, kw_only=True):
    """One submission, and the idempotency key of its body, if it has one."""

    command: Submit
    key: str | None = None


SHOWN = 3
"""Leaders that are named to a key that must name one."""


async def submit(desk: Desk, caller: Caller, wish: Wish) -> Done[dict[str, Any]]:
    """The new run, or the one that the same key made before."""
    done = await submit_many(desk, caller, (wish,))
    done.answer = dict(done.answer["runs"][0])
    return done


async def submit_many(desk: Desk, caller: Caller, wishes: Sequence[Wish]) -> Done[dict[str, Any]]:
    """The new runs in order, in one append; a run that a key made before is answered as it was then."""
    if not 1 <= len(wishes) <= BATCH_MAX:
        raise InvalidCommand(field="runs", value=len(wishes), limit=f"1 to {BATCH_MAX} submissions")
    wishes = [_led(caller, wish) for wish in wishes]
    for wish in wishes:
        _check(caller, wish)
    ids = [_run_id(desk, caller, wish) for wish in wishes]
    wanted = _without_repeats(ids, wishes)

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        entries: list[Entry] = []
        for run_id, wish in wanted.items():
            if not _exists(desk, run_id, wish):
                fact = submitted(run_id, caller.tenant, wish.command, now)
                entries.append(Entry(run_stream(run_id), fact, run_id))
                desk.expect_new(run_id)
        absent = _absent_leaders(desk, caller, wishes) if entries else {}
        guards = merged([{entry.stream: 0} for entry in entries] + [{s: p.version} for s, p in absent.items()])
        shown = [_answer(desk, caller, run_id, wish, now) for run_id, wish in zip(ids, wishes, strict=True)]
        return Decision([*_seeds(absent, now), *entries], guards, {"runs": shown})

    keyed = tuple(run_id for run_id, wish in zip(ids, wishes, strict=True) if wish.key is not None)
    done = await desk.execute(caller, keyed, decision)
    if done.position is None:
        done.position = max(desk.journal.store.facts_of(run_id, 0, 1)[0].position for run_id in ids)
    return done


def _without_repeats(ids: Sequence[str], wishes: Sequence[Wish]) -> dict[str, Wish]:
    """Each run once; one key for two bodies within a batch is refused like any other."""
    wanted = dict(zip(ids, wishes, strict=True))
    for run_id, wish in zip(ids, wishes, strict=True):
        if wish.key is not None and wish.command.body_digest != wanted[run_id].command.body_digest:
            raise SubmissionMismatch(key=wish.key, run_id=run_id)
    return wanted


def _led(caller: Caller, wish: Wish) -> Wish:
    """The wish of a caller that may be one leader only, as that leader's; a run of nobody it could not even see.

    Raises ``InvalidCommand`` for one that may be several and names none.
    """
    if caller.leaders is None or wish.command.leader_id is not None:
        return wish
    if len(caller.leaders) > 1:
        named = sorted(caller.leaders)
        listed = ", ".join(map(repr, named[:NAMED_MAX])) + (", ..." if len(named) > NAMED_MAX else "")
        raise InvalidCommand(field="leader_id", value=None, limit=f"one of the leaders of this key: {listed}")
    alone = next(iter(caller.leaders), None)
    return msgspec.structs.replace(wish, command=msgspec.structs.replace(wish.command, leader_id=alone))


def _check(caller: Caller, wish: Wish) -> None:
    check(wish.command)
    leader = wish.command.leader_id
    if caller.leaders is not None and leader is None:
        named = ", ".join(repr(each) for each in sorted(caller.leaders)[:SHOWN]) or "it has none"
        action = f"submit a run without naming one of its leaders ({named})"
        raise NotAllowed(principal=caller.principal, action=action, allowed="an operator")
    if caller.leaders is not None and leader not in caller.leaders:
        raise NotAllowed(principal=caller.principal, action=f"submit as leader {leader!r}", allowed="that leader")
    if wish.key is not None and not 1 <= len(wish.key) <= ID_MAX_CHARS * 2:
        raise InvalidCommand(
            field="idempotency_key", value=wish.key[: ID_MAX_CHARS * 2], limit=f"1 to {ID_MAX_CHARS * 2} characters"
        )


def _run_id(desk: Desk, caller: Caller, wish: Wish) -> str:
    return desk.mint() if wish.key is None else run_id_of(caller.tenant, wish.command.queue, wish.key)


def _exists(desk: Desk, run_id: str, wish: Wish) -> bool:
    if wish.key is None:
        return False
    run: Run | Absent = desk.journal.streams.load(run_stream(run_id))
    if isinstance(run, Absent):
        return False
    if run.submission.body_digest != wish.command.body_digest:
        raise SubmissionMismatch(key=wish.key, run_id=run_id)
    return True


def _absent_leaders(desk: Desk, caller: Caller, wishes: Sequence[Wish]) -> dict[str, Presence]:
    """The presence, by stream, of each leader named here that has no connection."""
    named = {wish.command.leader_id for wish in wishes if wish.command.leader_id is not None}
    streams = [presence_stream(caller.tenant, leader_id) for leader_id in sorted(named)]
    loaded: dict[str, Presence] = {stream: desk.journal.streams.load(stream) for stream in streams}
    return {stream: presence for stream, presence in loaded.items() if not presence.connections}


def _seeds(absent: Mapping[str, Presence], now: Moment) -> list[Entry]:
    """Their absence counts from now, unless it counts already. These facts come first: a run's own is the last."""
    return [
        Entry(stream, fact, None)
        for stream, presence in absent.items()
        for fact in reseed(presence, stream.partition(":")[2], "submitted", now.wall)
    ]


def _answer(desk: Desk, caller: Caller, run_id: str, wish: Wish, now: Moment) -> dict[str, Any]:
    """The receipt: it says how its leader was present, and since when its absence counts."""
    leader_id, leader = wish.command.leader_id, None
    if leader_id is not None:
        presence = _presence_then(desk, run_id, presence_stream(caller.tenant, leader_id), keyed=wish.key is not None)
        away = None if presence.connections else presence.zero_since or now.wall
        leader = {"connections": len(presence.connections), "zero_since": away}
    return {"run_id": run_id, "state": "queued", "leader": leader}


def _presence_then(desk: Desk, run_id: str, stream: str, *, keyed: bool) -> Presence:
    """How the leader is present now, or was when the run was submitted before: a repeat is answered alike."""
    presence: Presence = desk.journal.streams.load(stream)
    first = desk.journal.store.facts_of(run_id, 0, 1) if keyed and presence.known else []
    if not first:
        return presence
    facts = [recorded.fact for recorded in desk.journal.store.stream(stream) if recorded.position < first[0].position]
    return fold(evolve, NEVER_SEEN, cast(list[PresenceFact], facts))


async def retry(desk: Desk, caller: Caller, run_id: str) -> Done[dict[str, Any]]:
    """A new run like this one, linked to it by ``retry_of``; the old one stays as it is."""
    run = desk.standing(caller, run_id).known
    desk.require_leader(caller, run, "retry this run")
    return await submit(desk, caller, Wish(command=again(run)))
