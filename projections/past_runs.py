"""Lists of runs as they were: the present rows that have not changed since, and the others folded back.

A row of the ``runs`` read model shows a run as of its last fact. A run whose last fact is not after the position that
is asked for is today what it was then, and a run that was submitted later was not there. What is left are the runs that
were there and had more to come: those that were open then, and the few that something was added to after their end.
They are folded again, up to the position, by the same fold that keeps the read model, into a small database of their
own; a page is merged from the two. So a list of the past costs what the present one costs, and some tenths of a
millisecond for each run that was open then, however long the journal is.

The runs that were folded back are remembered for the last ``PLACES`` positions, so that further pages cost nothing
again. At most ``OPEN_MAX`` runs are folded back for one position; a list that needs more is refused, and says by what
it may be narrowed (queue, tag and search never change, so they count before anything is folded). All of it happens in
one thread of its own, so that no list of the present waits for it.
"""

import asyncio
import heapq
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from domain.refusal import Refusal
from journal.mapper import Recorded
from journal.store import Store
from projections.hindsight import facts_until
from projections.stored import listing as lists
from projections.stored.cursors import PAGE_BYTES
from projections.stored.database import create_tables, scratch
from projections.stored.faults import ReadModelBehind
from projections.stored.known import Known
from projections.stored.listing import Listing, Query
from projections.stored.runs import RunsModel, item_of
from projections.stored.runs_fold import RUNS

PLACES = 4
"""Positions of which folded runs are remembered."""

OPEN_MAX = 10_000
"""Runs that are folded back for one position: two or three seconds, and 20 MB."""

AT_ONCE = 500
"""Runs that are folded before their rows are written."""

_HAS_SINCE = "SELECT 1 FROM pragma_table_info('runs') WHERE name = 'since'"
"""Rows that an earlier version made do not say where a run began; they are being made again meanwhile."""

Row = tuple[Any, ...]


class PastTooWide(Refusal):
    """More runs were open at the position than are folded back for one list."""

    code = "past_too_wide"

    def __init__(self, position: int) -> None:
        super().__init__(
            f"more than {OPEN_MAX} runs were open at position {position}; narrow the list by queue, tag or q",
            position=position,
            limit=OPEN_MAX,
        )


class Folded:
    """The runs that were folded back to one position."""

    def __init__(self, store: Store, position: int) -> None:
        self.connection = scratch()
        self.lock = threading.Lock()
        self._store = store
        self._position = position
        self._there: set[str] = set()
        create_tables(self.connection, RUNS.tables, "")

    def fold(self, run_ids: Iterable[str]) -> None:
        """Fold these runs back, unless they were before."""
        missing = [run_id for run_id in run_ids if run_id not in self._there]
        for start in range(0, len(missing), AT_ONCE):
            self._fold_some(missing[start : start + AT_ONCE])

    def _fold_some(self, run_ids: list[str]) -> None:
        fold = RUNS.fold(Known(self._store.stream))
        for run_id in run_ids:
            for recorded in facts_until(self._store, run_id, self._position):
                _hand_over(fold, run_id, recorded)
        fold.changes()(self.connection, "")
        self._there.update(run_ids)


def _hand_over(fold: Any, run_id: str, recorded: Recorded) -> None:
    handler = fold.handlers.get(type(recorded.fact))
    if handler is not None:
        handler(run_id, recorded)


class PastRuns:
    """Lists of the runs of one journal at a position of it."""

    def __init__(self, model: RunsModel, store: Store) -> None:
        self._model = model
        self._store = store
        self._folded: OrderedDict[int, Folded] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="past-read")

    async def list(self, tenant: str, listing: Listing, wait_s: float) -> dict[str, Any]:
        """One page of the tenant's runs as they were at ``listing.at``.

        Raises:
            InvalidCommand: a bound is broken, or the cursor is not one of this very list.
            PastTooWide: too many runs were open then.
            ReadModelBehind: the read model had not come as far within ``wait_s`` seconds.
        """
        lists.check(listing)
        await self._model.wait_for(listing.at or 0, wait_s)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.list_now, tenant, listing)

    def close(self) -> None:
        """Let the list under way finish, and begin none."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def list_now(self, tenant: str, listing: Listing) -> dict[str, Any]:
        """Like ``list``, in the calling thread."""
        position = listing.at or 0
        with self._model.snapshot() as (connection, reached, epoch):
            if not connection.execute(_HAS_SINCE).fetchone():
                raise ReadModelBehind(wanted=position, reached=reached)
            query = lists.query(tenant, listing, epoch)
            changed = lists.changed_since(tenant, listing, OPEN_MAX + 1)
            run_ids = [row[0] for row in connection.execute(changed.statement, changed.parameters)]
            unchanged = _some(connection, query)
        if len(run_ids) > OPEN_MAX:
            raise PastTooWide(position)
        folded = self._at(position)
        with folded.lock:
            folded.fold(run_ids)
            again = _some(folded.connection, query)
        rows, more = _page(listing, unchanged, again)
        cursor = lists.write_cursor(tenant, listing, epoch, (rows[-1][1], rows[-1][0])) if more else None
        return {"items": [item_of(row, position) for row in rows], "next_cursor": cursor, "position": position}

    def _at(self, position: int) -> Folded:
        with self._lock:
            folded = self._folded.pop(position, None) or Folded(self._store, position)
            self._folded[position] = folded
            while len(self._folded) > PLACES:
                self._folded.popitem(last=False)  # closed with the last read that still uses it
            return folded


def _some(connection: sqlite3.Connection, query: Query) -> list[Row]:
    """Rows for one page and one more, or fewer when their documents already fill it."""
    rows: list[Row] = []
    size = 0
    for row in connection.execute(query.statement, query.parameters):
        rows.append(row)
        if size >= PAGE_BYTES:
            break
        size += len(row[5])
    return rows


def _page(listing: Listing, *sources: list[Row]) -> tuple[list[Row], bool]:
    """The rows of one page, and whether there are more."""
    rows: list[Row] = []
    size = 0
    for row in _merged(listing, sources):
        if len(rows) == listing.limit or size >= PAGE_BYTES:
            return rows, True
        rows.append(row)
        size += len(row[5])
    return rows, False


def _merged(listing: Listing, sources: Iterable[list[Row]]) -> Iterator[Row]:
    return iter(heapq.merge(*sources, key=lambda row: (row[1], row[0]), reverse=listing.descending))
