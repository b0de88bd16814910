"""Lists that the service keeps as read models: every item of all pages, and what they tell about runs and usage."""

from collections.abc import AsyncIterator, Mapping
from datetime import date
from typing import Any
from urllib.parse import quote

from jackline._async.transport import Ask, AsyncTransport
from jackline.decode import member, members

PAGE = 500
"""Items asked for at a time; the service gives no more."""


async def every_item(transport: AsyncTransport, path: str, params: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Every item of all pages of a list."""
    cursor: str | None = None
    while True:
        asked = {**params, "limit": PAGE, "cursor": cursor}
        page = (await transport.ask(Ask("GET", path, params=asked))).body
        for item in members(page, "items"):
            yield item
        cursor = member(page, "next_cursor")
        if cursor is None:
            return


class AsyncLists:
    """Questions that the service's read models answer."""

    transport: AsyncTransport

    async def timeline(self, run_id: str, *, min_position: int | None = None) -> list[dict[str, Any]]:
        """What happened to a run, in order, and how long each state lasted."""
        path = f"/v1/runs/{quote(run_id, safe='')}/timeline"
        return [item async for item in every_item(self.transport, path, {"min_position": min_position})]

    async def every_effect(
        self, *, state: str | None = None, queue: str | None = None, min_position: int | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Effects of all runs, the oldest first; `state="ambiguous"` are those that somebody must look into."""
        params = {"state": state, "queue": queue, "min_position": min_position}
        async for item in every_item(self.transport, "/v1/effects", params):
            yield item

    async def usage(
        self,
        *,
        queue: str | None = None,
        day_from: date | None = None,
        day_to: date | None = None,
        min_position: int | None = None,
    ) -> list[dict[str, Any]]:
        """Attempts, their seconds and their ends, by queue and day (UTC), the latest day first."""
        params = {"queue": queue, "day_from": day_from, "day_to": day_to, "min_position": min_position}
        said = {name: value.isoformat() if isinstance(value, date) else value for name, value in params.items()}
        return [item async for item in every_item(self.transport, "/v1/usage", said)]

    async def projections(self, *, digest: bool = False) -> list[dict[str, Any]]:
        """How the service's read models stand; with their digests, which take reading every row."""
        ask = Ask("GET", "/v1/projections", params={"digest": "true" if digest else None})
        return members((await self.transport.ask(ask)).body, "items")
