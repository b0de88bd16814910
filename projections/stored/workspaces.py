"""The ``workspaces`` projection: what did runs ever stand on, and what became of it?

One row for each workspace, as its own stream leaves it: where its phase got to, why it ended, since when and why nobody
sees it, and the instants of its life. ``placed`` is the position of its placing, in which order workspaces are shown.
The live index knows every body that may still be there; this model also knows those that are gone, for good.

A row is a pure function of the stream, so it depends on no other. Instants are in microseconds.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from domain.values import Fact, Value
from domain.workspace import UNPLACED, Unplaced, Workspace, evolve
from domain.workspace_facts import WorkspaceFact, WorkspacePlaced
from journal.mapper import Recorded
from projections.stored.database import Listed, Table
from projections.stored.instants import microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Write
from projections.stored.remembered import Remembered

NAME = "workspaces"
VERSION = 1

_FIELDS = (
    "workspace_id", "run_id", "tenant", "provider", "scope", "worker", "placed", "placed_at", "phase", "identity",
    "incarnation", "attached_at", "unknown_since", "unknown_cause", "reason", "ended_at", "teardown", "destroyed_at",
    "position",
)  # fmt: skip
_FIXED = 8
"""The first columns, which the placing says once and for all."""

TABLES = (
    Table(
        "workspaces",
        "(workspace_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, tenant TEXT NOT NULL, provider TEXT NOT NULL, "
        "scope TEXT, worker TEXT NOT NULL, placed INTEGER NOT NULL, placed_at INTEGER NOT NULL, phase TEXT NOT NULL, "
        "identity TEXT, incarnation INTEGER NOT NULL, attached_at INTEGER NOT NULL, unknown_since INTEGER NOT NULL, "
        "unknown_cause TEXT, reason TEXT, ended_at INTEGER NOT NULL, teardown INTEGER NOT NULL, "
        "destroyed_at INTEGER NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID",
        {
            "workspaces_placed": "(tenant, placed)",
            "workspaces_phase": "(tenant, phase, placed)",
            "workspaces_run": "(tenant, run_id, placed)",
        },
    ),
)
LISTED = (Listed("workspaces", _FIELDS, f"SELECT {', '.join(_FIELDS)} FROM workspaces ORDER BY workspace_id"),)

_PLACED = f"INSERT OR REPLACE INTO workspaces~ VALUES ({', '.join('?' * len(_FIELDS))})"
_CHANGED = f"UPDATE workspaces~ SET {', '.join(f'{column} = ?' for column in _FIELDS[_FIXED:])} WHERE workspace_id = ?"


class WorkspacesFold:
    """Keeps how each workspace of a batch stands after it."""

    def __init__(self, known: Known) -> None:
        self._states: Remembered[Workspace | Unplaced] = Remembered(known, UNPLACED, evolve)
        self._placed: dict[str, int] = {}
        self._now: dict[str, tuple[Workspace, int]] = {}
        self.handlers: Mapping[type[Fact], Handler] = dict.fromkeys(WorkspaceFact.__args__, self._fold)

    def _fold(self, workspace_id: str, recorded: Recorded) -> None:
        after = self._states.after(recorded)
        if isinstance(after, Workspace):
            self._now[workspace_id] = (after, recorded.position)
            if isinstance(recorded.fact, WorkspacePlaced):
                self._placed[workspace_id] = recorded.position

    def changes(self) -> Write:
        """What changed since it was last asked for."""
        placed, now = self._placed, self._now
        self._placed, self._now = {}, {}
        made = [(*_fixed(now[key][0], position), *_moving(*now[key])) for key, position in placed.items()]
        changed = [(*_moving(*standing), key) for key, standing in now.items() if key not in placed]

        def write(connection: sqlite3.Connection, suffix: str) -> None:
            connection.executemany(_PLACED.replace("~", suffix), made)
            connection.executemany(_CHANGED.replace("~", suffix), changed)

        return write


def _fixed(workspace: Workspace, position: int) -> tuple[Any, ...]:
    fact = workspace.placed
    at = microseconds(fact.placed_at)
    return fact.workspace_id, fact.run_id, fact.tenant, fact.provider, fact.scope, fact.worker, position, at


def _moving(workspace: Workspace, position: int) -> tuple[Any, ...]:
    lost, fault = workspace.lost, workspace.fault
    ended_at = lost.lost_at if lost is not None else fault.faulted_at if fault is not None else None
    return (
        workspace.phase,
        workspace.identity,
        workspace.incarnation,
        microseconds(workspace.attached_at),
        microseconds(workspace.unknown_since),
        workspace.unknown_cause,
        workspace.reason,
        microseconds(ended_at),
        int(workspace.awaits_teardown),
        microseconds(workspace.destroyed_at),
        position,
    )


WORKSPACES = Projection(NAME, VERSION, TABLES, LISTED, WorkspacesFold, readable_since=1, asks=False)
"""What did runs ever stand on, and what became of it?"""


class Asked(Value, frozen=True, kw_only=True):
    """Which workspaces are asked for, the oldest first, after the place in the journal at which one was placed."""

    phase: str | None = None
    scope: str | None = None
    provider: str | None = None
    run_id: str | None = None
    after: int = 0


class Named(NamedTuple):
    """A workspace, and where in the journal it was placed."""

    placed: int
    workspace_id: str


def named(connection: sqlite3.Connection, tenant: str, asked: Asked, limit: int) -> list[Named]:
    """The tenant's workspaces that are asked for, ``limit`` at most, in the order in which they were placed."""
    conditions = list(_conditions(tenant, asked))
    where = " AND ".join(condition for condition, _ in conditions)
    values = [value for _, value in conditions]
    statement = f"SELECT placed, workspace_id FROM workspaces WHERE {where} ORDER BY placed LIMIT ?"
    return [Named(*row) for row in connection.execute(statement, (*values, limit))]


def _conditions(tenant: str, asked: Asked) -> Iterator[tuple[str, Any]]:
    yield "tenant = ?", tenant
    yield "placed > ?", asked.after
    for column in ("scope", "provider", "run_id"):
        wanted = getattr(asked, column)
        if wanted is not None:
            yield f"{column} = ?", wanted
    if asked.phase == "teardown":
        yield "teardown = ?", 1
    elif asked.phase is not None:
        yield "phase = ?", asked.phase
