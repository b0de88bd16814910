"""Scenarios: what can happen to a body, to the view of it, and to the observer; each with what must be told.

They are functions of a `World`, collected by `@scenario` under a sentence. Those that need nothing but an API server
run on the fake one and on a real one; those that make a server fail (`fake=True`) run on the fake one alone.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tests.watchers.world import World

Play = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """One thing that can happen."""

    name: str
    play: Play
    fake: bool = False
    pace: dict[str, Any] = field(default_factory=dict)


SCENARIOS: list[Scenario] = []


def scenario(*, fake: bool = False, **pace: Any) -> Callable[[Play], Play]:
    """Collect a function as a scenario; its name is the sentence."""

    def collect(play: Play) -> Play:
        SCENARIOS.append(Scenario(play.__name__, play, fake, pace))
        return play

    return collect


def collected() -> list[Scenario]:
    """Every scenario there is."""
    for part in ("bodies", "surroundings", "downtime", "making", "sandboxes", "faults"):
        import_module(f"tests.watchers.scenarios.{part}")
    return SCENARIOS
