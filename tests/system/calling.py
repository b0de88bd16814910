"""Calling a service as any stranger would: plain HTTP/1.1 over one kept connection, and nothing of Jackline's own code.

An answer is a status, headers in lower case, and the parsed body. No answer (a reset, an end in the middle, a refused
connection, garbage) is `Unanswered`: the command may or may not have happened, and may be asked again under its own
idempotency key (`Caller.insist`). Times in seconds; every wait has a bound.
"""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.waiting import BOUND_S, until

HOST = "127.0.0.1"
NOT_NOW = {503, 504}
INSIST_S = 60.0


class Unanswered(Exception):
    """Nobody answered, or not to the end: what was asked may or may not have happened."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    asked: str
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        """The problem's code; None for anything else."""
        return self.body.get("code") if isinstance(self.body, dict) else None

    @property
    def position(self) -> int | None:
        """`Jackline-Position`, when the command appended."""
        text = self.headers.get("jackline-position")
        return None if text is None else int(text)

    def ok(self, status: int = 200) -> Any:
        """The body, when the status is this one."""
        assert self.status == status, f"{self.asked} answered {self.status}, not {status}: {self.body}"
        return self.body

    def refused(self, status: int, code: str) -> Any:
        """The problem document, when it has this status and code."""
        assert (self.status, self.code) == (status, code), f"{self.asked} answered {self.status}: {self.body}"
        assert self.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "code", "detail"} <= self.body.keys()
        assert self.body["status"] == status
        return self.body


class Caller:
    """One client with one key, over one connection that is kept as long as it lasts; not for two threads at once."""

    def __init__(self, port: int, key: str | None, *, timeout_s: float = BOUND_S) -> None:
        self.port = port
        self.key = key
        self.timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, path: str, body: Any = None, *, idempotency: str | None = None, **headers: str
    ) -> Answer:
        """The answer to one request; header names are written with underscores.

        Raises:
            Unanswered: there was none.
        """
        if idempotency is not None:
            headers["idempotency_key"] = idempotency
        try:
            self.say(method, path, body, **headers)
            return self.hear(f"{method} {path}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            message = f"{method} {path}: {type(error).__name__}: {error}"
            raise Unanswered(message) from error

    def say(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        """Send one request, and wait for nothing; `hear` gets the answer."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key is not None:
            sent.setdefault("authorization", f"Bearer {self.key}")
        if raw is not None:
            sent.setdefault("content-type", "application/json")
        if self._connection is None:
            self._connection = http.client.HTTPConnection(HOST, self.port, timeout=self.timeout_s)
        self._connection.request(method, path, raw, sent)

    def hear(self, asked: str) -> Answer:
        """The answer to the request that was sent last."""
        assert self._connection is not None
        response = self._connection.getresponse()
        text = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        if response.status != 204 and not text:
            # http.client takes a head that was cut for a whole one; only 204 has nothing after it.
            raise http.client.IncompleteRead(text)
        if found.get("connection", "").lower() == "close":
            self.close()
        return Answer(asked, response.status, found, json.loads(text) if text else None)

    def insist(self, method: str, path: str, body: Any = None, *, key: str, over: threading.Event) -> Answer:
        """The answer to a command that is repeated under its key until somebody says something definite.

        Raises:
            AssertionError: nobody did within `INSIST_S`, or it was over before.
        """

        def definite() -> Answer | None:
            assert not over.is_set(), "given up"
            try:
                answer = self.ask(method, path, body, idempotency=key)
            except Unanswered:
                return None
            return None if answer.status in NOT_NOW else answer

        return until(definite, what=f"an answer to {method} {path} under {key}", within_s=INSIST_S)

    def get(self, path: str, **headers: str) -> Answer:
        """The answer to a GET."""
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, *, idempotency: str | None = None, **headers: str) -> Answer:
        """The answer to a POST; without a body an empty object is sent."""
        return self.ask("POST", path, {} if body is None else body, idempotency=idempotency, **headers)

    def put(self, path: str, body: Any) -> Answer:
        """The answer to a PUT."""
        return self.ask("PUT", path, body)

    def delete(self, path: str) -> Answer:
        """The answer to a DELETE."""
        return self.ask("DELETE", path)

    def facts(self, run_id: str) -> list[dict[str, Any]]:
        """Every fact of a run, page after page."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.get(f"/v1/runs/{run_id}/facts?after={after}").ok()
            found += page["facts"]
            after = page["next_after"]
        return found

    def output(self, run_id: str) -> list[dict[str, Any]]:
        """Every piece of output of a run, page after page."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.get(f"/v1/runs/{run_id}/output{after}", accept="application/json").ok()
            found += page["chunks"]
            if page["next_after"] is None:
                return found
            after = f"?after={page['next_after']}"

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class Frame:
    """One server-sent message: its id, its name, its data."""

    id: str = ""
    name: str = ""
    data: str = ""

    @property
    def document(self) -> Any:
        """The data as JSON."""
        return json.loads(self.data)


@dataclass
class Listening:
    """A stream of server-sent messages on a connection of its own; `frames` ends when the server ends the stream."""

    caller: Caller
    path: str
    last_id: str | None = None
    timeout_s: float = 10.0
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)
    _response: http.client.HTTPResponse | None = field(default=None, init=False)

    def __enter__(self) -> Iterator[Frame]:
        try:
            return self._opened()
        except BaseException:
            self.__exit__()
            raise

    def _opened(self) -> Iterator[Frame]:
        headers = {"authorization": f"Bearer {self.caller.key}", "accept": "text/event-stream"}
        if self.last_id is not None:
            headers["last-event-id"] = self.last_id
        self._connection = http.client.HTTPConnection(HOST, self.caller.port, timeout=self.timeout_s)
        self._connection.request("GET", self.path, headers=headers)
        response = self._response = self._connection.getresponse()
        assert response.status == 200, (response.status, response.read())
        assert str(response.headers["content-type"]).split(";")[0] == "text/event-stream"
        return _frames(response)

    def __exit__(self, *_: object) -> None:
        for open_end in (self._response, self._connection):
            if open_end is not None:
                open_end.close()


def _frames(response: http.client.HTTPResponse) -> Iterator[Frame]:
    frame = Frame()
    for line in iter(response.readline, b""):
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            frame.id = value
        elif name == "event":
            frame.name = value
        elif name == "data":
            frame.data += value
        elif not name and not value and (frame.id or frame.name or frame.data):
            yield frame
            frame = Frame()
