"""Parking, answering, resuming, pausing, handing back: a run waits for somebody and goes on, and nothing is counted."""

from typing import Any, Literal

import msgspec
import pytest

from commands import ending, steering
from domain.handing import Park
from domain.lease import FenceLost
from domain.run import SettledOtherwise, WrongState
from domain.run_facts import InputProvided
from domain.steering import ANSWERABLE
from tests.commands.test_claiming_by_id import park
from tests.commands.world import ADMIN, World, plain, text

Kind = Literal["waiting_input", "waiting_peer", "waiting_takeover", "paused"]


async def answer(world: World, run_id: str, value: object = "yes") -> dict[str, Any]:
    """The run after it was answered."""
    return dict(plain((await steering.answer(world.desk, ADMIN, run_id, text(value))).answer))


async def resume(world: World, run_id: str) -> dict[str, Any]:
    """The run after it was resumed."""
    return dict(plain((await steering.resume(world.desk, ADMIN, run_id)).answer))


async def pause(world: World, run_id: str) -> dict[str, Any]:
    """The run after a pause was asked for."""
    return dict(plain((await steering.pause(world.desk, ADMIN, run_id)).answer))


async def hand_back(world: World, run_id: str, fence: int) -> dict[str, Any]:
    """The run after it was given back."""
    return dict(plain((await ending.hand_back(world.desk, ADMIN, run_id, fence)).answer))


@pytest.mark.origin("B12", "B13", "K15", "A38")
async def test_a_run_parked_without_its_lease_uses_no_slot_and_shows_its_question(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    command = Park(kind="waiting_input", question=text({"which": "one?"}))
    shown = plain((await ending.park(world.desk, ADMIN, run_id, fence, command)).answer)

    assert ("waiting_input", {"which": "one?"}, None, 0) == tuple(
        shown[name] for name in ("state", "question", "owner", "failed_attempts")
    )
    assert 0 == world.desk.live.limits.total()
    assert isinstance(await world.refused_or(world.output(run_id, fence, 0, "x")), FenceLost)


async def test_a_run_parked_with_its_lease_keeps_its_slot_and_must_be_renewed(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await world.worker("w1", slots=1)
    await park(world, run_id, fence, keep=True)
    await world.submit()

    assert [] == await world.claim("w1")
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.later(10)
    document = await world.show(run_id)
    assert ("waiting_input", None, 0) == tuple(document[name] for name in ("state", "owner", "failed_attempts"))
    assert 1 == len(await world.claim("w1"))


@pytest.mark.origin("H11", "K7", "B14", "A36")
async def test_an_answer_puts_the_run_at_the_front_of_its_queue_and_counts_nothing(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    world.go(100)
    await world.worker("w1", slots=9)
    await world.submit()
    await park(world, run_id, fence)
    world.go(100)
    shown = await answer(world, run_id)

    assert ("queued", "2026-01-01T12:00:00Z", 0) == tuple(
        shown[name] for name in ("state", "due_at", "failed_attempts")
    )
    first, _ = await world.claim("w1", most=2)
    assert (run_id, 2, 2) == (first["run_id"], first["fence"], first["attempt"])
    assert [{"question": None, "answer": "yes", "principal": "admin", "at": "2026-01-01T12:03:20Z"}] == first["answers"]


async def test_an_answer_to_a_live_lease_lets_its_holder_go_on(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await park(world, run_id, fence, keep=True)
    world.go(9.999)
    shown = await answer(world, run_id)

    assert ("running", "w1", fence) == tuple(shown[name] for name in ("state", "owner", "fence"))
    assert "renewed" == (await world.beats("w1", run_id, fence))["outcome"]


async def test_an_answer_at_the_deadline_of_a_kept_lease_queues_the_run(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await park(world, run_id, fence, keep=True)
    world.go(10)
    shown = await answer(world, run_id)

    assert ("queued", None, 0) == tuple(shown[name] for name in ("state", "owner", "failed_attempts"))
    assert 0 == world.desk.live.limits.total()
    assert "lost" == (await world.beats("w1", run_id, fence))["outcome"]
    assert fence + 1 == (await world.claimed("w1"))["fence"]


async def kept_under_a_cancel(world: World, kind: Kind) -> str:
    """A run that waits with its lease kept for 5 s, and is to be cancelled when those are over at the latest."""
    run_id, fence = await world.held("w1", ttl=5)
    if kind == "paused":
        await pause(world, run_id)
    await park(world, run_id, fence, kind, keep=True)
    await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=False)
    return run_id


@pytest.mark.parametrize("kind", ["waiting_input", "waiting_peer", "waiting_takeover", "paused"])
async def test_what_would_let_a_cancelled_run_go_on_at_the_end_of_its_lease_is_told_of_the_end(
    each_world: World, kind: Kind
) -> None:
    world = each_world
    run_id = await kept_under_a_cancel(world, kind)
    world.go(5)
    refused = await world.refused_or((answer if kind in ANSWERABLE else resume)(world, run_id))

    assert isinstance(refused, SettledOtherwise)
    assert ("cancelled", "cancelled") == (refused.state, refused.reason)
    assert "RunSettled" in world.names(run_id)
    assert not {"InputProvided", "RunResumed"} & set(world.names(run_id))


@pytest.mark.parametrize("kind", ["waiting_input", "waiting_peer", "waiting_takeover", "paused"])
async def test_its_holder_goes_on_as_long_as_the_lease_lasts(world: World, kind: Kind) -> None:
    run_id = await kept_under_a_cancel(world, kind)
    world.go(4.999)

    assert "running" == (await (answer if kind in ANSWERABLE else resume)(world, run_id))["state"]


@pytest.mark.origin("A36")
async def test_output_of_a_kept_lease_does_not_end_the_wait(world: World) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence, keep=True)
    await world.output(run_id, fence, 0, "still waiting")

    assert "waiting_input" == world.state(run_id)


async def test_a_kept_lease_may_be_closed_or_handed_back_from_the_wait(world: World) -> None:
    closed, first = await world.held("w1")
    handed, second = await world.held("w1")
    await park(world, closed, first, keep=True)
    await park(world, handed, second, keep=True)

    assert "succeeded" == (await world.close(closed, first))["state"]
    assert "queued" == (await hand_back(world, handed, second))["state"]


async def test_parking_anew_with_a_kept_lease_changes_the_question(world: World) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence, keep=True)
    await ending.park(world.desk, ADMIN, run_id, fence, Park(kind="waiting_peer", question=text("b"), keep_lease=True))
    document = await world.show(run_id)

    assert ("waiting_peer", "b") == (document["state"], document["question"])
    await park(world, run_id, fence, "waiting_takeover")
    assert "waiting_takeover" == world.state(run_id)


@pytest.mark.parametrize("kind", ["waiting_takeover", "paused"])
async def test_only_an_answerable_wait_is_answered(world: World, kind: Kind) -> None:
    run_id, fence = await world.held("w1")
    if kind == "paused":
        await pause(world, run_id)
    await park(world, run_id, fence, kind)

    assert isinstance(await world.refused_or(answer(world, run_id)), WrongState)
    assert "queued" == (await resume(world, run_id))["state"]


@pytest.mark.parametrize("kind", ["waiting_input", "waiting_peer"])
async def test_a_question_is_answered_and_not_resumed(world: World, kind: Kind) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence, kind)

    assert isinstance(await world.refused_or(resume(world, run_id)), WrongState)
    assert "queued" == (await answer(world, run_id))["state"]


async def test_a_run_that_asks_nothing_cannot_be_answered(world: World) -> None:
    queued = await world.submit()
    running, fence = await world.held("w1")
    assert isinstance(await world.refused_or(answer(world, queued)), WrongState)
    assert isinstance(await world.refused_or(answer(world, running)), WrongState)
    await world.close(running, fence)

    assert isinstance(await world.refused_or(answer(world, running)), SettledOtherwise)


async def test_a_question_is_answered_once(world: World) -> None:
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence)
    await answer(world, run_id, 1)

    assert isinstance(await world.refused_or(answer(world, run_id, 2)), WrongState)
    assert [1] == [given["answer"] for given in (await world.show(run_id))["answers"]]


