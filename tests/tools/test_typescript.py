"""The TypeScript generator: each shape of schema that the document uses has one exact rendering."""

from typing import Any

import pytest

from tools.typescript import render


def types_of(**schemas: dict[str, Any]) -> str:
    """The declarations for these schemas, without the opening."""
    return render({"components": {"schemas": schemas}}).split("};\n", 1)[1].strip()


def test_a_property_that_is_not_required_may_be_left_out() -> None:
    schema = {
        "type": "object",
        "required": ["fence"],
        "properties": {"fence": {"type": "integer"}, "reason": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    }

    assert "export interface Lost {\n  fence: number;\n  reason?: string | null;\n}" == types_of(Lost=schema)


def test_a_description_becomes_the_comment_above() -> None:
    schema = {"type": "string", "description": "Where a\n fact stands */"}

    assert "/** Where a fact stands * / */\nexport type Position = string;" == types_of(Position=schema)


@pytest.mark.parametrize(
    ("schema", "rendered"),
    [
        pytest.param({"enum": ["saved", "ignored"]}, '"saved" | "ignored"', id="enum"),
        pytest.param({"const": "run.settled.v1"}, '"run.settled.v1"', id="const"),
        pytest.param({"type": "array", "items": {"$ref": "#/components/schemas/Run"}}, "Run[]", id="array-of-names"),
        pytest.param({"type": "array", "items": {"enum": ["a", "b"]}}, 'Array<"a" | "b">', id="array-of-choices"),
        pytest.param({"type": "object"}, "{ [key: string]: Json }", id="free-map"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string"}}, "{ [key: string]: string }", id="typed-map"
        ),
        pytest.param({"type": ["string", "null"]}, "string | null", id="list-of-kinds"),
        pytest.param({}, "Json", id="anything"),
        pytest.param({"prefixItems": [{"type": "string"}, {}], "type": "array"}, "[string, Json]", id="tuple"),
    ],
)
def test_a_schema_becomes_the_type_that_it_means(schema: dict[str, Any], rendered: str) -> None:
    assert f"export type Shape = {rendered};" == types_of(Shape=schema)


def test_a_kind_without_a_type_is_an_error_and_not_any() -> None:
    with pytest.raises(ValueError, match="'file'"):
        types_of(Upload={"type": "file"})
