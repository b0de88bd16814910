"""How facts become the rows of the ``runs`` read model.

A row is a function of one run's facts up to a position: its document (without the payload), the columns by which runs
are filtered and sorted, and the position of its last fact. It does not depend on when or in which batches the facts
came, so a model that followed for a year and one that was rebuilt today hold the same bytes.

The fold keeps the states of runs that are under way, at most ``STATES`` of them; a run that has settled leaves at
once. On a miss the run's streams are read from the journal, only up to the fact that is being folded, never further.
Instants in columns are whole microseconds since 1970 (UTC); ``NEVER`` stands for none, and sorts last.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from domain import lease as leases
from domain import run as runs
from domain.effects import EffectFact
from domain.lease import VACANT, Lease, LeaseFact
from domain.run import ABSENT, Absent, Run, Settled, run_stream
from domain.run_facts import RunFact
from domain.standing import lease_stream
from domain.values import Fact
from journal.mapper import Recorded
from projections.document import document
from projections.stored.database import Listed, Table, insert, named
from projections.stored.instants import microseconds
from projections.stored.known import Known
from projections.stored.projection import Handler, Projection, Write

NAME = "runs"
VERSION = 3
"""Raised whenever a row would come out otherwise than before; a model of another version is rebuilt at the start."""

_COLUMNS = (
    "run_id", "tenant", "state", "queue", "name", "leader_id", "owner", "priority", "submitted_at", "due_at",
    "settled_at", "fence", "search", "since", "position", "document",
)  # fmt: skip

TABLES = (
    Table(
        "runs",
        "(run_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, queue TEXT NOT NULL, name TEXT NOT NULL, "
        "leader_id TEXT, owner TEXT, priority INTEGER NOT NULL, submitted_at INTEGER NOT NULL, "
        "due_at INTEGER NOT NULL, settled_at INTEGER NOT NULL, fence INTEGER NOT NULL, search TEXT NOT NULL, "
        "since INTEGER NOT NULL, position INTEGER NOT NULL, document BLOB NOT NULL)",
        {
            "runs_submitted": "(tenant, submitted_at, run_id)",
            "runs_since": "(tenant, since, position)",
            "runs_state": "(tenant, state, submitted_at, run_id)",
            "runs_queue": "(tenant, queue, submitted_at, run_id)",
            "runs_leader": "(tenant, leader_id, submitted_at, run_id) WHERE leader_id IS NOT NULL",
            "runs_owner": "(tenant, owner, submitted_at, run_id) WHERE owner IS NOT NULL",
        },
    ),
    Table("runs_tags", "(tenant TEXT, tag TEXT, run_id TEXT, PRIMARY KEY (tenant, tag, run_id)) WITHOUT ROWID", {}),
    Table("runs_payloads", "(run_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, payload BLOB NOT NULL) WITHOUT ROWID", {}),
)

LISTED = (
    Listed(
        "runs",
        (*_COLUMNS, "payload"),
        "SELECT r.run_id, r.tenant, r.state, r.queue, r.name, r.leader_id, r.owner, r.priority, r.submitted_at, "
        "r.due_at, r.settled_at, r.fence, r.search, r.since, r.position, r.document, p.payload "
        "FROM runs r LEFT JOIN runs_payloads p USING (run_id) ORDER BY r.run_id",
    ),
    Listed("runs_tags", ("tenant", "tag", "run_id"), "SELECT tenant, tag, run_id FROM runs_tags ORDER BY 1, 2, 3"),
)
"""Everything that the model knows, row by row, runs in the order of their ids: what its digest is taken over."""

_INSERT = "INSERT OR REPLACE INTO runs~ VALUES "
_UPDATE = (
    "UPDATE runs~ SET state = ?, leader_id = ?, owner = ?, due_at = ?, settled_at = ?, fence = ?, position = ?, "
    "document = ? WHERE run_id = ?"
)
_TOUCH = "UPDATE runs~ SET position = max(position, ?) WHERE run_id = ?"
_TAG = "INSERT OR IGNORE INTO runs_tags~ VALUES "
_PAYLOAD = "INSERT OR IGNORE INTO runs_payloads~ VALUES "


class Born(NamedTuple):
    """The first row of a run, with what never changes.

    ``search`` is what a search looks into: id, name and tags (``key:value``), a line each, in lower case.
    """

    columns: tuple[object, ...]
    tags: list[tuple[str, str, str]]
    payload: tuple[str, str, bytes] | None


class Changed(NamedTuple):
    """What may change of a run that has a row."""

    columns: tuple[object, ...]


class Touch(NamedTuple):
    """A run of which nothing changed but the position of its last fact."""

    position: int
    run_id: str


Change = Born | Changed | Touch


class Entry:
    """A run under way: its folded streams, and while its first row is to be written, where it began; else 0."""

    __slots__ = ("first", "lease", "run")

    def __init__(self, run: Run | Absent, lease: Lease, *, first: int) -> None:
        self.run = run
        self.lease = lease
        self.first = first


class RunsFold:
    """Folds facts in order; gives the rows that changed when asked."""

    def __init__(self, known: Known) -> None:
        self._read = known.read
        self._capacity = known.states
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._changed: dict[str, int] = {}
        self._touched: dict[str, int] = {}
        self._settled: set[str] = set()
        self.handlers: Mapping[type[Fact], Handler] = {
            **dict.fromkeys(RunFact.__args__, self.on_run),
            **dict.fromkeys(LeaseFact.__args__, self.on_lease),
            **dict.fromkeys(EffectFact.__args__, self.on_effects),
        }

    def __len__(self) -> int:
        return len(self._entries)

    def on_run(self, run_id: str, recorded: Recorded) -> None:
        """Fold a fact of a run."""
        position = recorded.position
        entry = self._entries.get(run_id)
        if entry is None:
            entry = self._enter(run_id, position, new=recorded.version == 1)
        run = entry.run = runs.evolve(entry.run, recorded.fact)  # type: ignore[arg-type]
        self._changed[run_id] = position
        if run.__class__ is Run and run.phase.__class__ is Settled:
            self._settled.add(run_id)

    def on_lease(self, run_id: str, recorded: Recorded) -> None:
        """Fold a fact of a run's lease."""
        position = recorded.position
        entry = self._entries.get(run_id)
        if entry is None:
            entry = self._enter(run_id, position, new=False)
        entry.lease = leases.evolve(entry.lease, recorded.fact)  # type: ignore[arg-type]
        self._changed[run_id] = position

    def on_effects(self, run_id: str, recorded: Recorded) -> None:
        """Take note of a fact of a run's effects; nothing but the position of the run's last fact follows from it."""
        into = self._changed if run_id in self._entries else self._touched
        into[run_id] = recorded.position

    def _enter(self, run_id: str, position: int, *, new: bool) -> Entry:
        """The run as it was before the fact at this position."""
        entry = Entry(ABSENT, VACANT, first=position if new else 0)
        if not new:
            for earlier in self._before(run_stream(run_id), position):
                entry.run = runs.evolve(entry.run, earlier.fact)  # type: ignore[arg-type]
            for earlier in self._before(lease_stream(run_id), position):
                entry.lease = leases.evolve(entry.lease, earlier.fact)  # type: ignore[arg-type]
        self._entries[run_id] = entry
        self._touched.pop(run_id, None)
        return entry

    def _before(self, stream: str, position: int) -> Iterable[Recorded]:
        return (earlier for earlier in self._read(stream) if earlier.position < position)

    def changes(self) -> Write:
        """What changed since it was last asked for; settled runs and the longest unused ones are then forgotten."""
        changes = self._rows()
        for run_id in self._changed:
            if run_id in self._settled:
                del self._entries[run_id]
            else:
                self._entries.move_to_end(run_id)
        self._changed.clear()
        self._settled.clear()
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
        return lambda connection, suffix: write(connection, changes, suffix)

    def _rows(self) -> list[Change]:
        changes: list[Change] = [Touch(position, run_id) for run_id, position in self._touched.items()]
        self._touched.clear()
        for run_id, position in self._changed.items():
            entry = self._entries[run_id]
            if isinstance(entry.run, Run):
                if entry.first:
                    changes.append(_born(entry.run, entry.lease, entry.first, position))
                else:
                    changes.append(_changed(entry.run, entry.lease, position))
            entry.first = 0
        return changes