@pytest.mark.origin("D34b")
async def test_two_answers_in_one_moment_are_one_answer(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await park(world, run_id, fence)
    async with world.gate.closed():
        first, second = world.start(answer(world, run_id, 1)), world.start(answer(world, run_id, 2))
        await world.settle()
    await first

    assert isinstance(await world.refused_or(second), WrongState)
    assert [1] == [plain(fact.answer) for fact in world.facts(run_id) if isinstance(fact, InputProvided)]


# Pausing


@pytest.mark.origin("C33")
async def test_a_queued_run_is_paused_at_once_and_only_a_resume_brings_it_back(each_world: World) -> None:
    world = each_world
    run_id = await world.submit()
    await world.worker("w1")
    assert "paused" == (await pause(world, run_id))["state"]
    assert [] == await world.claim("w1")
    await world.later(3600)
    assert "paused" == world.state(run_id)
    await world.worker("w1")

    shown = await resume(world, run_id)
    assert ("queued", "2026-01-01T12:00:00Z") == (shown["state"], shown["due_at"])
    assert run_id == (await world.claimed("w1"))["run_id"]


async def test_a_running_run_goes_on_until_its_holder_pauses_it(world: World) -> None:
    run_id, fence = await world.held("w1")
    assert "running" == (await pause(world, run_id))["state"]
    assert "running" == (await pause(world, run_id))["state"]
    await world.output(run_id, fence, 0, "still at it")
    await park(world, run_id, fence, "paused")

    assert "paused" == world.state(run_id)
    assert 1 == world.names(run_id).count("PauseRequested")


async def test_a_worker_does_not_pause_a_run_by_itself(world: World) -> None:
    run_id, fence = await world.held("w1")

    assert isinstance(await world.refused_or(park(world, run_id, fence, "paused")), WrongState)


@pytest.mark.parametrize("end", ["expire", "hand_back", "failed"])
async def test_a_pending_pause_makes_the_run_paused_instead_of_queued(each_world: World, end: str) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10)
    await pause(world, run_id)
    if end == "expire":
        await world.later(10)
    elif end == "hand_back":
        await hand_back(world, run_id, fence)
    else:
        await world.close(run_id, fence, "failed")
    await world.later(40)

    assert "paused" == world.state(run_id)
    assert [] == await world.claim("w1")


