"""HTTP with one API server: lists, watches, single objects, and the few writes of the provisioner.

Whatever goes wrong is one of three. `Expired`: the version or the continuation is too old (410 in either of its forms);
list again. `Refused`: the server understood and said no, with its own reason and message. `Blind`: no usable answer (no
connection, too slow, 5xx, 429, a key that is not accepted, a 404 about nothing in particular, garbage, or more than
fits the bounds); nothing follows from
it but *not knowing*.

Bounds: `LINE_MAX_BYTES` for a line of a watch, `BODY_MAX_BYTES` for any other answer; bodies are asked for and read
uncompressed, so that neither can be got round. A watch asks the server to end it after `watch_s` seconds and is cut
`slack_s` after that, whatever trickles in: this bounds how long a frozen server goes unnoticed.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from jackline.address import LOOPBACK
from watchers.kubernetes.credentials import Access
from watchers.kubernetes.shapes import About, Change, Meta, Node, Page, Pod, Sandbox, Status, VolumeClaim, without_nulls

LINE_MAX_BYTES: Final = 4 << 20
BODY_MAX_BYTES: Final = 64 << 20
LIST_LIMIT: Final = 500
CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0
SLACK_S: Final = 5.0
RETRY_AFTER_MAX_S: Final = 60.0
"""However long a server asks to be left alone."""
CONNECTIONS_MAX: Final = 32


class Blind(Exception):
    """No usable answer: nothing is known until there is one."""

    def __init__(self, why: str, retry_after_s: float = 0.0) -> None:
        super().__init__(why, retry_after_s)
        self.why = why
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.why


class Silent(Blind):
    """Nothing came for so long that the server must be taken for frozen."""


class Expired(Exception):
    """The version or the continuation is older than what the server remembers."""


class Refused(Exception):
    """The server said no."""

    def __init__(self, status: int, reason: str, message: str, name: str | None = None) -> None:
        super().__init__(status, reason, message, name)
        self.status = status
        self.reason = reason
        self.message = message
        self.name = name
        """Which object it is about, where the server says so."""

    def says_absent(self, name: str) -> bool:
        """Whether the server says that there is no object of that name.

        A 404 by itself does not: a proxy, or a server that does not know the path, answers so about everything.
        """
        about_it = self.name == name if self.name is not None else f'"{name}"' in self.message
        return self.status == httpx.codes.NOT_FOUND and self.reason == "NotFound" and about_it

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, and where it is found."""

    group: str
    plural: str
    shape: type[Any]
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The path of its collection, in one namespace or all, or of one object."""
        parts = [self.group]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        return "/".join([*parts, quote(name, safe="")] if name is not None else parts)


PODS: Final = Resource("/api/v1", "pods", Pod)
NODES: Final = Resource("/api/v1", "nodes", Node, namespaced=False)
CLAIMS: Final = Resource("/api/v1", "persistentvolumeclaims", VolumeClaim)
SANDBOXES: Final = Resource("/apis/agents.x-k8s.io/v1beta1", "sandboxes", Sandbox)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read, and how long is waited."""

    line_bytes: int = LINE_MAX_BYTES
    body_bytes: int = BODY_MAX_BYTES
    answer_s: float = ANSWER_S
    slack_s: float = SLACK_S


