"""More than anybody needs, on raw sockets: streams, frames, pings, requests and bombs; what is refused costs little.

The service's peak memory (the kernel's own high-water mark) is read after each flood; `MARGIN_MB` is what one may add.
A healthy client works before, during and after each of them. Bodies and heads have floods of their own
(`tests/system/test_hostile_bodies.py`).
"""

import contextlib
import gzip
import json
import socket
import zlib
from collections.abc import Iterator

import pytest

from api.sockets import FRAGMENTS_MAX
from tests.attack.sockets import MIB, descriptors, frame, head, heard, poured, raw, upgraded
from tests.system.calling import Caller
from tests.system.conftest import Serving
from tests.system.serving import Service, claim_one, register, submit
from tests.waiting import until

pytestmark = pytest.mark.system

MARGIN_MB = 40.0
TEXT, BINARY, CLOSE, PING, PONG, CONT = 1, 2, 8, 9, 10, 0
STREAM = "/v1/workers/flooder/stream"
PRESENCE = "/v1/leaders/flooder/presence"
SOCKETS = (STREAM, PRESENCE)
STREAMS, CARRIED = 1_000, 400
ENOUGH_MIB = 200


def healthy(caller: Caller, queue: str) -> None:
    """One run from its submission to its end, under a lease."""
    register(caller, "healthy", slots=1_000)
    run_id = submit(caller, queue=queue)
    assert run_id == claim_one(caller, "healthy", queue=queue)["run_id"]
    caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()


@pytest.fixture(autouse=True)
def _bounded_and_well(shared: Service) -> Iterator[None]:
    """Whatever a flood does, the service is well afterwards and has stayed within its margin."""
    caller = shared.caller(timeout_s=5)
    healthy(caller, "before")
    register(caller, "flooder")
    before = shared.peak_rss_mb()
    yield
    healthy(caller, "after")
    assert "ok" == caller.get("/healthz").ok()["status"]
    assert shared.peak_rss_mb() - before < MARGIN_MB


def closed_with(connection: socket.socket) -> int:
    """The code of the closing frame that ends what is said."""
    said = heard(connection)
    assert b"\x88" in said, said[-100:]
    return int.from_bytes(said[said.rindex(b"\x88") + 2 :][:2], "big")


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_frame_of_64_mb_is_refused_by_its_announcement(shared: Service, path: str, opcode: int) -> None:
    with upgraded(shared, path) as connection:
        connection.sendall(frame(opcode, b"x" * 1_000, announced=64 * MIB))
        healthy(shared.caller(timeout_s=5), "during")

        assert 1009 == closed_with(connection)


@pytest.mark.parametrize("path", SOCKETS)
def test_a_message_of_64_mb_in_pieces_is_refused_once_it_is_too_long(shared: Service, path: str) -> None:
    with upgraded(shared, path) as connection:
        connection.sendall(frame(TEXT, b"x" * 1_000, last=False))

        assert poured(connection, frame(CONT, b"x" * 100_000, last=False), 64) < 16


@pytest.mark.parametrize("path", SOCKETS)
def test_a_message_in_pieces_without_end_is_cut_though_they_are_empty(shared: Service, path: str) -> None:
    with upgraded(shared, path) as connection:
        connection.sendall(frame(TEXT, b"x", last=False))

        assert poured(connection, frame(CONT, b"", last=False) * 1_000, 16) < 8


@pytest.mark.parametrize(("pieces", "taken"), [(FRAGMENTS_MAX, True), (FRAGMENTS_MAX + 1, False)])
def test_a_message_may_come_in_so_many_pieces_and_not_in_one_more(shared: Service, pieces: int, taken: bool) -> None:
    with upgraded(shared, STREAM) as connection:
        connection.sendall(frame(TEXT, b'{"leases"', last=False) + frame(CONT, b"", last=False) * (pieces - 2))
        connection.sendall(frame(CONT, b": []}"))

        assert (b'{"leases":[]}' in connection.recv(1_000)) == taken


@pytest.mark.parametrize("path", SOCKETS)
def test_pings_whose_answers_nobody_reads_end_the_socket(shared: Service, path: str) -> None:
    with upgraded(shared, path) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)

        assert poured(connection, frame(PING, b"x" * 125) * 1_000, ENOUGH_MIB) < ENOUGH_MIB // 2


@pytest.mark.parametrize("path", SOCKETS)
def test_pings_whose_answers_are_read_are_answered_every_one(shared: Service, path: str) -> None:
    pings = 5_000
    with upgraded(shared, path) as connection:
        connection.sendall(frame(PING, b"x") * pings)
        said = b""
        while said.count(b"\x8a\x01x") < pings:
            part = connection.recv(65_536)
            assert part, f"it ended after {said.count(b'x')} answers"
            said += part