async def test_a_success_stands_over_a_pending_pause(world: World) -> None:
    run_id, fence = await world.held("w1")
    await pause(world, run_id)

    assert "succeeded" == (await world.close(run_id, fence))["state"]


async def test_a_settled_run_is_neither_paused_nor_resumed(world: World) -> None:
    run_id, fence = await world.held("w1")
    await world.close(run_id, fence)

    assert isinstance(await world.refused_or(pause(world, run_id)), SettledOtherwise)
    assert isinstance(await world.refused_or(resume(world, run_id)), SettledOtherwise)


# Handing back


@pytest.mark.origin("D24", "D32", "K6", "D8")
async def test_a_run_handed_back_is_a_continuation_after_a_second_and_counts_nothing(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1")
    await world.partial(run_id, fence, {"at": 5})
    shown = await hand_back(world, run_id, fence)

    assert ("queued", "handed_back", "2026-01-01T12:00:01Z", 0, None) == tuple(
        shown[name] for name in ("state", "reason", "due_at", "failed_attempts", "result")
    )
    assert [] == await world.claim("w1")
    world.go(1)
    claim = await world.claimed("w1")
    assert (2, 2, {"at": 5}) == (claim["fence"], claim["attempt"], claim["partial"])


async def test_the_wait_of_a_continuation_is_the_services_setting(world: World) -> None:
    world.desk.timers = msgspec.structs.replace(world.desk.timers, retry_continuation_s=7.0)
    run_id, fence = await world.held("w1")

    assert "2026-01-01T12:00:07Z" == (await hand_back(world, run_id, fence))["due_at"]


async def test_the_wait_after_a_slice_is_the_same_setting(world: World) -> None:
    world.desk.timers = msgspec.structs.replace(world.desk.timers, retry_continuation_s=7.0)
    run_id, _ = await world.held("w1", ttl=10, hold=10)
    await world.later(10)
    await world.later(10)

    assert ("queued", "2026-01-01T12:00:27Z") == (world.state(run_id), (await world.show(run_id))["due_at"])


async def test_what_was_handed_back_is_not_handed_back_again(world: World) -> None:
    run_id, fence = await world.held("w1")
    await hand_back(world, run_id, fence)
    refused = await world.refused_or(hand_back(world, run_id, fence))

    assert isinstance(refused, FenceLost)
    assert "handed_back" == refused.reason
    assert isinstance(await world.refused_or(world.close(run_id, fence)), FenceLost)


# Slices


@pytest.mark.origin("B6", "K7")
async def test_a_slice_ends_and_after_one_last_ttl_the_run_is_handed_on_uncounted(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10, hold=25, attempts=1)
    for _ in range(3):
        await world.later(8)
        await world.beats("w1", run_id, fence)
    await world.later(1)
    assert "slice_ended" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.partial(run_id, fence, {"saved": 1})
    await world.later(9)
    assert 1 == (await world.beats("w1", run_id, fence))["ttl_s"]
    await world.later(1)
    document = await world.show(run_id)

    assert ("queued", "slice_ended", 0, {"saved": 1}) == tuple(
        document[name] for name in ("state", "reason", "failed_attempts", "partial")
    )
    assert "2026-01-01T12:00:36Z" == document["due_at"]
    assert fence + 1 == (await _claimed_after(world, 1))["fence"]


async def _claimed_after(world: World, seconds: float) -> dict[str, Any]:
    await world.later(seconds)
    await world.worker("w1")
    return await world.claimed("w1")


async def test_a_close_in_the_last_ttl_of_a_slice_stands(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=10)
    await world.later(15)

    assert "succeeded" == (await world.close(run_id, fence))["state"]


async def test_where_deadline_and_slice_end_fall_together_the_slice_comes_first(each_world: World) -> None:
    world = each_world
    run_id, fence = await world.held("w1", ttl=10, hold=10)
    await world.later(10)
    assert "slice_ended" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.later(10)

    assert ("queued", "slice_ended", 0) == (
        (document := await world.show(run_id))["state"], document["reason"], document["failed_attempts"],
    )  # fmt: skip


async def test_a_kept_lease_is_sliced_too(world: World) -> None:
    run_id, fence = await world.held("w1", ttl=10, hold=15)
    await park(world, run_id, fence, keep=True)
    await world.later(9)
    await world.beats("w1", run_id, fence)
    await world.later(6)
    assert "slice_ended" == (await world.beats("w1", run_id, fence))["outcome"]
    await world.later(10)

    assert ("waiting_input", None) == ((document := await world.show(run_id))["state"], document["owner"])
