"""Small worlds are walked through completely: every interleaving to a depth, and what breaks a law is told shortest."""

import pytest

from simulation.__main__ import main
from simulation.exhaustive import WORLDS, Breach, Explorer, explore_all, kind_of
from simulation.laws import L8, L12
from simulation.planted import decisions as faults
from simulation.planted import grounds as ground_faults
from simulation.planted.registry import Plant
from simulation.small import Bounds, start
from simulation.small_steps import steps

DEPTH = 4
"""Steps that the suite walks; `python -m simulation --exhaustive 120` walks on."""
ON_GROUND = 5
"""As much in worlds with workspaces, where the first three are a claim, a place and an attachment."""
ALONE = Bounds(workers=1, runs=1, effects=0, fences=1, max_attempts=1, reserving=False)


@pytest.mark.parametrize("bounds", WORLDS, ids=str)
def test_no_interleaving_of_a_small_world_breaks_a_law(bounds: Bounds) -> None:
    depth = ON_GROUND if bounds.grounds else DEPTH
    explored = Explorer(bounds).explore(depth)

    assert depth == explored.depth
    assert explored.transitions > explored.states > 500


def test_the_smallest_world_is_walked_to_its_end() -> None:
    explored = Explorer(ALONE).explore(64)

    assert explored.complete
    assert 5 < explored.depth < 64


def test_names_tell_no_states_apart() -> None:
    """One step in: whoever claims, and whichever run, it is one and the same state."""
    one = Explorer(Bounds(workers=1, runs=1, effects=0)).explore(1)
    many = Explorer(Bounds(workers=3, runs=3, effects=0)).explore(1)

    assert one.states == many.states
    assert one.transitions < many.transitions


@pytest.mark.parametrize(
    ("fault", "depth"),
    [
        (faults.keep_the_fence, 2),
        (faults.grant_a_fence_twice, 5),
        (faults.settle_without_a_reason, 2),
        (faults.forget_effects, 3),
        (faults.count_every_end, 2),
        (faults.reopen_the_settled, 4),
    ],
)
def test_a_planted_fault_is_found_by_the_shortest_story(
    fault: Plant, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)

    with pytest.raises(Breach) as breach:
        Explorer(WORLDS[0]).explore(depth)

    story = str(breach.value).partition("\n\n")[0].splitlines()
    assert 1 <= len(story) <= depth


@pytest.mark.parametrize("fault", [ground_faults.take_unknown_for_lost, ground_faults.go_by_the_name])
def test_a_planted_fault_about_ground_is_found_by_the_shortest_story(
    fault: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)

    with pytest.raises(Breach, match="unknown is never a loss") as breach:
        Explorer(next(bounds for bounds in WORLDS if bounds.grounds)).explore(DEPTH)

    assert 4 == len(str(breach.value).partition("\n\n")[0].splitlines())


def test_the_story_of_a_breach_names_the_law_and_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.forget_effects(monkeypatch)

    with pytest.raises(Breach) as breach:
        Explorer(WORLDS[0]).explore(3)

    first, second, *_ = str(breach.value).splitlines()
    assert "claims r" in first
    assert "claims effect e0 of r" in second
    assert L8 in str(breach.value)


def test_a_world_that_cannot_be_let_go_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.settling.cancel_due", lambda standing, remains, now: standing.draft())

    with pytest.raises(Breach, match=L12[:3]):
        Explorer(Bounds(runs=1)).explore(6)


def test_every_kind_of_step_has_an_effect_somewhere() -> None:
    """A step that never does anything would be a law that is never tried."""
    offered = {kind_of(step.text) for bounds in WORLDS for step in steps(start(bounds), bounds)}
    taken = {kind for bounds in WORLDS for kind in Explorer(bounds).explore(DEPTH).kinds}

    assert offered - taken <= {"the slice of ends"}
    assert "is settled by absence" in taken
    assert "expires" in taken


def test_walking_stops_when_its_time_is_up_and_tells_the_last_whole_depth() -> None:
    times = iter(range(10_000))
    told: list[str] = []

    states = explore_all(100.0, lambda: float(next(times)), told.append)

    assert len(WORLDS) == len(told)
    assert states > 0


def test_the_command_prints_depth_and_states(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--exhaustive", "0.5"])

    told = capsys.readouterr().out
    assert "2 workers x 1 leader x 2 runs x 1 effects" in told
    assert "distinct states, no law broken" in told


def test_the_command_tells_the_breach(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    faults.keep_the_fence(monkeypatch)

    assert 1 == main(["--exhaustive", "5"])
    assert "cancel of r0 is asked" in capsys.readouterr().out
