"""The ``runs`` read model: which runs are there, and how does each stand?

It answers lists (filtered, sorted, paged) and single runs from rows that a fold keeps (``runs_fold``), with the
position up to which it has read the journal. It may lag behind by moments; who must see an own command waits for its
position first. It never decides anything, and everything in it can be made again from the journal.

Reads run on a small pool of threads, each with its own query-only connection and one snapshot for each read, so a slow
search holds up neither the event loop nor the fold. A document's values are the bytes that the fold encoded
(``msgspec.Raw``), so user JSON arrives as it was sent; ``run_id``, ``state``, ``owner``, ``fence`` and ``position`` are
plain values, for joining in what is not a fact.
"""

import asyncio
import builtins
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from projections.reached import Reached
from projections.stored import listing as lists
from projections.stored.database import Database, tracked
from projections.stored.listing import Listing
from projections.stored.runs_fold import NAME

READERS = 2
"""Threads that read: as many slow reads as may be under way at a time."""

T = TypeVar("T")

_document = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = msgspec.Raw(b"null")
_GET = (
    "SELECT r.document, r.state, r.owner, r.fence, r.position, p.payload "
    "FROM runs r LEFT JOIN runs_payloads p USING (run_id) WHERE r.tenant = ? AND r.run_id = ?"
)


class RunsModel:
    """Reads of the ``runs`` read model in one file."""

    def __init__(self, database: Database, reached: Reached) -> None:
        self._database = database
        self._reached = reached
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="runs-read")

    @property
    def position(self) -> int:
        """The position up to which every fact is in the model."""
        return self._reached.position

    async def wait_for(self, position: int, timeout_s: float) -> None:
        """Return once the model has reached this position.

        Raises:
            ReadModelBehind: it had not within ``timeout_s`` seconds.
        """
        await self._reached.wait_for(position, timeout_s)

    async def list(self, tenant: str, listing: Listing) -> dict[str, Any]:
        """One page of the tenant's runs: ``items`` without payloads, ``next_cursor``, and the model's ``position``.

        Raises:
            InvalidCommand: a bound is broken, or the cursor is not one of this very list.
        """
        lists.check(listing)
        return await self._in_pool(lambda: self.list_now(tenant, listing))

    async def get(self, tenant: str, run_id: str) -> dict[str, Any] | None:
        """The run's document with its payload and the position of its last fact; None when it is not in the model."""
        return await self._in_pool(lambda: self.get_now(tenant, run_id))

    async def _in_pool(self, read: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, read)

    def list_now(self, tenant: str, listing: Listing) -> dict[str, Any]:
        """Like ``list``, in the calling thread."""
        with self._database.reading() as connection:
            at = tracked(connection, NAME)
            position, epoch = (0, "") if at is None else (at.position, at.epoch)
            query = lists.query(tenant, listing, epoch)
            rows: builtins.list[tuple[Any, ...]] = []
            more, size = False, 0
            for row in connection.execute(query.statement, query.parameters):
                if len(rows) == listing.limit or size >= lists.PAGE_BYTES:
                    more = True
                    break
                rows.append(row)
                size += len(row[5])
        items = []
        for run_id, _, state, owner, fence, document in rows:
            plain = {"run_id": run_id, "state": state, "owner": owner, "fence": fence, "position": position}
            items.append(_document.decode(document) | plain)
        cursor = lists.write_cursor(tenant, listing, epoch, (rows[-1][1], rows[-1][0])) if more else None
        return {"items": items, "next_cursor": cursor, "position": position}

    def get_now(self, tenant: str, run_id: str) -> dict[str, Any] | None:
        """Like ``get``, in the calling thread."""
        with self._database.reading() as connection:
            row = connection.execute(_GET, (tenant, run_id)).fetchone()
        if row is None:
            return None
        document, state, owner, fence, position, payload = row
        plain = {"run_id": run_id, "state": state, "owner": owner, "fence": fence, "position": position}
        kept = _NULL if payload is None else msgspec.Raw(payload)
        return _document.decode(document) | {"payload": kept} | plain

    def close(self) -> None:
        """Let reads under way finish, and take no more."""
        self._pool.shutdown(wait=True)
