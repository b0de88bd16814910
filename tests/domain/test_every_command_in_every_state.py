"""Each command meets each situation, and does exactly what the table says: no state and no command is forgotten.

The table (`tests.domain.table`) is complete by test: every situation stands under exactly one outcome of every
command, every state and every shape of a lease is a situation, and every decision of the domain over a run is one of
the commands. Whatever is decided is also held against the laws, by the kit.
"""

import inspect
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import get_args

import pytest

from domain import absence, claiming, closing, handing, quiet, settling, standing, steering
from domain.lease import Held, Reserved, Vacant
from domain.refusal import Refusal
from domain.run import Absent, Run
from domain.run_facts import ParkKind, State
from domain.standing import RunDraft
from tests.domain.kit import NOON, Decide
from tests.domain.run_commands import COMMANDS
from tests.domain.situations import SITUATIONS, Situation
from tests.domain.table import TABLE

pytestmark = pytest.mark.origin("A31", "A32", "B12")

DECISIONS = (absence, claiming, closing, handing, quiet, settling, steering)


@pytest.mark.parametrize("command", TABLE)
def test_a_command_does_in_each_situation_what_the_table_says(command: str) -> None:
    decide = COMMANDS[command][1]

    outcomes: dict[str, list[str]] = defaultdict(list)
    for name, situation in SITUATIONS.items():
        outcomes[_outcome(decide, situation)].append(name)

    assert {outcome: sorted(_names(listed)) for outcome, listed in TABLE[command].items()} == {
        outcome: sorted(names) for outcome, names in outcomes.items()
    }


@pytest.mark.parametrize("command", TABLE)
def test_every_situation_stands_under_exactly_one_outcome_of_a_command(command: str) -> None:
    listed = [name for names in TABLE[command].values() for name in _names(names)]

    assert sorted(SITUATIONS) == sorted(listed)


def test_every_decision_of_the_domain_over_a_run_is_a_command_of_the_table() -> None:
    decided = {function for module in DECISIONS for function in _decisions(module)}

    assert set(COMMANDS) == set(TABLE)
    assert decided == {function for function, _ in COMMANDS.values()} - {standing.holder}


def test_every_state_of_a_run_is_a_situation() -> None:
    states = {s.given.standing.state for s in SITUATIONS.values() if not isinstance(s.given.standing.run, Absent)}

    assert set(get_args(State)) == states


def test_every_shape_of_a_lease_is_a_situation() -> None:
    shapes = {_shape(situation) for situation in SITUATIONS.values()}

    assert {"vacant", "reserved", "live", "expired", "sliced live", "sliced expired"} == shapes


def test_every_kind_of_parking_is_a_situation_without_a_lease_with_a_live_one_and_with_an_expired_one() -> None:
    wanted = {(kind, shape) for kind in get_args(ParkKind) for shape in ("vacant", "live", "expired")}

    assert set() == wanted - {
        (situation.given.standing.state, _shape(situation))
        for situation in SITUATIONS.values()
        if isinstance(situation.given.standing.run, Run)
    }


def _outcome(decide: Decide, situation: Situation) -> str:
    outcome = situation.given.when(decide, situation.at)
    try:
        facts = outcome.facts
    except Refusal as refusal:
        return f"! {refusal.code}"
    if not facts:
        return "nothing"
    return f"{outcome.after.standing.state}: {' '.join(type(fact).__name__ for fact in facts)}"


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",")]


def _decisions(module: ModuleType) -> list[Callable[..., object]]:
    """The module's own public functions that decide about a run."""
    return [
        function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and function.__annotations__.get("return") is RunDraft
    ]


def _shape(situation: Situation) -> str:
    standing = situation.given.standing
    match standing.lease:
        case Vacant():
            return "vacant"
        case Reserved():
            return "reserved"
        case Held(sliced=sliced):
            live = "live" if standing.live(NOON.after(situation.at)) else "expired"
            return f"sliced {live}" if sliced else live
