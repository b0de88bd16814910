"""Comparing two copies of a read model: by one digest, or by the first row in which they differ.

The *digest* is the SHA-256 over all rows, runs in the order of their ids, each as the MessagePack array of its columns.
Equal facts give equal digests, however and in which process the model came to be.
"""

import hashlib
import itertools
import sqlite3
from typing import Any

import msgspec

from domain.values import Value
from projections.stored.runs_fold import LISTED


class Difference(Value, frozen=True, kw_only=True):
    """The first row in which a read model differs from what the journal says; null where there is no row."""

    table: str
    key: str
    field: str | None
    stored: str | None
    rebuilt: str | None


def digest(connection: sqlite3.Connection) -> str:
    """SHA-256, in hexadecimal, over every row of the read model, runs in the order of their ids."""
    whole = hashlib.sha256()
    for listed in LISTED:
        for row in connection.execute(listed.select):
            whole.update(msgspec.msgpack.encode(row))
    return whole.hexdigest()


def first_difference(stored: sqlite3.Connection, rebuilt: sqlite3.Connection) -> Difference | None:
    """The first row, in the order of the digest, that is not the same in both; None when all are."""
    for listed in LISTED:
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
