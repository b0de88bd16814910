"""Output and partials: durable before they are acknowledged, under the fence, and vouched for by the attempt's end."""

import asyncio
from typing import Any

import pytest

from commands import ending, holding, steering
from domain.handing import Park
from domain.lease import FenceLost
from domain.refusal import InvalidCommand, RunUnknown
from domain.run_facts import AttemptEnded, PartialSalvaged, RunClosed, Work
from domain.values import digest
from journal.errors import OutcomeUnknown
from journal.registers import Chunk, running_digest
from tests.commands.world import ADMIN, World, closing, text

CHUNKS = [(0, "one "), (1, "two "), (2, "three")]


def chunks(world: World, run_id: str) -> list[Chunk]:
    """Every piece of output that is kept."""
    return world.journal.registers.chunks(run_id, None, 1_000)


def work_of(world: World, run_id: str) -> Work:
    """What the last end of an attempt vouches for."""
    return next(f.work for f in reversed(world.facts(run_id)) if isinstance(f, AttemptEnded | RunClosed))


def vouched(world: World, run_id: str, fence: int) -> bool:
    """Whether the end of this attempt vouches for exactly the output that is kept under its fence."""
    found = "", 0, 0
    for chunk in chunks(world, run_id):
        if chunk.fence == fence:
            before, count, size = found
            digested = running_digest(before, chunk.seq, chunk.stream, chunk.data)
            found = digested, count + 1, size + len(chunk.data.encode())
    works = [f.work for f in world.facts(run_id) if isinstance(f, AttemptEnded | RunClosed) and f.fence == fence]
    return all((work.output_digest or "", work.output_chunks, work.output_bytes) == found for work in works)


