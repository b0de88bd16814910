"""Turns under a fence: admitted, delivered, ended once by whoever comes first, and told to the holder."""

import asyncio
from typing import Any

import pytest

from commands import turns, workspaces
from commands.turns import Named
from domain.claiming import LimitReached
from domain.lease import FenceLost
from domain.turns import TURNS_OPEN_MAX, TurnOver, TurnUnknown
from domain.workspace_refusals import WorkspaceOver, WorkspaceUnknown
from evidence.memory import TURNS_TOLD_MAX, Evidence
from tests.commands.ground import placed, saw, see, standing
from tests.commands.world import ADMIN, Shown, World, plain, worker_key

WINDOW_S = 90.0


async def admitted(world: World, run_id: str, fence: int | None, workspace_id: str | None = None) -> int:
    """The number of a new turn."""
    return int((await turns.admit(world.desk, ADMIN, run_id, fence, workspace_id)).answer["turn"])


def named(run_id: str, fence: int | None, turn: int) -> Named:
    """A turn as its holder names it."""
    return Named(run_id=run_id, fence=fence, turn=turn)


async def told(world: World, run_id: str, fence: int) -> list[tuple[str, Any]]:
    """What the holder is instructed about turns."""
    answer = await world.beats("w1", run_id, fence)
    return [(each["kind"], each["data"]) for each in answer["instructions"] if each["kind"].startswith("turn_")]


async def delivered(world: World, run_id: str, fence: int, workspace_id: str | None, *, state: Any = None) -> int:
    """The number of a new turn that was delivered, and is in this state."""
    turn = await admitted(world, run_id, fence, workspace_id)
    await turns.deliver(world.desk, ADMIN, named(run_id, fence, turn), None)
    if state is not None:
        await turns.move(world.desk, ADMIN, named(run_id, fence, turn), state)
    return turn


@pytest.mark.origin("C20", "C21", "C22", "R15", "R16")
async def test_a_restart_fails_what_waits_cuts_what_is_busy_and_leaves_what_is_undelivered(each_world: World) -> None:
    run_id, fence, workspace_id = await standing(each_world)
    waits = await delivered(each_world, run_id, fence, workspace_id)
    busy = await delivered(each_world, run_id, fence, workspace_id, state="busy")
    unread = await delivered(each_world, run_id, fence, workspace_id, state="answer_unread")
    outside = await delivered(each_world, run_id, fence, None)
    undelivered = await admitted(each_world, run_id, fence, workspace_id)

    await see(each_world, workspace_id, saw("harness_restarted", incarnation=1, reason="Error", exit_code=139))
    asked = await told(each_world, run_id, fence)
    still = each_world.desk.standing(ADMIN, run_id).known.turns.open

    message = "Turn lost (Harness restarted: Error, exit 139)"
    assert [
        ("turn_failed", {"turn": waits, "code": "turn_lost", "message": message}),
        ("turn_cut", {"turn": busy}),
        ("turn_cut", {"turn": unread}),
    ] == asked
    assert [outside, undelivered] == sorted(still)
    assert "running" == each_world.state(run_id)


