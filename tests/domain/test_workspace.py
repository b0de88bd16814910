"""Folding a workspace: what is counted before it was placed."""

from domain.workspace import UNPLACED, Unplaced, evolve
from tests.domain.ground_facts import placed, unknown, waits


def test_facts_of_a_workspace_that_nobody_placed_are_counted_and_say_nothing_of_it() -> None:
    before = evolve(evolve(UNPLACED, unknown()), waits())

    assert Unplaced(version=2) == before
    assert 3 == evolve(before, placed()).version
