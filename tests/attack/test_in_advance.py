"""Requests that are sent before the answers to earlier ones: answered in order, read in pieces, kept up to a bound."""

import asyncio
import json
import socket
from urllib.parse import urlsplit

import pytest

from api.protocol import HEAD_END, HEADS_AT_ONCE, HELD_MAX_BYTES, PIECE_BYTES, BoundedHttp
from api.serve import server_of
from tests.api.service import Service, listening


def submission(service: Service, number: int) -> bytes:
    """One submission as bytes, whose body holds what looks like the end of a head."""
    body = json.dumps({"name": f"n{number}", "payload": HEAD_END.decode() * 3}).encode()
    head = f"POST /v1/runs HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {service.key}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("count", [1, HEADS_AT_ONCE, HEADS_AT_ONCE + 1, 300])
@pytest.mark.parametrize("chunk", [1_000, PIECE_BYTES + 1, 10_000_000])
async def test_commands_in_advance_are_carried_out_in_order_however_they_arrive(
    service: Service, count: int, chunk: int
) -> None:
    said = b"".join(submission(service, number) for number in range(count))
    async with listening(service) as url:
        place = urlsplit(url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for start in range(0, len(said), chunk):
            writer.write(said[start : start + chunk])
            await writer.drain()
        runs = [await _submitted(reader) for _ in range(count)]
        writer.close()

    names = [(await service.ok("GET", f"/v1/runs/{run_id}"))["name"] for run_id in runs]
    assert [f"n{number}" for number in range(count)] == names


async def _submitted(reader: asyncio.StreamReader) -> str:
    head = await reader.readuntil(HEAD_END)
    assert b" 201 " in head, head
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    return str(json.loads(await reader.readexactly(length))["run_id"])


async def test_what_is_said_in_advance_is_kept_up_to_its_bound_and_one_byte_past_it_ends_the_line(
    service: Service,
) -> None:
    run_id = await service.submitted()
    server = server_of(service.node)
    server.config.load()
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    protocol = BoundedHttp(config=server.config, server_state=server.server_state, app_state={})
    await loop.connect_accepted_socket(lambda: protocol, ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    head = f"host: here\r\nauthorization: Bearer {service.key}\r\naccept: text/event-stream\r\n\r\n"
    writer.write(f"GET /v1/runs/{run_id}/facts HTTP/1.1\r\n{head}".encode())
    await reader.readuntil(b"event: run.submitted.v1")

    protocol.data_received(f"GET /v1/whoami HTTP/1.1\r\n{head}".encode())
    protocol.data_received(b"x" * HELD_MAX_BYTES)
    assert not protocol.transport.is_closing()
    protocol.data_received(b"x")

    assert protocol.transport.is_closing()
    writer.close()


async def test_what_follows_garbage_is_not_carried_out(service: Service) -> None:
    position = service.node.desk.journal.position
    async with listening(service) as url:
        place = urlsplit(url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(b"nonsense\r\n\r\n" + submission(service, 1) * 50)
        answer = await reader.read()
        writer.close()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert position == service.node.desk.journal.position
