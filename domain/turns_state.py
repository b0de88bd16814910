"""The turns of an attempt, as its run remembers them: which are under way, and how the last ones ended.

    admitted --delivered--> waiting, busy, answer_unread --> completed | failed | cut

A turn is *undelivered* until it was first moved. Turns end silently with their attempt; only the count goes on, since
a turn's number is unique in its run. Of the ended ones the last 64 are kept, so that a repeat is told how it ended.
"""

from datetime import datetime
from typing import Literal, assert_never

import msgspec

from domain.turn_facts import (
    TurnAdmitted,
    TurnCompleted,
    TurnCut,
    TurnFact,
    TurnFailed,
    TurnMoved,
    TurnNoticed,
    TurnState,
)
from domain.values import Value

TURNS_KEPT = 64
"""How many ended turns of an attempt are remembered."""


class Turn(Value, frozen=True, kw_only=True):
    """A turn under way."""

    turn: int
    fence: int
    workspace_id: str | None
    mark: int | None
    """The incarnation that it is held to; null outside a workspace."""
    state: Literal["admitted"] | TurnState
    admitted_at: datetime

    @property
    def delivered(self) -> bool:
        """Whether the prompt reached the harness."""
        return self.state != "admitted"


class Over(Value, frozen=True, kw_only=True):
    """A turn that has ended, and how; ``by`` is who said so."""

    turn: int
    workspace_id: str | None
    ended: Literal["completed", "failed", "cut"]
    code: str | None = None
    message: str | None = None
    by: Literal["holder", "restart", "window"] = "holder"


class Turns(Value, frozen=True, kw_only=True):
    """The turns of the attempt that is under way; ``last`` is the run's highest number so far."""

    last: int = 0
    open: dict[int, Turn] = msgspec.field(default_factory=dict)
    over: tuple[Over, ...] = ()
    notices: frozenset[tuple[int, str]] = frozenset()


NO_TURNS = Turns()


def turned(turns: Turns, fact: TurnFact) -> Turns:
    """The turns after one more fact."""
    match fact:
        case TurnAdmitted():
            admitted = Turn(
                turn=fact.turn, fence=fact.fence, workspace_id=fact.workspace_id, mark=fact.incarnation,
                state="admitted", admitted_at=fact.admitted_at,
            )  # fmt: skip
            return _with(turns, last=max(turns.last, fact.turn), open={**turns.open, fact.turn: admitted})
        case TurnMoved():
            turn = turns.open.get(fact.turn)
            if turn is None:
                return turns
            moved = msgspec.structs.replace(turn, state=fact.state, mark=fact.incarnation)
            return _with(turns, open={**turns.open, fact.turn: moved})
        case TurnCompleted():
            return _ended(turns, fact.turn, ended="completed")
        case TurnFailed():
            return _ended(turns, fact.turn, ended="failed", code=fact.code, message=fact.message, by=fact.by)
        case TurnCut():
            return _ended(turns, fact.turn, ended="cut", code="turn_cut", message=fact.reason, by="restart")
        case TurnNoticed():
            return _with(turns, notices=turns.notices | {(fact.turn, fact.kind)})
        case _:
            assert_never(fact)


def dropped(turns: Turns) -> Turns:
    """What is left of the turns when their attempt has ended: how many there were."""
    return NO_TURNS if turns.last == 0 else Turns(last=turns.last)


def _ended(turns: Turns, number: int, **how: object) -> Turns:
    turn = turns.open.get(number)
    if turn is None:
        return turns
    rest = {each: still for each, still in turns.open.items() if each != number}
    over = Over(turn=number, workspace_id=turn.workspace_id, **how)  # type: ignore[arg-type]
    kept = (*turns.over, over)[-TURNS_KEPT:]
    known = rest.keys() | {each.turn for each in kept}
    notices = frozenset(notice for notice in turns.notices if notice[0] in known)
    return _with(turns, open=rest, over=kept, notices=notices)


def _with(turns: Turns, **changes: object) -> Turns:
    return msgspec.structs.replace(turns, **changes)
