"""Workspaces: what a run stands on, from being placed to being destroyed, and what is seen of it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from api import requests
from api import requests_workspaces as asked
from api import wire_workspaces as wire
from api.calls import Answer, Call, Endpoint
from api.stored import model_of
from api.views import reached, visible
from commands import looking, observing, workspaces
from domain.placing import Attach
from domain.values import NULL, to_json
from journal.commit import Done
from projections.stored import workspaces as stored

router = APIRouter(route_class=Endpoint, tags=["workspaces"])

WORKSPACE = "/v1/workspaces/{workspace_id}"


@router.post("/v1/workspaces", status_code=201, response_model=wire.Placed)
async def place(call: Call, body: asked.Place) -> Answer:
    """Give a run something to stand on; its body is made by whoever provides it."""
    spec = to_json({}) if body.spec == NULL else body.spec
    wish = workspaces.Wish(provider=body.provider, scope=body.scope, spec=spec)
    return await workspaces.place(call.desk, call.caller, body.run_id, call.fence(body), wish)


@router.get("/v1/workspaces", response_model=wire.WorkspacePage)
async def list_workspaces(call: Call, query: Annotated[asked.ListWorkspaces, Query()]) -> Answer:
    """Workspaces whose body may still be there; with `run_id` all that the run ever stood on, with `all` all."""
    await reached(call.node, query.min_position)
    wanted = looking.Wanted(
        phase=query.phase,
        scope=query.scope,
        provider=query.provider,
        run_id=query.run_id,
        limit=query.limit,
        after=int(query.cursor or 0),
        all=query.all,
    )
    if wanted.everything:
        found = await _everything(call, wanted, query.min_position)
    else:
        found = looking.list_workspaces(call.desk, call.caller, wanted)
    if wanted.run_id is not None and not found["items"]:
        visible(call, wanted.run_id)  # nothing of a run that is not there is not the same as nothing
    return found


async def _everything(call: Call, wanted: looking.Wanted, min_position: int | None) -> dict[str, Any]:
    """Those that the read model knows too."""
    model = await model_of(call, stored.NAME, min_position)

    async def ask(after: int, limit: int) -> list[stored.Named]:
        asked = stored.Asked(
            phase=wanted.phase, scope=wanted.scope, provider=wanted.provider, run_id=wanted.run_id, after=after
        )
        return await model.ask(lambda connection, _, __: stored.named(connection, call.caller.tenant, asked, limit))

    return await looking.list_everything(call.desk, call.caller, wanted, ask)


@router.get(WORKSPACE, response_model=wire.Workspace)
async def show(call: Call, workspace_id: str, query: Annotated[requests.Reading, Query()]) -> Answer:
    """The workspace as it is now."""
    await reached(call.node, query.min_position)
    return looking.show_workspace(call.desk, call.caller, workspace_id)


@router.post(f"{WORKSPACE}/phase", response_model=wire.Workspace)
async def move(call: Call, workspace_id: str, body: asked.Move) -> Answer:
    """Say how far the making of the body has come."""
    step = workspaces.Step(phase=body.phase, on=body.on, message=body.message, identity=body.identity)
    return _shown(call, await workspaces.move(call.desk, call.caller, workspace_id, step), workspace_id)


@router.post(f"{WORKSPACE}/attach", response_model=wire.Workspace)
async def attach(call: Call, workspace_id: str, body: asked.Attach) -> Answer:
    """Stand on this body from now on, and on no other."""
    command = Attach(identity=body.identity, incarnation=body.incarnation, details=body.details)
    return _shown(call, await workspaces.attach(call.desk, call.caller, workspace_id, command), workspace_id)


@router.post(f"{WORKSPACE}/observations", response_model=wire.Workspace)
async def observe(call: Call, workspace_id: str, body: asked.Observe) -> Answer:
    """Report what was seen of the body; what follows is decided here."""
    seen = [asked.observation(each) for each in body.observations]
    return _shown(call, await observing.observe(call.desk, call.caller, workspace_id, seen), workspace_id)


@router.post(f"{WORKSPACE}/assert", response_model=wire.Asserted)
async def assert_needed(call: Call, workspace_id: str, body: requests.Nothing) -> Answer:
    """Say that the workspace is still needed; without this for long enough its body is reaped."""
    return await workspaces.assert_needed(call.desk, call.caller, workspace_id)


@router.delete(WORKSPACE, response_model=wire.Workspace)
async def release(call: Call, workspace_id: str, query: Annotated[asked.Release, Query()]) -> Answer:
    """Have the body destroyed; with `gone` an operator says that one which was to be destroyed is no more."""
    if query.gone:
        return _shown(call, await workspaces.say_gone(call.desk, call.caller, workspace_id), workspace_id)
    done = await workspaces.release_workspace(call.desk, call.caller, workspace_id, query.worker_id)
    return _shown(call, done, workspace_id)


def _shown(call: Call, done: Done[dict[str, Any]], workspace_id: str) -> Done[dict[str, Any]]:
    """The workspace as a command answers it, with the position of its last fact."""
    done.answer = looking.with_position(call.desk, done.answer, workspace_id)
    return done
