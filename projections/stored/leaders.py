"""The ``leaders`` projection: who has ever wanted runs, whether each is present, and what became of its runs.

Presence is folded from the leader's own stream: how many connections, since when none, and whether that absence was
declared gone. Runs are counted under the leader that wanted them when it happened: a run that is reassigned leaves the
open runs of one and joins those of the other, and is settled under the last. The live list knows only leaders that are
connected or have open runs; here the others keep their rows.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any

from domain.presence import NEVER_SEEN, Presence, PresenceFact, evolve
from domain.run_facts import RunClosed, RunReassigned, RunSettled, RunSubmitted, VerdictRendered
from domain.values import Fact, Value
from journal.mapper import Recorded
from projections.stored import by_id
from projections.stored.by_id import ById
from projections.stored.cursors import LIMIT_DEFAULT
from projections.stored.database import Listed, Table
from projections.stored.endings import settles_as
from projections.stored.instants import instant_of, microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Sums, Write
from projections.stored.remembered import Remembered

NAME = "leaders"
VERSION = 1
STATES = ("present", "absent", "gone", "never_seen")
COUNTED = ("open_runs", "submitted", "succeeded", "failed", "cancelled", "aborted", "lost")
_STANDING = ("connections", "zero_since", "gone_since", "changed_at", "position")

TABLES = (
    Table(
        "leaders",
        "(tenant TEXT, leader_id TEXT, connections INTEGER, zero_since INTEGER, gone_since INTEGER, "
        "changed_at INTEGER, position INTEGER, "
        f"{', '.join(f'{column} INTEGER NOT NULL DEFAULT 0' for column in COUNTED)}, "
        "PRIMARY KEY (tenant, leader_id)) WITHOUT ROWID",
        {},
    ),
)
_FIELDS = ("tenant", "leader_id", *_STANDING, *COUNTED)
LISTED = (Listed("leaders", _FIELDS, f"SELECT {', '.join(_FIELDS)} FROM leaders ORDER BY tenant, leader_id"),)

_STANDS = (
    f"INSERT INTO leaders~ (tenant, leader_id, {', '.join(_STANDING)}) "
    f"VALUES ({', '.join('?' * (2 + len(_STANDING)))}) "
    f"ON CONFLICT (tenant, leader_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _STANDING)}"
)


class LeadersFold:
    """Follows leaders and the runs that they want."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._presences: Remembered[Presence] = Remembered(known, NEVER_SEEN, evolve)
        self._standings: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._sums = Sums("leaders", ("tenant", "leader_id"), COUNTED)
        self.handlers: Mapping[type[Fact], Handler] = {
            **dict.fromkeys(PresenceFact.__args__, self._stands),
            RunSubmitted: self._submitted,
            RunReassigned: self._reassigned,
            RunClosed: self._settled,
            RunSettled: self._settled,
            VerdictRendered: self._settled,
        }

    def _stands(self, subject: str, recorded: Recorded) -> None:
        presence = self._presences.after(recorded)
        tenant, _, leader_id = subject.partition(":")
        self._standings[tenant, leader_id] = (
            len(presence.connections),
            None if presence.zero_since is None else microseconds(presence.zero_since),
            None if presence.gone_since is None else microseconds(presence.gone_since),
            microseconds(recorded.meta.recorded_at),
            recorded.position,
        )

    def _submitted(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        if fact.leader_id is not None:
            self._sums.add((fact.tenant, fact.leader_id), "submitted")
            self._sums.add((fact.tenant, fact.leader_id), "open_runs")

    def _reassigned(self, run_id: str, recorded: Recorded) -> None:
        card = self._known.card(run_id)
        before = card.leader_at(recorded.position - 1)
        if before is not None:
            self._sums.add((card.tenant, before), "open_runs", -1)
        self._sums.add((card.tenant, recorded.fact.leader_id), "open_runs")  # type: ignore[attr-defined]

    def _settled(self, run_id: str, recorded: Recorded) -> None:
        state = settles_as(recorded.fact)
        if state is None:
            return
        card = self._known.card(run_id)
        leader_id = card.leader_at(recorded.position)
        if leader_id is not None:
            self._sums.add((card.tenant, leader_id), "open_runs", -1)
            self._sums.add((card.tenant, leader_id), state)

    def changes(self) -> Write:
        """What changed since it was last asked for."""
        rows, sums = [(*leader, *standing) for leader, standing in self._standings.items()], self._sums.changes()
        self._standings = {}

        def write(connection: sqlite3.Connection, suffix: str) -> None:
            connection.executemany(_STANDS.replace("~", suffix), rows)
            sums(connection, suffix)

        return write


LEADERS = Projection(NAME, VERSION, TABLES, LISTED, LeadersFold, readable_since=1)
"""Who has ever wanted runs, is it present, and what became of its runs?"""


class Asked(Value, frozen=True, kw_only=True):
    """Which leaders are asked for, by id."""

    state: tuple[str, ...] = ()
    open_only: bool = False
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


_STATE = (
    "CASE WHEN coalesce(connections, 0) > 0 THEN 'present' WHEN gone_since IS NOT NULL AND gone_since = zero_since "
    "THEN 'gone' WHEN zero_since IS NOT NULL THEN 'absent' ELSE 'never_seen' END"
)


def page(connection: sqlite3.Connection, tenant: str, asked: Asked, position: int, epoch: str) -> dict[str, Any]:
    """One page of the tenant's leaders.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    among = [("(open_runs > 0 OR coalesce(connections, 0) > 0)", ())] if asked.open_only else []
    return by_id.page(connection, _BY_ID, asked, among, (tenant, position, epoch))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "leader_id": row["leader_id"],
        "state": row["state"],
        "connections": row["connections"] or 0,
        "zero_since": instant_of(row["zero_since"]),
        "open_runs": row["open_runs"],
        "changed_at": instant_of(row["changed_at"]),
        "counts": {name: row[name] for name in COUNTED[1:]},
    }


_BY_ID = ById("leaders", "leader_id", STATES, {**{name: name for name in _FIELDS}, "state": _STATE}, _shown)
