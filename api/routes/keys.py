"""Keys and tickets: who may knock, and for how long."""

from typing import Any

from fastapi import APIRouter

from api import requests, wire_service
from api.calls import Answer, Call, Endpoint
from api.keys import Command, Wanted

router = APIRouter(route_class=Endpoint, tags=["keys"])


@router.post("/v1/keys", status_code=201, response_model=wire_service.MadeKey)
async def make(call: Call, body: requests.NewKey) -> Answer:
    """Make a key; its secret is in this answer and nowhere else, so a repeat is refused with the key's id."""
    wanted = Wanted(
        name=body.name,
        role=body.role,
        leader_ids=_ids(body.leader_ids),
        worker_ids=_ids(body.worker_ids),
        not_after=body.not_after,
    )
    caller = call.caller
    command = None if caller.command_id is None else Command(caller.command_id, caller.request_digest or "")
    key, token = call.node.keys.make(wanted, caller.principal, call.node.clock().wall, command=command)
    return {**key.shown(), "key": token}


@router.get("/v1/keys", response_model=wire_service.KeyPage)
async def list_keys(call: Call) -> Answer:
    """Every key that was ever made, without its secret."""
    return {"items": [key.shown() for key in call.node.keys.all()], "next_cursor": None}


@router.delete("/v1/keys/{key_id}", status_code=204)
async def revoke(call: Call, key_id: str) -> Answer:
    """Revoke a key: it opens nothing from now on, and its open streams end."""
    call.node.keys.revoke(key_id, call.node.clock().wall)
    return None


@router.get("/v1/whoami", response_model=wire_service.Whoami)
async def whoami(call: Call) -> Answer:
    """Who the caller is taken for."""
    key = call.entry.key
    return {
        "principal": key.name,
        "role": key.role,
        "tenant": call.caller.tenant,
        "leader_ids": key.leader_ids,
        "worker_ids": key.worker_ids,
    }


@router.post("/v1/tickets", status_code=201, response_model=wire_service.Ticket)
async def ticket(call: Call) -> Answer:
    """Get a one-time pass for a url that cannot carry a header: `?ticket=` on a stream, within a minute.

    A repeat under the same idempotency key gets the same ticket until it has expired, used or not.
    """
    issued, lasts_s = call.node.tickets.issue(call.entry, call.node.clock(), call.caller.command_id)
    return {"ticket": issued, "expires_in_s": round(lasts_s, 3)}


def _ids(given: list[str] | None) -> tuple[Any, ...] | None:
    return None if given is None else tuple(given)
