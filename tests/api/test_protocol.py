"""A request head is bounded in bytes, whatever it is made of."""

import asyncio
from urllib.parse import urlsplit

import pytest

from api.protocol import HEAD_MAX_BYTES
from tests.api.service import Service, listening


def head_of(size: int) -> bytes:
    """A request for ``/livez`` whose head has exactly so many bytes."""
    start, end = b"GET /livez HTTP/1.1\r\nhost: here\r\nconnection: close\r\nx-long: ", b"\r\n\r\n"
    return start + b"x" * (size - len(start) - len(end)) + end


async def status(url: str, *pieces: bytes) -> bytes:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return (await reader.readline()).split()[1]
    finally:
        writer.close()


@pytest.mark.parametrize(("size", "expected"), [(HEAD_MAX_BYTES, b"200"), (HEAD_MAX_BYTES + 1, b"431")])
async def test_a_head_is_read_up_to_its_bound_and_refused_one_byte_past_it(
    service: Service, size: int, expected: bytes
) -> None:
    async with listening(service) as url:
        assert expected == await status(url, head_of(size))


async def test_a_head_that_comes_in_pieces_is_counted_as_one(service: Service) -> None:
    long = head_of(HEAD_MAX_BYTES + 1)

    async with listening(service) as url:
        assert b"431" == await status(url, long[: HEAD_MAX_BYTES // 2], long[HEAD_MAX_BYTES // 2 :])


async def test_the_body_does_not_count_as_head(service: Service) -> None:
    body = b'{"payload": "' + b"x" * (2 * HEAD_MAX_BYTES) + b'"}'
    head = b"POST /v1/runs HTTP/1.1\r\nhost: here\r\nconnection: close\r\nauthorization: Bearer " + service.key.encode()
    head += b"\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

    async with listening(service) as url:
        assert b"201" == await status(url, head + body)
