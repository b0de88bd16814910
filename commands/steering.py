"""What a leader may ask of a run that it has submitted. Each answers with the run as it stands afterwards."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import msgspec

from commands.desk import Caller, Desk, entries_of, merged
from commands.expiring import expire_lease
from commands.presence import settle_wanted
from commands.showing import show
from domain import steering
from domain.presence import Presence, presence_stream, reseed
from domain.quiet import acknowledge, reassign
from domain.refusal import InvalidCommand, Refusal
from domain.run import run_stream
from domain.settling import Cancel, Verdict
from domain.settling import cancel as cancelled
from domain.settling import verdict as judged
from domain.standing import RunDraft, Standing
from domain.values import Json, Moment, Value, cite
from journal.commit import Decision, Done, Entry

Decide = Callable[[Standing, Moment], RunDraft]
CANCEL = "cancel this run"


async def _steer(desk: Desk, caller: Caller, run_id: str, action: str, decide: Decide) -> Done[dict[str, Any]]:
    def checked(standing: Standing, now: Moment) -> RunDraft:
        desk.require_leader(caller, standing.known, action)
        return decide(standing, now)

    return await desk.on_run(caller, run_id, checked, lambda after, now: show(desk, after, now))


async def _end_first(desk: Desk, caller: Caller, run_id: str) -> None:
    """What ends the run comes before what lets it go on: its leader's absence, or a cancel under a lease that is over.

    So whoever is late is told that the run has ended, and no answer is taken that nobody will ever read.
    """
    await settle_wanted(desk, run_id)
    standing = desk.standing_or_none(caller, run_id)
    if standing is not None and standing.known.cancel is not None and not standing.live(desk.clock()):
        await expire_lease(desk, run_id)


async def answer(desk: Desk, caller: Caller, run_id: str, given: Json) -> Done[dict[str, Any]]:
    """The run's question is answered: its holder goes on if it kept a live lease, else the run is queued in front."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return steering.answer(standing, given, caller.principal, desk.remains(standing), now)

    await _end_first(desk, caller, run_id)
    return await _steer(desk, caller, run_id, "answer this run", decide)


async def resume(desk: Desk, caller: Caller, run_id: str) -> Done[dict[str, Any]]:
    """The wait is over without an answer: for a run that is paused or waits to be taken over."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return steering.resume(standing, caller.principal, desk.remains(standing), now)

    await _end_first(desk, caller, run_id)
    return await _steer(desk, caller, run_id, "resume this run", decide)


async def pause(desk: Desk, caller: Caller, run_id: str) -> Done[dict[str, Any]]:
    """The run is paused at once when nobody acts for it, else its holder is asked to."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return steering.pause(standing, caller.principal, now)

    return await _steer(desk, caller, run_id, "pause this run", decide)


async def cancel(desk: Desk, caller: Caller, run_id: str, *, keep_workspaces: bool) -> Done[dict[str, Any]]:
    """The run is cancelled at once when nobody holds it; else its holder may save and close within the grace."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        return _cancelled(desk, caller, standing, now, keep_workspaces=keep_workspaces)

    return await _steer(desk, caller, run_id, CANCEL, decide)


def _cancelled(
    desk: Desk, caller: Caller, standing: Standing, now: Moment, *, keep_workspaces: bool = False
) -> RunDraft:
    wish = Cancel(by=caller.principal, grace_s=desk.timers.cancel_grace_s, keep_workspaces=keep_workspaces)
    return cancelled(standing, wish, desk.remains(standing), now)


async def verdict(
    desk: Desk, caller: Caller, run_id: str, said: Literal["succeeded", "failed"], result: Json
) -> Done[dict[str, Any]]:
    """The leader judges a run whose worker has closed."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        command = Verdict(verdict=said, by=caller.principal, result=result)
        return judged(standing, command, desk.remains(standing), now)

    return await _steer(desk, caller, run_id, "judge this run", decide)


async def acknowledge_timeout(
    desk: Desk, caller: Caller, run_id: str, fact_id: str, said: Literal["extend", "abort"]
) -> Done[dict[str, Any]]:
    """The leader answers a timeout of its run, named by the id of its fact: the run goes on, or it ends."""

    def decide(standing: Standing, now: Moment) -> RunDraft:
        timeout = _citation(desk, run_id, fact_id)
        return acknowledge(standing, timeout, said, caller.principal, (desk.remains(standing), now))

    return await _steer(desk, caller, run_id, "answer this run's timeouts", decide)


def _citation(desk: Desk, run_id: str, fact_id: str) -> str:
    """The citation of one of the run's own facts, or the id itself, which is then no timeout of it."""
    for recorded in desk.journal.store.stream(run_stream(run_id)):
        if recorded.meta.fact_id == fact_id:
            return cite(recorded.stream, recorded.version)
    return fact_id


