"""The ``timeline`` projection: what happened to a run, across all its streams, and how long each state lasted.

One row for each fact that says something of its own. A grant, a binding and a release of the lease are left out: each
is recorded together with the run's own fact that says the same and more (the attempt began, was closed, handed back,
parked). What happened to a workspace of the run is there with the workspace's id. A row is made from its fact alone,
and that of a workspace with the run that it was placed for. Where the fact says which state the run is in from then on,
the row has it; how long that state lasted is known once the next row has one, and asked for then.

Instants are those at which a fact was recorded, in microseconds.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from domain.effects import EffectCompleted, EffectFailed, EffectIntended, EffectReconciled, EffectsMadeAmbiguous
from domain.lease import (
    LeaseExpired,
    LeaseReserved,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
    SliceEnded,
)
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    InputProvided,
    PartialSalvaged,
    PauseRequested,
    RunClosed,
    RunParked,
    RunReassigned,
    RunResumed,
    RunSettled,
    RunSubmitted,
    StopReported,
    TimeoutAcknowledged,
    VerdictRendered,
    WorkerTimeout,
)
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnCut, TurnFailed, TurnMoved, TurnNoticed
from domain.values import Fact, Value, cite
from domain.workspace import workspace_stream
from domain.workspace_facts import (
    ContinuityRestored,
    ContinuityUnknown,
    HarnessRestarted,
    ProvisionFaulted,
    WorkspaceAttached,
    WorkspaceDestroyed,
    WorkspaceFact,
    WorkspaceLost,
    WorkspacePlaced,
    WorkspaceProvisioning,
    WorkspaceReaped,
    WorkspaceReleased,
    WorkspaceWaiting,
)
from journal.mapper import Recorded
from projections.stored.cursors import LIMIT_DEFAULT, check_limit, read_cursor, write_cursor
from projections.stored.database import Listed, Table, insert
from projections.stored.instants import instant_of, microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Write
from projections.stored.remembered import Remembered, placed_for

NAME = "timeline"
VERSION = 2

TABLES = (
    Table(
        "timeline",
        "(run_id TEXT, position INTEGER, version INTEGER NOT NULL, topic TEXT NOT NULL, at INTEGER NOT NULL, "
        "state TEXT, fence INTEGER, worker TEXT, detail TEXT, workspace_id TEXT, "
        "PRIMARY KEY (run_id, position)) WITHOUT ROWID",
        {},
    ),
)
_FIELDS = ("run_id", "position", "version", "topic", "at", "state", "fence", "worker", "detail", "workspace_id")
LISTED = (Listed("timeline", _FIELDS, f"SELECT {', '.join(_FIELDS)} FROM timeline ORDER BY run_id, position"),)

Said = tuple[str | None, int | None, str | None, str | None]
"""The state from then on, the fence, the worker, and one word more."""


def _going_on(fact: InputProvided | RunResumed) -> Said:
    return ("queued" if fact.due_at is not None else "running", fact.fence, None, fact.by)


def _ended(fact: AttemptEnded) -> Said:
    return ("queued" if fact.due_at is not None else None, fact.fence, None, fact.outcome)


def _restarted(fact: HarnessRestarted) -> Said:
    return None, None, None, f"{fact.incarnation}: {fact.reason}" if fact.reason else str(fact.incarnation)


SAYS: dict[type[Fact], Callable[[Any], Said]] = {
    RunSubmitted: lambda fact: ("queued", None, None, fact.queue),
    AttemptStarted: lambda fact: ("running", fact.fence, fact.worker, None),
    AttemptEnded: _ended,
    RunClosed: lambda fact: (fact.state, fact.fence, None, fact.outcome),
    RunParked: lambda fact: (fact.kind, None, None, fact.reason),
    InputProvided: _going_on,
    RunResumed: _going_on,
    PauseRequested: lambda fact: (None, None, None, fact.by),
    CancelRequested: lambda fact: (None, None, None, fact.by),
    VerdictRendered: lambda fact: (fact.verdict, None, None, fact.by),
    RunSettled: lambda fact: (fact.state, None, None, fact.reason),
    PartialSalvaged: lambda fact: (None, fact.fence, None, None),
    WorkerTimeout: lambda fact: (None, fact.fence, fact.worker, fact.kind),
    StopReported: lambda fact: (None, fact.fence, fact.worker, fact.report),
    TimeoutAcknowledged: lambda fact: (None, None, None, fact.answer),
    RunReassigned: lambda fact: (None, None, None, fact.leader_id),
    LeaseReserved: lambda fact: ("reserved", fact.fence, fact.worker, None),
    ReservationCancelled: lambda fact: ("queued", fact.fence, fact.worker, fact.cause),
    ReservationLapsed: lambda fact: ("queued", fact.fence, fact.worker, None),
    LeaseExpired: lambda fact: (None, fact.fence, fact.worker, "detached" if fact.detached else None),
    LeaseRevoked: lambda fact: (None, fact.fence, fact.worker, fact.cause),
    SliceEnded: lambda fact: (None, fact.fence, fact.worker, None),
    EffectIntended: lambda fact: (None, fact.fence, None, fact.key),
    EffectCompleted: lambda fact: (None, fact.fence, None, fact.key),
    EffectFailed: lambda fact: (None, fact.fence, None, fact.key),
    EffectsMadeAmbiguous: lambda fact: (None, fact.fence, None, ", ".join(fact.keys)),
    EffectReconciled: lambda fact: (None, None, None, f"{fact.key}: {fact.resolution}"),
    TurnAdmitted: lambda fact: (None, fact.fence, None, f"turn {fact.turn}"),
    TurnMoved: lambda fact: (None, None, None, f"turn {fact.turn}: {fact.state}"),
    TurnCompleted: lambda fact: (None, None, None, f"turn {fact.turn}"),
    TurnFailed: lambda fact: (None, None, None, f"turn {fact.turn}: {fact.code}"),
    TurnCut: lambda fact: (None, None, None, f"turn {fact.turn}: {fact.reason}"),
    TurnNoticed: lambda fact: (None, None, None, f"turn {fact.turn}: {fact.kind}"),
    WorkspacePlaced: lambda fact: (None, fact.fence, fact.worker, fact.provider),
    WorkspaceWaiting: lambda fact: (None, None, None, fact.on),
    WorkspaceProvisioning: lambda fact: (None, None, None, fact.identity),
    WorkspaceAttached: lambda fact: (None, None, None, fact.identity),
    HarnessRestarted: _restarted,
    ContinuityUnknown: lambda fact: (None, None, None, fact.cause),
    ContinuityRestored: lambda fact: (None, None, None, None),
    WorkspaceLost: lambda fact: (None, fact.fence, None, fact.reason),
    ProvisionFaulted: lambda fact: (None, None, None, fact.reason),
    WorkspaceReleased: lambda fact: (None, None, None, "kept" if fact.keep else fact.cause),
    WorkspaceReaped: lambda fact: (None, None, None, None),
    WorkspaceDestroyed: lambda fact: (None, None, None, fact.cause),
}
"""What each type of fact says on the timeline."""


_OF_WORKSPACES = frozenset(WorkspaceFact.__args__)


class TimelineFold:
    """Makes a row of each fact."""

    def __init__(self, known: Known) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._runs = Remembered(known, "", placed_for)
        self.handlers: Mapping[type[Fact], Handler] = {
            kind: self._ground_teller(says) if kind in _OF_WORKSPACES else self._teller(says)
            for kind, says in SAYS.items()
        }

    def _ground_teller(self, says: Callable[[Any], Said]) -> Handler:
        def tell(workspace_id: str, recorded: Recorded) -> None:
            at, run_id = microseconds(recorded.meta.recorded_at), self._runs.after(recorded)
            said = says(recorded.fact)
            self._rows.append((run_id, recorded.position, recorded.version, recorded.topic, at, *said, workspace_id))

        return tell

    def _teller(self, says: Callable[[Any], Said]) -> Handler:
        append = self._rows.append

        def tell(run_id: str, recorded: Recorded) -> None:
            at = microseconds(recorded.meta.recorded_at)
            state, fence, worker, detail = says(recorded.fact)
            append(
                (run_id, recorded.position, recorded.version, recorded.topic, at, state, fence, worker, detail, None)
            )

        return tell

    def changes(self) -> Write:
        """What changed since it was last asked for."""
        rows = self._rows[:]
        self._rows.clear()
        return lambda connection, suffix: insert(connection, f"INSERT OR REPLACE INTO timeline{suffix} VALUES ", rows)


TIMELINE = Projection(NAME, VERSION, TABLES, LISTED, TimelineFold, readable_since=2, asks=False)
"""What happened to a run, in order, and how long did each state last?"""


class Page(Value, frozen=True, kw_only=True):
    """Which page of a run's timeline is asked for."""

    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


