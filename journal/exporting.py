"""Writing a journal as JSON Lines of CloudEvents, or its facts as Parquet; also while a service records.

The first line says which journal it is and which positions follow, the last one how many lines there were and the
SHA-256 of all bytes before it, so that a file that was cut off or altered is told from one that is whole. Between them
are the facts in order (``journal.cloud``) and, when the whole journal is written, the work registers and the
remembered answers, so that nothing is lost on the way into another data directory. Everything is read in portions.

All of it ends where the journal ended when the export began, the registers too: output of an attempt whose grant is not
exported would belong, in another data directory, to whichever attempt is granted the same fence there.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from journal.chain import Tail, genesis
from journal.cloud import SOURCE, cloud_fact_of
from journal.store import SQLiteStore
from journal.tool_errors import ParquetMissing, PositionBeyond

HEADER, END = "jackline.export.v1", "jackline.end.v1"
OUTPUT, PARTIAL, ANSWER = "jackline.output.v1", "jackline.partial.v1", "jackline.answer.v1"
PAGE = 200
"""Registers and answers read in one statement."""

ROW_GROUP = 10_000
"""Facts in one row group of Parquet."""

REPORT_EVERY = 500

Report = Callable[[int, int], None]

_ENDS = "SELECT position, (SELECT max(rowid) FROM output_chunks), (SELECT max(rowid) FROM partials) FROM tail"
_CHUNKS = (
    "SELECT rowid, run_id, fence, seq, stream, data FROM output_chunks WHERE rowid > ? AND rowid <= ? "
    "ORDER BY rowid LIMIT ?"
)
_PARTIALS = (
    "SELECT rowid, run_id, fence, saved, body FROM partials WHERE rowid > ? AND rowid <= ? ORDER BY rowid LIMIT ?"
)
_ANSWERS = (
    "SELECT command_id, request_digest, first, last, answer FROM commands WHERE command_id > ? AND last <= ? "
    "ORDER BY command_id LIMIT ?"
)

_encode = msgspec.json.Encoder().encode


class Range(msgspec.Struct, frozen=True):
    """The facts to write: after a position, up to another (the end, when there is none)."""

    after: int = 0
    upto: int | None = None


class Ends(msgspec.Struct, frozen=True):
    """Where the journal ended at one instant: its last position, and the last row of each register."""

    position: int
    chunk: int
    partial: int


class Header(msgspec.Struct, frozen=True):
    """What the first line says."""

    journal_id: str
    epoch: str
    after: int
    upto: int
    before: str
    whole: bool


class Ending(msgspec.Struct, frozen=True):
    """What the last line says: how many of each there were, and the SHA-256 of every byte before this line."""

    facts: int
    registers: int
    answers: int
    sha256: str


def ends(store: SQLiteStore) -> Ends:
    """Where the journal ends, as of one instant: what is recorded together is before it or after it."""
    store.datastore.require_in_place()
    position, chunk, partial = store.datastore.read(_ENDS)[0]
    return Ends(position, chunk or 0, partial or 0)


def bounded(last: int, wanted: Range) -> tuple[int, int]:
    """The range in positions of a journal that ends at ``last``.

    Raises:
        PositionBeyond: it is not within the journal.
    """
    upto = last if wanted.upto is None else wanted.upto
    for position in (wanted.after, upto):
        if position > last:
            raise PositionBeyond(position, last)
    return wanted.after, max(wanted.after, upto)


def export_lines(store: SQLiteStore, wanted: Range, out: BinaryIO, report: Report) -> Ending:
    """Write these facts, and all that is beside them when they are all.

    Raises:
        PositionBeyond: the range is not within the journal.
        UndecodableFact, UnreadableStorage, ArchiveUnusable: a fact cannot be read.
        OSError: the output took no more.
    """
    end = ends(store)
    after, upto = bounded(end.position, wanted)
    whole = after == 0 and wanted.upto is None
    lines = _Lines(store.journal_id, out)
    before = Tail(0, genesis(store.journal_id)) if after == 0 else store.tail_at(after)
    lines.write(HEADER, Header(store.journal_id, store.epoch, after, upto, before.hash.hex(), whole))
    for row in store.rows_after(after, upto):
        lines.put(cloud_fact_of(row, store.codec, store.journal_id))
        lines.facts += 1
        if lines.facts % REPORT_EVERY == 0:
            report(lines.facts, upto - after)
    report(upto - after, upto - after)
    if whole:
        for kind, document in _registers(store, end):
            lines.write(kind, document)
            lines.registers += 1
        for document in _answers(store, upto):
            lines.write(ANSWER, document)
            lines.answers += 1
    return lines.end()


class _Lines:
    """Counts and digests what is written."""

    def __init__(self, journal_id: str, out: BinaryIO) -> None:
        self._source = SOURCE + journal_id
        self._out = out
        self._digest = hashlib.sha256()
        self._number = 0
        self.facts = self.registers = self.answers = 0

    def put(self, content: Any) -> None:
        line = _encode(content) + b"\n"
        self._digest.update(line)
        self._out.write(line)
        self._number += 1

    def write(self, kind: str, data: Any) -> None:
        """A line that is no fact."""
        self.put(
            {
                "specversion": "1.0",
                "id": f"line-{self._number + 1}",
                "source": self._source,
                "type": kind,
                "datacontenttype": "application/json",
                "data": data,
            }
        )

    def end(self) -> Ending:
        """The last line."""
        ending = Ending(self.facts, self.registers, self.answers, self._digest.hexdigest())
        self.write(END, ending)
        return ending


def _registers(store: SQLiteStore, end: Ends) -> Iterator[tuple[str, dict[str, Any]]]:
    names = {OUTPUT: ("run_id", "fence", "seq", "stream", "data"), PARTIAL: ("run_id", "fence", "saved", "body")}
    for kind, last, statement in ((OUTPUT, end.chunk, _CHUNKS), (PARTIAL, end.partial, _PARTIALS)):
        after = 0
        while rows := store.datastore.read(statement, (after, last, PAGE)):
            for row in rows:
                values = [msgspec.Raw(value) if isinstance(value, bytes) else value for value in row[1:]]
                yield kind, dict(zip(names[kind], values, strict=True))
            after = rows[-1][0]


def _answers(store: SQLiteStore, upto: int) -> Iterator[dict[str, Any]]:
    after = ""
    while rows := store.datastore.read(_ANSWERS, (after, upto, PAGE)):
        for command_id, request_digest, first, last, answer in rows:
            yield {
                "command_id": command_id,
                "request_digest": request_digest,
                "first": first,
                "last": last,
                "answer": bytes(answer),
            }
        after = rows[-1][0]


def export_parquet(store: SQLiteStore, wanted: Range, path: Path, report: Report) -> int:
    """How many facts were written as a Parquet table into this file, one row for each.

    Raises:
        ParquetMissing: pyarrow is not installed.
        PositionBeyond, UndecodableFact, UnreadableStorage, ArchiveUnusable, OSError: as for lines.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ParquetMissing from error
    after, upto = bounded(ends(store).position, wanted)
    schema = _parquet_schema(pyarrow, store.journal_id)
    facts = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        group: list[dict[str, Any]] = []
        for row in store.rows_after(after, upto):
            group.append(_parquet_row(store, row))
            if len(group) == ROW_GROUP or row[0] == upto:
                writer.write_table(pyarrow.Table.from_pylist(group, schema))
                facts += len(group)
                report(facts, upto - after)
                group = []
    return facts


def _parquet_schema(pyarrow: Any, journal_id: str) -> Any:
    words = ("fact_id", "causation_id", "correlation_id", "command_id", "principal", "tenant", "traceparent")
    fields = [
        ("position", pyarrow.int64()), ("stream", pyarrow.string()), ("version", pyarrow.int64()),
        ("topic", pyarrow.string()), ("recorded_at", pyarrow.timestamp("us", "UTC")), ("hash", pyarrow.binary(32)),
        *((word, pyarrow.string()) for word in words), ("data", pyarrow.string()),
    ]  # fmt: skip
    return pyarrow.schema(fields, metadata={"jackline.journal_id": journal_id})


def _parquet_row(store: SQLiteStore, row: Any) -> dict[str, Any]:
    position, stream, version, topic, state, _, digest = row
    envelope = store.codec.decode_raw(topic, state, stream, version)
    return {
        "position": position, "stream": stream, "version": version, "topic": topic, "hash": digest,
        **msgspec.structs.asdict(envelope.meta), "data": bytes(envelope.data).decode(),
    }  # fmt: skip