async def test_output_is_durable_before_it_is_acknowledged(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    async with world.gate.closed() as gate:
        writing = world.start(world.output(run_id, fence, 0, "x"))
        await gate.reached()
        await world.settle()
        assert not writing.done()
        assert [] == chunks(world, run_id)
    await writing

    assert [Chunk(fence, 0, "stdout", "x")] == chunks(world, run_id)


@pytest.mark.origin("B28")
async def test_a_partial_is_durable_before_it_is_acknowledged(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.partial(run_id, fence, 1)
    async with world.gate.closed() as gate:
        writing = world.start(world.partial(run_id, fence, 2))
        await gate.reached()
        await world.settle()
        assert not writing.done()
        assert 1 == (await world.show(run_id))["partial"]
    await writing

    assert 2 == (await world.show(run_id))["partial"]


@pytest.mark.origin("B27", "R25")
async def test_a_repeated_seq_is_accepted_once(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    for seq, data in (*CHUNKS, *CHUNKS, (1, "something else")):
        await world.output(run_id, fence, seq, data)

    assert ["one ", "two ", "three"] == [chunk.data for chunk in chunks(world, run_id)]
    await world.close(run_id, fence)
    assert (3, 13) == (work_of(world, run_id).output_chunks, work_of(world, run_id).output_bytes)
    assert vouched(world, run_id, fence)


async def test_the_same_chunk_sent_twice_at_once_is_accepted_once(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    async with world.gate.closed():
        both = [world.start(world.output(run_id, fence, 0, "x")) for _ in range(3)]
        await world.settle()
    await asyncio.gather(*both)

    assert 1 == len(chunks(world, run_id))


async def test_chunks_that_arrive_out_of_order_are_kept_and_read_in_order(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    for seq in (5, 0, 3):
        await world.output(run_id, fence, seq, str(seq))

    assert [0, 3, 5] == [chunk.seq for chunk in chunks(world, run_id)]
    await world.close(run_id, fence)
    assert 3 == work_of(world, run_id).output_chunks
    digested = running_digest(running_digest(running_digest("", 5, "stdout", "5"), 0, "stdout", "0"), 3, "stdout", "3")
    assert digested == work_of(world, run_id).output_digest


@pytest.mark.parametrize("end", ["close", "closes", "park", "hand_back", "expire", "take_over", "cancel"])
@pytest.mark.origin("R25", "D19")
async def test_the_end_of_an_attempt_vouches_for_every_acknowledged_byte(each_world: World, end: str) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    for seq, data in CHUNKS:
        await world.output(run_id, fence, seq, data)
    await world.partial(run_id, fence, {"b": 1, "a": 2})
    await world.partial(run_id, fence, {"b": 2, "a": 2})
    await ends(world, end, run_id, fence)
    work = work_of(world, run_id)

    assert (3, 13, 2) == (work.output_chunks, work.output_bytes, work.partials)
    assert digest(text({"a": 2, "b": 2})) == work.partial_digest
    assert vouched(world, run_id, fence)


async def ends(world: World, end: str, run_id: str, fence: int) -> Any:
    """End the attempt in this way."""
    match end:
        case "close":
            return await world.close(run_id, fence)
        case "closes":
            return await ending.close_many(world.desk, ADMIN, [closing(run_id, fence)])
        case "park":
            return await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input"))
        case "hand_back":
            return await ending.hand_back(world.desk, ADMIN, run_id, fence)
        case "cancel":
            await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
            return await world.later(10)
        case "take_over":
            await world.worker("w2", slots=9)
            world.go(10)
            return await world.claim_run(run_id, "w2")
        case _:
            return await world.later(10)


@pytest.mark.parametrize("end", ["close", "park", "hand_back", "expire", "take_over"])
@pytest.mark.parametrize("kind", ["output", "partial"])
@pytest.mark.parametrize("first", ["write", "end"])
@pytest.mark.origin("R8", "R11", "R25", "D19", "D44")
async def test_a_write_that_races_an_end_is_vouched_for_or_refused_and_never_accepted_silently(
    each_world: World, kind: str, end: str, first: str
) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.output(run_id, fence, 0, "before")
    await world.partial(run_id, fence, "before")
    await world.worker("w2", slots=9)
    if end in ("expire", "take_over"):
        world.go(10)

    async def writes() -> None:
        await (world.output(run_id, fence, 1, "late") if kind == "output" else world.partial(run_id, fence, "late"))

    async def finishes() -> None:
        if end == "expire":
            await world.keep()
        elif end == "take_over":
            await world.claim_run(run_id, "w2")
        else:
            await ends(world, end, run_id, fence)

    async with world.gate.closed() as gate:
        begun = world.start(writes() if first == "write" else finishes())
        await gate.reached()
        follows = world.start(finishes() if first == "write" else writes())
        await world.settle()
    await begun
    found = await world.refused_or(follows)

    assert (found is None) == (first == "write")
    assert isinstance(found, FenceLost | None)
    work = work_of(world, run_id)
    kept = (2, 1) if kind == "output" else (1, 2)
    assert (kept if first == "write" else (1, 1)) == (work.output_chunks, work.partials)
    assert vouched(world, run_id, fence)
    late = first == "write" and kind == "partial"
    assert ("late" if late else "before") == (await world.show(run_id))["partial"]


@pytest.mark.origin("D20", "D38")
async def test_a_write_that_fails_is_not_acknowledged_and_may_be_repeated(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    world.gate.fails(2)
    assert isinstance(await world.refused_or(world.output(run_id, fence, 0, "x")), OutcomeUnknown)
    assert isinstance(await world.refused_or(world.partial(run_id, fence, "x")), OutcomeUnknown)
    assert (None, []) == ((await world.show(run_id))["partial"], chunks(world, run_id))

    await world.output(run_id, fence, 0, "x")
    await world.partial(run_id, fence, "x")
    await world.close(run_id, fence)
    assert (1, 1) == (work_of(world, run_id).output_chunks, work_of(world, run_id).partials)
    assert vouched(world, run_id, fence)


async def test_a_write_of_unknown_outcome_that_landed_is_accepted_once(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    world.gate.fails(after_all=True)
    await world.refused_or(world.output(run_id, fence, 0, "x"))
    await world.output(run_id, fence, 0, "x")
    await world.close(run_id, fence)

    assert 1 == len(chunks(world, run_id))
    assert vouched(world, run_id, fence)


@pytest.mark.parametrize("fence", [0, 2, 99])
@pytest.mark.origin("B4", "K11", "D44")
async def test_another_fence_than_the_one_in_force_writes_nothing(each_world: World, fence: int) -> None:
    world = each_world
    run_id, _ = await world.held("w1")
    before = world.journal.position

    assert isinstance(await world.refused_or(world.output(run_id, fence, 0, "x")), FenceLost)
    assert isinstance(await world.refused_or(world.partial(run_id, fence, "x")), FenceLost)
    assert (before, [], None) == (world.journal.position, chunks(world, run_id), (await world.show(run_id))["partial"])


@pytest.mark.origin("R8", "B33")
async def test_nothing_of_a_zombie_becomes_visible(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.output(run_id, fence, 0, "mine")
    await world.partial(run_id, fence, "mine")
    await world.later(10)
    await world.worker("w2")
    await world.claimed("w2")
    await world.output(run_id, 2, 0, "theirs")
    for write in (
        world.output(run_id, fence, 1, "zombie"),
        world.partial(run_id, fence, "zombie"),
        world.close(run_id, fence, result="zombie"),
        holding.progress(world.desk, ADMIN, run_id, fence, holding.Progress(message="zombie")),
    ):
        assert isinstance(await world.refused_or(write), FenceLost)
    await world.close(run_id, 2, result="theirs")
    document = await world.show(run_id)

    assert ("succeeded", "theirs", "mine") == tuple(document[name] for name in ("state", "result", "partial"))
    assert [(1, "mine"), (2, "theirs")] == [(chunk.fence, chunk.data) for chunk in chunks(world, run_id)]


@pytest.mark.origin("B19", "B20", "R11", "B33", "K9")
async def test_the_partial_of_the_last_attempt_is_what_the_next_sees_and_what_is_salvaged(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10, attempts=3)
    await world.partial(run_id, fence, {"at": 1})
    await world.partial(run_id, fence, {"at": 2})
    await world.later(10)
    assert {"at": 2} == (await world.claimed("w1"))["partial"]
    await world.later(10)
    claim = await world.claimed("w1")
    assert {"at": 2} == claim["partial"]
    await world.partial(run_id, claim["fence"], {"at": 3})
    assert [] == [fact for fact in world.facts(run_id) if isinstance(fact, PartialSalvaged)]
    await world.later(10)

    assert ("aborted", {"at": 3}) == ((document := await world.show(run_id))["state"], document["result"])
    (salvaged,) = [fact for fact in world.facts(run_id) if isinstance(fact, PartialSalvaged)]
    assert 3 == salvaged.fence


async def test_a_null_partial_replaces_the_one_before(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.partial(run_id, fence, {"at": 1})
    await world.partial(run_id, fence, None)

    assert (await world.show(run_id))["partial"] is None


async def test_a_kept_lease_writes_while_its_run_is_parked(world: World) -> None:
    run_id, fence = await world.held("w1")
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_input", keep_lease=True))
    await world.output(run_id, fence, 0, "x")
    await world.partial(run_id, fence, 1)

    assert "waiting_input" == world.state(run_id)


# Activity


@pytest.mark.parametrize("kind", ["output", "partial", "progress"])
async def test_a_write_is_activity_and_renews_the_lease(world: World, kind: str) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(9)
    await _writes(world, kind, run_id, fence)
    await world.later(9)

    assert "running" == world.state(run_id)
    evidence = (await world.show(run_id))["evidence"]
    assert ("2026-01-01T12:00:09Z", "2026-01-01T12:00:19Z") == (
        evidence["last_activity_at"], evidence["lease_deadline"],
    )  # fmt: skip


async def _writes(world: World, kind: str, run_id: str, fence: int) -> None:
    if kind == "output":
        await world.output(run_id, fence, 0, "x")
    elif kind == "partial":
        await world.partial(run_id, fence, "x")
    else:
        await holding.progress(world.desk, ADMIN, run_id, fence, holding.Progress(message="on it"))


async def test_a_heartbeat_renews_and_is_no_activity(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10)
    await world.later(9)
    await world.beats("w1", run_id, fence)

    assert "2026-01-01T12:00:00Z" == (await world.show(run_id))["evidence"]["last_activity_at"]


@pytest.mark.parametrize("kind", ["output", "partial", "progress"])
async def test_a_write_at_the_deadline_is_accepted_and_revives_nothing(each_world: World, kind: str) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    world.go(10)
    await _writes(world, kind, run_id, fence)
    assert "running" == world.state(run_id)
    await world.keep()

    assert "queued" == world.state(run_id)
    assert vouched(world, run_id, fence)


async def test_a_write_in_the_last_ttl_of_a_slice_does_not_lengthen_it(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=10)
    await world.later(10)
    world.go(9)
    await world.output(run_id, fence, 0, "saving")
    await world.later(1)

    assert ("queued", "slice_ended") == ((document := await world.show(run_id))["state"], document["reason"])
    assert 0 == document["failed_attempts"]


# Bounds


@pytest.mark.parametrize(
    ("chunk", "field"),
    [
        (holding.Chunk(seq=-1, stream="stdout", data=""), "seq"),
        (holding.Chunk(seq=holding.SEQ_MAX + 1, stream="stdout", data=""), "seq"),
        (holding.Chunk(seq=0, stream="", data=""), "stream"),
        (holding.Chunk(seq=0, stream="s" * (holding.STREAM_MAX_CHARS + 1), data=""), "stream"),
    ],
)
async def test_a_chunk_beyond_its_bounds_is_refused_naming_the_field(
    world: World, chunk: holding.Chunk, field: str
) -> None:
    run_id, fence = await world.held("w1")
    refused = await world.refused_or(holding.write_output(world.desk, ADMIN, run_id, fence, chunk))

    assert isinstance(refused, InvalidCommand)
    assert field == refused.field


async def test_a_chunk_at_its_bounds_is_accepted(world: World) -> None:
    run_id, fence = await world.held("w1")
    chunk = holding.Chunk(seq=holding.SEQ_MAX, stream="s" * holding.STREAM_MAX_CHARS, data="")
    await holding.write_output(world.desk, ADMIN, run_id, fence, chunk)

    assert [holding.SEQ_MAX] == [kept.seq for kept in chunks(world, run_id)]


async def test_a_stream_may_have_a_name_of_one_letter(world: World) -> None:
    run_id, fence = await world.held("w1")
    await holding.write_output(world.desk, ADMIN, run_id, fence, holding.Chunk(seq=0, stream="o", data="x"))

    assert ["o"] == [kept.stream for kept in chunks(world, run_id)]


@pytest.mark.parametrize("beyond", [0, 1])
async def test_a_progress_message_beyond_its_bound_is_refused(world: World, beyond: int) -> None:
    run_id, fence = await world.held("w1")
    note = holding.Progress(message="x" * (holding.MESSAGE_MAX_CHARS + beyond))
    found = await world.refused_or(holding.progress(world.desk, ADMIN, run_id, fence, note))

    assert isinstance(found, InvalidCommand) == (beyond == 1)


async def test_a_write_to_a_run_that_does_not_exist_is_refused(world: World) -> None:
    assert isinstance(await world.refused_or(world.output("r0", 1, 0, "x")), RunUnknown)
    assert isinstance(await world.refused_or(world.partial("r0", 1, "x")), RunUnknown)
