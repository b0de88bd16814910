"""Bodies: bounded while they arrive, refused when two readers could read them differently, checked field by field.

Bounds are in bytes of the body as it arrives, counted as it streams in, so a chunked body is cut like a declared one;
what is beyond is thrown away, and after ``DISCARD_BYTES`` of it the connection is closed. Nesting is bounded by the
parser at ``MAX_DEPTH`` levels.

A body is parsed once. Duplicate keys, NaN and infinities, numbers beyond a double, bytes that are not UTF-8 and lone
surrogates are ``malformed``; an unknown field, a missing one or one outside its bounds is ``invalid`` with its path.
Fields marked ``UserJson`` are the caller's own: they leave here as the very bytes that arrived, never as a value.

An empty body is an empty object, for commands whose fields may all be left out.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

import jiter
import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.types import Message, Receive

from api.problems import BodyTooLarge, InvalidBody, Malformed, TooDeep
from domain.values import NULL, Json

MAX_BYTES = 1024 * 1024
"""Most bytes of a body, where a route does not say otherwise."""
DISCARD_BYTES = 16 * 1024 * 1024
"""How much beyond a bound is read and thrown away, so that an honest client still hears the refusal."""
MAX_DEPTH = 200
ERRORS_SHOWN = 20
_SIZED = re.compile(
    r"(?P<what>\w+) should have (?P<size>at (?:least|most) \d+ \w+)(?: after validation)?(?P<got>, not \d+)?$"
)
"""How the validating library says that something is too short or too long."""

M = TypeVar("M", bound=BaseModel)


class Kept:
    """Marks a field as the caller's own JSON: its bytes are kept as they arrived."""


UserJson = Annotated[Any, Kept()]
_UNSET = msgspec.UNSET
_RAW = Json | msgspec.UnsetType


class BodyUnread(BodyTooLarge):
    """The body exceeds its bound by so much that the rest was left unread: the connection cannot be used again."""

    code = "body_too_large"


class BodyCut(Exception):
    """The client left before its body was complete: there is nothing to carry out and nobody to tell."""


async def receive_body(receive: Receive, declared: int | None, limit: int) -> bytes:
    """The whole body.

    Raises:
        BodyTooLarge: it is longer than ``limit`` bytes, whether it said so or not.
        BodyCut: the client left in the middle of it.
    """
    message = await _next(receive)
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False) and len(body) <= limit:
        return body
    if len(body) > limit or (declared is not None and declared > limit):
        await _discard(receive, message, limit)
    parts, size = [body], len(body)
    while message.get("more_body", False):
        message = await _next(receive)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            await _discard(receive, message, limit)
    return b"".join(parts)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise BodyCut
    return message


async def _discard(receive: Receive, message: Message, limit: int) -> None:
    discarded = 0
    while message.get("more_body", False):
        if discarded > DISCARD_BYTES:
            raise BodyUnread(limit)
        message = await _next(receive)
        discarded += len(message.get("body", b""))
    raise BodyTooLarge(limit)


def parsed(body: bytes) -> Any:
    """The JSON value of a body, as plain Python.

    Raises:
        Malformed: it is not one JSON value that everybody reads in the same way.
        TooDeep: it is nested too deep.
    """
    try:
        return jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        problem = str(error)
        if problem.startswith("recursion limit"):
            raise TooDeep(MAX_DEPTH) from error
        raise Malformed(_within_a_sentence(problem)) from error


def canonical_digest(value: Any) -> str:
    """What a body says, however its keys were ordered and its blanks were set: SHA-256 in hexadecimal."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


class Reader(Generic[M]):
    """Turns the bodies of one route into its model."""

    def __init__(self, model: type[M], limit: int = MAX_BYTES) -> None:
        self.model = model
        self.limit = limit
        self._validate: Callable[[Any], M] = model.__pydantic_validator__.validate_python
        self._graft = Graft(model)
        self._kept = msgspec.json.Decoder(self._graft.carrier).decode if self._graft else None

    def read(self, body: bytes) -> tuple[M, Any]:
        """The model, with user JSON as bytes, and the plain value of the whole body.

        Raises:
            Malformed, TooDeep: the body is not JSON that can be accepted.
            InvalidBody: a field is unknown, missing, or outside its bounds.
        """
        value = parsed(body) if body else {}
        try:
            model = self._validate(value)
        except ValidationError as error:
            raise InvalidBody(problems_in(error)) from error
        if self._kept is not None:
            self._graft.onto(model, self._kept(body or b"{}"))
        return model, value


class Graft:
    """Puts the bytes of the fields marked ``UserJson`` into a model that was validated, however deep they are."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._own: list[str] = []
        self._inner: list[tuple[str, Graft]] = []
        for name, field in model.model_fields.items():
            if any(isinstance(mark, Kept) for mark in field.metadata):
                self._own.append(name)
            elif (inner := _listed(field.annotation)) is not None and (graft := Graft(inner)):
                self._inner.append((name, graft))
        fields: list[tuple[str, Any, Any]] = [(name, _RAW, _UNSET) for name in self._own]
        fields += [(name, list[graft.carrier], _UNSET) for name, graft in self._inner]  # type: ignore[name-defined]
        self.carrier: type[msgspec.Struct] = msgspec.defstruct(f"{model.__name__}Kept", fields)

    def __bool__(self) -> bool:
        return bool(self._own or self._inner)

    def onto(self, model: BaseModel, carrier: msgspec.Struct) -> None:
        """Replace the values of marked fields by their bytes; a field that was left out is null."""
        for name in self._own:
            raw = getattr(carrier, name)
            model.__dict__[name] = NULL if raw is _UNSET else _accepted(raw)
        for name, graft in self._inner:
            if (inner := getattr(carrier, name)) is not _UNSET:
                for each, kept in zip(getattr(model, name), inner, strict=True):
                    graft.onto(each, kept)


def _listed(annotation: Any) -> type[BaseModel] | None:
    """The model that a field is a list of, if it is one."""
    if get_origin(annotation) is not list:
        return None
    inner = get_args(annotation)[0]
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _accepted(raw: Json) -> Json:
    """The bytes by themselves, without the body around them; a number that no double can hold is refused."""
    try:
        msgspec.json.decode(raw)
    except msgspec.MsgspecError as error:
        problem = str(error)
        raise Malformed(_within_a_sentence(problem)) from error
    return raw.copy()


def problems_in(error: ValidationError) -> list[dict[str, str]]:
    """Every field that is wrong, with what it must be; the first ones if there are many."""
    errors: Iterable[ErrorDetails] = error.errors(include_url=False, include_context=False, include_input=False)
    return [{"field": ".".join(map(str, each["loc"])), "limit": _must_be(each)} for each in list(errors)[:ERRORS_SHOWN]]


def _must_be(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "left out: no such field is known here"
        case "missing":
            return "given"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "an object"
        case _:
            text = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            sized = _SIZED.match(text)
            if sized is not None:
                return f"a {sized['what'].lower()} of {sized['size']}{sized['got'] or ''}"
            return _within_a_sentence(text)


def _within_a_sentence(text: str) -> str:
    """The text with a small first letter, unless its first word is one of capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
