"""Checkpoints know what runs stand on and how far their turns are, and forget bodies that nobody stands on any more."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import workspaces
from tests.commands.clockwork import VirtualLoop
from tests.commands.ground import saw, see, standing
from tests.commands.test_checkpoints import POSITIONS, STEPS, kept_at, start_the_same
from tests.commands.test_ground_histories import Fate
from tests.commands.world import ADMIN, World, opened


async def stood(seed: int, where: list[float], path: Path) -> None:
    async with opened() as world:
        fate = Fate(world, seed)
        await world.worker("w1", slots=100)
        for _ in range(STEPS):
            await fate.act()
        start_the_same(world, where, path, (seed, fate.story))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(min_value=0, max_value=2**32),
    where=st.lists(st.floats(0, 1), min_size=POSITIONS, max_size=POSITIONS),
)
def test_a_start_from_a_checkpoint_knows_the_ground_and_the_turns_of_a_full_replay(
    tmp_path_factory: pytest.TempPathFactory, seed: int, where: list[float]
) -> None:
    loop, path = VirtualLoop(), tmp_path_factory.getbasetemp() / "checkpoint"
    try:
        loop.run_until_complete(stood(seed, where, path))
    finally:
        loop.close()


async def test_a_body_is_read_again_until_it_is_destroyed_and_its_run_has_ended(world: World) -> None:
    for destroyed_first in (True, False):
        run_id, fence, workspace_id = await standing(world)
        if destroyed_first:
            await workspaces.release_workspace(world.desk, ADMIN, workspace_id)
            await see(world, workspace_id, saw("gone"))
        assert (4 if destroyed_first else 2) == _read_again(world, workspace_id)
        await world.close(run_id, fence)
        assert (_read_again(world, workspace_id) == 0) == destroyed_first
        if not destroyed_first:
            await workspaces.release_workspace(world.desk, ADMIN, workspace_id)
            await see(world, workspace_id, saw("gone"))
        assert 0 == _read_again(world, workspace_id)


def _read_again(world: World, workspace_id: str) -> int:
    """How many facts of a workspace a start reads again."""
    facts = world.journal.store.facts_at(list(kept_at(world, world.journal.position).positions()))
    return sum(recorded.stream == f"workspace-{workspace_id}" for recorded in facts)
