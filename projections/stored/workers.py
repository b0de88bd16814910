"""The ``workers`` projection: who has ever worked here, how each stands, and what came of its attempts.

A worker that left or is gone keeps its row, with the state ``left`` or ``gone`` and what it did; the live list knows
only those that are registered. Leases are counted by the facts that give and end them, attempts by those that begin and
end them, each under the worker that the fact or the grant names. Heartbeats are not facts: when a worker was last heard
is asked of the register of evidence, never of this model.
"""

import sqlite3
from collections.abc import Mapping
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
from domain.run_facts import AttemptEnded, AttemptStarted, RunClosed
from domain.values import Fact, Value
from domain.worker import UNREGISTERED, Registered, Worker, WorkerFact, WorkerGone, evolve
from journal.mapper import Recorded
from projections.stored import by_id
from projections.stored.by_id import ById
from projections.stored.cursors import LIMIT_DEFAULT
from projections.stored.database import Listed, Table
from projections.stored.endings import end_of
from projections.stored.instants import instant_of, microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Sums, Write
from projections.stored.remembered import Remembered

NAME = "workers"
VERSION = 1
STATES = ("active", "draining", "quarantined", "left", "gone")
COUNTED = ("leases", "attempts", "succeeded", "failed", "given_back", "lost", "revoked", "busy_us")
_LEASES, _ATTEMPTS, _BUSY = (COUNTED.index(column) for column in ("leases", "attempts", "busy_us"))
_STANDING = (
    "state", "labels", "slots", "quarantine_reason", "quarantine_since", "quarantine_until", "changed_at", "position",
)  # fmt: skip

TABLES = (
    Table(
        "workers",
        "(tenant TEXT, worker_id TEXT, state TEXT NOT NULL DEFAULT 'gone', labels TEXT NOT NULL DEFAULT '{}', "
        "slots INTEGER NOT NULL DEFAULT 0, quarantine_reason TEXT, quarantine_since INTEGER, quarantine_until INTEGER, "
        "changed_at INTEGER NOT NULL DEFAULT 0, position INTEGER NOT NULL DEFAULT 0, "
        f"{', '.join(f'{column} INTEGER NOT NULL DEFAULT 0' for column in COUNTED)}, "
        "PRIMARY KEY (tenant, worker_id)) WITHOUT ROWID",
        {"workers_state": "(tenant, state, worker_id)"},
    ),
)
_FIELDS = ("tenant", "worker_id", *_STANDING, *COUNTED)
LISTED = (Listed("workers", _FIELDS, f"SELECT {', '.join(_FIELDS)} FROM workers ORDER BY tenant, worker_id"),)

_STANDS = (
    f"INSERT INTO workers~ (tenant, worker_id, {', '.join(_STANDING)}) "
    f"VALUES ({', '.join('?' * (2 + len(_STANDING)))}) "
    f"ON CONFLICT (tenant, worker_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _STANDING)}"
)


class WorkersFold:
    """Follows workers, and the leases and attempts that name them."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._workers: Remembered[Worker] = Remembered(known, UNREGISTERED, evolve)
        self._standings: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._sums = Sums("workers", ("tenant", "worker_id"), COUNTED)
        self._rows, self._cards = self._sums.rows, known.cards
        self.handlers: Mapping[type[Fact], Handler] = {
            **dict.fromkeys(WorkerFact.__args__, self._stands),
            **dict.fromkeys((FenceBumped, LeaseReserved), self._counter(_LEASES, 1)),
            **dict.fromkeys(
                (ReservationCancelled, ReservationLapsed, LeaseExpired, LeaseReleased, LeaseRevoked),
                self._counter(_LEASES, -1),
            ),
            AttemptStarted: self._counter(_ATTEMPTS, 1),
            AttemptEnded: self._ended,
            RunClosed: self._ended,
        }

    def _stands(self, subject: str, recorded: Recorded) -> None:
        worker, fact = self._workers.after(recorded), recorded.fact
        tenant, _, worker_id = subject.partition(":")
        quarantine = worker.quarantine
        at = microseconds(recorded.meta.recorded_at)
        self._standings[tenant, worker_id] = (
            _state_of(worker, fact),
            msgspec.json.encode(worker.labels, order="sorted").decode() if isinstance(worker, Registered) else "{}",
            worker.slots if isinstance(worker, Registered) else 0,
            quarantine.reason if quarantine else None,
            microseconds(quarantine.since) if quarantine else None,
            microseconds(quarantine.until) if quarantine else None,
            at,
            recorded.position,
        )

    def _counter(self, place: int, count: int) -> Handler:
        """Adds to a column of the worker that a fact names, if it names one."""
        rows, cards, card_of = self._rows, self._cards, self._known.card

        def add(run_id: str, recorded: Recorded) -> None:
            worker = recorded.fact.worker  # type: ignore[attr-defined]
            if worker is not None:
                card = cards.get(run_id) or card_of(run_id)
                rows[card.tenant, worker][place] += count

        return add

    def _ended(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        end = end_of(fact)
        start = self._known.start(run_id, fact.fence)
        if end is None or start is None:
            return
        ended_at = fact.closed_at if isinstance(fact, RunClosed) else fact.ended_at
        busy, place = max(0, microseconds(ended_at) - start.at), self._sums.place[end]
        row = self._rows[self._known.card(run_id).tenant, start.worker]
        row[_BUSY] += busy
        row[place] += 1

    def changes(self) -> Write:
        """What changed since it was last asked for."""
        rows, sums = [(*worker, *standing) for worker, standing in self._standings.items()], self._sums.changes()
        self._standings = {}

        def write(connection: sqlite3.Connection, suffix: str) -> None:
            connection.executemany(_STANDS.replace("~", suffix), rows)
            sums(connection, suffix)

        return write


def _state_of(worker: Worker, fact: Fact) -> str:
    if not isinstance(worker, Registered):
        return "gone" if isinstance(fact, WorkerGone) else "left"
    if worker.quarantine is not None:
        return "quarantined"
    return "draining" if worker.draining else "active"


WORKERS = Projection(NAME, VERSION, TABLES, LISTED, WorkersFold, readable_since=1)
"""Who has ever worked here, how does each stand, and what came of its attempts?"""


class Asked(Value, frozen=True, kw_only=True):
    """Which workers are asked for, by id."""

    state: tuple[str, ...] = ()
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


def page(connection: sqlite3.Connection, tenant: str, asked: Asked, position: int, epoch: str) -> dict[str, Any]:
    """One page of the tenant's workers.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    return by_id.page(connection, _BY_ID, asked, (), (tenant, position, epoch))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    quarantine = None
    if row["quarantine_reason"] is not None:
        since, until = instant_of(row["quarantine_since"]), instant_of(row["quarantine_until"])
        quarantine = {"reason": row["quarantine_reason"], "since": since, "until": until}
    counts = {name: row[name] for name in ("attempts", "succeeded", "failed", "given_back", "lost", "revoked")}
    return {
        "worker_id": row["worker_id"],
        "state": row["state"],
        "labels": msgspec.json.decode(row["labels"]),
        "slots": row["slots"],
        "slots_used": row["leases"],
        "quarantine": quarantine,
        "changed_at": instant_of(row["changed_at"]),
        "counts": {**counts, "seconds": row["busy_us"] / 1e6},
    }


_BY_ID = ById("workers", "worker_id", STATES, {name: name for name in _FIELDS}, _shown)
