"""Views: what a read may see, how fresh it is, and pages and streams of facts and output.

A read of one run reflects every command that was acknowledged before it arrived; ``min_position`` makes a read wait,
for ``BEHIND_S`` seconds at most, until a position is reached. A list comes from a read model that follows: without
``min_position`` it waits ``FRESH_S`` at most for what was acknowledged before the request came, and then shows what
there is, with the ``position`` it is of. No wait outlives the service: when it stops, a read that
waits for a run to settle answers the run as it is, and one that waits for a position is refused ``stopping``.

What a key is bound to bounds what it sees: a leader's key with leader ids sees their runs, a worker's key with worker
ids the runs that those hold or held last; any other run is answered exactly like one that does not exist. A stream, or
a read that waits, is bound at every step: it ends when the run has become somebody else's.

Pages end at their limit or at ``PAGE_BYTES``, whichever comes first.
"""

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from api.bells import within
from api.calls import Call, encode
from api.keys import Key
from api.node import Node
from api.problems import InvalidBody, Stopping
from api.queries import ReadRun
from api.requests import SAFE_INTEGER, ReadFacts, ReadOutput
from api.streams import COMMENT, COMMENT_S, Opened, Stream, frame
from commands.desk import Caller, Desk
from commands.showing import ever_of, show_run, unknown_since, workspace_of
from domain.lease import Lease, holder_of
from domain.refusal import RunUnknown
from domain.run_facts import TERMINAL
from domain.standing import Standing
from domain.values import Moment
from domain.workspace import Workspace
from journal.commit import Done
from journal.mapper import Recorded
from journal.registers import Chunk
from journal.tool_errors import PositionBeyond
from projections.document import fact_document
from projections.ground_document import brief
from projections.stored.faults import ReadModelBehind
from projections.stored.listing import Listing
from projections.stored.reading import Model

BEHIND_S = 5.0
FRESH_S = 1.0
PAGE_BYTES = 8 * 1024 * 1024
FACTS_AT_ONCE = 200
CHUNKS_AT_ONCE = 16

Place = tuple[int, int]


async def reached(node: Node, position: int | None) -> None:
    """Return once everything up to this position is visible.

    Raises:
        ReadModelBehind: it was not within ``BEHIND_S`` seconds.
        Stopping: the service began to stop first.
    """
    if position is not None and node.desk.journal.feed.position < position:
        await caught_up(node, _published(node, position))


async def _published(node: Node, position: int) -> None:
    if not await node.desk.journal.feed.wait(position, BEHIND_S):
        raise ReadModelBehind(wanted=position, reached=node.desk.journal.position)


async def caught_up(node: Node, waiting: Coroutine[Any, Any, None]) -> None:
    """Return once what is waited for is there.

    Raises:
        Stopping: the service began to stop first.
    """
    if not await node.before_stop(waiting):
        raise Stopping


def visible(call: Call, run_id: str) -> Standing:
    """How a run stands that the caller may see.

    Raises:
        RunUnknown: there is none, or none that its key may see.
    """
    standing = call.desk.standing(call.caller, run_id)
    if not may_see(call.caller, standing):
        raise RunUnknown(run_id)
    return standing


def may_see(caller: Caller, standing: Standing) -> bool:
    """Whether the principal's ids let it see this run."""
    if caller.role == "leader" and caller.leaders is not None:
        return standing.known.leader_id in caller.leaders
    if caller.role == "worker" and caller.workers is not None:
        return _last_holder(standing.lease) in caller.workers
    return True


def _last_holder(lease: Lease) -> str | None:
    return holder_of(lease) or (lease.last.worker if lease.last is not None else None)


def with_position(call: Call, done: Done[dict[str, Any]], run_id: str) -> Done[dict[str, Any]]:
    """A run as a command answers it, with the position of its last fact."""
    position = done.position if done.position is not None else call.desk.journal.last_position(run_id)
    done.answer = {**done.answer, "position": position}
    return done


