"""The ``effects`` projection: which effects are there across all runs, and how does each stand?

One row for each key of a run, as the ledger of the run has it. Its state, resolution and outcome are those of the last
fact about it; what was intended (payload digest, fence) is that of the last claim; ``first`` is the position of the
first claim, in which order an effect is shown. The list that operators want is the one of *ambiguous* effects: each is
something that somebody began and nobody knows to have happened.

Several facts about one effect in one batch come to one write. Instants are in microseconds.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from domain.effects import (
    EffectCompleted,
    EffectFailed,
    EffectIntended,
    EffectReconciled,
    EffectsMadeAmbiguous,
    EffectState,
)
from domain.refusal import InvalidCommand
from domain.values import Fact, Value
from journal.mapper import Recorded
from projections.stored.cursors import (
    LIMIT_DEFAULT,
    PAGE_BYTES,
    check_limit,
    read_cursor,
    write_cursor,
)
from projections.stored.database import Listed, Table
from projections.stored.instants import instant_of, microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Write

NAME = "effects"
VERSION = 1
STATES: tuple[str, ...] = EffectState.__args__  # type: ignore[attr-defined]

TABLES = (
    Table(
        "effects",
        "(run_id TEXT, key TEXT, tenant TEXT NOT NULL, queue TEXT NOT NULL, first INTEGER NOT NULL, "
        "payload_digest TEXT NOT NULL, fence INTEGER NOT NULL, intended_at INTEGER NOT NULL, state TEXT NOT NULL, "
        "resolution TEXT, outcome BLOB, changed_at INTEGER NOT NULL, position INTEGER NOT NULL, "
        "PRIMARY KEY (run_id, key)) WITHOUT ROWID",
        {
            "effects_state": "(tenant, state, first, key)",
            "effects_first": "(tenant, first, key)",
        },
    ),
)
_FIELDS = (
    "run_id", "key", "tenant", "queue", "first", "payload_digest", "fence", "intended_at", "state", "resolution",
    "outcome", "changed_at", "position",
)  # fmt: skip
LISTED = (Listed("effects", _FIELDS, f"SELECT {', '.join(_FIELDS)} FROM effects ORDER BY run_id, key"),)

_CLAIMED = (
    "INSERT INTO effects~ VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, key) DO UPDATE SET "
    "payload_digest = excluded.payload_digest, fence = excluded.fence, intended_at = excluded.intended_at, "
    "state = excluded.state, resolution = excluded.resolution, outcome = excluded.outcome, "
    "changed_at = excluded.changed_at, position = excluded.position"
)
_MOVED = (
    "UPDATE effects~ SET state = ?, resolution = ?, outcome = ?, changed_at = ?, position = ? "
    "WHERE run_id = ? AND key = ?"
)

Claim = tuple[str, str, int, str, int, int]
"""Tenant, queue, position, payload digest, fence, instant."""
Standing = tuple[str, str | None, bytes | None, int, int]
"""State, resolution, outcome, instant, position."""


class EffectsFold:
    """Keeps the last word about each effect of a batch."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._claims: dict[tuple[str, str], Claim] = {}
        self._standings: dict[tuple[str, str], Standing] = {}
        self.handlers: Mapping[type[Fact], Handler] = {
            EffectIntended: self._intended,
            EffectCompleted: self._finished,
            EffectFailed: self._finished,
            EffectsMadeAmbiguous: self._ambiguous,
            EffectReconciled: self._reconciled,
        }

    def _intended(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        card, effect = self._known.card(run_id), (run_id, fact.key)
        first = self._claims[effect][2] if effect in self._claims else recorded.position
        self._claims[effect] = (
            card.tenant, card.queue, first, fact.payload_digest, fact.fence, microseconds(fact.intended_at)
        )  # fmt: skip
        self._stand(effect, "intended", recorded)

    def _finished(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        state = "completed" if isinstance(fact, EffectCompleted) else "failed"
        self._stand((run_id, fact.key), state, recorded, outcome=bytes(fact.outcome))

    def _ambiguous(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        for key in fact.keys:
            self._stand((run_id, key), "ambiguous", recorded)

    def _reconciled(self, run_id: str, recorded: Recorded) -> None:
        fact: Any = recorded.fact
        self._stand((run_id, fact.key), "reconciled", recorded, fact.resolution, bytes(fact.outcome))

    def _stand(
        self,
        effect: tuple[str, str],
        state: str,
        recorded: Recorded,
        resolution: str | None = None,
        outcome: bytes | None = None,
    ) -> None:
        at = microseconds(recorded.meta.recorded_at)
        self._standings[effect] = (state, resolution, outcome, at, recorded.position)

    def changes(self) -> Write:
        """What changed since it was last asked for."""
        claims, standings = self._claims, self._standings
        self._claims, self._standings = {}, {}
        claimed = [(*effect, *claim, *standings[effect]) for effect, claim in claims.items()]
        moved = [(*standing, *effect) for effect, standing in standings.items() if effect not in claims]

        def write(connection: sqlite3.Connection, suffix: str) -> None:
            connection.executemany(_CLAIMED.replace("~", suffix), claimed)
            connection.executemany(_MOVED.replace("~", suffix), moved)

        return write


EFFECTS = Projection(NAME, VERSION, TABLES, LISTED, EffectsFold, readable_since=1)
"""Which effects are there, and how does each stand?"""


class Asked(Value, frozen=True, kw_only=True):
    """Which effects are asked for, the oldest first; ``leaders`` and ``owners`` bound what the caller may see."""

    state: tuple[str, ...] = ()
    queue: str | None = None
    run_id: str | None = None
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None
    leaders: tuple[str, ...] | None = None
    owners: tuple[str, ...] | None = None


def page(connection: sqlite3.Connection, tenant: str, asked: Asked, position: int, epoch: str) -> dict[str, Any]:
    """One page of the tenant's effects, in the order in which they were first claimed.

    Raises:
        InvalidCommand: a bound is broken, or the cursor is not one of this very list.
    """
    check_limit(asked.limit)
    unknown = next((state for state in asked.state if state not in STATES), None)
    if unknown is not None:
        raise InvalidCommand(field="state", value=unknown[:64], limit=f"one of {', '.join(STATES)}")
    scope = ("effects", tenant, epoch, msgspec.structs.replace(asked, limit=LIMIT_DEFAULT, cursor=None))
    conditions = list(_conditions(tenant, asked))
    if asked.cursor is not None:
        conditions.append(("(e.first, e.key) > (?, ?)", read_cursor(scope, asked.cursor, tuple[int, str])))
    where = " AND ".join(condition for condition, _ in conditions)
    name = "(SELECT name FROM runs r WHERE r.run_id = e.run_id)"
    statement = f"SELECT e.*, {name} FROM effects e WHERE {where} ORDER BY e.first, e.key LIMIT ?"
    values = [value for _, given in conditions for value in given]
    items: list[dict[str, Any]] = []
    size, more, last = 0, False, (0, "")
    for row in connection.execute(statement, (*values, asked.limit + 1)):
        if len(items) == asked.limit or size >= PAGE_BYTES:
            more = True
            break
        items.append(_shown(row))
        size, last = size + len(row[10] or b""), (row[4], row[1])
    return {"items": items, "next_cursor": write_cursor(scope, last) if more else None, "position": position}


def _conditions(tenant: str, asked: Asked) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "e.tenant = ?", (tenant,)
    if len(asked.state) == 1:
        yield "e.state = ?", asked.state
    elif asked.state:
        yield "e.state IN (SELECT value FROM json_each(?))", (_json(asked.state),)
    if asked.queue is not None:
        yield "e.queue = ?", (asked.queue,)
    if asked.run_id is not None:
        yield "e.run_id = ?", (asked.run_id,)
    for column, bound in (("leader_id", asked.leaders), ("owner", asked.owners)):
        if bound is not None:
            inner = f"SELECT run_id FROM runs WHERE tenant = ? AND {column} IN (SELECT value FROM json_each(?))"
            yield f"e.run_id IN ({inner})", (tenant, _json(bound))


def _json(values: tuple[str, ...]) -> str:
    return msgspec.json.encode(values).decode()


def _shown(row: tuple[Any, ...]) -> dict[str, Any]:
    run_id, key, _, queue, _, digest, fence, intended_at, state, resolution, outcome, changed_at, position, name = row
    return {
        "run_id": run_id,
        "name": name or None,
        "key": key,
        "queue": queue,
        "state": state,
        "resolution": resolution,
        "outcome": None if outcome is None else msgspec.Raw(outcome),
        "payload_digest": digest,
        "fence": fence,
        "intended_at": instant_of(intended_at),
        "changed_at": instant_of(changed_at),
        "position": position,
    }
