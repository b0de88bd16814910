"""How facts become the rows of the ``runs`` read model.

A row is a function of one run's facts up to a position: its document (without the payload), the columns by which runs
are filtered and sorted, and the position of its last fact. It does not depend on when or in which batches the facts
came, so a model that followed for a year and one that was rebuilt today hold the same bytes.

The fold keeps the states of runs that are under way, at most ``capacity`` of them; a run that has settled leaves at
once. On a miss the run's streams are read from the journal, only up to the fact that is being folded, never further.
Instants in columns are whole microseconds since 1970 (UTC); ``NEVER`` stands for none, and sorts last.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from domain import lease as leases
from domain import run as runs
from domain.lease import VACANT, Lease
from domain.run import ABSENT, Absent, Run, Settled, run_stream
from domain.standing import lease_stream
from domain.values import EPOCH
from journal.mapper import Recorded
from projections.document import document
from projections.stored.database import Listed, Table, named

NAME = "runs"
VERSION = 1
"""Raised whenever a row would come out otherwise than before; a model of another version is rebuilt at the start."""

CAPACITY = 10_000
"""States of open runs that are kept; about 3 kB each."""

NEVER = 2**62
"""Stands for no instant in a column."""

_COLUMNS = (
    "run_id", "tenant", "state", "queue", "name", "leader_id", "owner", "priority", "submitted_at", "due_at",
    "settled_at", "fence", "search", "position", "document",
)  # fmt: skip

TABLES = (
    Table(
        "runs",
        "(run_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, queue TEXT NOT NULL, name TEXT NOT NULL, "
        "leader_id TEXT, owner TEXT, priority INTEGER NOT NULL, submitted_at INTEGER NOT NULL, "
        "due_at INTEGER NOT NULL, settled_at INTEGER NOT NULL, fence INTEGER NOT NULL, search TEXT NOT NULL, "
        "position INTEGER NOT NULL, document BLOB NOT NULL)",
        {
            "runs_submitted": "(tenant, submitted_at, run_id)",
            "runs_state": "(tenant, state, submitted_at, run_id)",
            "runs_queue": "(tenant, queue, submitted_at, run_id)",
            "runs_leader": "(tenant, leader_id, submitted_at, run_id) WHERE leader_id IS NOT NULL",
            "runs_owner": "(tenant, owner, submitted_at, run_id) WHERE owner IS NOT NULL",
        },
    ),
    Table("runs_tags", "(tenant TEXT, tag TEXT, run_id TEXT, PRIMARY KEY (tenant, tag, run_id)) WITHOUT ROWID", {}),
    Table("runs_payloads", "(run_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, payload BLOB NOT NULL)", {}),
)

LISTED = (
    Listed(
        "runs",
        (*_COLUMNS, "payload"),
        "SELECT r.run_id, r.tenant, r.state, r.queue, r.name, r.leader_id, r.owner, r.priority, r.submitted_at, "
        "r.due_at, r.settled_at, r.fence, r.search, r.position, r.document, p.payload "
        "FROM runs r LEFT JOIN runs_payloads p USING (run_id) ORDER BY r.run_id",
    ),
    Listed("runs_tags", ("tenant", "tag", "run_id"), "SELECT tenant, tag, run_id FROM runs_tags ORDER BY 1, 2, 3"),
)
"""Everything that the model knows, row by row, runs in the order of their ids: what its digest is taken over."""

_UPSERT = (
    "INSERT INTO runs~ VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE SET "
    "state = excluded.state, owner = excluded.owner, due_at = excluded.due_at, settled_at = excluded.settled_at, "
    "fence = excluded.fence, position = excluded.position, document = excluded.document"
)
_TOUCH = "UPDATE runs~ SET position = ? WHERE run_id = ?"
_TAG = "INSERT OR IGNORE INTO runs_tags~ VALUES (?, ?, ?)"
_PAYLOAD = "INSERT OR IGNORE INTO runs_payloads~ VALUES (?, ?, ?)"


class Row(NamedTuple):
    """One run as the model keeps it; what never changes is written with its first row only."""

    columns: tuple[object, ...]
    first: bool
    tenant: str
    run_id: str
    tags: dict[str, str]
    payload: bytes | None


class Touch(NamedTuple):
    """A run of which nothing changed but the position of its last fact."""

    position: int
    run_id: str


Change = Row | Touch


class Entry:
    """A run under way: its folded streams, and whether its first row is still to be written."""

    __slots__ = ("first", "lease", "run")

    def __init__(self, run: Run | Absent, lease: Lease, *, first: bool) -> None:
        self.run = run
        self.lease = lease
        self.first = first


class RunsFold:
    """Folds facts in order; gives the rows that changed when asked."""

    def __init__(self, read: Callable[[str], Iterable[Recorded]], capacity: int = CAPACITY) -> None:
        self._read = read
        self._capacity = capacity
        self._entries: dict[str, Entry] = {}
        self._changed: dict[str, int] = {}
        self._touched: dict[str, int] = {}
        self._settled: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    @staticmethod
    def concerns(stream: str) -> bool:
        """Whether facts of this stream must be decoded to be folded."""
        return stream.startswith(("run-", "lease-"))

    def touch(self, stream: str, position: int) -> None:
        """Take note of a fact that needs no decoding: one of a run's effects."""
        if stream.startswith("effects-"):
            run_id = stream[8:]
            into = self._changed if run_id in self._entries else self._touched
            into[run_id] = position

    def absorb(self, recorded: Recorded) -> None:
        """Fold one more fact."""
        stream = recorded.stream
        if stream.startswith("run-"):
            run_id = stream[4:]
            entry = self._entries.get(run_id) or self._enter(run_id, recorded)
            entry.run = runs.evolve(entry.run, recorded.fact)  # type: ignore[arg-type]
            if isinstance(entry.run, Run) and isinstance(entry.run.phase, Settled):
                self._settled.add(run_id)
        elif stream.startswith("lease-"):
            run_id = stream[6:]
            entry = self._entries.get(run_id) or self._enter(run_id, recorded)
            entry.lease = leases.evolve(entry.lease, recorded.fact)  # type: ignore[arg-type]
        else:
            self.touch(stream, recorded.position)
            return
        self._changed[run_id] = recorded.position

    def _enter(self, run_id: str, recorded: Recorded) -> Entry:
        """The run as it was before this fact."""
        if recorded.version == 1 and recorded.stream == run_stream(run_id):
            entry = Entry(ABSENT, VACANT, first=True)
        else:
            entry = Entry(ABSENT, VACANT, first=False)
            for earlier in self._before(run_stream(run_id), recorded.position):
                entry.run = runs.evolve(entry.run, earlier.fact)  # type: ignore[arg-type]
            for earlier in self._before(lease_stream(run_id), recorded.position):
                entry.lease = leases.evolve(entry.lease, earlier.fact)  # type: ignore[arg-type]
        self._entries[run_id] = entry
        self._touched.pop(run_id, None)
        return entry

    def _before(self, stream: str, position: int) -> Iterable[Recorded]:
        return (earlier for earlier in self._read(stream) if earlier.position < position)

    def changes(self) -> list[Change]:
        """What changed since it was last asked for; settled runs and the longest unused ones are then forgotten."""
        changes = self._rows(list(self._changed))
        for run_id in self._changed:
            entry = self._entries.pop(run_id)
            if run_id not in self._settled:
                self._entries[run_id] = entry  # put back as the most recently used
        self._changed.clear()
        self._settled.clear()
        while len(self._entries) > self._capacity:
            del self._entries[next(iter(self._entries))]
        return changes

    def settled(self) -> list[Change]:
        """The rows of runs that settled since it was last asked for, which are then forgotten; and mere touches.

        A rebuild writes these as it goes, so that only open runs take memory.
        """
        changes = self._rows(list(self._settled))
        for run_id in self._settled:
            del self._entries[run_id]
            del self._changed[run_id]
        self._settled.clear()
        return changes

    def _rows(self, run_ids: list[str]) -> list[Change]:
        changes: list[Change] = [Touch(position, run_id) for run_id, position in self._touched.items()]
        self._touched.clear()
        for run_id in run_ids:
            entry = self._entries[run_id]
            if isinstance(entry.run, Run):
                changes.append(_row(entry.run, entry.lease, self._changed[run_id], first=entry.first))
            entry.first = False
        return changes