async def fresh(call: Call, model: Model, min_position: int | None) -> None:
    """Return once a list is as fresh as the caller wants it; without a wish, as fresh as ``FRESH_S`` allows.

    Raises:
        ReadModelBehind: it had not reached ``min_position`` within ``BEHIND_S`` seconds.
        Stopping: the service began to stop first.
    """
    if min_position is not None:
        return await caught_up(call.node, model.wait_for(min_position, BEHIND_S))
    position = call.desk.journal.position
    if model.position < position:
        with suppress(ReadModelBehind):
            await caught_up(call.node, model.wait_for(position, FRESH_S))


async def run_when(call: Call, run_id: str, query: ReadRun) -> dict[str, Any]:
    """The run, or the run once it has settled, if that happens within the time given."""
    await reached(call.node, query.min_position)
    visible(call, run_id)
    if query.until is not None and query.wait_s > 0:
        await call.while_there(call.node.before_stop(_until_settled(call, run_id, query.wait_s)))
        visible(call, run_id)
    return show_run(call.desk, call.caller, run_id)


async def _until_settled(call: Call, run_id: str, wait_s: float) -> None:
    clock = call.node.clock
    until = clock().mono + wait_s
    with call.node.bells.hung(run_id) as bell:
        while call.desk.standing(call.caller, run_id).state not in TERMINAL:
            bell.clear()
            if not await within(bell, until - clock().mono):
                return


async def runs_page(call: Call, wanted: Listing, min_position: int | None) -> dict[str, Any]:
    """A page of the runs that the caller may see, with the evidence and the partial of each."""
    await fresh(call, call.node.runs, min_position)
    found = await call.node.runs.list(call.caller.tenant, bounded(call, wanted))
    now = call.node.clock()
    found["items"] = [{**item, **_beside(call.desk, item["run_id"], now)} for item in found["items"]]
    return found


def bounded(call: Call, wanted: Listing, at: int | None = None) -> Listing:
    """The list, bounded to what the caller may see, and to a position if one is given."""
    caller = call.caller
    leaders = caller.leaders if caller.role == "leader" else None
    owners = caller.workers if caller.role == "worker" else None
    return msgspec.structs.replace(
        wanted,
        leaders=None if leaders is None else tuple(sorted(leaders)),
        owners=None if owners is None else tuple(sorted(owners)),
        at=at,
    )


def _beside(desk: Desk, run_id: str, now: Moment) -> dict[str, Any]:
    """What belongs to a run and is not a fact."""
    mark, activity = desk.evidence.leases.get(run_id), desk.evidence.activity(run_id)
    partial = desk.journal.registers.partial(run_id)
    seen_at = activity.at if activity else None
    found = [workspace_of(desk, workspace_id) for workspace_id in ever_of(desk, run_id)]
    grounds = [workspace for workspace in found if isinstance(workspace, Workspace)]
    evidence = {
        "last_renewed_at": mark.renewed_at if mark else None,
        "lease_deadline": now.wall_at(mark.deadline) if mark else None,
        "last_activity_at": seen_at,
        "quiet_since": seen_at,
        "unknown_since": unknown_since(grounds),
    }
    return {"partial": partial.body if partial else None, "workspaces": [*map(brief, grounds)], "evidence": evidence}


def facts_page(call: Call, run_id: str, query: ReadFacts) -> dict[str, Any]:
    """Facts of a run after a position; ``next_after`` is null when there are no more for now."""
    store = call.desk.journal.store
    facts = store.facts_within(run_id, query.after, query.limit, PAGE_BYTES)
    shown: list[msgspec.Raw] = []
    size, last = 0, query.after
    for recorded in facts:
        document = encode(fact_document(recorded))
        size += len(document)
        shown.append(msgspec.Raw(document))
        last = recorded.position
        if size >= PAGE_BYTES:
            break
    more = len(shown) == query.limit or last < store.last_position(run_id)
    return {"facts": shown, "next_after": last if more else None}


