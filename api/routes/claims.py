"""Claims: how a worker comes to act for runs, now or once it is ready."""

from typing import Any

from fastapi import APIRouter

from api import requests, wire
from api.calls import AS_WORKER, Answer, Call, Endpoint
from api.problems import Stopping
from commands import claims
from journal.commit import Done

router = APIRouter(route_class=Endpoint, tags=["claims"])


def _open(call: Call) -> None:
    if call.node.stopping:
        raise Stopping


@router.post("/v1/claims", response_model=wire.Claims, openapi_extra=AS_WORKER)
async def claim(call: Call, body: requests.ClaimRuns) -> Answer:
    """Claim runs that are due; waits up to `wait_s` for the first, and may grant none."""
    _open(call)
    ask = claims.Ask(worker_id=body.worker_id, queues=tuple(body.queues), most=body.max, wait_s=body.wait_s)
    done = await _claimed(call, ask)
    done.answer = {"claims": done.answer["claims"], "position": done.position or call.desk.journal.position}
    return done


@router.post("/v1/runs/{run_id}/claim", response_model=wire.Claim, openapi_extra=AS_WORKER)
async def claim_run(call: Call, run_id: str, body: requests.ClaimRun) -> Answer:
    """Claim this very run, unless somebody holds it."""
    _open(call)
    return await claims.claim_run(call.desk, call.caller, run_id, body.worker_id)


@router.post(
    "/v1/reservations",
    status_code=201,
    response_model=wire.Reservation,
    responses={204: {"description": "nothing is due"}, "default": {"description": "a problem (RFC 9457)"}},
    openapi_extra=AS_WORKER,
)
async def reserve(call: Call, body: requests.Reserve) -> Answer:
    """Set a run aside for a worker that is getting ready; 204 when nothing is due."""
    _open(call)
    ask = claims.Ask(worker_id=body.worker_id, queues=tuple(body.queues), wait_s=body.wait_s, reserve=True)
    done = await _claimed(call, ask)
    done.answer = _reservation(done)
    return done


@router.post("/v1/reservations/{token}/bind", response_model=wire.Claim, openapi_extra=AS_WORKER)
async def bind(call: Call, token: str, body: requests.Bind) -> Answer:
    """Turn a reservation into a lease: from here on there is a right to write."""
    _open(call)
    return await claims.bind_token(call.desk, call.caller, token)


@router.delete("/v1/reservations/{token}", status_code=204)
async def cancel_reservation(call: Call, token: str) -> Answer:
    """Give a reservation back; nothing was consumed."""
    return await claims.cancel_token(call.desk, call.caller, token)


async def _claimed(call: Call, ask: claims.Ask) -> Done[Any]:
    """The grants; a claim that waits is given up when its client leaves or its worker is detached."""
    work = claims.claim(call.desk, call.caller, ask)
    if ask.wait_s <= 0:
        return await work
    waiting = call.node.attachments.claiming((call.caller.tenant, ask.worker_id), work)
    return await call.while_there(waiting) or Done({"claims": []})


def _reservation(done: Done[Any]) -> dict[str, Any] | None:
    granted = done.answer["claims"]
    return {name: granted[0][name] for name in ("token", "run_id", "fence", "lapses_at")} if granted else None
