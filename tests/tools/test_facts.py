"""The catalogue of facts: the schema accepts what was stored and refuses what was not, and numbers have units."""

import json
from typing import Any

import jsonschema
import pytest
from msgspec import inspect

from domain.values import Fact
from journal.mapper import DEFAULT_CODEC
from journal.topics import TOPICS
from tests.journal.corpus_lines import stored_lines
from tools import facts

SCHEMA = json.loads(facts.render_schema())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


class Unmeasured(Fact, frozen=True, kw_only=True):
    """Something of which nobody says how much."""

    weight: float


def documents() -> list[dict[str, Any]]:
    """Every line of the corpus of a name of today, as the schema describes it."""
    return [
        {"type": topic, "data": json.loads(bytes(DEFAULT_CODEC.decode_raw(topic, line).data))}
        for topic, line in stored_lines()
        if topic in TOPICS
    ]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_stored_line_is_as_the_schema_says() -> None:
    assert [] == [(one["type"], error.message) for one in documents() for error in VALIDATOR.iter_errors(one)]


def test_a_line_that_lacks_a_required_field_is_not() -> None:
    missed = []
    for one in documents():
        kind = inspect.type_info(TOPICS[one["type"]])
        assert isinstance(kind, inspect.StructType)
        required = [field.encode_name for field in kind.fields if field.required]
        data = {name: value for name, value in one["data"].items() if name != required[0]}
        if VALIDATOR.is_valid({**one, "data": data}):
            missed.append(one["type"])

    assert [] == missed


def test_a_name_that_is_not_stored_is_not() -> None:
    assert not VALIDATOR.is_valid({"type": "run.teleported.v1", "data": {}})


def test_every_name_has_an_example_that_is_as_the_schema_says() -> None:
    shown = facts.examples()

    assert [] == [topic for topic in TOPICS if topic not in shown]
    assert [] == [
        topic for topic in TOPICS if not VALIDATOR.is_valid({"type": topic, "data": json.loads(shown[topic])})
    ]


def test_the_document_names_every_field_of_every_fact() -> None:
    text = facts.render()

    for topic, fact_type in TOPICS.items():
        section = text.partition(f"### `{topic}`")[2].partition("\n### ")[0]
        assert [] == [name for name in fact_type.__struct_fields__ if f"| `{name}` |" not in section], topic


def test_a_number_without_a_unit_is_refused() -> None:
    kind = inspect.type_info(Unmeasured)
    assert isinstance(kind, inspect.StructType)

    with pytest.raises(ValueError, match=r"Unmeasured\.weight is a number without a unit"):
        facts.unit_of(kind, kind.fields[0])


def test_instants_are_marked_as_such() -> None:
    submitted = SCHEMA["$defs"]["RunSubmitted"]["properties"]

    assert "date-time" == submitted["submitted_at"]["format"]
    assert "date-time" == submitted["run_after"]["anyOf"][0]["format"]
    assert "seconds" == SCHEMA["$defs"]["FenceBumped"]["properties"]["ttl_s"]["x-unit"]
