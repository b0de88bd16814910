"""JSON documents to typed results.

A result is a frozen dataclass; its annotations say what a document must hold. Members that are not named are ignored
(the service may be newer), members that are missing take the dataclass's default, and a member of another type, or a
missing one without default, is `Garbled`, naming its path. Instants become aware datetimes; JSON that belongs to the
user (payloads, partials, answers) is annotated `Any` and handed through untouched.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast

from jackline.errors import Garbled

T = TypeVar("T")


@cache
def _members(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (field.name, hints[field.name], field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    )


def decode(kind: type[T], document: Any, path: str = "$") -> T:
    """`document` as a `kind`, or `Garbled`."""
    if not isinstance(document, Mapping):
        msg = f"{path} is {type(document).__name__}, an object was promised"
        raise Garbled(msg)
    values: dict[str, Any] = {}
    for name, hint, required in _members(cast(Any, kind)):
        if name in document:
            values[name] = _value(hint, document[name], f"{path}.{name}")
        elif required:
            msg = f"{path}.{name} is missing"
            raise Garbled(msg)
    return kind(**values)


def parsed(text: str | bytes, what: str) -> Any:
    """The JSON in a text, or `Garbled`; so is JSON that is nested too deep to be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{what} is not JSON: {text[:80]!r}"
        raise Garbled(msg) from error


def member(document: Any, name: str) -> Any:
    """One member of a document that must have it, or `Garbled`."""
    if not isinstance(document, Mapping):
        msg = f"$ is {type(document).__name__}, an object was promised"
        raise Garbled(msg)
    if name not in document:
        msg = f"$.{name} is missing"
        raise Garbled(msg)
    return document[name]


def members(document: Any, name: str) -> list[dict[str, Any]]:
    """A member that is a list of objects, or `Garbled`."""
    found = member(document, name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        msg = f"$.{name} is no list of objects"
        raise Garbled(msg)
    return found


def decode_list(kind: type[T], documents: Any, path: str = "$") -> list[T]:
    """Each member of `documents` as a `kind`."""
    if not isinstance(documents, list):
        msg = f"{path} is {type(documents).__name__}, a list was promised"
        raise Garbled(msg)
    return [decode(kind, document, f"{path}[{index}]") for index, document in enumerate(documents)]


def _value(hint: Any, value: Any, path: str) -> Any:
    if hint is Any:
        return value
    origin = typing.get_origin(hint)
    if origin is Union or origin is types.UnionType:
        return _optional(hint, value, path)
    if origin is Literal:
        return _choice(typing.get_args(hint), value, path)
    if origin is list:
        return _list(typing.get_args(hint)[0], value, path)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value, path)
    return _scalar(origin or hint, value, path)


def _optional(hint: Any, value: Any, path: str) -> Any:
    if value is None:
        return None
    inner = next(one for one in typing.get_args(hint) if one is not type(None))
    return _value(inner, value, path)


def _choice(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    if value not in choices:
        msg = f"{path} is {value!r}, one of {', '.join(choices)} was promised"
        raise Garbled(msg)
    return value


def _list(inner: Any, value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        msg = f"{path} is {type(value).__name__}, a list was promised"
        raise Garbled(msg)
    return [_value(inner, one, f"{path}[{index}]") for index, one in enumerate(value)]


def _scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is datetime and isinstance(value, str):
        return _instant(value, path)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    msg = f"{path} is {type(value).__name__}, {kind.__name__} was promised"
    raise Garbled(msg)


def _instant(text: str, path: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"{path} is not an instant: {text!r}"
        raise Garbled(msg) from error
