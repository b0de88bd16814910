"""The zombie matrix holds: each guarded write is told what the table says, and a refusal is harmless."""

import pytest

from domain.refusal import Refusal
from tests.commands.world import World
from tests.commands.zombies import MATRIX, SITUATIONS, WRITES, told

CELLS = [(situation, write) for situation in SITUATIONS for write in WRITES]

REFUSED = ("fence_lost", "lost", "effect_", "not_allowed", "wrong_phase", "workspace_over", "turn_over")


def test_the_matrix_has_a_cell_for_every_situation_and_write() -> None:
    assert set(SITUATIONS) == set(MATRIX)
    assert all(set(WRITES) == set(row) for row in MATRIX.values())


@pytest.mark.origin("B4", "B5", "R8", "D54")
@pytest.mark.parametrize(("situation", "write"), CELLS)
async def test_a_write_whose_right_may_have_ended_is_told_what_the_matrix_says(
    world: World, situation: str, write: str
) -> None:
    run_id = await SITUATIONS[situation](world)

    assert MATRIX[situation][write] == await told(world, write, run_id)


@pytest.mark.parametrize(("situation", "write"), CELLS)
async def test_a_refused_write_leaves_nothing_behind(world: World, situation: str, write: str) -> None:
    run_id = await SITUATIONS[situation](world)
    before = (len(world.facts()), await world.show(run_id))

    if MATRIX[situation][write].startswith(REFUSED):
        await told(world, write, run_id)
        assert before == (len(world.facts()), await world.show(run_id))


async def test_every_refusal_names_the_fence_in_force_and_who_holds_it(world: World) -> None:
    run_id = await SITUATIONS["taken_over"](world)

    with pytest.raises(Refusal) as refused:
        await WRITES["close"](world, run_id)

    assert {"presented": 1, "current": 2, "holder": "w2", "reason": "lease_expired"} == refused.value.fields()
