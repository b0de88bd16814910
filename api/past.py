"""What was: the routes' side of reading runs as they stood at a position or an instant.

A read of the past sees what the caller may see now: a run of another tenant, or one that its key does not cover, is
answered like one that does not exist. A list is narrowed by whose runs they were *then*, since it shows them as of
then. Folding back happens beside the event loop.
"""

import asyncio
from typing import Any

from api.calls import Call
from api.views import BEHIND_S, bounded, reached, visible
from commands import explaining
from domain.refusal import InvalidCommand
from projections.hindsight import AsOf, as_of, beside, grounds_at, run_at
from projections.stored.listing import Listing


async def place_of(call: Call, at: str, min_position: int | None) -> AsOf:
    """The place in the journal that is meant.

    Raises:
        InvalidCommand: it is neither a position nor an instant.
        PositionBeyond, InstantBefore, InstantBeyond: nothing is known of it.
    """
    await reached(call.node, min_position)
    return await asyncio.to_thread(as_of, call.desk.journal.store, at, call.node.clock().wall)


async def run_then(call: Call, run_id: str, at: str, min_position: int | None) -> dict[str, Any]:
    """The run as it was."""
    visible(call, run_id)
    place = await place_of(call, at, min_position)
    return await asyncio.to_thread(run_at, call.desk.journal.store, run_id, place)


async def why_then(call: Call, run_id: str, at: str, min_position: int | None) -> dict[str, Any]:
    """Why the run was as it was, and what happened next."""
    visible(call, run_id)
    place = await place_of(call, at, min_position)
    return await asyncio.to_thread(explaining.explain_then, call.desk, run_id, place)


async def runs_then(call: Call, wanted: Listing, at: str, min_position: int | None) -> dict[str, Any]:
    """A page of the runs as they were."""
    place = await place_of(call, at, min_position)
    found = await call.node.past.list(call.caller.tenant, bounded(call, wanted, place.position), BEHIND_S)
    store = call.desk.journal.store

    def complete() -> list[dict[str, Any]]:
        return [{**item, **beside(grounds_at(store, item["run_id"], place.position))} for item in found["items"]]

    return {**found, "items": await asyncio.to_thread(complete), "as_of": place}


def refuse_waiting(until: str | None, wait_s: float) -> None:
    """Refuse to wait for something in the past.

    Raises:
        InvalidCommand: each of the two is as it may be, and together they mean nothing.
    """
    limit = "left out when `at` is given: what was does not change"
    if until is not None:
        raise InvalidCommand(field="until", value=until, limit=limit)
    if wait_s > 0:
        raise InvalidCommand(field="wait_s", value=wait_s, limit=limit)
