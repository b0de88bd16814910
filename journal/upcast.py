"""Old payloads become current facts, so that the domain knows only today's shapes.

A stored name never changes its meaning. When a fact needs another shape it gets a new name (``run.submitted.v2``), and
one entry here that turns the old payload into the new one: pure, from plain values to plain values, one step at a time.
Additions with a default need no entry. Every old name keeps its stored bytes in ``tests/journal/corpus`` for ever.
"""

from collections.abc import Callable, Mapping
from typing import Any

Payload = dict[str, Any]

Upcast = tuple[str, Callable[[Payload], Payload]]
"""The name that follows, and the step that leads there."""

UPCASTS: Mapping[str, Upcast] = {}


def upcast(topic: str, payload: Payload, steps: Mapping[str, Upcast] = UPCASTS) -> tuple[str, Payload]:
    """The current name and payload of what was stored under an old name; both unchanged when there is no step."""
    while (step := steps.get(topic)) is not None:
        topic, convert = step
        payload = convert(payload)
    return topic, payload
