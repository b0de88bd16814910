"""What a holder does under its fence while it works: it is heard, saves, reports, and writes output.

A *heartbeat* renews every lease that it lists and appends nothing. Each lease gets one of three answers: ``renewed``
with the ttl, what is left of the slice and the instructions; ``slice_ended`` with the last ttl to save in; or
``lost`` with the fence in force, its holder, why, and the instruction to stop. A renewal that finds no mark waits for
the expiry that has taken it and answers from the journal; all others are renewed before that, so that a slow disk under
one lease costs no other. Nor does their answer wait for it longer than ``FOUND_OUT_S``: a mark is only taken when its
lease is over, so a renewal that comes after it is ``lost`` however the append ends.

Output and partials are durable before they are acknowledged and are guarded by the lease, so nothing of a worker that
lost its run becomes visible. A chunk that is repeated is accepted once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from commands.desk import Caller, Desk
from commands.instructing import instructions, parting, stop
from domain.fencing import why_lost
from domain.lease import VACANT, FenceLost, Held, Lease, LeaseMark, holder_of
from domain.refusal import InvalidCommand
from domain.run import Absent, Run, run_stream
from domain.standing import Standing, holder, lease_stream
from domain.values import Json, Moment, Value
from domain.worker import Registered, require, worker_stream
from journal.registers import ChunkWrite, PartialWrite, Write, running_digest

LEASES_MAX = 10_000
SEQ_MAX = 2**53
STREAM_MAX_CHARS = 32
MESSAGE_MAX_CHARS = 4_000
FOUND_OUT_S = 0.25
"""How long a heartbeat waits for expiries that are under way, before it answers what is certain already: half of the
shortest ttl, so that the other leases hear in time that they were renewed."""


class Lessee(Value, frozen=True):
    """One lease that a worker believes it holds."""

    run_id: str
    fence: int


class Tool(Value, frozen=True, kw_only=True):
    """A tool call of the run that began or ended."""

    id: str
    name: str
    state: Literal["started", "ended"]


class Progress(Value, frozen=True, kw_only=True):
    """A sign of work, with a message for people."""

    message: str
    tool: Tool | None = None


class Chunk(Value, frozen=True, kw_only=True):
    """One piece of output; ``seq`` tells pieces of one attempt apart."""

    seq: int
    stream: str
    data: str


async def heartbeat(desk: Desk, caller: Caller, worker_id: str, leases: Sequence[Lessee]) -> list[dict[str, Any]]:
    """One answer for each lease, in order; the worker counts as heard.

    Raises:
        WorkerUnknown: no worker is registered under this id, or it was given up; register it first.
    """
    if len(leases) > LEASES_MAX:
        raise InvalidCommand(field="leases", value=len(leases), limit=f"at most {LEASES_MAX}")
    desk.require_worker(caller, worker_id, "be heard as this worker")
    if worker_stream(caller.tenant, worker_id) in desk.evidence.givings_up:
        await desk.journal.quiet(worker_stream(caller.tenant, worker_id))
    worker = require(desk.worker(caller, worker_id), worker_id)
    desk.live.heard((caller.tenant, worker_id), desk.clock())
    under_way = {lessee.run_id for lessee in leases if desk.evidence.leases.taken(lessee.run_id)}
    at_once = [None if lessee.run_id in under_way else _renew(desk, caller, worker, lessee) for lessee in leases]
    if under_way:
        await _found_out(desk, under_way)
    answered = zip(at_once, leases, strict=True)
    return [_renew(desk, caller, worker, lessee) if answer is None else answer for answer, lessee in answered]


async def _found_out(desk: Desk, run_ids: Iterable[str]) -> None:
    """Return once no decision about these runs is under way; when that takes too long, before."""
    try:
        async with asyncio.timeout(FOUND_OUT_S):
            for run_id in run_ids:
                await desk.journal.quiet(run_id)
    except TimeoutError:
        pass


def _renew(desk: Desk, caller: Caller, worker: Registered, lessee: Lessee) -> dict[str, Any]:
    load, marks = desk.journal.streams.load, desk.evidence.leases
    run: Run | Absent = load(run_stream(lessee.run_id))
    if isinstance(run, Absent) or run.submission.tenant != caller.tenant:
        return _lost(desk, lessee, VACANT, "run_unknown", [])
    lease: Lease = load(lease_stream(lessee.run_id))
    if not _holds(lease, worker, lessee) or not isinstance(lease, Held):
        told = parting(desk, lessee.run_id, worker.worker_id, lessee.fence)
        return _lost(desk, lessee, lease, why_lost(lease, lessee.fence), told)
    now = desk.clock()
    if marks.get(lessee.run_id) is None:
        desk.live.tenures.mark_anew(lessee.run_id, lease, now)
    mark = marks.get(lessee.run_id)
    if mark is None or not mark.live(now):
        return _lost(desk, lessee, lease, "lease_expired", [])
    if lease.sliced:
        return _sliced(lessee, lease, mark, now, instructions(desk, run, lease, worker))
    desk.evidence.leases.renew(lessee.run_id, mark, lease.ttl_s, now)
    return _renewed(desk, lessee, lease, now, instructions(desk, run, lease, worker))


def _holds(lease: Lease, worker: Registered, lessee: Lessee) -> bool:
    return isinstance(lease, Held) and lease.fence == lessee.fence and lease.worker == worker.worker_id


def _renewed(desk: Desk, lessee: Lessee, lease: Held, now: Moment, asked: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "run_id": lessee.run_id,
        "fence": lessee.fence,
        "outcome": "renewed",
        "current": lease.fence,
        "holder": lease.worker,
        "reason": None,
        "ttl_s": lease.ttl_s,
        "slice_ends_in_s": desk.live.slice_left_s(lessee.run_id, now),
        "instructions": asked,
    }


def _sliced(lessee: Lessee, lease: Held, mark: LeaseMark, now: Moment, asked: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "run_id": lessee.run_id,
        "fence": lessee.fence,
        "outcome": "slice_ended",
        "current": lease.fence,
        "holder": lease.worker,
        "reason": "slice_ended",
        "ttl_s": round(mark.deadline - now.mono, 3),
        "slice_ends_in_s": 0.0,
        "instructions": asked,
    }


def _lost(desk: Desk, lessee: Lessee, lease: Lease, reason: str, told: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "run_id": lessee.run_id,
        "fence": lessee.fence,
        "outcome": "lost",
        "current": lease.fence,
        "holder": holder_of(lease),
        "reason": reason,
        "ttl_s": None,
        "slice_ends_in_s": None,
        "instructions": [stop(reason, desk.timers.kill_grace_s), *told],
    }


async def save_partial(desk: Desk, caller: Caller, run_id: str, fence: int | None, body: Json) -> None:
    """Keep what the attempt has produced so far; the latest replaces the one before under the same fence.

    Raises:
        FenceLost: the fence gives no right to write; nothing of it is kept.
    """

    def prepare(standing: Standing) -> list[Write]:
        return [PartialWrite(run_id, holder(standing, desk.presented(caller, fence)).fence, body)]

    await desk.write(caller, run_id, prepare)
    desk.note_fence(fence, "partial")


async def write_output(desk: Desk, caller: Caller, run_id: str, fence: int | None, chunk: Chunk) -> None:
    """Keep one piece of output; a ``seq`` that is recorded already is accepted and changes nothing.

    Raises:
        FenceLost: the fence gives no right to write; nothing of it is kept.
    """
    _check_chunk(chunk)
    registers = desk.journal.registers

    def prepare(standing: Standing) -> list[Write]:
        held = holder(standing, desk.presented(caller, fence))
        if registers.seen(run_id, held.fence, chunk.seq):
            return []
        before = registers.output_mark(run_id, held.fence).digest
        digest = running_digest(before, chunk.seq, chunk.stream, chunk.data)
        return [ChunkWrite(run_id, held.fence, chunk.seq, chunk.stream, chunk.data, digest)]

    await desk.write(caller, run_id, prepare)
    desk.note_fence(fence, "output")


def _check_chunk(chunk: Chunk) -> None:
    if not 0 <= chunk.seq <= SEQ_MAX:
        raise InvalidCommand(field="seq", value=chunk.seq, limit=f"between 0 and {SEQ_MAX}")
    if not 1 <= len(chunk.stream) <= STREAM_MAX_CHARS:
        raise InvalidCommand(
            field="stream", value=chunk.stream[: STREAM_MAX_CHARS + 1], limit=f"1 to {STREAM_MAX_CHARS} characters"
        )


async def progress(desk: Desk, caller: Caller, run_id: str, fence: int | None, note: Progress) -> None:
    """The run is being worked on: renews the lease and counts as activity; nothing is appended.

    One that comes while the run's silence is being told waits for that, and is answered by what came of it.

    Raises:
        FenceLost: the fence gives no right to act.
    """
    if len(note.message) > MESSAGE_MAX_CHARS:
        raise InvalidCommand(
            field="message", value=note.message[:MESSAGE_MAX_CHARS], limit=f"at most {MESSAGE_MAX_CHARS} characters"
        )
    if run_id in desk.evidence.stalls:
        await desk.journal.quiet(run_id)
    try:
        holder(desk.standing(caller, run_id), desk.presented(caller, fence))
    except FenceLost as lost:
        desk.note_refused(caller, run_id, lost)
        raise
    if note.tool is not None and note.tool.state == "started":
        desk.evidence.tool_started(run_id, note.tool.id, desk.clock())
    elif note.tool is not None:
        desk.evidence.tool_ended(run_id, note.tool.id)
    desk.touch(run_id)
    desk.note_fence(fence, "progress")
