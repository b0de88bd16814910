"""Effects: recorded before they start, so that nobody repeats what somebody else has begun."""

from typing import Annotated

from fastapi import APIRouter, Query

from api import requests, wire
from api.calls import Answer, Call, Endpoint
from api.views import reached, visible
from commands import effects
from commands.showing import show_effects

router = APIRouter(route_class=Endpoint, tags=["effects"])

EFFECTS = "/v1/runs/{run_id}/effects"


@router.get(EFFECTS, response_model=wire.Effects)
async def list_effects(call: Call, run_id: str, query: Annotated[requests.Reading, Query()]) -> Answer:
    """The effects of a run, in the order in which they were first claimed."""
    await reached(call.node, query.min_position)
    visible(call, run_id)
    return {"effects": show_effects(call.desk, call.caller, run_id)}


@router.post(f"{EFFECTS}/{{key}}", response_model=wire.EffectAnswer)
async def claim(call: Call, run_id: str, key: str, body: requests.ClaimEffect) -> Answer:
    """Ask whether this effect may be caused; go on only when the answer is `claimed`."""
    return await effects.claim_effect(call.desk, call.caller, run_id, call.fence(body), (key, body.payload))


@router.post(f"{EFFECTS}/{{key}}/complete", response_model=wire.EffectTold)
async def complete(call: Call, run_id: str, key: str, body: requests.FinishEffect) -> Answer:
    """The effect happened."""
    told = effects.finish_effect(call.desk, call.caller, run_id, call.fence(body), (key, "completed", body.outcome))
    return await told


@router.post(f"{EFFECTS}/{{key}}/fail", response_model=wire.EffectTold)
async def fail(call: Call, run_id: str, key: str, body: requests.FinishEffect) -> Answer:
    """The effect certainly did not happen; it may be claimed again."""
    return await effects.finish_effect(call.desk, call.caller, run_id, call.fence(body), (key, "failed", body.outcome))


@router.post(f"{EFFECTS}/{{key}}/reconcile", response_model=wire.EffectTold)
async def reconcile(call: Call, run_id: str, key: str, body: requests.ReconcileEffect) -> Answer:
    """Say what was found out about an ambiguous effect.

    The holder presents its fence. The run's leader and operators present none, and may say so at any time, also when
    the run has ended.
    """
    told = (key, body.resolution, body.outcome)
    return await effects.reconcile_effect(call.desk, call.caller, run_id, call.fence(body), told)
