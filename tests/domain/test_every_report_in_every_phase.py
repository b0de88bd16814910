"""Each report and each command meets each workspace, and does exactly what the table says; nothing is forgotten.

The table (`tests.domain.ground_table`) is complete by test: every situation stands under exactly one outcome of every
command, and every phase is a situation. Whatever is decided is also held against the laws, by the kit.
"""

from collections import defaultdict
from typing import get_args

import pytest

from domain.refusal import Refusal
from domain.workspace import WorkspacePhase
from tests.domain.ground_situations import COMMANDS, GROUNDS
from tests.domain.ground_table import TABLE
from tests.domain.kit import Decide, Given

pytestmark = pytest.mark.origin("C5", "C6", "C7", "C8", "C9", "R12", "R13", "R14", "R18")


def outcome(given: Given, decide: Decide) -> str:
    """What the command does here, in the words of the table."""
    followed = given.when(decide, at=10)
    try:
        facts = followed.facts
    except Refusal as refusal:
        return f"! {refusal.code}"
    if not facts:
        return "nothing"
    after = followed.after
    return f"{after.ground().phase} {after.standing.state}: " + " ".join(type(fact).__name__ for fact in facts)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_in_every_phase_what_the_table_says(command: str) -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for name, given in GROUNDS.items():
        found[outcome(given, COMMANDS[command][1])].append(name)

    assert {key: sorted(names.split(", ")) for key, names in TABLE[command].items()} == {
        key: sorted(names) for key, names in found.items()
    }


def test_the_table_knows_every_command_and_every_situation_once() -> None:
    assert set(COMMANDS) == set(TABLE)
    for command, outcomes in TABLE.items():
        named = [name for names in outcomes.values() for name in names.split(", ")]

        assert sorted(GROUNDS) == sorted(named), command


def test_every_phase_is_a_situation() -> None:
    assert set(get_args(WorkspacePhase)) == {given.ground().phase for given in GROUNDS.values()}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_just_decided_is_decided_no_second_time(command: str) -> None:
    """A repeat is satisfied, or refused; it never adds a loss, a fault or an end again."""
    once = {"WorkspaceLost", "ProvisionFaulted", "WorkspaceAttached", "WorkspaceDestroyed", "WorkspaceReaped"}
    for given in GROUNDS.values():
        first = given.when(COMMANDS[command][1], at=10)
        try:
            after = first.after
            again = after.when(COMMANDS[command][1], at=11).facts
        except Refusal:
            continue
        assert set() == once & {type(fact).__name__ for fact in again if type(fact) in map(type, first.facts)}