async def reassign_run(desk: Desk, caller: Caller, run_id: str, leader_id: str, revision: int) -> Done[dict[str, Any]]:
    """The run is another leader's from now on, or the same one's again after its session was lost.

    Raises:
        RevisionStale: it was reassigned since the caller read it.
    """
    desk.require_leader_id(caller, leader_id, "take this run over")
    stream = presence_stream(caller.tenant, leader_id)

    def decision(now: Moment) -> Decision[dict[str, Any]]:
        standing = desk.standing(caller, run_id)
        desk.require_leader(caller, standing.known, "reassign this run")
        presence: Presence = desk.journal.streams.load(stream)
        draft = reassign(standing, leader_id, revision, caller.principal, now)
        entries = entries_of(draft.entries, run_id)
        entries += [Entry(stream, fact, None) for fact in reseed(presence, leader_id, "reassigned", now.wall)]
        guards = merged([standing.versions, {stream: presence.version}])
        return Decision(entries, guards, show(desk, desk.after(standing, draft), now))

    return await desk.execute(caller, (run_id,), decision)


CANCEL_MANY_MAX = 1_000
SIDE_BY_SIDE = 64
"""Runs that are cancelled at the same time."""


class Filter(Value, frozen=True, kw_only=True):
    """Which open runs; everything that is given must hold."""

    queue: str | None = None
    leader_id: str | None = None
    state: str | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)


async def cancel_many(desk: Desk, caller: Caller, wanted: Filter, *, dry_run: bool, limit: int) -> dict[str, Any]:
    """Which open runs of the caller match, oldest first, and, unless it is a dry run, what became of each.

    A repeat of the command cancels those that were chosen the first time, and no run that has come to match since.
    """
    if not 1 <= limit <= CANCEL_MANY_MAX:
        raise InvalidCommand(field="limit", value=limit, limit=f"between 1 and {CANCEL_MANY_MAX}")
    if dry_run:
        choice = _choice(desk, caller, wanted, limit)
        return {"matching": choice["matching"], "runs": [{"run_id": run_id} for run_id in choice["chosen"]]}
    choice = await _chosen_once(desk, caller, wanted, limit)
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(run_id: str) -> dict[str, Any]:
        if run_id == choice["first"]:
            return {"run_id": run_id, "state": choice["state"]}
        async with gate:
            return await _cancel_one(desk, caller, run_id)

    return {"matching": choice["matching"], "runs": list(await asyncio.gather(*map(one, choice["chosen"])))}


def _choice(desk: Desk, caller: Caller, wanted: Filter, limit: int) -> dict[str, Any]:
    matching = [run_id for run_id in desk.live.cards if _matches(desk, caller, wanted, run_id)]
    return {"matching": len(matching), "chosen": matching[:limit], "first": None}


async def _chosen_once(desk: Desk, caller: Caller, wanted: Filter, limit: int) -> dict[str, Any]:
    """The runs that this command is about, the first time and at each repeat.

    Only a command that appends is remembered, so the choice travels as the answer of the first run's cancellation: as
    soon as anything has happened, the whole choice is in the journal, and a repeat after a crash completes it.
    """
    choice = _choice(desk, caller, wanted, limit)
    if caller.command_id is None:
        return choice
    remembered = await desk.execute(caller, (), lambda _: Decision((), {}, None))
    for run_id in () if remembered.repeated else choice["chosen"]:

        def decide(standing: Standing, now: Moment) -> RunDraft:
            desk.require_leader(caller, standing.known, CANCEL)
            return _cancelled(desk, caller, standing, now)

        def answer(after: Standing, now: Moment, run_id: str = run_id) -> dict[str, Any]:
            return {**choice, "first": run_id, "state": after.state}

        with suppress(Refusal):
            done = await desk.on_run(caller, run_id, decide, answer)
            if done.position is not None:
                return done.answer  # type: ignore[no-any-return]
    return remembered.answer or choice


def _matches(desk: Desk, caller: Caller, wanted: Filter, run_id: str) -> bool:
    card = desk.live.cards[run_id]
    if card.queue[0] != caller.tenant or (wanted.queue is not None and card.queue[1] != wanted.queue):
        return False
    if wanted.leader_id is not None and card.leader != (caller.tenant, wanted.leader_id):
        return False
    standing = desk.standing(caller, run_id)
    run = standing.known
    mine = caller.leaders is None or run.leader_id in caller.leaders
    tagged = all(run.submission.tags.get(name) == value for name, value in wanted.tags.items())
    return mine and tagged and (wanted.state is None or standing.state == wanted.state)


async def _cancel_one(desk: Desk, caller: Caller, run_id: str) -> dict[str, Any]:
    its_own = None if caller.command_id is None else f"{caller.command_id}:{run_id}"
    try:
        done = await cancel(desk, msgspec.structs.replace(caller, command_id=its_own), run_id, keep_workspaces=False)
    except Refusal as refusal:
        return {"run_id": run_id, "code": refusal.code, "detail": str(refusal)}
    return {"run_id": run_id, "state": done.answer["state"]}
