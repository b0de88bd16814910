"""What a holder does under its fence while it works: it is heard, saves, reports, and writes output.

A *heartbeat* renews every lease that it lists and appends nothing. Each lease gets one of three answers: ``renewed``
with the ttl, what is left of the slice and the instructions; ``slice_ended`` with the last ttl to save in; or
``lost`` with the fence in force, its holder, why, and the instruction to stop. A renewal that finds no mark waits for
the expiry that has taken it and answers from the journal.

Output and partials are durable before they are acknowledged and are guarded by the lease, so nothing of a worker that
lost its run becomes visible. A chunk that is repeated is accepted once.
"""

from collections.abc import Sequence
from typing import Any, Literal

from commands.desk import Caller, Desk
from commands.instructing import instructions, parting, stop
from domain.fencing import why_lost
from domain.lease import VACANT, FenceLost, Held, Lease, LeaseMark, holder_of
from domain.refusal import InvalidCommand
from domain.run import Absent, Run, run_stream
from domain.standing import Standing, holder, lease_stream
from domain.values import Json, Moment, Value
from domain.worker import Registered, require
from journal.registers import ChunkWrite, PartialWrite, Write, running_digest

LEASES_MAX = 10_000
SEQ_MAX = 2**53
STREAM_MAX_CHARS = 32
MESSAGE_MAX_CHARS = 4_000


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
    worker = require(desk.worker(caller, worker_id), worker_id)
    desk.live.heard((caller.tenant, worker_id), desk.clock())
    return [await _renew(desk, caller, worker, lessee) for lessee in leases]


async def _renew(desk: Desk, caller: Caller, worker: Registered, lessee: Lessee) -> dict[str, Any]:
    load, stream = desk.journal.streams.load, lease_stream(lessee.run_id)
    run: Run | Absent = load(run_stream(lessee.run_id))
    if isinstance(run, Absent) or run.submission.tenant != caller.tenant:
        return _lost(desk, lessee, VACANT, "run_unknown", [])
    lease: Lease = load(stream)
    if _holds(lease, worker, lessee) and desk.evidence.leases.get(lessee.run_id) is None:
        await desk.journal.quiet(lessee.run_id)
        run, lease = load(run_stream(lessee.run_id)), load(stream)
    if not _holds(lease, worker, lessee) or not isinstance(lease, Held) or isinstance(run, Absent):
        told = parting(desk, lessee.run_id, worker.worker_id, lessee.fence)
        return _lost(desk, lessee, lease, why_lost(lease, lessee.fence), told)
    now = desk.clock()
    mark = desk.evidence.leases.get(lessee.run_id) or _made_now(desk, lessee.run_id, lease, now)
    if not mark.live(now):
        return _lost(desk, lessee, lease, "lease_expired", [])
    if lease.sliced:
        return _sliced(lessee, lease, mark, now, instructions(desk, run, lease, worker))
    desk.evidence.leases.renew(lessee.run_id, mark, lease.ttl_s, now)
    return _renewed(desk, lessee, lease, now, instructions(desk, run, lease, worker))


def _holds(lease: Lease, worker: Registered, lessee: Lessee) -> bool:
    return isinstance(lease, Held) and lease.fence == lessee.fence and lease.worker == worker.worker_id


def _made_now(desk: Desk, run_id: str, lease: Held, now: Moment) -> LeaseMark:
    """A mark that is missing is made as now, never read as old."""
    desk.live.remind("lease", now.mono + lease.ttl_s, (run_id,), str(lease.fence))
    return LeaseMark(fence=lease.fence, deadline=now.mono + lease.ttl_s, renewed_at=now.wall)


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

    Raises:
        FenceLost: the fence gives no right to act.
    """
    if len(note.message) > MESSAGE_MAX_CHARS:
        raise InvalidCommand(
            field="message", value=note.message[:MESSAGE_MAX_CHARS], limit=f"at most {MESSAGE_MAX_CHARS} characters"
        )
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
