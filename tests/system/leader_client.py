"""A leader as a process of its own: present by a stream or a socket until somebody ends it."""

import asyncio
import os
import sys

import httpx
from websockets.asyncio.client import connect


async def streamed(url: str, head: dict[str, str]) -> None:
    """Present by server-sent events."""
    async with httpx.AsyncClient(timeout=600.0) as client, client.stream("GET", url, headers=head) as response:
        async for line in response.aiter_lines():
            print(line, flush=True)


async def socketed(url: str, head: dict[str, str]) -> None:
    """Present by a WebSocket."""
    async with connect(url.replace("http", "ws", 1), additional_headers=head, proxy=None) as socket:
        async for message in socket:
            print(message, flush=True)


if __name__ == "__main__":
    kind, url = sys.argv[1:]
    asyncio.run((streamed if kind == "stream" else socketed)(url, {"Authorization": f"Bearer {os.environ['KEY']}"}))