def facts_stream(call: Call, run_id: str, after: int) -> Stream:
    """Facts of a run after a position, then as they happen."""
    node, key, caller = call.node, call.entry.key, call.caller
    store = call.desk.journal.store

    async def frames(opened: Opened) -> AsyncIterator[bytes]:
        position = after
        with node.bells.hung(run_id) as bell:
            opened.on_end = bell.set
            while opened.ending is None and may_see(caller, node.desk.standing(caller, run_id)):
                bell.clear()
                facts = store.facts_within(run_id, position, FACTS_AT_ONCE, PAGE_BYTES)
                if facts:
                    position = facts[-1].position
                    yield b"".join(map(fact_frame, facts))
                elif not await within(bell, COMMENT_S):
                    _end_if_void(node, key, opened)
                    yield COMMENT

    return Stream(node.streams, key.key_id, frames)


def fact_frame(recorded: Recorded) -> bytes:
    """One fact as an event: its position, its topic, its document."""
    return frame(str(recorded.position), recorded.topic, encode(fact_document(recorded)))


def _end_if_void(node: Node, key: Key, opened: Opened) -> None:
    if not node.keys.is_live(key, node.clock().wall):
        opened.end("revoked")


def wants_stream(call: Call) -> bool:
    """Whether the client asks for events rather than a document."""
    return "text/event-stream" in call.headers.get("accept", "")


def resume_at(call: Call, after: int) -> int:
    """The position after which to go on: of the last event the client has, if it says so.

    Raises:
        PositionBeyond: nothing was ever told from there; the journal was restored to an earlier place since.
    """
    last = call.headers.get("last-event-id", "")
    if not last:
        return after
    if not (last.isascii() and last.isdigit() and len(last) <= 16 and int(last) <= SAFE_INTEGER):
        raise InvalidBody([{"field": "Last-Event-ID", "limit": "the position of an event of this stream"}])
    if int(last) > (end := call.desk.journal.position):
        raise PositionBeyond(int(last), end)
    return int(last)


def place_of(text: str | None, field: str) -> Place | None:
    """The fence and number of a chunk, written ``<fence>.<seq>``."""
    if not text:
        return None
    fence, _, seq = text.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 16 for part in (fence, seq)):
        raise InvalidBody([{"field": field, "limit": "<fence>.<seq> of a chunk of this run"}])
    return int(fence), int(seq)


def output_page(call: Call, run_id: str, query: ReadOutput) -> dict[str, Any]:
    """Pieces of output after one; ``next_after`` is null when there are no more for now."""
    after = place_of(query.after, "after")
    chunks: list[Chunk] = []
    size = 0
    while len(chunks) < query.limit and size < PAGE_BYTES:
        some = call.desk.journal.registers.chunks(run_id, after, min(CHUNKS_AT_ONCE, query.limit - len(chunks)))
        if not some:
            return {"chunks": chunks, "next_after": None}
        chunks += some
        size += sum(len(chunk.data) for chunk in some)
        after = (some[-1].fence, some[-1].seq)
    return {"chunks": chunks, "next_after": f"{chunks[-1].fence}.{chunks[-1].seq}"}


def output_stream(call: Call, run_id: str, after: Place | None) -> Stream:
    """Output after a piece, then as it arrives; the stream ends once the run has ended and everything was sent."""
    node, key, caller = call.node, call.entry.key, call.caller

    async def frames(opened: Opened) -> AsyncIterator[bytes]:
        place = after
        with node.bells.hung(run_id) as bell:
            opened.on_end = bell.set
            while opened.ending is None:
                bell.clear()
                # Asked before the output is read: what a run wrote before it ended is then all there.
                standing = node.desk.standing(caller, run_id)
                if not may_see(caller, standing):
                    return
                ended = standing.state in TERMINAL
                chunks = node.desk.journal.registers.chunks(run_id, place, CHUNKS_AT_ONCE)
                if chunks:
                    place = (chunks[-1].fence, chunks[-1].seq)
                    yield b"".join(map(_chunk_frame, chunks))
                elif ended:
                    return
                elif not await within(bell, COMMENT_S):
                    _end_if_void(node, key, opened)
                    yield COMMENT

    return Stream(node.streams, key.key_id, frames)


def _chunk_frame(chunk: Chunk) -> bytes:
    return frame(f"{chunk.fence}.{chunk.seq}", "output", encode(chunk))


def page(items: Sequence[Mapping[str, Any]], position: int) -> dict[str, Any]:
    """A list that fits on one page."""
    return {"items": items, "next_cursor": None, "position": position}
