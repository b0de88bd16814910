"""Requests that nobody polite sends, on raw sockets: each is refused or cut, memory stays bounded, others are served.

The service's peak memory (the kernel's own high-water mark) is read after each ordeal; `MARGIN_MB` is what all of them
together may add to an idle service.
"""

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from tests.system.calling import HOST, Caller
from tests.system.serving import Service, register, submit
from tests.waiting import BOUND_S

pytestmark = pytest.mark.system

MARGIN_MB = 60.0
MIB = 1024 * 1024
SLOW = 200


@pytest.fixture(autouse=True)
def _bounded_and_well(shared: Service) -> Iterator[None]:
    """Whatever a test does, the service must be well afterwards and have stayed within its margin."""
    shared.caller().get("/healthz").ok()
    before = shared.peak_rss_mb()
    yield
    caller = shared.caller(timeout_s=5)
    assert "ok" == caller.get("/healthz").ok()["status"]
    submit(caller)
    assert shared.peak_rss_mb() - before < MARGIN_MB


@contextlib.contextmanager
def raw(service: Service) -> Iterator[socket.socket]:
    """A connection on which anything may be said."""
    with socket.create_connection((HOST, service.port), timeout=BOUND_S) as connection:
        yield connection


def head(service: Service, *lines: str, path: str = "/v1/runs") -> bytes:
    """The head of a POST that is let in."""
    first = (f"POST {path} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {service.key}")
    return "\r\n".join((*first, "Content-Type: application/json", *lines, "", "")).encode()


def heard(connection: socket.socket) -> bytes:
    """Everything that is answered until the other side closes or has said a whole answer."""
    said = b""
    with contextlib.suppress(OSError):
        while part := connection.recv(65_536):
            said += part
            if b"\r\n\r\n" in said and said.rstrip().endswith(b"}"):
                break
    return said


def status_of(said: bytes) -> int:
    """The status of a raw answer."""
    assert said.startswith(b"HTTP/1.1 "), said[:200]
    return int(said.split()[1])


def test_a_chunked_body_of_300_mb_is_cut_and_answered_413(shared: Service) -> None:
    chunk = b"%x\r\n" % MIB + b"x" * MIB + b"\r\n"
    with raw(shared) as connection:
        connection.sendall(head(shared, "Transfer-Encoding: chunked"))
        sent = 0
        with contextlib.suppress(OSError):
            for _ in range(300):
                connection.sendall(chunk)
                sent += 1
        said = heard(connection)

    assert sent < 300, "all of it was taken"
    assert said == b"" or status_of(said) == 413


def test_a_body_that_announces_300_mb_is_refused_without_being_read(shared: Service) -> None:
    with raw(shared) as connection:
        connection.sendall(head(shared, f"Content-Length: {300 * MIB}") + b"x" * 1000)
        with contextlib.suppress(OSError):
            for _ in range(64):
                connection.sendall(b"x" * MIB)
        said = heard(connection)

    assert said == b"" or status_of(said) == 413


def test_a_body_just_over_its_bound_is_told_413_with_the_limit(shared: Service) -> None:
    answer = shared.caller().post("/v1/runs", json.dumps({"payload": "x" * MIB}).encode())

    problem = answer.refused(413, "body_too_large")
    assert MIB == problem["limit"]


def test_a_header_without_end_is_cut(shared: Service) -> None:
    with raw(shared) as connection:
        sent = 0
        with contextlib.suppress(OSError):
            connection.sendall(b"GET /livez HTTP/1.1\r\nX-Endless: ")
            for _ in range(64):
                connection.sendall(b"x" * MIB)
                sent += 1
        said = heard(connection)

    assert sent < 64, "all of it was taken"
    assert said == b"" or status_of(said) in (400, 413, 431)


def test_headers_without_end_are_cut(shared: Service) -> None:
    lines = b"".join(b"X-Header-%d: %s\r\n" % (number, b"x" * 1000) for number in range(1000))
    with raw(shared) as connection:
        sent = 0
        with contextlib.suppress(OSError):
            connection.sendall(b"GET /livez HTTP/1.1\r\n")
            for _ in range(64):
                connection.sendall(lines)
                sent += 1
        said = heard(connection)

    assert sent < 64, "all of it was taken"
    assert said == b"" or status_of(said) in (400, 413, 431)