@pytest.mark.parametrize("path", SOCKETS)
def test_pongs_that_answer_nothing_are_thrown_away(shared: Service, path: str) -> None:
    with upgraded(shared, path) as connection:
        assert 4 <= poured(connection, frame(PONG, b"x" * 125) * 1_000, 4)
        healthy(shared.caller(timeout_s=5), "during")


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize(
    "said",
    [
        frame(TEXT, b"[" * 500_000),
        frame(TEXT, b'{"a":' * 100_000),
        frame(TEXT, b"\xff\xfe"),
        frame(TEXT, b"\xc3", last=False) + frame(CONT, b"("),
        frame(3, b"reserved"),
        frame(PING, b"x", last=False),
        b"\x81\x05hello",
        frame(CONT, b"of nothing"),
        frame(CLOSE, b"\x00"),
        frame(CLOSE, b"\x03\xe8\xff"),
        b"\xff" * 10_000,
    ],
    ids=[
        "deep",
        "deep objects",
        "no UTF-8",
        "no UTF-8 in pieces",
        "reserved",
        "cut ping",
        "unmasked",
        "no start",
        "short",
        "garbled",
        "ones",
    ],
)
def test_what_no_client_says_hurts_nobody(shared: Service, path: str, said: bytes) -> None:
    with upgraded(shared, path) as connection:
        connection.sendall(said)
        healthy(shared.caller(timeout_s=5), "during")


def test_of_a_thousand_streams_as_many_are_carried_as_the_service_says_and_the_others_are_told(
    make_service: Serving,
) -> None:
    service = make_service(streams=CARRIED, retry_continuation_s=0).start()
    caller = service.caller(timeout_s=5)
    run_id = submit(caller)
    idle, before = descriptors(service), service.peak_rss_mb()
    with contextlib.ExitStack() as stack:
        told = []
        for _ in range(STREAMS):
            connection = stack.enter_context(raw(service))
            connection.sendall(head(service, f"GET /v1/runs/{run_id}/facts", "Accept: text/event-stream"))
            told.append(int(connection.recv(12).split()[1]))
        assert {200: CARRIED, 503: STREAMS - CARRIED} == {status: told.count(status) for status in set(told)}
        assert [200] * CARRIED == told[:CARRIED]
        healthy(caller, "during")
        assert CARRIED == caller.get("/healthz").ok()["streams"]
    until(lambda: descriptors(service) <= idle + 1, what="every connection to be gone", within_s=20)
    until(lambda: caller.get("/healthz").ok()["streams"] == 0, what="every stream to be ended", within_s=20)
    assert service.peak_rss_mb() - before < MARGIN_MB


def test_a_thousand_requests_on_one_line_are_answered_in_order(shared: Service) -> None:
    names = [f"line-{number}" for number in range(1_000)]
    with raw(shared) as connection:
        connection.sendall(b"".join(head(shared, f"GET /v1/queues/{name}") for name in names))
        said = b""
        while said.count(b'"queue":"line-') < len(names):
            part = connection.recv(65_536)
            assert part, f"it ended after {said.count(b'HTTP/1.1 200')} answers"
            said += part

    places = [said.index(f'"queue":"{name}"'.encode()) for name in names]
    assert sorted(places) == places


def test_requests_whose_answers_nobody_reads_are_not_taken_any_more(shared: Service) -> None:
    with raw(shared, timeout_s=3) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)

        assert poured(connection, head(shared, "GET /v1/openapi.json") * 100, ENOUGH_MIB) < ENOUGH_MIB // 2
        healthy(shared.caller(timeout_s=5), "during")


def test_lines_of_which_only_one_half_is_open_are_given_back(shared: Service) -> None:
    idle = descriptors(shared)
    with contextlib.ExitStack() as stack:
        for number in range(200):
            connection = stack.enter_context(raw(shared))
            if number % 4 == 1:
                connection.sendall(head(shared, "GET /v1/whoami"))
            elif number % 4 == 2:
                connection.sendall(head(shared, "POST /v1/runs", "Content-Length: 100") + b'{"queue": "half"')
            elif number % 4 == 3:
                connection.sendall(b"GET /liv")
            connection.shutdown(socket.SHUT_WR)
        healthy(shared.caller(timeout_s=5), "during")
        until(lambda: descriptors(shared) <= idle + 2, what="every half-open line to be given back", within_s=20)

    assert 0 == shared.caller().get("/v1/queues/half").ok()["queued"]


BOMB = json.dumps({"payload": "x" * (64 * MIB)}).encode()
BOMBS = {"gzip": gzip.compress(BOMB, 6), "deflate": zlib.compress(BOMB, 6)}


@pytest.mark.parametrize("encoding", BOMBS)
def test_a_body_that_unpacks_to_64_mb_is_never_unpacked(shared: Service, encoding: str) -> None:
    bomb = BOMBS[encoding]
    assert len(bomb) < MIB // 4

    answer = shared.caller().post("/v1/runs", bomb, content_encoding=encoding)

    answer.refused(415, "encoding_unknown")


@pytest.mark.parametrize("coding", ["gzip, chunked", "deflate", "x-unknown", "chunked, identity"])
def test_a_transfer_coding_that_nobody_speaks_is_refused(shared: Service, coding: str) -> None:
    with raw(shared, timeout_s=5) as connection:
        connection.sendall(head(shared, "POST /v1/runs", f"Transfer-Encoding: {coding}") + b"0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        said = heard(connection)

    assert not said.startswith(b"HTTP/1.1 2"), said


def test_ten_thousand_short_headers_cost_their_bytes_and_no_more(shared: Service) -> None:
    with raw(shared) as connection:
        connection.sendall(head(shared, "GET /v1/whoami", *(["a: b"] * 10_000)))
        assert b" 200 " in connection.recv(16)
    with raw(shared) as connection:
        connection.sendall(head(shared, "GET /v1/whoami", *(["a: b"] * 12_000)))
        assert b" 431 " in connection.recv(16)
