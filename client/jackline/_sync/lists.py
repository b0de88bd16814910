"""Lists that the service keeps as read models: every item of all pages, and what they tell about runs and usage."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any
from urllib.parse import quote

from jackline._sync.transport import Ask, Transport
from jackline.decode import member, members

PAGE = 500
"""Items asked for at a time; the service gives no more."""


def every_item(transport: Transport, path: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every item of all pages of a list."""
    cursor: str | None = None
    while True:
        asked = {**params, "limit": PAGE, "cursor": cursor}
        page = (transport.ask(Ask("GET", path, params=asked))).body
        yield from members(page, "items")
        cursor = member(page, "next_cursor")
        if cursor is None:
            return


class Lists:
    """Questions that the service's read models answer."""

    transport: Transport

    def timeline(self, run_id: str, *, min_position: int | None = None) -> list[dict[str, Any]]:
        """What happened to a run, in order, and how long each state lasted."""
        path = f"/v1/runs/{quote(run_id, safe='')}/timeline"
        return [item for item in every_item(self.transport, path, {"min_position": min_position})]

    def every_effect(
        self, *, state: str | None = None, queue: str | None = None, min_position: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Effects of all runs, the oldest first; `state="ambiguous"` are those that somebody must look into."""
        params = {"state": state, "queue": queue, "min_position": min_position}
        yield from every_item(self.transport, "/v1/effects", params)

    def usage(
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
        return [item for item in every_item(self.transport, "/v1/usage", said)]

    def projections(self, *, digest: bool = False) -> list[dict[str, Any]]:
        """How the service's read models stand; with their digests, which take reading every row."""
        ask = Ask("GET", "/v1/projections", params={"digest": "true" if digest else None})
        return members((self.transport.ask(ask)).body, "items")
