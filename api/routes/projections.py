"""What the stored read models know: timelines, effects of all runs, usage; and how the models themselves stand."""

import sqlite3
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query

from api import model_queries, wire_models
from api.calls import Answer, Call, Endpoint
from api.stored import model_of, seen_leaders, seen_owners
from api.views import visible
from projections.proving import Shown, shown
from projections.stored import effects, timeline, usage
from projections.stored.catalogue import PROJECTIONS

router = APIRouter(route_class=Endpoint, tags=["projections"])

BESIDE = ("rebuilding", "failing", "errors", "first_error")
"""What the follower knows of a projection and its file does not."""


@router.get("/v1/projections", response_model=wire_models.ProjectionList)
async def list_projections(call: Call, query: Annotated[model_queries.ReadProjections, Query()]) -> Answer:
    """The stored read models: how far each is, and what is wrong with it; `digest=true` reads every row of each."""
    runner, store = call.node.runner, call.desk.journal.store
    assert runner is not None, "the read models are asked for before the boot has opened them"
    health = runner.health()["projections"]
    for name in health:
        await model_of(call, name, query.min_position)

    def look(connection: sqlite3.Connection) -> list[Shown]:
        return [shown(connection, store, projection, digests=query.digest) for projection in PROJECTIONS]

    stands = await runner.runs.in_pool(lambda: runner.look(look))
    items = [{**msgspec.to_builtins(one), **{name: health[one.name][name] for name in BESIDE}} for one in stands]
    return {"items": items, "next_cursor": None, "position": runner.position}


@router.get("/v1/runs/{run_id}/timeline", response_model=wire_models.Timeline)
async def show_timeline(call: Call, run_id: str, query: Annotated[model_queries.Paging, Query()]) -> Answer:
    """What happened to the run, across its streams, and how long each state lasted."""
    visible(call, run_id)
    model = await model_of(call, timeline.NAME, query.min_position)
    asked = timeline.Page(limit=query.limit, cursor=query.cursor)
    return await model.ask(lambda connection, at, epoch: timeline.page(connection, run_id, asked, at, epoch))


@router.get("/v1/effects", response_model=wire_models.EffectPage)
async def list_effects(call: Call, query: Annotated[model_queries.ListEffects, Query()]) -> Answer:
    """Effects of all runs, in the order in which they were first claimed; `state=ambiguous` wants somebody to look."""
    model = await model_of(call, effects.NAME, query.min_position)
    asked = effects.Asked(
        state=tuple(query.state),
        queue=query.queue,
        run_id=query.run_id,
        limit=query.limit,
        cursor=query.cursor,
        leaders=seen_leaders(call),
        owners=seen_owners(call),
    )
    return await model.ask(lambda connection, at, epoch: effects.page(connection, call.caller.tenant, asked, at, epoch))


@router.get("/v1/usage", response_model=wire_models.UsagePage)
async def show_usage(call: Call, query: Annotated[model_queries.ReadUsage, Query()]) -> Answer:
    """Attempts, their seconds and their ends, by queue and day (UTC), the latest day first."""
    model = await model_of(call, usage.NAME, query.min_position)
    asked = usage.Asked(
        queue=query.queue, day_from=query.day_from, day_to=query.day_to, limit=query.limit, cursor=query.cursor
    )
    found: dict[str, Any] = await model.ask(
        lambda connection, at, epoch: usage.page(connection, call.caller.tenant, asked, at, epoch)
    )
    return found
