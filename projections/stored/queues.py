"""The ``queues`` projection: how much waits in each queue, since when, and how fast runs come and go.

Three tables. ``queues`` has the limits in force and the leases out. ``queues_waiting`` has one row for each run that is
queued or reserved, with the instant from which on it may be claimed; depth and the oldest are asked of it, so they are
right at the moment of asking and not at that of the last fact. ``queues_minutes`` counts what came and went in each
minute of the last day, up to the latest minute that any fact is of; older minutes are dropped, so that it stays small.

A run that is submitted and started within one batch never becomes a row.
"""

import sqlite3
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from domain.lease import (
    FenceBumped,
    LeaseExpired,
    LeaseReleased,
    LeaseReserved,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
)
from domain.queue import QueueConfigured
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    InputProvided,
    RunClosed,
    RunParked,
    RunResumed,
    RunSettled,
    RunSubmitted,
    VerdictRendered,
)
from domain.values import Fact, Value
from journal.mapper import Recorded
from projections.stored.cursors import LIMIT_DEFAULT, check_limit, read_cursor, write_cursor
from projections.stored.database import Listed, Table, insert
from projections.stored.endings import settles_as
from projections.stored.instants import instant_of, microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Sums, Write

NAME = "queues"
VERSION = 1
MINUTE_US = 60_000_000
MINUTES_KEPT = 1_440
"""Minutes of which counts are kept: a day."""

WINDOWS_S = (60, 300, 3_600)
"""Stretches over which rates are shown, in seconds: the last whole minutes before the moment of asking."""

FLOWS = ("submitted", "started", "ended", "settled")
_SUBMITTED, _STARTED, _ENDED, _SETTLED = range(len(FLOWS))

TABLES = (
    Table(
        "queues",
        "(tenant TEXT, queue TEXT, leases INTEGER NOT NULL DEFAULT 0, max_leases INTEGER, max_per_key INTEGER, "
        "PRIMARY KEY (tenant, queue)) WITHOUT ROWID",
        {},
    ),
    Table(
        "queues_waiting",
        "(run_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, queue TEXT NOT NULL, due_at INTEGER NOT NULL, "
        "reserved INTEGER NOT NULL) WITHOUT ROWID",
        {"queues_waiting_due": "(tenant, queue, reserved, due_at)"},
    ),
    Table(
        "queues_minutes",
        f"(minute INTEGER, tenant TEXT, queue TEXT, {', '.join(f'{flow} INTEGER NOT NULL' for flow in FLOWS)}, "
        "PRIMARY KEY (minute, tenant, queue)) WITHOUT ROWID",
        {},
    ),
)
LISTED = (
    Listed(
        "queues",
        ("tenant", "queue", "leases", "max_leases", "max_per_key"),
        "SELECT tenant, queue, leases, max_leases, max_per_key FROM queues ORDER BY tenant, queue",
    ),
    Listed(
        "queues_waiting",
        ("run_id", "tenant", "queue", "due_at", "reserved"),
        "SELECT run_id, tenant, queue, due_at, reserved FROM queues_waiting ORDER BY run_id",
    ),
    Listed(
        "queues_minutes",
        ("minute", "tenant", "queue", *FLOWS),
        f"SELECT minute, tenant, queue, {', '.join(FLOWS)} FROM queues_minutes ORDER BY minute, tenant, queue",
    ),
)

_LIMITS = (
    "INSERT INTO queues~ (tenant, queue, max_leases, max_per_key) VALUES (?, ?, ?, ?) ON CONFLICT (tenant, queue) "
    "DO UPDATE SET max_leases = excluded.max_leases, max_per_key = excluded.max_per_key"
)
_GONE = "DELETE FROM queues_waiting~ WHERE run_id = ?"
_RESERVED = "UPDATE queues_waiting~ SET reserved = ? WHERE run_id = ?"
_FORGET = f"DELETE FROM queues_minutes~ WHERE minute <= (SELECT max(minute) FROM queues_minutes~) - {MINUTES_KEPT}"

Waiting = tuple[str, str, int, int]
"""Tenant, queue, due, reserved."""


