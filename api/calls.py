"""Calls: from a request to the command or view it asks for, and back, on a road as short as it can be.

A route is written like any route of the framework: a function whose signature says what it takes (the call, path
parameters, one body, one query) and whose decorator says what it answers. The framework makes the OpenAPI document of
that. Serving does not go through its dependency machinery: ``Endpoint`` reads the signature once and then admits the
caller, reads the bounded body, checks it, awaits the function and sends one encoded answer. Routes are found by path
segments in a tree, on the undecoded path, so that an effect key may contain a slash.

Whatever goes wrong becomes a problem document here. A function may answer with a ``Done`` (its position travels in
``Jackline-Position``), a document, nothing (204), or a stream.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qs, unquote_to_bytes

import msgspec
from fastapi.datastructures import DefaultPlaceholder
from fastapi.params import Query as QueryMark
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from api.admission import IDEMPOTENCY_KEY_MAX_CHARS, Asked, caller_of, fence_of, require_role
from api.bodies import BodyCut, BodyUnread, Reader, problems_in, receive_body
from api.keys import Entry
from api.node import Node
from api.problems import JSON as PROBLEM_JSON
from api.problems import Booting, EncodingUnknown, InvalidBody, MethodNotAllowed, Problem, RouteUnknown
from api.requests import SAFE_INTEGER
from api.roles import TABLE, Roles
from api.streams import Stream
from commands.desk import Caller, Desk
from domain.submission import ID_MAX_CHARS
from journal.commit import Done

T = TypeVar("T")
Header = tuple[bytes, bytes]

SECURITY: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""On every answer: it is data, not to be sniffed, kept, or shown in a frame."""

_JSON: tuple[Header, ...] = ((b"content-type", b"application/json"), *SECURITY)
_PROBLEM: tuple[Header, ...] = (PROBLEM_JSON, *SECURITY)
_CLOSE: Header = (b"connection", b"close")

HEADERS: dict[str, dict[str, Any]] = {
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "a repeat under the same key gets the first answer; another body or fence under it is refused",
        "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_MAX_CHARS},
    },
    "Jackline-Fence": {
        "name": "Jackline-Fence",
        "in": "header",
        "required": False,
        "description": "the fence of the lease, unless the body carries it",
        "schema": {"type": "integer", "minimum": 0, "maximum": SAFE_INTEGER},
    },
    "Jackline-Instance": {
        "name": "Jackline-Instance",
        "in": "header",
        "required": False,
        "description": "which process the worker is; refused while another one is registered under the worker's id",
        "schema": {"type": "string", "pattern": f"^[A-Za-z0-9._-]{{1,{ID_MAX_CHARS}}}$"},
    },
    "Last-Event-ID": {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "description": "with `Accept: text/event-stream`: the `id` of the last event that was read",
        "schema": {"type": "string"},
    },
}

RESUMES: dict[str, Any] = {"parameters": [HEADERS["Last-Event-ID"]]}
"""What the description of a stream adds: it goes on where the reader was."""

AS_WORKER: dict[str, Any] = {"parameters": [HEADERS["Jackline-Instance"]]}
"""What the description of an operation adds that a worker's process asks for itself."""

encode = msgspec.json.Encoder().encode


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


