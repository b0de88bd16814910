"""A page of a list that is narrowed by state and in the order of ids: what leaders and workers have in common.

Each id belongs to a tenant, and only its own are shown. A page ends at its limit; its cursor says behind which id the
next one begins, and belongs to this very list (``cursors``).
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from domain.refusal import InvalidCommand
from projections.stored.cursors import LIMIT_DEFAULT, check_limit, read_cursor, write_cursor

Condition = tuple[str, tuple[Any, ...]]
"""A condition in SQL, and the values in it."""


class Narrowed(Protocol):
    """What is asked for: a frozen struct with at least these."""

    @property
    def state(self) -> tuple[str, ...]:
        """Any of these states; all when there is none."""

    @property
    def limit(self) -> int:
        """Rows on a page."""

    @property
    def cursor(self) -> str | None:
        """Where to go on."""


class ById(NamedTuple):
    """One such list: its table, the column of its ids, its states, what is read of a row, and how a row is shown."""

    table: str
    key: str
    states: tuple[str, ...]
    columns: dict[str, str]
    """What is read, by name, as SQL."""
    shown: Callable[[dict[str, Any]], dict[str, Any]]


def page(
    connection: sqlite3.Connection, listed: ById, asked: Narrowed, also: Iterable[Condition], at: tuple[str, int, str]
) -> dict[str, Any]:
    """One page; ``also`` are further conditions, ``at`` the tenant, and the position and epoch of the snapshot.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    tenant, position, epoch = at
    check_limit(asked.limit)
    _check_state(asked.state, listed.states)
    scope = (listed.table, tenant, epoch, msgspec.structs.replace(asked, limit=LIMIT_DEFAULT, cursor=None))  # type: ignore[type-var]
    conditions: list[Condition] = [("tenant = ?", (tenant,)), *also]
    if asked.state:
        among = msgspec.json.encode(asked.state).decode()
        conditions.append((f"{listed.columns['state']} IN (SELECT value FROM json_each(?))", (among,)))
    if asked.cursor is not None:
        conditions.append((f"{listed.key} > ?", read_cursor(scope, asked.cursor, tuple[str])))
    rows = _rows(connection, listed, conditions, asked.limit + 1)
    more, rows = len(rows) > asked.limit, rows[: asked.limit]
    return {
        "items": [listed.shown(row) for row in rows],
        "next_cursor": write_cursor(scope, (rows[-1][listed.key],)) if more else None,
        "position": position,
    }


def _check_state(wanted: Sequence[str], states: tuple[str, ...]) -> None:
    unknown = next((state for state in wanted if state not in states), None)
    if unknown is not None:
        raise InvalidCommand(field="state", value=unknown[:64], limit=f"one of {', '.join(states)}")


def _rows(
    connection: sqlite3.Connection, listed: ById, conditions: Sequence[Condition], limit: int
) -> list[dict[str, Any]]:
    where = " AND ".join(condition for condition, _ in conditions)
    read = ", ".join(listed.columns.values())
    statement = f"SELECT {read} FROM {listed.table} WHERE {where} ORDER BY {listed.key} LIMIT ?"
    values = [value for _, given in conditions for value in given]
    return [dict(zip(listed.columns, row, strict=True)) for row in connection.execute(statement, (*values, limit))]