class QueuesFold:
    """Follows runs into queues and out of them."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._cards = known.cards
        self._leases = Sums("queues", ("tenant", "queue"), ("leases",))
        self._minutes = Sums("queues_minutes", ("minute", "tenant", "queue"), FLOWS)
        self._counts = self._minutes.rows
        self._limits: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        self._waiting: dict[str, Waiting | None] = {}
        self._reserved: dict[str, int] = {}
        self._fresh: set[str] = set()
        self.handlers: Mapping[type[Fact], Handler] = {
            QueueConfigured: self._configured,
            RunSubmitted: self._submitted,
            AttemptStarted: self._started,
            AttemptEnded: self._ended,
            RunClosed: self._closed,
            RunParked: self._left,
            InputProvided: self._queued,
            RunResumed: self._queued,
            RunSettled: self._settled,
            VerdictRendered: self._settled,
            FenceBumped: self._granted,
            LeaseReserved: self._reservation,
            ReservationCancelled: self._reservation,
            ReservationLapsed: self._reservation,
            LeaseExpired: self._taken,
            LeaseReleased: self._taken,
            LeaseRevoked: self._taken,
        }

    def _configured(self, subject: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        self._limits[subject.partition(":")[0], fact.queue] = (fact.max_leases, fact.max_per_key)

    def _count(self, run_id: str, recorded: Recorded, place: int) -> None:
        """Count a run that comes or goes; the place is that of the flow in ``FLOWS``."""
        card = self._cards.get(run_id) or self._known.card(run_id)
        minute = microseconds(recorded.meta.recorded_at) // MINUTE_US
        self._counts[minute, card.tenant, card.queue][place] += 1

    def _lease(self, run_id: str, count: int) -> None:
        card = self._cards.get(run_id) or self._known.card(run_id)
        self._leases.rows[card.tenant, card.queue][0] += count

    def _wait(self, run_id: str, due_at: datetime | None) -> None:
        if due_at is not None:
            card = self._cards.get(run_id) or self._known.card(run_id)
            self._waiting[run_id] = (card.tenant, card.queue, microseconds(due_at), 0)
            self._reserved.pop(run_id, None)

    def _leave(self, run_id: str) -> None:
        self._reserved.pop(run_id, None)
        if run_id in self._fresh:
            self._fresh.discard(run_id)
            del self._waiting[run_id]
        else:
            self._waiting[run_id] = None

    def _submitted(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        self._count(run_id, recorded, _SUBMITTED)
        self._lease(run_id, 0)
        self._wait(run_id, fact.due_at)
        self._fresh.add(run_id)

    def _started(self, run_id: str, recorded: Recorded) -> None:
        self._count(run_id, recorded, _STARTED)
        self._leave(run_id)

    def _ended(self, run_id: str, recorded: Recorded) -> None:
        self._count(run_id, recorded, _ENDED)
        self._wait(run_id, recorded.fact.due_at)  # type: ignore[attr-defined]

    def _closed(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        if not fact.late:
            self._count(run_id, recorded, _ENDED)
        if fact.state == "queued":
            self._wait(run_id, fact.due_at or fact.closed_at)
        elif settles_as(fact) is not None:
            self._count(run_id, recorded, _SETTLED)

    def _queued(self, run_id: str, recorded: Recorded) -> None:
        self._wait(run_id, recorded.fact.due_at)  # type: ignore[attr-defined]

    def _left(self, run_id: str, recorded: Recorded) -> None:
        self._leave(run_id)

    def _settled(self, run_id: str, recorded: Recorded) -> None:
        self._count(run_id, recorded, _SETTLED)
        if isinstance(recorded.fact, RunSettled):  # else it was not queued: its worker or its leader ended it
            self._leave(run_id)

    def _granted(self, run_id: str, recorded: Recorded) -> None:
        self._lease(run_id, 1)

    def _taken(self, run_id: str, recorded: Recorded) -> None:
        if recorded.fact.worker is not None:  # type: ignore[attr-defined]
            self._lease(run_id, -1)

    def _reservation(self, run_id: str, recorded: Recorded) -> None:
        reserved = int(isinstance(recorded.fact, LeaseReserved))
        self._lease(run_id, 1 if reserved else -1)
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            self._waiting[run_id] = (*waiting[:3], reserved)
        elif run_id not in self._waiting:
            self._reserved[run_id] = reserved

    def changes(self) -> Write:
        """What changed since it was last asked for."""
        leases, minutes = self._leases.changes(), self._minutes.changes()
        limits = [(*queue, *limits) for queue, limits in self._limits.items()]
        gone = [(run_id,) for run_id, waiting in self._waiting.items() if waiting is None]
        waits = [(run_id, *waiting) for run_id, waiting in self._waiting.items() if waiting is not None]
        reserved = [(reserved, run_id) for run_id, reserved in self._reserved.items()]
        self._limits, self._waiting, self._reserved, self._fresh = {}, {}, {}, set()

        def write(connection: sqlite3.Connection, suffix: str) -> None:
            leases(connection, suffix)
            connection.executemany(_LIMITS.replace("~", suffix), limits)
            connection.executemany(_GONE.replace("~", suffix), gone)
            insert(connection, f"INSERT OR REPLACE INTO queues_waiting{suffix} VALUES ", waits)
            connection.executemany(_RESERVED.replace("~", suffix), reserved)
            minutes(connection, suffix)
            connection.execute(_FORGET.replace("~", suffix))

        return write


QUEUES = Projection(NAME, VERSION, TABLES, LISTED, QueuesFold, readable_since=1)
"""How much waits in each queue, since when, and how fast do runs come and go?"""


class Asked(Value, frozen=True, kw_only=True):
    """Which page of the tenant's queues is asked for, by name; not ``all``: those with limits, leases or runs."""

    all: bool = False
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


