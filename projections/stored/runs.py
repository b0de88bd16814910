"""The ``runs`` read model: which runs are there, and how does each stand?

It answers lists (filtered, sorted, paged) and single runs from rows that a fold keeps (``runs_fold``), with the
position up to which it has read the journal. It may lag behind by moments; who must see an own command waits for its
position first. It never decides anything, and everything in it can be made again from the journal.

Reads run beside the event loop and see one snapshot each (``reading``). A document's values are the bytes that the
fold encoded (``msgspec.Raw``), so user JSON arrives as it was sent; ``run_id``, ``state``, ``owner``, ``fence`` and
``position`` are plain values, for joining in what is not a fact.
"""

import builtins
from typing import Any

import msgspec

from projections.stored import listing as lists
from projections.stored.cursors import PAGE_BYTES
from projections.stored.listing import Listing
from projections.stored.reading import Model

_document = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = msgspec.Raw(b"null")
_GET = (
    "SELECT r.document, r.state, r.owner, r.fence, r.position, p.payload "
    "FROM runs r LEFT JOIN runs_payloads p USING (run_id) WHERE r.tenant = ? AND r.run_id = ?"
)


def item_of(row: tuple[Any, ...], position: int) -> dict[str, Any]:
    """A row of a page as a list shows it, at the position that the list shows."""
    run_id, _, state, owner, fence, document = row
    plain = {"run_id": run_id, "state": state, "owner": owner, "fence": fence, "position": position}
    return _document.decode(document) | plain


class RunsModel(Model):
    """Reads of the ``runs`` read model in one file."""

    async def list(self, tenant: str, listing: Listing) -> dict[str, Any]:
        """One page of the tenant's runs: ``items`` without payloads, ``next_cursor``, and the model's ``position``.

        Raises:
            InvalidCommand: a bound is broken, or the cursor is not one of this very list.
        """
        lists.check(listing)
        return await self.in_pool(lambda: self.list_now(tenant, listing))

    async def get(self, tenant: str, run_id: str) -> dict[str, Any] | None:
        """The run's document with its payload and the position of its last fact; None when it is not in the model."""
        return await self.in_pool(lambda: self.get_now(tenant, run_id))

    def list_now(self, tenant: str, listing: Listing) -> dict[str, Any]:
        """Like ``list``, in the calling thread."""
        with self.snapshot() as (connection, position, epoch):
            query = lists.query(tenant, listing, epoch)
            rows: builtins.list[tuple[Any, ...]] = []
            more, size = False, 0
            for row in connection.execute(query.statement, query.parameters):
                if len(rows) == listing.limit or size >= PAGE_BYTES:
                    more = True
                    break
                rows.append(row)
                size += len(row[5])
        items = [item_of(row, position) for row in rows]
        cursor = lists.write_cursor(tenant, listing, epoch, (rows[-1][1], rows[-1][0])) if more else None
        return {"items": items, "next_cursor": cursor, "position": position}

    def get_now(self, tenant: str, run_id: str) -> dict[str, Any] | None:
        """Like ``get``, in the calling thread."""
        with self.snapshot() as (connection, _, _):
            row = connection.execute(_GET, (tenant, run_id)).fetchone()
        if row is None:
            return None
        document, state, owner, fence, position, payload = row
        plain = {"run_id": run_id, "state": state, "owner": owner, "fence": fence, "position": position}
        kept = _NULL if payload is None else msgspec.Raw(payload)
        return _document.decode(document) | {"payload": kept} | plain
