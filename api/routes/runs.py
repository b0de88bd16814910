"""Runs: submitted, shown, listed, steered, explained."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from api import queries, requests, wire, wire_service
from api.bodies import canonical_digest
from api.calls import Answer, Call, Endpoint
from api.past import refuse_waiting, run_then, runs_then, why_then
from api.views import reached, run_when, runs_page, visible, with_position
from commands import explaining, steering, submitting
from commands.showing import show_run
from commands.submitting import Wish
from projections.stored.listing import Listing

router = APIRouter(route_class=Endpoint, tags=["runs"])

RUN = "/v1/runs/{run_id}"


def _wish(submit: requests.Submit, value: Any) -> Wish:
    digest = None if submit.idempotency_key is None else canonical_digest(value)
    return Wish(command=submit.command(digest), key=submit.idempotency_key)


@router.post("/v1/runs", status_code=201, response_model=wire.Submitted)
async def submit(call: Call, body: requests.Submit) -> Answer:
    """Submit a run; a repeat under the same idempotency key gets the first receipt."""
    done = await submitting.submit(call.desk, call.caller, _wish(body, call.body_value))
    return with_position(call, done, done.answer["run_id"])


@router.post("/v1/runs/batch", status_code=201, response_model=wire.SubmittedBatch)
async def submit_batch(call: Call, body: requests.SubmitBatch) -> Answer:
    """Submit up to 1,000 runs in one append: all or none."""
    wishes = [_wish(one, value) for one, value in zip(body.runs, call.body_value["runs"], strict=True)]
    done = await submitting.submit_many(call.desk, call.caller, wishes)
    runs = [{"run_id": run["run_id"], "state": run["state"]} for run in done.answer["runs"]]
    done.answer = {"runs": runs, "position": done.position or call.desk.journal.position}
    return done


@router.get("/v1/runs", response_model=wire.RunPage)
async def list_runs(call: Call, query: Annotated[queries.ListRuns, Query()]) -> Answer:
    """Runs by filter, a page at a time, as they are or were; may lag by moments unless `min_position` is given."""
    wanted = Listing(
        state=tuple(query.state),
        queue=query.queue,
        leader_id=query.leader_id,
        owner=query.owner,
        tags=tuple(query.tag),
        q=query.q,
        sort=query.sort,
        limit=query.limit,
        cursor=query.cursor,
    )
    if query.at is not None:
        return await runs_then(call, wanted, query.at, query.min_position)
    return await runs_page(call, wanted, query.min_position)


@router.get(RUN, response_model=wire.Run)
async def show(call: Call, run_id: str, query: Annotated[queries.ReadRun, Query()]) -> Answer:
    """The run as it is now, once it has settled, or as it was."""
    if query.at is not None:
        refuse_waiting(query.until, query.wait_s)
        return await run_then(call, run_id, query.at, query.min_position)
    return await run_when(call, run_id, query)


@router.get(f"{RUN}/why", response_model=wire.Why)
async def why(call: Call, run_id: str, query: Annotated[queries.ReadPast, Query()]) -> Answer:
    """Why the run is, or was, as it is, the facts that led to it, and what would happen, or happened, next."""
    if query.at is not None:
        return await why_then(call, run_id, query.at, query.min_position)
    await reached(call.node, query.min_position)
    visible(call, run_id)
    return explaining.explain(call.desk, call.caller, run_id)


@router.post(f"{RUN}/cancel", response_model=wire.Run)
async def cancel(call: Call, run_id: str, body: requests.Cancel) -> Answer:
    """Cancel the run: at once when nobody holds it, else its holder may save and close within the grace."""
    done = await steering.cancel(call.desk, call.caller, run_id, keep_workspaces=body.keep_workspaces)
    return with_position(call, done, run_id)


@router.post(f"{RUN}/pause", response_model=wire.Run)
async def pause(call: Call, run_id: str, body: requests.Nothing) -> Answer:
    """Pause the run: at once when nobody acts for it, else its holder is asked to."""
    return with_position(call, await steering.pause(call.desk, call.caller, run_id), run_id)


@router.post(f"{RUN}/resume", response_model=wire.Run)
async def resume(call: Call, run_id: str, body: requests.Nothing) -> Answer:
    """End the wait of a run that is paused or waits to be taken over."""
    return with_position(call, await steering.resume(call.desk, call.caller, run_id), run_id)


@router.post(f"{RUN}/answer", response_model=wire.Run)
async def answer(call: Call, run_id: str, body: requests.Answer) -> Answer:
    """Answer the question of a parked run."""
    return with_position(call, await steering.answer(call.desk, call.caller, run_id, body.answer), run_id)


@router.post(f"{RUN}/verdict", response_model=wire.Run)
async def verdict(call: Call, run_id: str, body: requests.RenderVerdict) -> Answer:
    """Judge a run whose worker has closed."""
    done = await steering.verdict(call.desk, call.caller, run_id, body.verdict, body.result)
    return with_position(call, done, run_id)


@router.post(f"{RUN}/retry", status_code=201, response_model=wire.Run)
async def retry(call: Call, run_id: str, body: requests.Nothing) -> Answer:
    """Submit a new run like this one, linked to it by `retry_of`."""
    done = await submitting.retry(call.desk, call.caller, run_id)
    done.answer = show_run(call.desk, call.caller, done.answer["run_id"])
    return done


@router.post("/v1/runs/cancel", response_model=wire_service.CancelledRuns)
async def cancel_many(call: Call, body: requests.CancelMany) -> Answer:
    """Say which open runs match; unless it is a dry run, cancel them."""
    wanted = steering.Filter(**body.filter.model_dump())
    return await steering.cancel_many(call.desk, call.caller, wanted, dry_run=body.dry_run, limit=body.limit)


@router.post(f"{RUN}/reassign", response_model=wire.Run)
async def reassign(call: Call, run_id: str, body: requests.Reassign) -> Answer:
    """Let another leader want the run, or the same one again; refused on a stale revision."""
    done = await steering.reassign_run(call.desk, call.caller, run_id, body.leader_id, body.revision)
    return with_position(call, done, run_id)


@router.post(f"{RUN}/timeouts/{{fact_id}}/ack", response_model=wire.Run)
async def acknowledge(call: Call, run_id: str, fact_id: str, body: requests.AcknowledgeTimeout) -> Answer:
    """Answer a timeout of the run: it goes on, or is aborted.

    An extended `total` clock starts anew, whole. Of the silence that an `inactivity` told nothing is told again: the
    next stretch begins with the next activity.
    """
    done = await steering.acknowledge_timeout(call.desk, call.caller, run_id, fact_id, body.answer)
    return with_position(call, done, run_id)