_QUEUES = (
    "SELECT queue, leases, max_leases, max_per_key, "
    "(SELECT count(*) FROM queues_waiting w WHERE w.tenant = q.tenant AND w.queue = q.queue AND reserved = 0), "
    "(SELECT count(*) FROM queues_waiting w WHERE w.tenant = q.tenant AND w.queue = q.queue AND reserved = 0 "
    "AND due_at <= ?1), "
    "(SELECT min(due_at) FROM queues_waiting w WHERE w.tenant = q.tenant AND w.queue = q.queue AND reserved = 0 "
    "AND due_at <= ?1) "
    "FROM queues q WHERE tenant = ?2 AND queue > ?3 AND (?4 OR leases > 0 OR max_per_key IS NOT NULL OR EXISTS "
    "(SELECT 1 FROM queues_waiting w WHERE w.tenant = q.tenant AND w.queue = q.queue)) ORDER BY queue LIMIT ?5"
)
_FLOW = (
    f"SELECT {', '.join(f'coalesce(sum({flow}), 0)' for flow in FLOWS)} FROM queues_minutes "
    "WHERE minute >= ? AND minute < ? AND tenant = ? AND queue = ?"
)


def page(
    connection: sqlite3.Connection, tenant: str, asked: Asked, now: datetime, at: tuple[int, str]
) -> dict[str, Any]:
    """One page of the tenant's queues as they are ``now``; ``at`` is the position of the rows and the epoch.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    check_limit(asked.limit)
    scope = ("queues", tenant, at[1], msgspec.structs.replace(asked, limit=LIMIT_DEFAULT, cursor=None))
    after = "" if asked.cursor is None else read_cursor(scope, asked.cursor, tuple[str])[0]
    given = (microseconds(now), tenant, after, asked.all, asked.limit + 1)
    rows = connection.execute(_QUEUES, given).fetchall()
    more, rows = len(rows) > asked.limit, rows[: asked.limit]
    return {
        "items": [_shown(connection, tenant, row, now) for row in rows],
        "next_cursor": write_cursor(scope, (rows[-1][0],)) if more else None,
        "position": at[0],
    }


def _shown(connection: sqlite3.Connection, tenant: str, row: tuple[Any, ...], now: datetime) -> dict[str, Any]:
    queue, leases, max_leases, max_per_key, queued, due, oldest = row
    waited = None if oldest is None else (now - _instant(oldest)) / timedelta(seconds=1)
    return {
        "queue": queue,
        "max_leases": max_leases,
        "max_per_key": 1 if max_per_key is None else max_per_key,
        "queued": queued,
        "due": due,
        "leases": leases,
        "oldest_due_at": instant_of(oldest),
        "oldest_waits_s": waited,
        "rates": rates(connection, tenant, queue, now),
    }


def rates(connection: sqlite3.Connection, tenant: str, queue: str, now: datetime) -> list[dict[str, Any]]:
    """For each window: what came and went per minute, over the last whole minutes before ``now``."""
    minute = microseconds(now) // MINUTE_US
    found = []
    for window_s in WINDOWS_S:
        minutes = window_s // 60
        sums = connection.execute(_FLOW, (minute - minutes, minute, tenant, queue)).fetchone()
        flows = {f"{flow}_per_min": count / minutes for flow, count in zip(FLOWS, sums, strict=True)}
        found.append({"window_s": window_s, **flows})
    return found


def _instant(column: int) -> datetime:
    instant = instant_of(column)
    assert instant is not None
    return instant
