"""The bounds of what a run stands on: how many, how long, how often, each at its limit and one past it."""

import pytest

from commands import workspaces
from commands.instructing import GROUNDS_TOLD_MAX
from domain.claiming import LimitReached
from domain.refusal import InvalidCommand
from domain.workspace_refusals import MESSAGE_MAX_CHARS, WORKSPACES_MAX
from projections.live.grounds import REMEMBERED_MAX
from tests.commands.ground import attached, ground, placed, saw, see
from tests.commands.world import ADMIN, World, command


async def test_a_run_may_have_as_many_workspaces_as_the_limit_says_and_no_more(world: World) -> None:
    run_id, fence = await world.held()
    made = [await placed(world, run_id, fence) for _ in range(WORKSPACES_MAX)]

    with pytest.raises(LimitReached) as refused:
        await placed(world, run_id, fence)
    for workspace_id in made:
        await attached(world, workspace_id, f"body of {workspace_id}")
    await see(world, made[0], saw("gone", reason="ProcessExited"))

    assert (64, "workspaces_max") == (refused.value.value, refused.value.limit)
    assert 64 == len((await world.show(run_id))["workspaces"])
    assert await placed(world, run_id, fence)


async def test_placing_again_under_the_same_command_id_makes_no_second_workspace(each_world: World) -> None:
    run_id, fence = await each_world.held()

    first = await placed(each_world, run_id, fence, caller=command("once"))
    second = await placed(each_world, run_id, fence, caller=command("once"))

    assert first == second
    assert 1 == each_world.names(run_id).count("WorkspacePlaced")


@pytest.mark.parametrize(
    ("step", "field"),
    [
        (workspaces.Step(phase="waiting"), "on"),
        (workspaces.Step(phase="attaching"), "identity"),
        (workspaces.Step(phase="provisioning", identity="uid"), "identity"),
        (workspaces.Step(phase="provisioning", on="node"), "on"),
    ],
)
async def test_a_step_that_says_too_little_or_too_much_is_refused(
    world: World, step: workspaces.Step, field: str
) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, provider="kubernetes")

    with pytest.raises(InvalidCommand) as refused:
        await workspaces.move(world.desk, ADMIN, workspace_id, step)

    assert field == refused.value.field
    assert "placing" == ground(world, workspace_id).phase


async def test_a_run_shows_as_many_workspaces_as_the_bound_says_the_latest_of_them(world: World) -> None:
    run_id, fence = await world.held()
    made = []
    for _ in range(REMEMBERED_MAX):
        made.append(await placed(world, run_id, fence, provider="directory"))
        await workspaces.release_workspace(world.desk, ADMIN, made[-1])
    at_the_bound = [each["workspace_id"] for each in (await world.show(run_id))["workspaces"]]
    made.append(await placed(world, run_id, fence, provider="directory"))
    beyond = [each["workspace_id"] for each in (await world.show(run_id))["workspaces"]]
    await world.close(run_id, fence)
    ended = [each["workspace_id"] for each in (await world.show(run_id))["workspaces"]]

    assert (made[:-1], made[1:], made[1:]) == (at_the_bound, beyond, ended)


async def test_a_message_of_a_step_is_bounded_whatever_the_step(world: World) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, provider="kubernetes")
    most = "m" * MESSAGE_MAX_CHARS

    await workspaces.move(world.desk, ADMIN, workspace_id, workspaces.Step(phase="provisioning", message=most))
    with pytest.raises(InvalidCommand) as refused:
        await workspaces.move(
            world.desk, ADMIN, workspace_id, workspaces.Step(phase="provisioning", message=most + "m")
        )

    assert "message" == refused.value.field
    assert most == world.desk.evidence.grounds.words(workspace_id).message


async def test_one_answer_tells_as_much_about_ground_as_the_bound_says(world: World) -> None:
    run_id, fence = await world.held()
    told = []
    for number in range(GROUNDS_TOLD_MAX + 1):
        workspace_id = await placed(world, run_id, fence)
        await see(world, workspace_id, saw("present"))
        await see(world, workspace_id, saw("ended", reason="ProcessExited"))
        if number >= GROUNDS_TOLD_MAX - 1:
            told.append(len((await world.beats("w1", run_id, fence))["instructions"]))

    assert [GROUNDS_TOLD_MAX, GROUNDS_TOLD_MAX] == told


async def test_who_holds_nothing_is_told_of_no_ground_but_its_own(world: World) -> None:
    run_id, fence = await world.held()
    await world.worker("w2")
    workspace_id = await placed(world, run_id, fence)
    await attached(world, workspace_id)
    await see(world, workspace_id, saw("gone", message="secret"))

    answers = [await world.beats(worker_id, run_id, fence) for worker_id in ("w1", "w2")]

    kinds = [[each["kind"] for each in answer["instructions"]] for answer in answers]
    assert [["stop", "workspace_lost"], ["stop"]] == kinds


async def test_a_command_is_not_guarded_by_losses_that_were_decided_long_ago(world: World) -> None:
    run_id = await world.submit(on_workspace_lost="retry_fresh", max_attempts=100)
    await world.worker("w1")
    for _ in range(3):
        fence = (await world.claimed("w1"))["fence"]
        workspace_id = await placed(world, run_id, fence)
        await attached(world, workspace_id)
        await see(world, workspace_id, saw("gone"))

    assert () == world.desk.standing(ADMIN, run_id).workspaces
    assert 3 == len((await world.show(run_id))["workspaces"])