@pytest.mark.origin("C36", "C27")
async def test_a_turn_whose_harness_ran_out_of_memory_is_told_so_by_name(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    turn = await delivered(world, run_id, fence, workspace_id)

    await see(world, workspace_id, saw("harness_restarted", incarnation=1, reason="OOMKilled", exit_code=137))

    assert [("turn_failed", {"turn": turn, "code": "memory_limit", "message": "memory limit"})] == await told(
        world, run_id, fence
    )


@pytest.mark.origin("R17")
async def test_the_first_of_settlement_and_restart_wins_once(each_world: World) -> None:
    for order in (1, -1):
        run_id, fence, workspace_id = await standing(each_world)
        turn = await delivered(each_world, run_id, fence, workspace_id)
        acts = [
            turns.complete(each_world.desk, ADMIN, named(run_id, fence, turn)),
            see(each_world, workspace_id, saw("harness_restarted", incarnation=1)),
        ][::order]
        done = await asyncio.gather(*acts, return_exceptions=True)
        names = each_world.names(run_id)

        assert 1 == names.count("TurnCompleted") + names.count("TurnFailed")
        assert not [each for each in done if isinstance(each, Exception) and not isinstance(each, TurnOver)]


@pytest.mark.origin("H15")
async def test_a_delivery_under_a_mark_that_has_passed_ends_the_turn_at_once(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    turn = await admitted(world, run_id, fence, workspace_id)
    await see(world, workspace_id, saw("harness_restarted", incarnation=1))

    answer = (await turns.deliver(world.desk, ADMIN, named(run_id, fence, turn), None)).answer
    other = await admitted(world, run_id, fence, workspace_id)
    await see(world, workspace_id, saw("harness_restarted", incarnation=2))
    kept = (await turns.deliver(world.desk, ADMIN, named(run_id, fence, other), 2)).answer

    assert ("failed", "turn_lost") == (answer["state"], answer["code"])
    assert ("waiting", 2) == (kept["state"], kept["incarnation"])


async def test_an_instruction_about_a_turn_is_repeated_until_the_holder_ended_it_itself(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    turn = await delivered(world, run_id, fence, workspace_id)
    await see(world, workspace_id, saw("harness_restarted", incarnation=1))

    first, second = await told(world, run_id, fence), await told(world, run_id, fence)
    with pytest.raises(TurnOver) as over:
        await turns.fail(world.desk, ADMIN, named(run_id, fence, turn), "gave_up", None)

    assert first == second != []
    assert ("failed", "turn_lost") == (over.value.ended, over.value.reason)
    assert [] == await told(world, run_id, fence)


@pytest.mark.origin("C23", "C26")
async def test_an_undelivered_turn_fails_at_the_end_of_its_window_with_what_was_heard_last(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, ttl=3600)
    turn = await admitted(world, run_id, fence, workspace_id)
    await see(world, workspace_id, saw("harness_restarted", incarnation=1, reason="CrashLoopBackOff"))

    await world.later(WINDOW_S - 0.1)
    before = await told(world, run_id, fence)
    await world.later(0.1)

    assert [] == before
    assert [
        (
            "turn_failed",
            {
                "turn": turn,
                "code": "admission_window",
                "message": "not delivered within the admission window (CrashLoopBackOff)",
            },
        )
    ] == await told(world, run_id, fence)
    assert 0 == len(world.desk.live.admissions)


@pytest.mark.origin("C24", "C35")
async def test_a_delivered_turn_waits_without_a_deadline(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, ttl=3600, quiet_after_s=0, total_after_s=0)
    turn = await delivered(world, run_id, fence, workspace_id)

    await world.later(3000)

    assert turn in world.desk.standing(ADMIN, run_id).known.turns.open


@pytest.mark.origin("C34")
async def test_turns_end_silently_with_their_attempt_and_nothing_is_left_to_be_due(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    turn = await admitted(world, run_id, fence, workspace_id)
    facts = world.names(run_id).count("TurnFailed")

    await world.close(run_id, fence, "failed", error="broken")
    with pytest.raises(FenceLost):
        await turns.complete(world.desk, ADMIN, named(run_id, fence, turn))

    await world.later(10)
    again = await world.claimed("w1")
    with pytest.raises(FenceLost):
        await admitted(world, run_id, fence, workspace_id)
    following = await admitted(world, run_id, again["fence"], workspace_id)

    assert (run_id, turn + 1) == (again["run_id"], following)
    await world.close(run_id, again["fence"])
    assert facts == world.names(run_id).count("TurnFailed")
    assert 0 == len(world.desk.live.admissions)
    assert "turn" not in {due.kind for due in world.desk.live.deadlines.all()}


async def test_a_turn_is_told_of_by_its_holder_alone_and_by_its_number(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    turn = await delivered(world, run_id, fence, workspace_id)

    with pytest.raises(FenceLost):
        await turns.complete(world.desk, worker_key("w2"), named(run_id, fence, turn))
    with pytest.raises(FenceLost):
        await turns.complete(world.desk, ADMIN, named(run_id, fence + 1, turn))
    with pytest.raises(TurnUnknown):
        await turns.complete(world.desk, ADMIN, named(run_id, fence, turn + 1))

    done: Shown = plain((await turns.complete(world.desk, ADMIN, named(run_id, fence, turn))).answer)
    repeat = await turns.complete(world.desk, ADMIN, named(run_id, fence, turn))
    assert ("completed", None) == (done["state"], repeat.position)


async def test_a_notice_is_said_once_for_each_kind(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    turn = await delivered(world, run_id, fence, workspace_id)

    for kind in ("conversation_new", "conversation_new", "memory_limit"):
        await turns.notice(world.desk, ADMIN, named(run_id, fence, turn), kind)

    assert 2 == world.names(run_id).count("TurnNoticed")


@pytest.mark.origin("C25")
async def test_a_turn_outside_every_watch_is_failed_by_its_worker_and_shown_as_lost(world: World) -> None:
    run_id, fence = await world.held()
    turn = await delivered(world, run_id, fence, None)

    done = await turns.fail(world.desk, ADMIN, named(run_id, fence, turn), "harness_restarted", None)

    assert ("failed", "harness_restarted", "Turn lost (Harness restarted)") == (
        done.answer["state"], done.answer["code"], done.answer["message"],
    )  # fmt: skip


async def test_an_attempt_has_as_many_open_turns_as_the_limit_says_and_no_more(world: World) -> None:
    run_id, fence = await world.held()
    for _ in range(TURNS_OPEN_MAX):
        await admitted(world, run_id, fence)

    with pytest.raises(LimitReached) as refused:
        await admitted(world, run_id, fence)

    assert TURNS_OPEN_MAX == refused.value.value


async def test_telling_of_a_turn_is_activity_and_renews_the_lease(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, ttl=10)
    turn = await delivered(world, run_id, fence, workspace_id)
    world.go(9)
    await turns.move(world.desk, ADMIN, named(run_id, fence, turn), "busy")

    await world.later(9)

    assert "running" == world.state(run_id)


async def test_a_turn_needs_ground_that_its_run_stands_on(world: World) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence)

    with pytest.raises(Exception, match="provisioning") as refused:
        await admitted(world, run_id, fence, workspace_id)

    assert "wrong_phase" == getattr(refused.value, "code", "")


async def test_a_turn_on_ground_that_was_lost_or_is_anothers_is_refused(world: World) -> None:
    run_id, _, workspace_id = await standing(world, on_workspace_lost="retry_fresh")
    _, _, anothers = await standing(world)
    await see(world, workspace_id, saw("gone"))
    fence = (await world.claimed("w1"))["fence"]

    with pytest.raises(WorkspaceOver):
        await admitted(world, run_id, fence, workspace_id)
    with pytest.raises(WorkspaceUnknown):
        await admitted(world, run_id, fence, anothers)


def test_of_the_turns_that_a_holder_ended_itself_as_many_are_remembered_as_the_bound_says() -> None:
    evidence = Evidence()
    for turn in range(TURNS_TOLD_MAX):
        evidence.tell_turn("run", turn)
    first = evidence.turn_told("run", 0)
    evidence.tell_turn("run", TURNS_TOLD_MAX)

    assert (True, False) == (first, evidence.turn_told("run", 0))
    assert evidence.turn_told("run", 1)
    evidence.forget_turns("run")
    assert 0 == evidence.sizes()["turns"]


async def test_a_turn_whose_workspace_is_over_cannot_go_on_under_a_mark_that_has_passed(each_world: World) -> None:
    run_id, fence, workspace_id = await standing(each_world)
    turn = await admitted(each_world, run_id, fence, workspace_id)
    await see(each_world, workspace_id, saw("harness_restarted", incarnation=1, reason="Error"))
    await workspaces.release_workspace(each_world.desk, ADMIN, workspace_id)
    await see(each_world, workspace_id, saw("gone"))

    ended = (await turns.move(each_world.desk, ADMIN, named(run_id, fence, turn), "busy")).answer

    assert "cut" == plain(ended)["state"]
