"""What a journal holds, in numbers: facts and bytes, by name and by kind of stream; runs; files.

It is read in portions while a service may be recording, and tells of the facts up to the end at its beginning. A run is
open until the one fact that settles it. Bytes are those of the pages in use, whether they are in the file or still in
its log: how long the log is says when it was last taken in, and nothing of what the journal holds.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from domain.run_facts import TERMINAL, RunClosed, RunSettled, RunSubmitted, VerdictRendered
from journal.carried import FOLDER, KEYS_NAME
from journal.mapper import Recorded
from journal.opening import JOURNAL_NAME, READ_MODELS_NAME
from journal.store import SQLiteStore
from journal.targets import logs_of
from journal.topics import prefix_of

REPORT_EVERY = 1_000
ROW_OVERHEAD = 5
"""Bytes of a row beside its values: its header and varints, about."""

_IN_USE = (
    "SELECT (p.page_count - f.freelist_count) * s.page_size "
    "FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s"
)

Report = Callable[[int, int], None]


class Part(msgspec.Struct):
    """Facts under one name or kind, and the bytes of their rows without indexes."""

    facts: int = 0
    bytes: int = 0


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal holds. ``bytes`` are those of its pages in use; ``files`` has every file as it is on the disk."""

    journal_id: str
    epoch: str
    schema: int
    facts: int
    bytes: int
    bytes_per_fact: float
    first_at: datetime | None
    last_at: datetime | None
    streams: int
    open_runs: int
    settled_runs: int
    archived_facts: int
    remembered_answers: int
    topics: dict[str, Part]
    stream_kinds: dict[str, Part]
    files: dict[str, int]


class _Count:
    """Counts facts one by one."""

    def __init__(self) -> None:
        self.topics: dict[str, Part] = {}
        self.kinds: dict[str, Part] = {}
        self.seen: Counter[str] = Counter()
        self.first_at: datetime | None = None
        self.last_at: datetime | None = None

    def add(self, recorded: Recorded, size: int) -> None:
        for parts, name in ((self.topics, recorded.topic), (self.kinds, prefix_of(recorded.stream))):
            part = parts.setdefault(name, Part())
            part.facts += 1
            part.bytes += size
        self.seen["streams"] += recorded.version == 1
        self.first_at = self.first_at or recorded.meta.recorded_at
        self.last_at = recorded.meta.recorded_at
        self.seen["submitted"] += isinstance(recorded.fact, RunSubmitted)
        self.seen["settled"] += _settles(recorded.fact)


def _settles(fact: Any) -> bool:
    """Whether a fact is the one that settles a run; a terminal run never changes, so there is one for each."""
    return isinstance(fact, RunSettled | VerdictRendered) or (isinstance(fact, RunClosed) and fact.state in TERMINAL)


def statistics(store: SQLiteStore, data_dir: Path, report: Report) -> Statistics:
    """The numbers of a journal.

    Raises:
        UnknownTopic, UndecodableFact, UnreadableStorage, ArchiveUnusable: a fact cannot be read.
    """
    read = store.datastore.read
    last = store.load_tail().position
    count = _Count()
    for row in store.rows_after(0, last):
        count.add(store.codec.recorded(row), _size_of(row))
        if row[0] % REPORT_EVERY == 0:
            report(row[0], last)
    report(last, last)
    files = _files(data_dir)
    size = read(_IN_USE)[0][0]
    return Statistics(
        journal_id=store.journal_id,
        epoch=store.epoch,
        schema=int(read("SELECT value FROM meta WHERE key = 'schema_version'")[0][0]),
        facts=last,
        bytes=size,
        bytes_per_fact=round(size / last, 1) if last else 0.0,
        first_at=count.first_at,
        last_at=count.last_at,
        streams=count.seen["streams"],
        open_runs=count.seen["submitted"] - count.seen["settled"],
        settled_runs=count.seen["settled"],
        archived_facts=_archived(store),
        remembered_answers=read("SELECT count(*) FROM commands")[0][0],
        topics=dict(sorted(count.topics.items())),
        stream_kinds=dict(sorted(count.kinds.items())),
        files=files,
    )


def _size_of(row: Any) -> int:
    return ROW_OVERHEAD + sum(len(value) for value in row if isinstance(value, str | bytes))


def _archived(store: SQLiteStore) -> int:
    if not store.archives.names():
        return 0
    return int(store.datastore.read("SELECT sum(facts) FROM archives")[0][0])


def _files(data_dir: Path) -> dict[str, int]:
    """The size of every file of ours in the directory that is there."""
    ours = [
        path
        for name in (JOURNAL_NAME, KEYS_NAME, READ_MODELS_NAME)
        for path in (data_dir / name, *logs_of(data_dir / name))
    ]
    ours += sorted((data_dir / FOLDER).glob("*"))
    return {str(path.relative_to(data_dir)): path.stat().st_size for path in ours if path.is_file()}