_encode = msgspec.json.Encoder().encode


def _born(run: Run, lease: Lease, since: int, position: int) -> Born:
    shown, wish = document(run, lease), run.submission
    run_id, tenant, payload = wish.run_id, wish.tenant, shown.pop("payload")
    tags = [f"{key}:{value}" for key, value in wish.tags.items()]
    columns = (
        run_id,
        tenant,
        shown["state"],
        wish.queue,
        wish.name or "",
        run.leader_id,
        shown["owner"],
        wish.priority,
        microseconds(wish.submitted_at),
        microseconds(shown["due_at"]),
        microseconds(shown["settled_at"]),
        lease.fence,
        "\n".join((run_id, wish.name or "", *tags)).lower(),
        since,
        position,
        _encode(shown),
    )
    kept = None if payload is None else (run_id, tenant, bytes(payload))
    return Born(columns, [(tenant, tag, run_id) for tag in tags], kept)


def _changed(run: Run, lease: Lease, position: int) -> Changed:
    shown = document(run, lease)
    del shown["payload"]
    return Changed(
        (
            shown["state"],
            run.leader_id,
            shown["owner"],
            microseconds(shown["due_at"]),
            microseconds(shown["settled_at"]),
            lease.fence,
            position,
            _encode(shown),
            shown["run_id"],
        )
    )


def write(connection: sqlite3.Connection, changes: Sequence[Change], suffix: str = "") -> None:
    """Write these changes into the model's tables, in the caller's transaction."""
    born = [change for change in changes if isinstance(change, Born)]
    insert(connection, named(_INSERT, suffix), [row.columns for row in born])
    insert(connection, named(_TAG, suffix), [tag for row in born for tag in row.tags])
    insert(connection, named(_PAYLOAD, suffix), [row.payload for row in born if row.payload is not None])
    changed = [change.columns for change in changes if isinstance(change, Changed)]
    connection.executemany(named(_UPDATE, suffix), changed)
    connection.executemany(named(_TOUCH, suffix), [change for change in changes if isinstance(change, Touch)])


RUNS = Projection(NAME, VERSION, TABLES, LISTED, RunsFold, readable_since=1, asks=False)
"""Which runs are there, and how does each stand?"""