class ApiServer:
    """One API server, and the right to ask it."""

    def __init__(self, access: Access, bounds: Bounds | None = None) -> None:
        self.access = access
        self.bounds = bounds or Bounds()
        self._http = httpx.AsyncClient(
            base_url=access.server,
            verify=access.verify,
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
            proxy=access.proxy,
            trust_env=access.proxy is None and urlsplit(access.server).hostname not in LOOPBACK,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def page(self, resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Page:
        """One page of a list."""
        body = await self._ask("GET", resource.path(namespace), params=query)
        return cast("Page", read_shape(body, Page, "a list"))

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Any:
        """The object of that name now; None when the server says that there is none."""
        if not name or (resource.namespaced and not namespace):
            msg = f"one of {resource.plural} without a name or a namespace cannot be asked for"
            raise Blind(msg)
        try:
            body = await self._ask("GET", resource.path(namespace, name))
        except Refused as refusal:
            if _absent(refusal, name):
                return None
            raise
        found = read(resource, body)
        if found.metadata.name != name:
            msg = f"asked for {name} of {resource.plural}, the API server told of {found.metadata.name[:253]!r}"
            raise Blind(msg)
        return found

    async def create(self, resource: Resource, namespace: str, manifest: Mapping[str, Any]) -> Any:
        """The object that was made."""
        return read(resource, await self._ask("POST", resource.path(namespace), content=manifest))

    async def annotate(self, resource: Resource, meta: Meta, annotations: Mapping[str, str]) -> None:
        """Write annotations on this very object; another one under its name is refused with 409."""
        patch = {"metadata": {"uid": meta.uid, "annotations": dict(annotations)}}
        path = resource.path(meta.namespace, meta.name)
        await self._ask("PATCH", path, content=patch, kind="application/merge-patch+json")

    async def delete(self, resource: Resource, meta: Meta) -> bool:
        """Ask for the end of this very object; False when it is gone, or another bears its name.

        A sandbox stays until its pod is gone, so that its absence says so of both.
        """
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": meta.uid}}
        if resource is SANDBOXES:
            options["propagationPolicy"] = "Foreground"
        try:
            await self._ask("DELETE", resource.path(meta.namespace, meta.name), content=options)
        except Refused as refusal:
            if refusal.status == httpx.codes.CONFLICT or _absent(refusal, meta.name):
                return False
            raise
        return True

    @contextlib.asynccontextmanager
    async def watch(
        self, resource: Resource, namespace: str | None, query: Mapping[str, str], watch_s: int
    ) -> AsyncIterator[AsyncIterator[Change]]:
        """The changes after a version, until the server ends the stream, which it is asked to do after `watch_s`."""
        params = {**query, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(watch_s)}
        try:
            async with asyncio.timeout(watch_s + self.bounds.slack_s):
                async with self._answer("GET", resource.path(namespace), params=params) as response:
                    async with contextlib.aclosing(self._changes(response)) as changes:
                        yield changes
        except TimeoutError as error:
            msg = f"the watch of {resource.plural} did not end when it should have: nothing is heard"
            raise Silent(msg) from error

    async def _changes(self, response: httpx.Response) -> AsyncGenerator[Change]:
        async with contextlib.aclosing(self._lines(response)) as lines:
            async for line in lines:
                change = read_shape(line, Change, "a line of a watch")
                if change.type == "ERROR":
                    raise _refusal(read_shape(change.object, Status, "an error in a watch"))
                yield change

    async def _lines(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """The lines of a stream; one that was cut off is none, and says that the stream broke."""
        rest = bytearray()
        try:
            async for chunk in response.aiter_raw():
                rest += chunk
                *lines, last = rest.split(b"\n")
                if len(last) > self.bounds.line_bytes or any(len(one) > self.bounds.line_bytes for one in lines):
                    msg = f"a line of more than {self.bounds.line_bytes} bytes"
                    raise Blind(msg)
                rest = bytearray(last)
                for line in lines:
                    if line.strip():
                        yield bytes(line)
        except httpx.HTTPError as error:
            raise Blind(_said(error)) from error
        if rest.strip():
            msg = "the last line of a watch was cut off"
            raise Blind(msg)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: Mapping[str, Any] | None = None,
        kind: str = "application/json",
    ) -> bytes:
        """The whole body of a good answer."""
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": kind} if body is not None else {}
        try:
            async with asyncio.timeout(self.bounds.answer_s):
                async with self._answer(method, path, params=params, content=body, headers=headers) as response:
                    return await self._whole(response)
        except TimeoutError as error:
            msg = f"no whole answer within {self.bounds.answer_s:g} s"
            raise Silent(msg) from error

    @contextlib.asynccontextmanager
    async def _answer(self, method: str, path: str, **options: Any) -> AsyncIterator[httpx.Response]:
        """A good answer, its body not read yet; a key that is not accepted is renewed once."""
        headers = dict(options.pop("headers", {}))
        if self.access.server_name is not None:
            options["extensions"] = {"sni_hostname": self.access.server_name}
        for last_try in (False, True):
            headers |= await self.access.headers(renew=last_try)
            try:
                async with self._http.stream(method, path, headers=headers, **options) as response:
                    if response.status_code == httpx.codes.UNAUTHORIZED and not last_try:
                        continue
                    if not response.is_success:
                        raise await self._failure(response)
                    yield response
                    return
            except httpx.HTTPError as error:
                raise Blind(_said(error)) from error

    async def _whole(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self.bounds.body_bytes:
                msg = f"an answer of more than {self.bounds.body_bytes} bytes"
                raise Blind(msg)
        return bytes(body)

    async def _failure(self, response: httpx.Response) -> Exception:
        """What a bad status means."""
        code = response.status_code
        if code == httpx.codes.UNAUTHORIZED:
            return Blind("the API server does not accept the credentials")
        if code == httpx.codes.TOO_MANY_REQUESTS or code >= httpx.codes.INTERNAL_SERVER_ERROR:
            after = response.headers.get("Retry-After", "")
            seconds = float(after) if after.isascii() and after.isdigit() else 0.0
            return Blind(f"the API server answered {code}", min(seconds, RETRY_AFTER_MAX_S))
        try:
            status = msgspec.json.decode(await self._whole(response), type=Status)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
            status = Status()
        return _refusal(Status(status.message, status.reason, code, status.details))


def read(resource: Resource, raw: bytes | msgspec.Raw) -> Any:
    """The object in this JSON.

    Raises:
        Blind: it is none, or has no UID.
    """
    found = read_shape(raw, resource.shape, f"one of {resource.plural}")
    if not found.metadata.uid:
        msg = f"one of {resource.plural} without a UID"
        raise Blind(msg)
    return found


def read_shape(raw: bytes | msgspec.Raw, shape: type[Any], what: str) -> Any:
    """The JSON as this shape.

    Raises:
        Blind: it is something else.
    """
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError:
        return _read_pruned(raw, shape, what)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{what} is not JSON: {error}"
        raise Blind(msg) from error


def _read_pruned(raw: bytes | msgspec.Raw, shape: type[Any], what: str) -> Any:
    """Once more without nulls, which are where a member is missing."""
    try:
        return msgspec.convert(without_nulls(raw), type=shape)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{what} makes no sense: {error}"
        raise Blind(msg) from error


def _refusal(status: Status) -> Exception:
    code = status.code or 0
    if code == httpx.codes.GONE or status.reason in ("Expired", "Gone"):
        return Expired(status.message or "expired")
    if code == httpx.codes.TOO_MANY_REQUESTS or code >= httpx.codes.INTERNAL_SERVER_ERROR or code == 0:
        return Blind(f"the API server said {code} {status.reason or ''}: {status.message or ''}")
    return Refused(code, status.reason or "", status.message or "", (status.details or About()).name)


def _absent(refusal: Refused, name: str) -> bool:
    """Whether a refusal is proof that nothing bears that name; raises `Blind` for a 404 that is none."""
    if refusal.status != httpx.codes.NOT_FOUND:
        return False
    if not refusal.says_absent(name):
        msg = f"a 404 that does not say that there is no {name}: {refusal}"
        raise Blind(msg) from refusal
    return True


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
