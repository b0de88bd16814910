"""Worlds from seeds: the same seed is the same story, no law is broken, and a failing one tells how it came to that."""

import pytest

from simulation.__main__ import main
from simulation.laws import L8
from simulation.planted.decisions import forget_effects
from simulation.seeded import SeedFailed, play, play_all

SEEDS = range(32)
BROKE_ONCE = (3, 5, 104, 117, 141, 206, 303, 324, 418, 7015, 7250)
"""Seeds that found a fault when they were first played."""


@pytest.mark.origin("D61")
@pytest.mark.parametrize("seed", sorted({*SEEDS, *BROKE_ONCE}))
def test_no_law_is_broken_in_the_world_of_a_seed(seed: int) -> None:
    world = play(seed)

    assert world.history.position > 0


def test_the_same_seed_tells_the_same_story_line_for_line() -> None:
    assert play(11).story == play(11).story


def test_different_seeds_tell_different_stories() -> None:
    assert play(11).story != play(12).story


def test_a_failing_seed_tells_its_story_the_law_and_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_effects(monkeypatch)

    with pytest.raises(SeedFailed) as failed:
        play_all(range(40))

    told = str(failed.value)
    assert "ready at position 0" in told
    assert L8 in told
    assert f"python -m simulation --seed {failed.value.seed} --steps 200" in told


def test_the_command_prints_its_seed_and_says_what_it_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--seed", "5", "--steps", "40"])

    told = capsys.readouterr().out
    assert "first seed 5, 40 steps a world" in told
    assert "1 worlds" in told


def test_the_command_fails_with_the_story_when_a_law_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_effects(monkeypatch)
    seeds = (seed for seed in range(40) if main(["--seed", str(seed)]) == 1)

    assert next(seeds, None) is not None
    assert L8 in capsys.readouterr().out
