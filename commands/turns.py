"""Turns of an attempt, told by its holder under its fence; and the end of those that could not be delivered.

Telling of a turn is activity: it renews the lease. Whatever the holder says itself about the end of a turn, also when
that is refused because it had ended before, shows that it knows; it is not instructed about that turn any more.
"""

from collections.abc import Callable
from typing import Any

from commands.desk import Caller, Desk, entries_of, system_caller
from commands.looking import find
from commands.workspaces import including
from domain import turns
from domain.standing import Presented, RunDraft, Standing
from domain.turn_facts import NoticeKind, TurnState
from domain.turns import Failure, Move, TurnOver
from domain.values import Moment, Value
from journal.commit import Decision, Done

Decide = Callable[[Standing, Presented, Moment], RunDraft]


class Named(Value, frozen=True, kw_only=True):
    """Which turn of which run, and the fence that the holder shows."""

    run_id: str
    fence: int | None
    turn: int


async def admit(
    desk: Desk, caller: Caller, run_id: str, fence: int | None, workspace_id: str | None
) -> Done[dict[str, Any]]:
    """A new turn: its number, and the incarnation that it is held to.

    Raises:
        FenceLost: the fence gives no right to act.
        WorkspaceUnknown, WorkspaceOver, WrongPhase: the run does not stand on that workspace.
        LimitReached: too many turns have not ended.
    """

    def decide(standing: Standing, presented: Presented, now: Moment) -> RunDraft:
        if workspace_id is not None:
            standing = including(standing, find(desk, caller, workspace_id))
        return turns.admit(standing, presented, workspace_id, now)

    def answer(after: Standing) -> dict[str, Any]:
        number = after.known.turns.last
        return {"turn": number, "incarnation": after.known.turns.open[number].mark}

    return await _tell(desk, caller, Named(run_id=run_id, fence=fence, turn=0), decide, answer)


async def deliver(desk: Desk, caller: Caller, named: Named, incarnation: int | None) -> Done[dict[str, Any]]:
    """The prompt was delivered, to what runs under this incarnation; one that has passed ends the turn at once."""
    return await _move(desk, caller, named, Move(state="waiting", incarnation=incarnation))


async def move(desk: Desk, caller: Caller, named: Named, state: TurnState) -> Done[dict[str, Any]]:
    """The turn is in this state now."""
    return await _move(desk, caller, named, Move(state=state))


async def _move(desk: Desk, caller: Caller, named: Named, command: Move) -> Done[dict[str, Any]]:
    def decide(standing: Standing, presented: Presented, now: Moment) -> RunDraft:
        standing = _with_ground_of(desk, caller, standing, named.turn)
        return turns.move(standing, presented, named.turn, command, now)

    return await _tell(desk, caller, named, decide, lambda after: shown(after, named.turn))


def _with_ground_of(desk: Desk, caller: Caller, standing: Standing, number: int) -> Standing:
    """How the run stands, with the turn's workspace among its own though that may be over: its mark counts on."""
    turn = standing.known.turns.open.get(number)
    workspace_id = None if turn is None else turn.workspace_id
    return standing if workspace_id is None else including(standing, find(desk, caller, workspace_id))


async def complete(desk: Desk, caller: Caller, named: Named) -> Done[dict[str, Any]]:
    """The answer came and was taken.

    Raises:
        TurnOver: the turn ended otherwise before.
    """

    def decide(standing: Standing, presented: Presented, now: Moment) -> RunDraft:
        return turns.complete(standing, presented, named.turn, now)

    return await _end(desk, caller, named, decide)


async def fail(desk: Desk, caller: Caller, named: Named, code: str, message: str | None) -> Done[dict[str, Any]]:
    """No answer will come.

    Raises:
        TurnOver: the turn ended otherwise before.
    """

    def decide(standing: Standing, presented: Presented, now: Moment) -> RunDraft:
        return turns.fail(standing, presented, named.turn, Failure(code=code, message=message), now)

    return await _end(desk, caller, named, decide)


async def _end(desk: Desk, caller: Caller, named: Named, decide: Decide) -> Done[dict[str, Any]]:
    try:
        done = await _tell(desk, caller, named, decide, lambda after: shown(after, named.turn))
    except TurnOver:
        _knows(desk, named)
        raise
    _knows(desk, named)
    return done


def _knows(desk: Desk, named: Named) -> None:
    """The holder need not be told of this turn's end; a repeat may come when its run has ended long ago."""
    if named.run_id in desk.live.cards:
        desk.evidence.tell_turn(named.run_id, named.turn)


async def notice(desk: Desk, caller: Caller, named: Named, kind: NoticeKind) -> Done[dict[str, Any]]:
    """Something about the turn was said, which is said once."""

    def decide(standing: Standing, presented: Presented, now: Moment) -> RunDraft:
        return turns.notice(standing, presented, named.turn, kind, now)

    return await _tell(desk, caller, named, decide, lambda after: shown(after, named.turn))


async def _tell(
    desk: Desk, caller: Caller, named: Named, decide: Decide, answer: Callable[[Standing], dict[str, Any]]
) -> Done[dict[str, Any]]:
    done = await desk.on_run(
        caller,
        named.run_id,
        lambda standing, now: decide(standing, desk.presented(caller, named.fence), now),
        lambda after, _: answer(after),
    )
    desk.touch(named.run_id)
    desk.note_fence(named.fence, "turns")
    return done


def shown(after: Standing, number: int) -> dict[str, Any]:
    """How a turn is."""
    known = after.known.turns
    turn = known.open.get(number)
    if turn is not None:
        return {"turn": number, "state": turn.state, "incarnation": turn.mark, "code": None, "message": None}
    over = next(each for each in known.over if each.turn == number)
    return {"turn": number, "state": over.ended, "incarnation": None, "code": over.code, "message": over.message}


async def give_up_undelivered(desk: Desk, run_id: str, turn: int) -> bool:
    """Journal that a turn was not delivered within its window, if it was not; whether it was so."""
    card = desk.live.cards.get(run_id)
    if card is None:
        return False
    caller = system_caller(card.queue[0])

    def decision(now: Moment) -> Decision[None]:
        standing, due = desk.standing(caller, run_id), desk.live.admissions.due(run_id, turn)
        standing = _with_ground_of(desk, caller, standing, turn)
        if due is None or now.mono < due:
            return Decision((), {}, None)
        open_turn = standing.known.turns.open.get(turn)
        workspace_id = None if open_turn is None else open_turn.workspace_id
        words = desk.evidence.grounds.words(workspace_id or "")
        draft = turns.give_up(standing, turn, words, now)
        return Decision(entries_of(draft.entries, run_id), draft.versions, None)

    done = await desk.execute(caller, (run_id,), decision)
    return done.position is not None
