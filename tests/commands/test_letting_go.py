"""Letting a workspace go: who did, and who may say that nothing is left of it."""

import pytest

from commands import workspaces
from commands.desk import NotAllowed
from domain.workspace_facts import WorkspaceReleased
from domain.workspace_refusals import WrongPhase
from tests.commands.ground import ground, standing
from tests.commands.world import ADMIN, World, leader, worker_key


async def test_what_a_worker_lets_go_by_itself_says_so_and_nobody_may_speak_for_another_worker(world: World) -> None:
    run_id, _, workspace_id = await standing(world, leader_id="ada")
    _, _, asked = await standing(world)
    for stranger in (leader("ada"), worker_key("w2")):
        with pytest.raises(NotAllowed):
            await workspaces.release_workspace(world.desk, stranger, workspace_id, "w1")
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id, "w1")
    await workspaces.release_workspace(world.desk, ADMIN, asked)

    released = [fact for fact in world.facts(run_id) if isinstance(fact, WorkspaceReleased)]
    assert [("w1", "left_by_its_worker")] == [(fact.by, fact.cause) for fact in released]
    by_hand = [fact for fact in world.facts(ground(world, asked).placed.run_id) if isinstance(fact, WorkspaceReleased)]
    assert [("admin", "asked_for")] == [(fact.by, fact.cause) for fact in by_hand]


async def test_that_a_body_is_gone_is_an_operators_word_about_one_that_was_let_go(world: World) -> None:
    _, _, workspace_id = await standing(world, leader_id="ada", provider="directory")
    for stranger in (leader("ada"), worker_key("w1")):
        with pytest.raises(NotAllowed):
            await workspaces.say_gone(world.desk, stranger, workspace_id)
    with pytest.raises(WrongPhase):
        await workspaces.say_gone(world.desk, ADMIN, workspace_id)
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id)
    waiting = world.desk.live.grounds.sizes()["going"]
    await workspaces.say_gone(world.desk, ADMIN, workspace_id)
    again = await workspaces.say_gone(world.desk, ADMIN, workspace_id)

    assert ("destroyed", None) == (ground(world, workspace_id).phase, again.position)
    assert (1, 0) == (waiting, world.desk.live.grounds.sizes()["going"])
