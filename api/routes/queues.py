"""Queues: their limits, and what is in them."""

from typing import Annotated

from fastapi import APIRouter, Query

from api import model_queries, requests, wire_models, wire_service
from api.calls import Answer, Call, Endpoint
from api.stored import model_of
from commands import queues
from projections.stored import queues as waiting

router = APIRouter(route_class=Endpoint, tags=["queues"])


@router.get("/v1/queues", response_model=wire_models.QueuePage)
async def list_queues(call: Call, query: Annotated[model_queries.ListQueues, Query()]) -> Answer:
    """Every queue that has limits, leases or queued runs: depth, the oldest, and how fast runs come and go."""
    model = await model_of(call, waiting.NAME, query.min_position)
    asked, now = waiting.Asked(all=query.all, limit=query.limit, cursor=query.cursor), call.node.clock().wall
    return await model.ask(
        lambda connection, at, epoch: waiting.page(connection, call.caller.tenant, asked, now, (at, epoch))
    )


@router.get("/v1/queues/{queue}", response_model=wire_service.Queue)
async def show(call: Call, queue: str) -> Answer:
    """One queue; one that nobody has used yet has the default limits and nothing in it."""
    return queues.show_queue(call.desk, call.caller, queue)


@router.put("/v1/queues/{queue}", response_model=wire_service.Queue)
async def configure(call: Call, queue: str, body: requests.QueueLimits) -> Answer:
    """Set the limits of a queue; lowering one revokes nothing."""
    return await queues.configure_queue(call.desk, call.caller, queue, body.max_leases, body.max_per_key)