def test_many_connections_that_never_finish_their_request_keep_nobody_else_waiting(shared: Service) -> None:
    caller = shared.caller(timeout_s=5)
    worker = register(caller, "healthy", slots=1000)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(raw(shared)) for _ in range(SLOW)]
        for number, connection in enumerate(slow):
            half = head(shared, "Content-Length: 100") + b'{"queue": "slow'
            connection.sendall(half[: 40 + number] if number % 2 else half)
        for _ in range(20):
            run_id = submit(caller, queue="healthy")
            asked = {"worker_id": worker, "queues": ["healthy"]}
            assert [run_id] == [claim["run_id"] for claim in caller.post("/v1/claims", asked).ok()["claims"]]
            caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()

    assert 0 == caller.get("/v1/queues/slow").ok()["queued"]


def test_a_client_that_leaves_in_the_middle_of_its_body_has_commanded_nothing(shared: Service) -> None:
    with raw(shared) as connection:
        connection.sendall(head(shared, "Content-Length: 100") + b'{"queue": "left"}')
    with raw(shared) as connection:
        connection.sendall(head(shared, "Transfer-Encoding: chunked") + b'11\r\n{"queue": "left"}\r\n')

    caller = shared.caller()
    caller.get("/readyz").ok()
    assert 0 == caller.get("/v1/queues/left").ok()["queued"]


BODIES: dict[str, tuple[bytes, int, str]] = {
    "too deep": (b'{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 413, "too_deep"),
    "too deep and cut": (b'{"payload": ' + b"[" * 500_000, 413, "too_deep"),
    "not JSON": (b"queue=default&name=x", 422, "malformed"),
    "bytes": (bytes(range(256)) * 100, 422, "malformed"),
    "not UTF-8": (b'{"name": "\xff\xfe"}', 422, "malformed"),
    "half a value": (b'{"name": "x"', 422, "malformed"),
    "two values": (b'{"name": "x"} {"name": "y"}', 422, "malformed"),
    "a key twice": (b'{"name": "x", "name": "y"}', 422, "malformed"),
    "a key twice in the payload": (b'{"payload": {"a": 1, "a": 2}}', 422, "malformed"),
    "not a number": (b'{"payload": NaN}', 422, "malformed"),
    "a number beyond a double": (b'{"payload": 1e999}', 422, "malformed"),
    "a lone surrogate": (b'{"payload": "\\ud800"}', 422, "malformed"),
    "a list": (b"[]", 422, "invalid"),
    "a text": (b'"run"', 422, "invalid"),
    "an unknown field": (b'{"policy": {"max_attemps": 1}}', 422, "invalid"),
    "a number for a text": (b'{"name": 7}', 422, "invalid"),
    "a truth for a number": (b'{"priority": true}', 422, "invalid"),
    "a number beyond its bound": (b'{"policy": {"lease_ttl_s": 1e9}}', 422, "invalid"),
    "a name too long": (b'{"name": "' + b"x" * 10_000 + b'"}', 422, "invalid"),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_body_that_is_wrong_has_a_stable_code(shared: Service, what: str) -> None:
    body, status, code = BODIES[what]

    problem = shared.caller().post("/v1/runs", body).refused(status, code)

    if what == "an unknown field":
        assert "policy.max_attemps" == problem["field"]


def test_a_list_beyond_its_bound_is_refused(shared: Service) -> None:
    caller: Caller = shared.caller()

    assert caller.post("/v1/runs/batch", {"runs": [{}] * 1001}).refused(422, "invalid")["field"] == "runs"
    assert caller.post("/v1/runs/batch", {"runs": [{}] * 1_000_000}).status in (413, 422)


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"HELO\r\n\r\n", b"\x00" * 10_000])
def test_what_is_not_http_is_cut(shared: Service, said: bytes) -> None:
    with raw(shared) as connection:
        connection.sendall(said)
        answer = heard(connection)

    assert answer == b"" or status_of(answer) == 400