_encode = msgspec.json.Encoder().encode


def _row(run: Run, lease: Lease, position: int, *, first: bool) -> Row:
    shown = document(run, lease)
    payload = shown.pop("payload")
    wish = run.submission
    columns = (
        wish.run_id,
        wish.tenant,
        shown["state"],
        wish.queue,
        wish.name or "",
        wish.leader_id,
        shown["owner"],
        wish.priority,
        microseconds(wish.submitted_at),
        microseconds(shown["due_at"]),
        microseconds(shown["settled_at"]),
        lease.fence,
        searched(wish.run_id, wish.name, wish.tags),
        position,
        _encode(shown),
    )
    return Row(columns, first, wish.tenant, wish.run_id, wish.tags, None if payload is None else bytes(payload))


def microseconds(instant: datetime | None) -> int:
    """An instant as a column keeps it; ``NEVER`` for none."""
    if instant is None:
        return NEVER
    since = instant - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def searched(run_id: str, name: str | None, tags: dict[str, str]) -> str:
    """The text that a search looks into: id, name and tags, a line each, in lower case."""
    return "\n".join((run_id, name or "", *(tag_of(key, value) for key, value in sorted(tags.items())))).lower()


def tag_of(key: str, value: str) -> str:
    """A tag as one text: ``key:value``."""
    return f"{key}:{value}"


def write(connection: sqlite3.Connection, changes: Sequence[Change], suffix: str = "") -> None:
    """Write these changes into the model's tables, in the caller's transaction."""
    rows = [change for change in changes if isinstance(change, Row)]
    first = [row for row in rows if row.first]
    connection.executemany(named(_UPSERT, suffix), [row.columns for row in rows])
    touches = [change for change in changes if isinstance(change, Touch)]
    connection.executemany(named(_TOUCH, suffix), touches)
    tags = [(row.tenant, tag_of(*tag), row.run_id) for row in first for tag in row.tags.items()]
    connection.executemany(named(_TAG, suffix), tags)
    payloads = [(row.run_id, row.tenant, row.payload) for row in first if row.payload is not None]
    connection.executemany(named(_PAYLOAD, suffix), payloads)
