"""What the fuzzer is told: whose keys to show, which waits to keep short, and what every refusal must look like.

Loaded by `schemathesis` in its own process. Half of the requests carry an admin's key, the others one of another role
each; the keys come in the environment, and a new draw comes with every case, seeded by the count of cases.
"""

import json
import os
from itertools import count
from random import Random
from typing import Any

import schemathesis
from schemathesis import AuthContext, Case, CheckContext, HookContext, Response

KEYS = "ATTACK_KEYS"
"""Where the keys are: a JSON object of role and key."""
SHORT_S, LONGEST_S = 0.05, 60.0
NEAR = 1
COMMON = {"type", "title", "status", "code", "detail"}
INSIDE = {"Traceback", "SELECT", "INSERT", "UPDATE", "File"}
CRANE = "crane"
"""A worker that is there."""
UNSAYABLE = ("the same as Jackline-Fence", "a valid integer")
"""What no schema can say: two places that carry the fence must agree, and 310.0 is an integer there and not to us."""

_numbers = count()
_keys: dict[str, str] = json.loads(os.environ.get(KEYS, "{}"))


@schemathesis.auth(refresh_interval=None)
class Roles:
    """Shows the keys of every role in turn."""

    def get(self, case: Case[Any], context: AuthContext) -> str:
        chance = Random(next(_numbers))
        return _keys["admin"] if chance.random() < 0.5 else chance.choice(sorted(_keys.values()))

    def set(self, case: Case[Any], data: str, context: AuthContext) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Ask for documents, never wait (that is not what is tried here), and leave the keys alone that are used."""
    case.headers["Accept"] = "application/json"
    for where in (case.query, case.body):
        if isinstance(where, dict):
            if SHORT_S < _number(where.get("wait_s")) <= LONGEST_S:
                where["wait_s"] = SHORT_S
            if NEAR < _number(where.get("min_position")):
                where["min_position"] = NEAR
            if isinstance(where.get("worker_id"), str) and next(_numbers) % 2:
                where["worker_id"] = CRANE
    if case.path_parameters.get("key_id") in {key.split("_")[1] for key in _keys.values()}:
        case.path_parameters["key_id"] = "nobodys1"


def _number(value: object) -> float:
    """The number that this is or says; none is 0.0."""
    if isinstance(value, bool | None):
        return 0.0
    try:
        return float(str(value))
    except ValueError:
        return 0.0


@schemathesis.check
def refusals_are_problems(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """Every refusal is a problem document with a stable code, and says nothing about the service's inside."""
    if response.status_code < 400 or not response.content:
        return
    document = response.json()
    missing = COMMON - set(document)
    assert not missing, f"the problem lacks {sorted(missing)}"
    assert document["status"] == response.status_code
    assert INSIDE.isdisjoint(document["detail"].split()), f"the problem tells of the inside: {document['detail']}"


@schemathesis.check
def the_document_says_every_rule_of_shape(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """What is valid by the document is never refused for its shape, only for what it means."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 422:
        return
    errors = response.json().get("errors", [])
    assert all(error["limit"].startswith(UNSAYABLE) for error in errors), f"the document does not say {errors}"
