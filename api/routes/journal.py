"""The journal itself: what was recorded, for whoever keeps a copy of it."""

from typing import Annotated

from fastapi import APIRouter, Query

from api import requests, wire_journal
from api.calls import Answer, Call, Endpoint
from api.journal_page import journal_page
from api.views import reached

router = APIRouter(route_class=Endpoint, tags=["journal"])

PROBLEM = {"description": "a problem (RFC 9457)"}


@router.get("/v1/journal", response_model=wire_journal.JournalPage, responses={"default": PROBLEM})
async def journal(call: Call, query: Annotated[requests.ReadFacts, Query()]) -> Answer:
    """Facts after a position as CloudEvents, in order, a bounded page at a time."""
    await reached(call.node, query.min_position)
    return journal_page(call, query)
