"""Every refusal of the domain, and each of them made from samples."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

import domain
from domain.refusal import Refusal
from domain.turns_state import Over
from domain.worker import Quarantine
from tests.domain.kit import noon
from tests.domain.written import refused

for found in pkgutil.iter_modules(domain.__path__, "domain."):
    importlib.import_module(found.name)


def kinds(base: type[Refusal] = Refusal) -> list[type[Refusal]]:
    """The subclasses of a refusal, theirs too."""
    return [kind for child in base.__subclasses__() for kind in (child, *kinds(child))]


def ours() -> list[type[Refusal]]:
    """The refusals of the domain, by name."""
    found = [kind for kind in kinds() if kind.__module__.startswith("domain.")]
    return sorted(found, key=lambda kind: kind.__name__)


def sample(kind: Any, name: str, *, full: bool) -> Any:
    """A value of a type: of an optional one null unless full, of text its name, of a number its name's length."""
    arguments = get_args(kind)
    if type(None) in arguments:
        return sample(arguments[0], name, full=True) if full else None
    if get_origin(kind) is Literal:
        return arguments[0]
    if get_origin(kind) is dict:
        return {name: f"a {name}"}
    if get_origin(kind) is list:
        return [f"a {name}"]
    return {int: len(name), bool: full, float: 2.5, str: f"a {name}", Any: 41, Over: OVER[full], Quarantine: BLAMED}[
        kind
    ]


OVER = (
    Over(turn=3, workspace_id=None, ended="completed"),
    Over(turn=3, workspace_id="w1", ended="cut", code="turn_cut"),
)


BLAMED = Quarantine(reason="no disk", since=noon(), until=noon(60))


def refusal(kind: Callable[..., Refusal]) -> str:
    """A refusal made from samples, with and without what is optional."""
    hints = {name: hint for name, hint in get_type_hints(kind.__init__).items() if name != "return"}
    made = [kind(**{name: sample(hint, name, full=full) for name, hint in hints.items()}) for full in (True, False)]
    return "".join(f"  {line}\n" for line in dict.fromkeys(map(refused, made)))