_PAGE = (
    "SELECT position, version, topic, at, state, fence, worker, detail, workspace_id, "
    "(SELECT later.at FROM timeline later WHERE later.run_id = entry.run_id AND later.position > entry.position "
    "AND later.state IS NOT NULL AND entry.state IS NOT NULL ORDER BY later.position LIMIT 1) "
    "FROM timeline entry WHERE run_id = ? AND position > ? ORDER BY position LIMIT ?"
)
_STREAMS = {"run": "run", "lease": "lease", "effect": "effects"}


def page(connection: sqlite3.Connection, run_id: str, asked: Page, position: int, epoch: str) -> dict[str, Any]:
    """One page of a run's timeline, in the order of the journal.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    check_limit(asked.limit)
    scope = ("timeline", run_id, epoch)
    after = 0 if asked.cursor is None else read_cursor(scope, asked.cursor, tuple[int])[0]
    rows = connection.execute(_PAGE, (run_id, after, asked.limit + 1)).fetchall()
    more, rows = len(rows) > asked.limit, rows[: asked.limit]
    return {
        "run_id": run_id,
        "items": [_entry(run_id, row) for row in rows],
        "next_cursor": write_cursor(scope, (rows[-1][0],)) if more else None,
        "position": position,
    }


def _entry(run_id: str, row: tuple[Any, ...]) -> dict[str, Any]:
    position, version, topic, at, state, fence, worker, detail, workspace_id, until = row
    of_run = f"{_STREAMS.get(topic.partition('.')[0])}-{run_id}"
    stream = of_run if workspace_id is None else workspace_stream(workspace_id)
    return {
        "position": position,
        "fact": cite(stream, version),
        "topic": topic,
        "at": instant_of(at),
        "state": state,
        "until": instant_of(until),
        "lasted_s": None if until is None else max(0, until - at) / 1e6,
        "fence": fence,
        "worker": worker,
        "detail": detail,
        "workspace_id": workspace_id,
    }
