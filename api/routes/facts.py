"""What is recorded about a run: its facts and its output, as pages or as they happen."""

from typing import Annotated

from fastapi import APIRouter, Query

from api import requests, wire
from api.calls import RESUMES, Answer, Call, Endpoint
from api.views import (
    facts_page,
    facts_stream,
    output_page,
    output_stream,
    place_of,
    reached,
    resume_at,
    visible,
    wants_stream,
)

router = APIRouter(route_class=Endpoint, tags=["runs"])

PROBLEM = {"description": "a problem (RFC 9457)"}
STREAMED = {
    "description": "the page, or with `Accept: text/event-stream` each entry as an event",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}
OUTPUT = "each piece as an event until the run has ended, or with `Accept: application/json` a page"


@router.get(
    "/v1/runs/{run_id}/facts",
    response_model=wire.Facts,
    responses={200: STREAMED, "default": PROBLEM},
    openapi_extra=RESUMES,
)
async def facts(call: Call, run_id: str, query: Annotated[requests.ReadFacts, Query()]) -> Answer:
    """The facts of a run in order; as a stream they go on, and resume after `Last-Event-ID`."""
    await reached(call.node, query.min_position)
    visible(call, run_id)
    if wants_stream(call):
        return facts_stream(call, run_id, resume_at(call, query.after))
    return facts_page(call, run_id, query)


@router.get(
    "/v1/runs/{run_id}/output",
    response_model=wire.OutputPage,
    responses={200: {**STREAMED, "description": OUTPUT}, "default": PROBLEM},
    openapi_extra=RESUMES,
)
async def output(call: Call, run_id: str, query: Annotated[requests.ReadOutput, Query()]) -> Answer:
    """The output of a run as a stream until it has ended, from after `Last-Event-ID`; as a page if asked for JSON."""
    await reached(call.node, query.min_position)
    visible(call, run_id)
    if "application/json" in call.headers.get("accept", ""):
        return output_page(call, run_id, query)
    last = place_of(call.headers.get("last-event-id"), "Last-Event-ID")
    return output_stream(call, run_id, last or place_of(query.after, "after"))
