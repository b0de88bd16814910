"""How the service is, and what it is."""

import asyncio
import platform
from importlib import metadata

from fastapi import APIRouter

from api import requests, wire_service
from api.calls import Answer, Call, Endpoint
from api.openapi import document_of
from journal.schema import SCHEMA_VERSION

router = APIRouter(route_class=Endpoint, tags=["service"])


@router.get("/healthz", response_model=wire_service.Health)
async def health(call: Call) -> Answer:
    """How every part of the service is, with the first error that nobody has acknowledged."""
    return call.node.report()


@router.post("/v1/health/ack", status_code=204)
async def acknowledge(call: Call, body: requests.Nothing) -> Answer:
    """Put the first error to rest: somebody has seen it."""
    call.node.health.acknowledge()
    return None


@router.get("/v1/version", response_model=wire_service.Version)
async def version(call: Call) -> Answer:
    """What is running."""
    return {
        "version": metadata.version("jackline-server"),
        "python": platform.python_version(),
        "journal": f"{call.desk.journal.kind}, schema {SCHEMA_VERSION}",
    }


@router.get("/v1/openapi.json", response_model=dict)
async def openapi(call: Call) -> Answer:
    """This interface as an OpenAPI document."""
    app = call.scope["app"]
    if app.openapi_schema is None:
        # A second of work, so beside the event loop, and once.
        app.openapi_schema = await asyncio.to_thread(document_of, app)
    return dict(app.openapi_schema)
