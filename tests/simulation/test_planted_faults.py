"""The tests are tested: for each law there is a planted fault, and the world finds it and names that law."""

import pytest

from simulation.laws import (
    COUNTERS,
    L1,
    L2,
    L3,
    L4,
    L5,
    L8,
    L9,
    L11,
    L13,
    L14,
    L15,
    ONE_APPEND,
    LawBroken,
)
from simulation.seeded import SeedFailed, play_all
from tests.simulation import faults
from tests.simulation.faults import Plant

SEEDS = 40
"""Worlds that are played at most until a fault is found; most are found in the first."""

PLANTED: list[tuple[str, Plant]] = [
    (L1, faults.keep_the_fence),
    (L1, faults.grant_a_fence_twice),
    (L2, faults.accept_any_fence),
    (L3, faults.reopen_the_settled),
    (L4, faults.settle_without_a_reason),
    (L5, faults.abort_at_the_first_silence),
    (L8, faults.forget_effects),
    (L9, faults.leave_it_in_the_queue),
    (L9, faults.lose_rows),
    (L11, faults.refuse_to_evolve),
    (L13, faults.ignore_limits),
    (L14, faults.salvage_twice),
    (L15, faults.forget_commands),
    (COUNTERS, faults.count_every_end),
    (ONE_APPEND, faults.put_the_outcome_first),
]


@pytest.mark.parametrize(("law", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_a_planted_fault_is_found_and_its_law_is_named(law: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    with pytest.raises(SeedFailed) as failed:
        play_all(range(SEEDS))

    assert isinstance(failed.value.broken, LawBroken), str(failed.value)
    assert law == failed.value.broken.law
