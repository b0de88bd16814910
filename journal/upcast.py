"""Old payloads become current facts, so that the domain knows only today's shapes.

A stored name never changes its meaning. When a fact needs another shape it gets a new name (``run.submitted.v2``), and
one entry here that turns the old payload into the new one, one step at a time. A step is pure. It gets the fields as
the bytes that were stored, so user JSON passes through untouched; what it changes it reads with ``of_json`` and gives
back as plain values. Additions with a default need no entry. Every old name keeps its stored bytes in
``tests/journal/corpus`` for ever.
"""

from collections.abc import Callable, Mapping
from typing import Any

from domain.values import Json, to_json

Fields = dict[str, Json]
"""The fields of a stored payload, each as its bytes."""

Upcast = tuple[str, Callable[[Fields], Mapping[str, Any]]]
"""The name that follows, and the step that leads there."""

UPCASTS: Mapping[str, Upcast] = {}


def upcast(topic: str, fields: Fields, steps: Mapping[str, Upcast] = UPCASTS) -> tuple[str, Fields]:
    """The current name and fields of what was stored under an old name; both unchanged when there is no step."""
    while (step := steps.get(topic)) is not None:
        topic, convert = step
        fields = {name: to_json(value) for name, value in convert(fields).items()}
    return topic, fields
