"""Queues: their limits, and what is in them."""

from fastapi import APIRouter

from api import requests, wire_service
from api.calls import Answer, Call, Endpoint
from api.views import page
from commands import queues

router = APIRouter(route_class=Endpoint, tags=["queues"])


@router.get("/v1/queues", response_model=wire_service.QueuePage)
async def list_queues(call: Call) -> Answer:
    """Every queue that has limits, leases or queued runs."""
    return page(queues.list_queues(call.desk, call.caller), call.desk.journal.position)


@router.get("/v1/queues/{queue}", response_model=wire_service.Queue)
async def show(call: Call, queue: str) -> Answer:
    """One queue; one that nobody has used yet has the default limits and nothing in it."""
    return queues.show_queue(call.desk, call.caller, queue)


@router.put("/v1/queues/{queue}", response_model=wire_service.Queue)
async def configure(call: Call, queue: str, body: requests.QueueLimits) -> Answer:
    """Set the limits of a queue; lowering one revokes nothing."""
    return await queues.configure_queue(call.desk, call.caller, queue, body.max_leases, body.max_per_key)