class Call(Request):
    """One request that was let in: who asks, and the service it asks."""

    node: Node
    entry: Entry
    caller: Caller
    head: dict[bytes, bytes]
    body_value: Any

    @property
    def desk(self) -> Desk:
        """Where commands are carried out."""
        return self.node.desk

    def fence(self, body: Any) -> int | None:
        """The fence that was presented, in the body or as a header; None when there was none.

        Raises:
            InvalidBody: the two differ, or the header is no number.
        """
        inside: int | None = body.fence
        beside = fence_of(self.head)
        if beside is not None and inside is not None and inside != beside:
            raise InvalidBody([{"field": "fence", "limit": f"the same as Jackline-Fence ({beside})"}])
        return inside if beside is None else beside

    async def while_there(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that is only worth doing while the client waits for it; cancelled when it leaves."""
        doing = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self._left())
        try:
            await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise ClientLeft
        finally:
            leaving.cancel()
            doing.cancel()

    async def _left(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


Answer = Done[Any] | Mapping[str, Any] | Stream | None


class Endpoint(APIRoute):
    """One route: its place in the document, and the short road to its function."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        plan = _Plan(path, endpoint)
        method = next(iter(options.get("methods") or ["GET"]))
        options["openapi_extra"] = _extra(method, plan, options.get("openapi_extra"))
        if isinstance(options.get("response_model"), DefaultPlaceholder):
            options["response_model"] = None
        options.setdefault("responses", {"default": {"description": "a problem (RFC 9457)"}})
        super().__init__(path, endpoint, **options)
        self.plan = plan
        self.verb = method
        self.key = f"{method} {path}"
        self.roles: Roles = TABLE.get(self.key, frozenset())
        self.good = self.status_code or 200

    async def serve(self, node: Node, scope: Scope, channel: tuple[Receive, Send], values: list[str]) -> None:
        """Answer one request."""
        receive, send = channel
        try:
            answer = await self._ask(node, scope, channel, values)
            if isinstance(answer, Stream):
                await answer(scope, receive, send)
                return
            status, headers, body = self._encoded(answer, (b"jackline-boot", node.boot_id.encode()))
        except (ClientLeft, BodyCut):
            return
        except Exception as error:  # noqa: BLE001  (whatever it was, the caller is told in the one way)
            problem = node.health.problem(self.key, error)
            status, headers, body = problem.status, _problem_headers(problem, error), problem.body
        await respond(send, status, headers, body)

    async def _ask(self, node: Node, scope: Scope, channel: tuple[Receive, Send], values: list[str]) -> Answer:
        if not node.open:
            raise Booting(node.step)
        headers = dict(scope["headers"])
        entry = node.gate.admit(scope, headers, node.clock())
        require_role(entry, self.roles, self.key)
        plan, value = self.plan, None
        arguments: dict[str, Any] = dict(zip(plan.names, values, strict=True))
        if plan.reader is not None:
            body = await receive_body(channel[0], _declared(headers), plan.reader.limit)
            arguments[plan.body], value = plan.reader.read(body)
        if plan.query is not None:
            arguments[plan.query_name] = _read_query(plan.query, scope["query_string"])
        call = Call(scope, *channel)
        call.node, call.entry, call.head, call.body_value = node, entry, headers, value
        fence = fence_of(headers) if plan.fenced else None
        call.caller = caller_of(entry, scope, headers, Asked(value, fence))
        answer: Answer = await self.endpoint(call, **arguments)
        return answer

    def _encoded(self, answer: Answer, boot: Header) -> tuple[int, tuple[Header, ...], bytes]:
        headers = (*_JSON, boot)
        if isinstance(answer, Done):
            if answer.position is not None:
                headers = (*headers, (b"jackline-position", b"%d" % answer.position))
            answer = answer.answer
        if answer is None or self.good == 204:
            return 204, headers[1:], b""
        return self.good, headers, encode(answer)


def _declared(headers: Mapping[bytes, bytes]) -> int | None:
    """How long the body says it is.

    Raises:
        EncodingUnknown: it is packed; what it unpacks to has no bound, so nothing is ever unpacked.
    """
    packed = headers.get(b"content-encoding", b"identity")
    if packed.lower() != b"identity":
        raise EncodingUnknown(packed.decode("latin-1"))
    declared = headers.get(b"content-length", b"")
    return int(declared) if declared.isdigit() else None


def _problem_headers(problem: Problem, error: Exception) -> tuple[Header, ...]:
    headers = (*_PROBLEM, *problem.headers)
    return (*headers, _CLOSE) if isinstance(error, BodyUnread) else headers


async def respond(send: Send, status: int, headers: tuple[Header, ...], body: bytes) -> None:
    """Send one whole answer."""
    if body:
        headers = (*headers, (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Plan:
    """What a route's function takes, read from its signature once."""

    def __init__(self, path: str, endpoint: Callable[..., Awaitable[Answer]]) -> None:
        self.names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        self.reader: Reader[Any] | None = None
        self.query: type[BaseModel] | None = None
        self.body = self.query_name = ""
        self.fenced = False
        for name, parameter in inspect.signature(endpoint).parameters.items():
            annotation = parameter.annotation
            if get_origin(annotation) is Annotated and any(
                isinstance(mark, QueryMark) for mark in get_args(annotation)
            ):
                self.query, self.query_name = get_args(annotation)[0], name
            elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
                self.reader, self.body = Reader(annotation), name
                self.fenced = "fence" in annotation.model_fields


def _extra(method: str, plan: _Plan, given: dict[str, Any] | None) -> dict[str, Any]:
    extra = dict(given or {})
    parameters = list(extra.get("parameters", ())) + ([] if method == "GET" else [HEADERS["Idempotency-Key"]])
    if plan.fenced:
        parameters.append(HEADERS["Jackline-Fence"])
    if parameters:
        extra["parameters"] = parameters
    if plan.reader is not None and not any(field.is_required() for field in plan.reader.model.model_fields.values()):
        extra["requestBody"] = {"required": False}
    return extra


def _read_query(model: type[BaseModel], query: bytes) -> BaseModel:
    """The query's values; one that may be repeated is a list.

    Raises:
        InvalidBody: a name is unknown, or a value is outside its bounds.
    """
    if not query:
        return model()
    try:
        given = parse_qs(query.decode("ascii"), keep_blank_values=True, max_num_fields=100, errors="strict")
    except ValueError as error:
        raise InvalidBody([{"field": "query", "limit": "at most 100 fields of percent-encoded UTF-8"}]) from error
    given.pop("ticket", None)
    fields = model.model_fields
    values = {name: values if _repeats(fields, name) else values[-1] for name, values in given.items()}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InvalidBody(problems_in(error)) from error


def _repeats(fields: Mapping[str, Any], name: str) -> bool:
    return name in fields and get_origin(fields[name].annotation) is list


class Tree:
    """Finds the route of a method and an undecoded path, segment by segment."""

    def __init__(self) -> None:
        self.children: dict[bytes, Tree] = {}
        self.wild: Tree | None = None
        self.routes: dict[str, Any] = {}

    def add(self, method: str, path: str, route: Any) -> None:
        """Put a route in its place."""
        node = self
        for part in path.encode().split(b"/")[1:]:
            if part.startswith(b"{"):
                node.wild = node.wild or Tree()
                node = node.wild
            else:
                node = node.children.setdefault(part, Tree())
        node.routes[method] = route

    def find(self, method: str, path: bytes) -> tuple[Any, list[str]] | None:
        """The route and the values of its path parameters; None when nothing is at the path.

        Raises:
            MethodNotAllowed: something is there, and does not answer to this method.
        """
        node, values = self, []
        for part in path.split(b"/")[1:]:
            following = node.children.get(part)
            if following is None:
                following = node.wild
                if following is None or not part:
                    return None
                values.append((unquote_to_bytes(part) if b"%" in part else part).decode("utf-8", "replace"))
            node = following
        route = node.routes.get(method)
        if route is None:
            if not node.routes:
                return None
            raise MethodNotAllowed(method, sorted(verb for verb in node.routes if verb != "WS"))
        return route, values


def unknown(path: str) -> RouteUnknown:
    """The refusal of a path at which nothing is."""
    return RouteUnknown(path)
