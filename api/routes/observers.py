"""Observers: whoever watches a whole scope of workspaces reports here, in batches."""

from fastapi import APIRouter

from api import requests_workspaces as asked
from api.calls import Answer, Call, Endpoint
from api.wire_workspaces import Observed
from commands import scopes

router = APIRouter(route_class=Endpoint, tags=["workspaces"])


@router.post("/v1/observers/{observer_id}/observations", response_model=Observed)
async def observe(call: Call, observer_id: str, body: asked.ObserveScope) -> Answer:
    """Report what was seen of a scope; with `synced` those that are attached and not named are gone.

    The observer holds a run of its own (`run_id`, `fence`), and a scope has one observer at a time: while the lease of
    one is live, another is refused (`scope_observed`).
    """
    part = None
    if body.part is not None:
        part = scopes.Part(sync_id=body.part.sync_id, index=body.part.index, last=body.part.last)
    batch = scopes.Batch(
        observer_id=observer_id,
        run_id=body.run_id,
        fence=call.fence(body),
        scope=body.scope,
        seen=tuple((each["workspace_id"], asked.observation(each)) for each in body.observations),
        synced=body.synced,
        part=part,
        listed_s_ago=body.listed_s_ago,
        as_of=body.as_of,
    )
    return await scopes.observe_scope(call.desk, call.caller, batch)
