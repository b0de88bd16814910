"""Workers: registered, heard, drained, put aside, signed off. Their streams are in ``api/channel.py``."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from api import model_queries, requests, wire_models, wire_service
from api.calls import AS_WORKER, Answer, Call, Endpoint
from api.stored import model_of
from api.wire import Renewals
from commands import holding, workers
from commands.holding import Lessee
from journal.commit import Done
from projections.stored import workers as stored

router = APIRouter(route_class=Endpoint, tags=["workers"])

WORKER = "/v1/workers/{worker_id}"
REGISTERED = ("active", "draining", "quarantined")


@router.post(f"{WORKER}/heartbeat", response_model=Renewals, openapi_extra=AS_WORKER)
async def heartbeat(call: Call, worker_id: str, body: requests.Heartbeat) -> Answer:
    """Renew every lease that is listed; one answer for each, in order."""
    leases = [Lessee(lease["run_id"], lease["fence"]) for lease in body.leases]
    return {"leases": await holding.heartbeat(call.desk, call.caller, worker_id, leases)}


@router.put(WORKER, response_model=wire_service.Worker, openapi_extra=AS_WORKER)
async def register(call: Call, worker_id: str, body: requests.RegisterWorker) -> Answer:
    """Say what the worker is and how much it takes; fewer slots or labels only stop grants.

    A process that names its instance is refused while another one is registered and heard. Once that one is silent, it
    takes the id over, and claims of the former one that still wait are given up.
    """
    before = workers.instance_of(call.desk, call.caller, worker_id)
    ability = workers.Ability(body.labels, body.slots, body.where)
    done = await workers.register_worker(call.desk, call.caller, worker_id, ability)
    if before is not None and before != workers.instance_of(call.desk, call.caller, worker_id):
        call.node.attachments.give_up_claims((call.caller.tenant, worker_id))
    return _shown(done)


@router.get("/v1/workers", response_model=wire_models.WorkerPage)
async def list_workers(call: Call, query: Annotated[model_queries.ListWorkers, Query()]) -> Answer:
    """The registered workers, by id, or those in a state; what each holds, and what came of its attempts."""
    model = await model_of(call, stored.NAME, query.min_position)
    asked = stored.Asked(state=tuple(query.state or REGISTERED), limit=query.limit, cursor=query.cursor)
    found: dict[str, Any] = await model.ask(
        lambda connection, at, epoch: stored.page(connection, call.caller.tenant, asked, at, epoch)
    )
    found["items"] = [
        {**item, **workers.held_and_heard(call.desk, call.caller, item["worker_id"])} for item in found["items"]
    ]
    return found


@router.get(WORKER, response_model=wire_service.Worker)
async def show(call: Call, worker_id: str) -> Answer:
    """One worker, with what it holds and when it was last heard."""
    return _worker(workers.show_worker(call.desk, call.caller, worker_id))


@router.post(f"{WORKER}/drain", response_model=wire_service.Worker, openapi_extra=AS_WORKER)
async def drain(call: Call, worker_id: str, body: requests.Nothing) -> Answer:
    """Grant the worker no more runs; what it holds goes on."""
    return _shown(await workers.drain_worker(call.desk, call.caller, worker_id))


@router.delete(WORKER, status_code=204, openapi_extra=AS_WORKER)
async def leave(call: Call, worker_id: str) -> Answer:
    """Sign the worker off; refused while it holds leases."""
    return await workers.leave_worker(call.desk, call.caller, worker_id)


@router.post(f"{WORKER}/quarantine", response_model=wire_service.Worker)
async def quarantine(call: Call, worker_id: str, body: requests.Quarantine) -> Answer:
    """Put the worker aside: it is granted nothing until its cool-down has passed, or it is released."""
    return _shown(await workers.quarantine_worker(call.desk, call.caller, worker_id, body.reason))


@router.post(f"{WORKER}/release", response_model=wire_service.Worker)
async def release(call: Call, worker_id: str, body: requests.Nothing) -> Answer:
    """End the worker's quarantine."""
    return _shown(await workers.release_worker(call.desk, call.caller, worker_id))


def _shown(done: Done[dict[str, Any]]) -> Done[dict[str, Any]]:
    done.answer = _worker(done.answer)
    return done


def _worker(worker: dict[str, Any]) -> dict[str, Any]:
    return {
        "worker_id": worker["worker_id"],
        "state": _state(worker),
        "labels": worker["labels"],
        "slots": worker["slots"],
        "slots_used": len(worker["holding"]),
        "holding": worker["holding"],
        "quarantine": worker["quarantine"],
        "last_seen_at": worker["last_seen_at"],
        "instance": worker["instance"],
    }


def _state(worker: dict[str, Any]) -> str:
    if not worker["registered"]:
        return "gone"
    if worker["quarantine"] is not None:
        return "quarantined"
    return "draining" if worker["draining"] else "active"
