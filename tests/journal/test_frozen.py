"""What was released is frozen: names, stored bytes and shapes of earlier versions may be added to and never change.

The golden files of today can be edited together with the code; these copies are of a release, and their own digests
stand here, so that a change has to be made in three places to pass, one of which says that it must not be.
"""

import hashlib
import json
from typing import Any

import pytest

from tests.journal.corpus_lines import digest_of, stored_lines
from tests.journal.releases import FIXTURES
from tests.journal.test_topics import GOLDEN
from tools.facts import render_schema

FROZEN = {
    "0.1.0.corpus.txt": "fe86b0add04a4872aa29e9f14d93e5e65f3d1f67723291c6fe00f9403d1b67b0",
    "0.1.0.schema.json": "30f79f359ae5209bc427cb633ebe0af398ecd0b0f5102c3063239be3705fe1ce",
}
"""SHA-256 of the copies. A new release adds files; what is here stays."""

Shape = dict[str, Any]


@pytest.mark.parametrize("name", FROZEN)
def test_the_copy_of_a_release_is_what_it_was(name: str) -> None:
    assert FROZEN[name] == hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()


def test_every_copy_is_known() -> None:
    assert set(FROZEN) == {path.name for path in FIXTURES.iterdir() if path.suffix in (".txt", ".json")}


@pytest.mark.parametrize("name", [name for name in FROZEN if name.endswith("corpus.txt")])
def test_every_line_that_was_released_is_still_in_the_corpus_under_its_name(name: str) -> None:
    kept = {digest_of(topic, line) for topic, line in stored_lines()}
    released = (FIXTURES / name).read_text().splitlines()

    assert [] == [line for line in released if line not in kept]
    assert {line.split()[1] for line in released} <= set(GOLDEN.read_text().splitlines())


@pytest.mark.parametrize("name", [name for name in FROZEN if name.endswith("schema.json")])
def test_every_shape_that_was_released_has_only_grown(name: str) -> None:
    released, today = json.loads((FIXTURES / name).read_text()), json.loads(render_schema())
    then, now = _shapes(released), _shapes(today)

    assert [] == [topic for topic in then if topic not in now]
    assert [] == [problem for topic in then for problem in changes(then[topic], now[topic], topic)]


def _shapes(schema: Shape) -> dict[str, Shape]:
    """By stored name: the shape of its data, with what it is made of put in."""
    branches = schema["allOf"]
    return {
        branch["if"]["properties"]["type"]["const"]: _whole(branch["then"]["properties"]["data"], schema["$defs"])
        for branch in branches
    }


def _whole(value: Any, parts: Shape) -> Any:
    if isinstance(value, dict):
        if "$ref" in value:
            return _whole(parts[value["$ref"].removeprefix("#/$defs/")], parts)
        return {name: _whole(inner, parts) for name, inner in value.items()}
    return [_whole(inner, parts) for inner in value] if isinstance(value, list) else value


def changes(then: Shape, now: Shape, where: str) -> list[str]:
    """In what a shape is no longer one that reads what was stored under it, in words."""
    found = [f"{where}: {name} was {then.get(name)!r}" for name in ("type", "const") if then.get(name) != now.get(name)]
    found += [f"{where}: {value!r} is gone" for value in then.get("enum", ()) if value not in now.get("enum", ())]
    added = set(now.get("required", ())) - set(then.get("required", ()))
    found += [f"{where}: {name} must be there now" for name in sorted(added)]
    for name, inner in then.get("properties", {}).items():
        if name not in now.get("properties", {}):
            found.append(f"{where}.{name} is gone")
        else:
            found += changes(inner, now["properties"][name], f"{where}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(then.get(name), dict):
            found += changes(then[name], now.get(name, {}), f"{where}[]")
    for one in then.get("anyOf", ()):
        if not any(changes(one, other, where) == [] for other in now.get("anyOf", [now])):
            found.append(f"{where}: {one} is no longer one of its kinds")
    return found


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"type": "integer"}, {"type": "string"}),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}),
        ({"properties": {"x": {"type": "integer"}}}, {"properties": {}}),
        ({"properties": {}, "required": []}, {"properties": {"x": {}}, "required": ["x"]}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}]}),
        ({"items": {"type": "string"}}, {"items": {"type": "integer"}}),
        ({"additionalProperties": {"type": "string"}}, {"additionalProperties": {"type": "integer"}}),
    ],
)
def test_a_shape_that_changed_is_noticed(then: Shape, now: Shape) -> None:
    assert [] != changes(then, now, "x")


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"type": "integer"}, {"type": "integer", "description": "new words"}),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}),
        ({"properties": {}}, {"properties": {"x": {}}}),
        ({"required": ["x"], "properties": {"x": {}}}, {"required": [], "properties": {"x": {}}}),
        ({"anyOf": [{"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_a_shape_that_has_grown_is_not(then: Shape, now: Shape) -> None:
    assert [] == changes(then, now, "x")
