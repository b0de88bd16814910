"""Refused writes are remembered up to a bound: the last runs, and of each the last writers."""

from datetime import UTC, datetime

import pytest

from evidence.refused import RUNS_MAX, WRITERS_MAX, RefusedWrites

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def refused(runs: int = 1, writers: int = 1) -> RefusedWrites:
    """A register of so many runs, each with so many writers: the first has the lowest number."""
    register = RefusedWrites()
    for run in range(runs):
        for fence in range(writers):
            register.note(f"r{run}", ("ada", fence), "lease_expired", NOON)
    return register


@pytest.mark.parametrize(("past", "first_is_known"), [(0, True), (1, False)])
def test_as_many_runs_are_remembered_as_fit_and_the_oldest_gives_way(past: int, first_is_known: bool) -> None:
    register = refused(runs=RUNS_MAX + past)

    assert RUNS_MAX == len(register)
    assert first_is_known == bool(register.of("r0"))
    assert register.of(f"r{RUNS_MAX + past - 1}")


@pytest.mark.parametrize(("past", "oldest"), [(0, 0), (1, 1)])
def test_as_many_writers_of_a_run_are_remembered_as_fit_and_the_oldest_gives_way(past: int, oldest: int) -> None:
    kept = refused(writers=WRITERS_MAX + past).of("r0")

    assert list(reversed(range(oldest, WRITERS_MAX + past))) == [each.fence for each in kept]


def test_a_writer_that_is_refused_again_is_the_latest_and_is_counted() -> None:
    register = refused(writers=WRITERS_MAX)
    register.note("r0", ("ada", 0), "handed_back", NOON)
    register.note("r0", ("bob", 9), "lease_expired", NOON)

    fences = [(each.principal, each.fence, each.count) for each in register.of("r0")]
    assert [("bob", 9, 1), ("ada", 0, 2)] == fences[:2]
    assert ("ada", 1, 1) not in fences
