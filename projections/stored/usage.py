"""The ``usage`` projection: how much was used, by tenant, queue and day.

A day is one of UTC and that of the fact that is counted: an attempt counts on the day on which it began, its seconds
and its end on the day on which it ended, so no row changes for what happened on another day. The seconds of an attempt
are those between the two instants that its facts carry; a late close adds none, for a clock had ended that attempt.

Counts are integers and durations whole microseconds, so a sum does not depend on the order of its parts. A command that
was refused leaves no fact and is not counted here; ``/healthz`` counts refused writes. What facts do say of wasted work
is here: attempts lost, closes that came late, reservations that lapsed, effects left ambiguous, workspaces lost.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

import msgspec

from domain.effects import EffectIntended, EffectsMadeAmbiguous
from domain.lease import ReservationLapsed
from domain.refusal import InvalidCommand
from domain.run_facts import AttemptEnded, AttemptStarted, RunClosed, RunSettled, RunSubmitted, VerdictRendered
from domain.values import Fact, Value
from domain.workspace_facts import WorkspaceLost, WorkspacePlaced
from journal.mapper import Recorded
from projections.stored.cursors import LIMIT_DEFAULT, check_limit, read_cursor, write_cursor
from projections.stored.database import Listed, Table
from projections.stored.endings import end_of, settles_as
from projections.stored.instants import microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Sums, Write
from projections.stored.remembered import Remembered, placed_for

NAME = "usage"
VERSION = 2
COUNTED = (
    "submitted", "attempts", "busy_us", "closed_succeeded", "closed_failed", "given_back", "lost", "revoked",
    "late_closes", "settled_succeeded", "settled_failed", "settled_cancelled", "settled_aborted", "settled_lost",
    "reservations_lapsed", "effects", "effects_ambiguous", "workspaces", "workspaces_lost",
)  # fmt: skip
"""What is counted; ``busy_us`` is the time of attempts in microseconds."""

TABLES = (
    Table(
        "usage",
        f"(tenant TEXT, day TEXT, queue TEXT, {', '.join(f'{column} INTEGER NOT NULL' for column in COUNTED)}, "
        "PRIMARY KEY (tenant, day, queue)) WITHOUT ROWID",
        {"usage_queue": "(tenant, queue, day)"},
    ),
)
_FIELDS = ("tenant", "day", "queue", *COUNTED)
LISTED = (Listed("usage", _FIELDS, f"SELECT {', '.join(_FIELDS)} FROM usage ORDER BY tenant, day, queue"),)


_BUSY = COUNTED.index("busy_us")
_CLOSED = {None: COUNTED.index("late_closes")} | {
    end: COUNTED.index(f"closed_{end}") for end in ("succeeded", "failed")
}
"""By how the attempt ended: where its close is counted."""
_SETTLED = {
    state: COUNTED.index(f"settled_{state}") for state in ("succeeded", "failed", "cancelled", "aborted", "lost")
}
"""By state: where a run that ends in it is counted."""


class UsageFold:
    """Counts facts."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._sums = Sums("usage", ("tenant", "day", "queue"), COUNTED)
        self._rows, self._place = self._sums.rows, self._sums.place
        self._cards = known.cards
        self._runs = Remembered(known, "", placed_for)
        self._days: tuple[date, str] = (date.min, "")
        self.handlers: Mapping[type[Fact], Handler] = {
            RunSubmitted: self._counter("submitted"),
            AttemptStarted: self._counter("attempts"),
            ReservationLapsed: self._counter("reservations_lapsed"),
            EffectIntended: self._counter("effects"),
            EffectsMadeAmbiguous: self._ambiguous,
            AttemptEnded: self._ended,
            RunClosed: self._closed,
            RunSettled: self._settled,
            VerdictRendered: self._settled,
            WorkspacePlaced: self._ground("workspaces"),
            WorkspaceLost: self._ground("workspaces_lost"),
        }

    def _row(self, run_id: str, recorded: Recorded) -> list[int]:
        """The sums that a fact adds to, in the order of ``COUNTED``."""
        card = self._cards.get(run_id) or self._known.card(run_id)
        day, name = self._days
        on = recorded.meta.recorded_at.date()
        if on != day:
            name = on.isoformat()
            self._days = (on, name)
        return self._rows[card.tenant, name, card.queue]

    def _counter(self, column: str) -> Handler:
        row, place = self._row, self._place[column]

        def count(run_id: str, recorded: Recorded) -> None:
            row(run_id, recorded)[place] += 1

        return count

    def _ground(self, column: str) -> Handler:
        """Counts a fact about a workspace with those of the run that it was placed for."""
        place = self._place[column]

        def count(workspace_id: str, recorded: Recorded) -> None:
            self._row(self._runs.after(recorded), recorded)[place] += 1

        return count

    def _ambiguous(self, run_id: str, recorded: Recorded) -> None:
        count = len(recorded.fact.keys)  # type: ignore[attr-defined]
        self._row(run_id, recorded)[self._place["effects_ambiguous"]] += count

    def _ended(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        busy, ended = self._busy(run_id, fact, fact.ended_at), self._place[str(end_of(fact))]
        row = self._row(run_id, recorded)
        row[_BUSY] += busy
        row[ended] += 1

    def _closed(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        end, state = end_of(fact), settles_as(fact)
        busy = 0 if end is None else self._busy(run_id, fact, fact.closed_at)
        ended, settled = _CLOSED[end], None if state is None else _SETTLED[state]
        row = self._row(run_id, recorded)
        row[_BUSY] += busy
        row[ended] += 1
        if settled is not None:
            row[settled] += 1

    def _busy(self, run_id: str, fact: Any, ended_at: datetime) -> int:
        """How long the attempt lasted that ends with a fact, in microseconds."""
        start = self._known.start(run_id, fact.fence)
        return 0 if start is None else max(0, microseconds(ended_at) - start.at)

    def _settled(self, run_id: str, recorded: Recorded) -> None:
        state = settles_as(recorded.fact)
        if state is not None:
            place = _SETTLED[state]
            self._row(run_id, recorded)[place] += 1

    def changes(self) -> Write:
        """What was counted since it was last asked for."""
        return self._sums.changes()


USAGE = Projection(NAME, VERSION, TABLES, LISTED, UsageFold, readable_since=2)
"""How much was used, by tenant, queue and day?"""


class Asked(Value, frozen=True, kw_only=True):
    """Which days of which queue are asked for, the latest first; both days are included."""

    queue: str | None = None
    day_from: date | None = None
    day_to: date | None = None
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


def page(connection: sqlite3.Connection, tenant: str, asked: Asked, position: int, epoch: str) -> dict[str, Any]:
    """One page of the tenant's usage, the latest day first, queues in order of their names within it.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    check_limit(asked.limit)
    if asked.day_from is not None and asked.day_to is not None and asked.day_from > asked.day_to:
        limit = f"not after day_to, {asked.day_to.isoformat()}"
        raise InvalidCommand(field="day_from", value=asked.day_from.isoformat(), limit=limit)
    scope = ("usage", tenant, epoch, msgspec.structs.replace(asked, limit=LIMIT_DEFAULT, cursor=None))
    conditions = list(_conditions(tenant, asked))
    if asked.cursor is not None:
        day, queue = read_cursor(scope, asked.cursor, tuple[str, str])
        conditions.append(("(day < ? OR (day = ? AND queue > ?))", (day, day, queue)))
    where = " AND ".join(condition for condition, _ in conditions)
    statement = f"SELECT day, queue, {', '.join(COUNTED)} FROM usage WHERE {where} ORDER BY day DESC, queue LIMIT ?"
    values = [value for _, given in conditions for value in given]
    rows = connection.execute(statement, (*values, asked.limit + 1)).fetchall()
    more, rows = len(rows) > asked.limit, rows[: asked.limit]
    return {
        "items": [_shown(row) for row in rows],
        "next_cursor": write_cursor(scope, (rows[-1][0], rows[-1][1])) if more else None,
        "position": position,
    }


def _conditions(tenant: str, asked: Asked) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "tenant = ?", (tenant,)
    if asked.queue is not None:
        yield "queue = ?", (asked.queue,)
    if asked.day_from is not None:
        yield "day >= ?", (asked.day_from.isoformat(),)
    if asked.day_to is not None:
        yield "day <= ?", (asked.day_to.isoformat(),)


def _shown(row: tuple[Any, ...]) -> dict[str, Any]:
    shown = dict(zip(("day", "queue", *COUNTED), row, strict=True))
    shown["seconds"] = shown.pop("busy_us") / 1e6
    return shown
