"""Leaders: present by a stream or by a heartbeat session, and shown."""

from collections.abc import AsyncIterator

from fastapi import APIRouter

from api import requests, wire_service
from api.calls import RESUMES, Answer, Call, Endpoint
from api.leading import conversation
from api.streams import COMMENT, Opened, Stream, frame
from api.views import page, resume_at
from commands import presence

router = APIRouter(route_class=Endpoint, tags=["leaders"])

LEADER = "/v1/leaders/{leader_id}"
PROBLEM = {"description": "a problem (RFC 9457)"}
STREAMED = {
    "description": "`hello`, `settled_while_away`, then each fact of the leader's runs, as events",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@router.get("/v1/leaders", response_model=wire_service.LeaderPage)
async def list_leaders(call: Call) -> Answer:
    """The leaders that are connected or have open runs, by id."""
    return page(presence.list_leaders(call.desk, call.caller), call.desk.journal.position)


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
