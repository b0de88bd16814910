"""Every scenario, on the fake API server; `make test-kubernetes-real` plays the same ones on a real one."""

import pytest

from tests.watchers.scenarios import Scenario, collected
from tests.watchers.world import fake_world

LEAST = 60
REAL_LEAST = 40


@pytest.mark.origin("C2", "C3", "C4", "C5", "C9", "C10", "C11", "C15", "C29", "C36", "R12", "R13", "R14", "R18")
@pytest.mark.parametrize("scenario", collected(), ids=lambda scenario: scenario.name)
async def test_what_happens_to_a_body_is_told_and_nothing_else(scenario: Scenario) -> None:
    async with fake_world(**scenario.pace) as world:
        await scenario.play(world)


def test_there_are_enough_scenarios_and_most_play_on_a_real_server_too() -> None:
    assert len(collected()) >= LEAST
    assert sum(not one.fake for one in collected()) >= REAL_LEAST
