"""Acting under a fence: output, partials, signs of work, and letting go."""

from typing import Any

from fastapi import APIRouter

from api import requests, wire
from api.calls import Answer, Call, Endpoint
from api.problems import BodyTooLarge
from api.views import with_position
from commands import ending, holding
from commands.ending import CloseOf
from domain.handing import Park
from domain.lease import FenceRequired

router = APIRouter(route_class=Endpoint, tags=["holding"])

RUN = "/v1/runs/{run_id}"
CHUNK_MAX_BYTES = 256 * 1024


@router.post(f"{RUN}/output", status_code=204)
async def output(call: Call, run_id: str, body: requests.Output) -> Answer:
    """Append a piece of output; a repeated `seq` is accepted once."""
    if len(body.data.encode()) > CHUNK_MAX_BYTES:
        raise BodyTooLarge(CHUNK_MAX_BYTES)
    chunk = holding.Chunk(seq=body.seq, stream=body.stream, data=body.data)
    await holding.write_output(call.desk, call.caller, run_id, call.fence(body), chunk)
    call.node.bells.ring(run_id)
    return None


@router.post(f"{RUN}/partial", status_code=204)
async def partial(call: Call, run_id: str, body: requests.SavePartial) -> Answer:
    """Keep what the attempt has produced so far; replaces what was kept before."""
    await holding.save_partial(call.desk, call.caller, run_id, call.fence(body), body.partial)
    return None


@router.post(f"{RUN}/progress", status_code=204)
async def progress(call: Call, run_id: str, body: requests.Progress) -> Answer:
    """Give a sign of work: it renews the lease and counts as activity."""
    tool = None if body.tool is None else holding.Tool(id=body.tool.id, name=body.tool.name, state=body.tool.state)
    note = holding.Progress(message=body.message, tool=tool)
    await holding.progress(call.desk, call.caller, run_id, call.fence(body), note)
    return None


@router.post(f"{RUN}/park", response_model=wire.Run)
async def park(call: Call, run_id: str, body: requests.Park) -> Answer:
    """Put the run aside until somebody answers or resumes it, keeping the lease or giving it up."""
    command = Park(kind=body.kind, question=body.question, keep_lease=body.keep_lease)
    done = await ending.park(call.desk, call.caller, run_id, call.fence(body), command)
    return with_position(call, done, run_id)


@router.post(f"{RUN}/hand-back", response_model=wire.Run)
async def hand_back(call: Call, run_id: str, body: requests.HandBack) -> Answer:
    """Give the run back unfinished; nothing is counted."""
    return with_position(call, await ending.hand_back(call.desk, call.caller, run_id, call.fence(body)), run_id)


@router.post(f"{RUN}/close", response_model=wire.Run)
async def close(call: Call, run_id: str, body: requests.Close) -> Answer:
    """Say how the attempt ended."""
    closing = CloseOf(run_id=run_id, fence=call.fence(body), close=body.command())
    return with_position(call, await ending.close(call.desk, call.caller, closing), run_id)


@router.post("/v1/closes", response_model=wire.ClosedMany)
async def close_many(call: Call, body: requests.CloseMany) -> Answer:
    """Say how many attempts ended, in one append; each gets its own answer."""
    closings = [CloseOf(run_id=one.run_id, fence=one.fence, close=one.command()) for one in body.closes]
    done = await ending.close_many(call.desk, call.caller, closings)
    _count_stale(call, done.answer["closes"])
    done.answer = {**done.answer, "position": done.position or call.desk.journal.position}
    return done


@router.post(f"{RUN}/stop-report", status_code=204)
async def stop_report(call: Call, run_id: str, body: requests.StopReport) -> Answer:
    """Tell once, under a revoked fence, what came of the order to stop; it moves nothing."""
    fence = call.fence(body)
    if fence is None:
        raise FenceRequired(run_id)
    return await ending.stop_report(call.desk, call.caller, run_id, fence, body.report)


def _count_stale(call: Call, answers: list[dict[str, Any]]) -> None:
    stale = sum(1 for answer in answers if answer.get("code") == "fence_lost")
    if stale:
        call.node.health.refused_stale["POST /v1/closes"] += stale
