"""Leaders: present by a stream or by a heartbeat session, and shown."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query

from api import model_queries, requests, wire_models, wire_service
from api.calls import RESUMES, Answer, Call, Endpoint
from api.leading import conversation
from api.stored import model_of
from api.streams import COMMENT, Opened, Stream, frame
from api.views import resume_at
from commands import presence
from projections.stored import leaders

router = APIRouter(route_class=Endpoint, tags=["leaders"])

LEADER = "/v1/leaders/{leader_id}"
PROBLEM = {"description": "a problem (RFC 9457)"}
STREAMED = {
    "description": "`hello`, `settled_while_away`, then each fact of the leader's runs, as events",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@router.get("/v1/leaders", response_model=wire_models.LeaderPage)
async def list_leaders(call: Call, query: Annotated[model_queries.ListLeaders, Query()]) -> Answer:
    """The leaders that are connected or have open runs, by id, or those in a state; and what became of their runs."""
    model = await model_of(call, leaders.NAME, query.min_position)
    asked = leaders.Asked(state=tuple(query.state), open_only=not query.state, limit=query.limit, cursor=query.cursor)
    found: dict[str, Any] = await model.ask(
        lambda connection, at, epoch: leaders.page(connection, call.caller.tenant, asked, at, epoch)
    )
    return found


@router.get(LEADER, response_model=wire_service.LeaderShown)
async def show(call: Call, leader_id: str) -> Answer:
    """How a leader is present, and how many open runs it has."""
    return presence.show_presence(call.desk, call.caller, leader_id)


@router.get(f"{LEADER}/presence", responses={200: STREAMED, "default": PROBLEM}, openapi_extra=RESUMES)
async def be_present(call: Call, leader_id: str) -> Answer:
    """Be present for as long as this stream lasts; it tells what happens to the leader's runs."""
    presence.require_may_be(call.desk, call.caller, leader_id)
    after = resume_at(call, -1)

    async def frames(opened: Opened) -> AsyncIterator[bytes]:
        who = (call.entry, leader_id, "stream")
        async for item in conversation(call.node, opened, who, None if after < 0 else after):  # type: ignore[arg-type]
            yield COMMENT if item is None else frame(str(item[0]), item[1], item[2])

    return Stream(call.node.streams, call.entry.key.key_id, frames)


@router.put(f"{LEADER}/sessions/{{session_id}}", response_model=wire_service.LeaderShown)
async def keep_session(call: Call, leader_id: str, session_id: str, body: requests.KeepSession) -> Answer:
    """Be present for another `ttl_s` seconds, for clients that cannot keep a stream open."""
    return await presence.keep_session(call.desk, call.caller, leader_id, session_id, body.ttl_s)


@router.delete(f"{LEADER}/sessions/{{session_id}}", status_code=204)
async def leave_session(call: Call, leader_id: str, session_id: str) -> Answer:
    """Leave politely; the absence begins now."""
    await presence.leave_session(call.desk, call.caller, leader_id, session_id)
    return None
