"""Whether the indexes of a journal say what its tables say.

SQLite trusts an index: a fact without its entry is not in its stream any more, for whoever reads by stream, although it
is still at its position and the hash chain holds over it; an entry too many leads to a row that is not there. So every
row is looked for in each index of its table, a portion at a time, and then the entries are counted: as many as rows,
each of which has its own, are all there should be.

It reads while a service records, and looks at the rows up to a place. What SQLite keeps beside rows and entries (free
pages, the order within a page) is looked into by its own ``integrity_check``, which is one long read.
"""

# ruff: noqa: S608  (the names in these statements are those of our own schema)

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

PORTION = 20_000
"""Rows that are looked for in one statement."""

Read = Callable[[str, tuple[Any, ...]], list[Any]]


class Indexed(NamedTuple):
    """An index of a table, by its columns; a partial one has those rows in which the first is set."""

    table: str
    of: tuple[str, ...]
    name: str
    partial: bool = False


class Astray(NamedTuple):
    """What is wrong, in words, and the row of the table, if one is meant."""

    row: int | None
    problem: str


INDEXES = (
    Indexed("stored_events", ("originator_id", "originator_version"), "sqlite_autoindex_stored_events_1"),
    Indexed("stored_events", ("correlation_id",), "stored_events_correlation", partial=True),
    Indexed("output_chunks", ("run_id", "fence", "seq"), "sqlite_autoindex_output_chunks_1"),
    Indexed("partials", ("run_id", "fence"), "sqlite_autoindex_partials_1"),
)
"""All that there are, but those of ``archives``, which has few rows, and of tables that are an index themselves."""


def astray(read: Read, index: Indexed) -> Astray | None:
    """The first row that its index does not lead to, or more entries than there are rows; None when it is sound."""
    last = read(f"SELECT coalesce(max(rowid), 0) FROM {index.table} NOT INDEXED", ())[0][0]
    rows = 0
    for count, missing in _portions(read, index, last):
        if missing is not None:
            return Astray(missing, f"the index of {index.table} by {index.of[0]} does not lead to row {missing}")
        rows += count
    entries = read(_entries(index), (last,))[0][0]
    if entries != rows:
        problem = f"the index of {index.table} by {index.of[0]} has {entries} entries for {rows} rows"
        return Astray(None, problem)
    return None


def _portions(read: Read, index: Indexed, last: int) -> Iterator[tuple[int, int | None]]:
    """How many rows each portion has, and the first of them without an entry."""
    same = " AND ".join(f"entry.{column} = told.{column}" for column in (*index.of, "rowid"))
    found = f"SELECT 1 FROM {index.table} AS entry INDEXED BY {index.name} WHERE {same}"
    statement = (
        f"SELECT count(*), min(CASE WHEN NOT EXISTS ({found}) THEN told.rowid END) "
        f"FROM {index.table} AS told NOT INDEXED WHERE told.rowid > ? AND told.rowid <= ?"
        + (f" AND told.{index.of[0]} IS NOT NULL" if index.partial else "")
    )
    for after in range(0, last, PORTION):
        yield read(statement, (after, min(last, after + PORTION)))[0]


def _entries(index: Indexed) -> str:
    wanted = f" AND {index.of[0]} IS NOT NULL" if index.partial else ""
    return f"SELECT count(*) FROM {index.table} INDEXED BY {index.name} WHERE rowid <= ?{wanted}"
