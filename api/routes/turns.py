"""Turns: exchanges inside an attempt, admitted before they are delivered, and ended once."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import WithJsonSchema

from api import requests_workspaces as asked
from api import wire_workspaces as wire
from api.calls import Answer, Call, Endpoint
from api.problems import InvalidBody
from commands import turns

router = APIRouter(route_class=Endpoint, tags=["turns"])

TURNS = "/v1/runs/{run_id}/turns"
TURN = f"{TURNS}/{{turn}}"
DIGITS_MAX = 9
Number = Annotated[str, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 10**DIGITS_MAX - 1})]
"""The number of a turn as it stands in a path, which is text; the document says what has to be in it."""


@router.post(TURNS, status_code=201, response_model=wire.Turn)
async def admit(call: Call, run_id: str, body: asked.AdmitTurn) -> Answer:
    """Admit a turn before its prompt is delivered; it is held to the incarnation of its workspace."""
    return await turns.admit(call.desk, call.caller, run_id, call.fence(body), body.workspace_id)


@router.post(f"{TURN}/delivered", response_model=wire.TurnShown)
async def deliver(call: Call, run_id: str, turn: Number, body: asked.DeliverTurn) -> Answer:
    """Say that the prompt was delivered: from here on the turn waits without a deadline, and a restart ends it."""
    named = turns.Named(run_id=run_id, fence=call.fence(body), turn=_number(turn))
    return await turns.deliver(call.desk, call.caller, named, body.incarnation)


@router.post(f"{TURN}/state", response_model=wire.TurnShown)
async def move(call: Call, run_id: str, turn: Number, body: asked.MoveTurn) -> Answer:
    """Say what the turn is doing; a restart cuts one that is busy or whose answer is unread."""
    named = turns.Named(run_id=run_id, fence=call.fence(body), turn=_number(turn))
    return await turns.move(call.desk, call.caller, named, body.state)


@router.post(f"{TURN}/complete", response_model=wire.TurnShown)
async def complete(call: Call, run_id: str, turn: Number, body: asked.CompleteTurn) -> Answer:
    """Say that the answer came and was taken."""
    named = turns.Named(run_id=run_id, fence=call.fence(body), turn=_number(turn))
    return await turns.complete(call.desk, call.caller, named)


@router.post(f"{TURN}/fail", response_model=wire.TurnShown)
async def fail(call: Call, run_id: str, turn: Number, body: asked.FailTurn) -> Answer:
    """Say that no answer will come."""
    named = turns.Named(run_id=run_id, fence=call.fence(body), turn=_number(turn))
    return await turns.fail(call.desk, call.caller, named, body.code, body.message)


@router.post(f"{TURN}/notice", response_model=wire.TurnShown)
async def notice(call: Call, run_id: str, turn: Number, body: asked.NoticeTurn) -> Answer:
    """Say something about the turn that has to be said once."""
    named = turns.Named(run_id=run_id, fence=call.fence(body), turn=_number(turn))
    return await turns.notice(call.desk, call.caller, named, body.kind)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise InvalidBody([{"field": "turn", "limit": "the number of a turn"}])
    return int(text)
