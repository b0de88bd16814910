"""Comparing two copies of a read model: by one digest, or by the first row in which they differ.

The *digest* of a projection is the SHA-256, in hexadecimal, over all rows of all its tables: table by table in the
order in which the projection names them, rows in the order of their keys, each row as the MessagePack array of its
columns. It depends on what the rows say and on nothing else: not on the order in which they were written, not on how
the file lies on disk, not on indexes, position or build. Equal facts give equal digests, in whichever process and by
whichever road the model came to be. It is computed when it is asked for, in one pass (about a million rows in three
seconds): keeping it up would cost every write the reading of the row that it replaces.
"""

import hashlib
import itertools
import sqlite3
from typing import Any

import msgspec

from domain.values import Value
from projections.stored.projection import Projection


class Difference(Value, frozen=True, kw_only=True):
    """The first row in which a read model differs from what the journal says; null where there is no row."""

    table: str
    key: str
    field: str | None
    stored: str | None
    rebuilt: str | None


def digest(connection: sqlite3.Connection, projection: Projection) -> str:
    """The digest of a projection in a file."""
    whole, encode = hashlib.sha256(), msgspec.msgpack.encode
    for listed in projection.listed:
        for row in connection.execute(listed.select):
            whole.update(encode(row))
    return whole.hexdigest()


def count(connection: sqlite3.Connection, projection: Projection) -> int:
    """How many rows a projection has, in all its tables."""
    counts = (connection.execute(f"SELECT count(*) FROM {table.name}") for table in projection.tables)
    return sum(int(counted.fetchone()[0]) for counted in counts)


def first_difference(
    stored: sqlite3.Connection, rebuilt: sqlite3.Connection, projection: Projection
) -> Difference | None:
    """The first row, in the order of the digest, that is not the same in both; None when all are."""
    for listed in projection.listed:
        pairs = itertools.zip_longest(stored.execute(listed.select), rebuilt.execute(listed.select))
        for one, other in pairs:
            if one != other:
                return _difference(listed.name, listed.fields, one, other)
    return None


def _difference(
    table: str, fields: tuple[str, ...], stored: tuple[Any, ...] | None, rebuilt: tuple[Any, ...] | None
) -> Difference:
    if stored is None or rebuilt is None or stored[0] != rebuilt[0]:
        present = [str(row[0]) for row in (stored, rebuilt) if row is not None]
        key = min(present)
        return Difference(
            table=table,
            key=key,
            field=None,
            stored=key if stored is not None and str(stored[0]) == key else None,
            rebuilt=key if rebuilt is not None and str(rebuilt[0]) == key else None,
        )
    differing = next(index for index in range(len(fields)) if stored[index] != rebuilt[index])
    return Difference(
        table=table,
        key=str(stored[0]),
        field=fields[differing],
        stored=_text(stored[differing]),
        rebuilt=_text(rebuilt[differing]),
    )


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
