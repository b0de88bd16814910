"""Worlds from seeds: the same seed is the same story, no law is broken, and a failing one tells how it came to that."""

import functools
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from simulation.__main__ import main
from simulation.laws import L8
from simulation.planted.decisions import forget_effects
from simulation.reaching import ALL, table
from simulation.seeded import STEPS, SeedFailed, play, play_all

SEEDS = range(64)
SHORT_SEEDS, SHORT_STEPS, SHARE = range(10_000, 10_500), 50, 50
"""Many beginnings, played in shares that processes of the suite may take in turn."""
REGRESSIONS = tomllib.loads(Path("simulation/regressions.toml").read_text())["world"]
FOUND_ONCE = {(seed, each["steps"]) for each in REGRESSIONS for seed in each["seeds"]}
WORLDS = sorted({(seed, STEPS) for seed in SEEDS} | FOUND_ONCE)


class Played(NamedTuple):
    """What is remembered of a world."""

    facts: int
    reached: Counter[str]


@functools.cache
def played(seed: int, steps: int) -> Played:
    """The world of this seed, played once."""
    world = play(seed, steps)
    return Played(world.history.position, world.history.reached.counts)


@pytest.mark.origin("D61", "C11", "C36", "R15")
@pytest.mark.parametrize(("seed", "steps"), WORLDS)
def test_no_law_is_broken_in_the_world_of_a_seed(seed: int, steps: int) -> None:
    assert played(seed, steps).facts > 0


@pytest.mark.origin("D61", "R15")
@pytest.mark.parametrize("first", SHORT_SEEDS[::SHARE])
def test_no_law_is_broken_in_many_short_worlds(first: int) -> None:
    assert play_all(range(first, first + SHARE), SHORT_STEPS) > SHARE


@pytest.fixture(scope="module")
def reached() -> Counter[str]:
    """How often the worlds of the default seeds were in which situation."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts.update(played(seed, STEPS).reached)
    return counts


@pytest.mark.origin("R15")
@pytest.mark.parametrize("situation", ALL)
def test_the_default_seeds_come_into_every_situation_that_is_listed(situation: str, reached: Counter[str]) -> None:
    assert reached[situation] > 0


def test_no_situation_is_counted_that_is_not_listed(reached: Counter[str]) -> None:
    assert len(ALL) >= 30
    assert set(reached) <= set(ALL)


def test_the_table_of_situations_has_a_line_for_each_that_was_never_reached_too() -> None:
    lines = table({ALL[0]: 12_345})

    assert [f"  12,345  {ALL[0]}", f"       0  {ALL[1]}"] == lines[:2]
    assert len(ALL) == len(lines)


def test_the_document_counts_every_situation_and_none_is_left_out_in_it() -> None:
    section = Path("docs/testing.md").read_text().partition("<!-- situations")[2].partition("<!-- end")[0]
    counted = dict(line.strip().split("  ", 1)[::-1] for line in section.splitlines() if line.startswith("  "))

    assert list(ALL) == list(counted)
    assert "0" not in counted.values()


def test_every_regression_says_what_it_found() -> None:
    assert all(each["found"] and each["seeds"] for each in REGRESSIONS)


def test_the_same_seed_tells_the_same_story_line_for_line() -> None:
    assert play(11).story == play(11).story


def test_different_seeds_tell_different_stories() -> None:
    assert play(11).story != play(12).story


def test_half_of_the_worlds_end_calmly_and_nobody_cancels_in_those() -> None:
    calm, let_go = play(1, 40).story, play(2, 40).story

    assert any("is calm from now on" in line for line in calm)
    assert any("is let go" in line for line in let_go)


def test_a_failing_seed_tells_its_story_the_law_and_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_effects(monkeypatch)

    with pytest.raises(SeedFailed) as failed:
        play_all(range(40))

    told = str(failed.value)
    assert "ready at position 0" in told
    assert L8 in told
    assert f"python -m simulation --seed {failed.value.seed} --steps {STEPS}" in told


def test_a_run_that_nobody_finishes_fails_a_calm_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.workers.Worker.finish", lambda worker, run_id, fence: worker.heartbeat())

    with pytest.raises(SeedFailed, match="still open after 60 s in which nothing failed"):
        play(1, 60)


def test_the_command_prints_its_seed_and_says_what_it_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--seed", "5", "--steps", "40"])

    told = capsys.readouterr().out
    assert "first seed 5, 40 steps a world" in told
    assert "1 worlds" in told
    assert 0 == main(["--seed", "5", "--steps", "5", "--worlds", "3"])
    assert "3 worlds" in capsys.readouterr().out
    assert f"  {ALL[0]}" in told


def test_the_command_fails_with_the_story_when_a_law_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_effects(monkeypatch)
    seeds = (seed for seed in range(40) if main(["--seed", str(seed)]) == 1)

    assert next(seeds, None) is not None
    assert L8 in capsys.readouterr().out
