"""Requests made from the service's own document: for every operation a path, and a body that has the right shape.

What the document does not know, a test does: which ids are real. A name in a path that nobody gave a value gets one
that belongs to nothing, so operations that come later are asked as well.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from api.openapi import document

DOCUMENT = document()
PUBLIC = {"GET /livez", "GET /readyz"}
OF_NOTHING = "01a229c7e0c0777380c2d3362c649fff"
"""An id that is well made and belongs to nothing."""


@dataclass(frozen=True)
class Operation:
    """One method at one path."""

    method: str
    path: str
    described: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"

    @property
    def names(self) -> list[str]:
        """The names in its path."""
        return re.findall(r"{(\w+)}", self.path)

    def at(self, ids: Mapping[str, str]) -> str:
        """Its path with these ids."""
        filled = {name: quote(ids.get(name, self.of_nothing(name)), safe="") for name in self.names}
        return self.path.format_map(filled)

    def of_nothing(self, name: str) -> str:
        """A value for a name in its path that has the right shape and belongs to nothing."""
        wanted: Mapping[str, Any] = next(
            (one["schema"] for one in self.described.get("parameters", ()) if one["name"] == name), {}
        )
        return str(wanted["maximum"]) if wanted.get("type") == "integer" else OF_NOTHING

    @property
    def model(self) -> Mapping[str, Any] | None:
        """The schema of its body, if it takes one."""
        content = self.described.get("requestBody", {}).get("content", {})
        schema: Mapping[str, Any] | None = content.get("application/json", {}).get("schema")
        return None if schema is None else resolved(schema)

    def body(self, known: Mapping[str, Any]) -> dict[str, Any] | None:
        """A body with everything that must be in it, and every known value that may be."""
        model = self.model
        if model is None:
            return None
        wanted = set(model.get("required", ())) | (set(known) & set(model.get("properties", {})))
        return {name: value_of(model["properties"][name], known.get(name)) for name in sorted(wanted)}


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, where it is only named."""
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def value_of(schema: Mapping[str, Any], known: Any) -> Any:
    """A value of this shape: the known one where it fits, else the plainest."""
    schema = resolved(schema)
    if "enum" in schema:
        return known if known in schema["enum"] else schema["enum"][0]
    if "anyOf" in schema:
        return value_of(schema["anyOf"][0], known)
    match schema.get("type"):
        case "object":
            return {name: value_of(schema["properties"][name], None) for name in schema.get("required", ())}
        case "array":
            return [value_of(schema["items"], known)] * schema.get("minItems", 0)
        case "integer" | "number":
            return known if isinstance(known, int) else int(schema.get("minimum", 1))
        case "boolean":
            return False
        case "string":
            return known if isinstance(known, str) else "x"
        case _:
            return known


def operations() -> Iterator[Operation]:
    """Every operation of the interface."""
    for path, methods in DOCUMENT["paths"].items():
        for method, described in methods.items():
            yield Operation(method.upper(), path, described)


OPERATIONS = sorted(operations(), key=lambda operation: operation.label)
LABELS = [operation.label for operation in OPERATIONS]
CLOSED = [operation for operation in OPERATIONS if operation.label not in PUBLIC]
"""Every operation that needs a key."""
STREAM = "GET /v1/leaders/{leader_id}/presence"
"""The one whose answer, when it is one, does not end."""
