"""The work registers' tables in SQLite: written in the append's transaction, read by query.

A chunk is inserted once (its key is unique) and moves its attempt's mark in the same statement list; a partial replaces
the one of its fence and counts it.
"""

from collections.abc import Sequence
from typing import Any

from eventsourcing.sqlite import SQLiteCursor

from domain.values import Json
from journal.datastore import JournalDatastore
from journal.registers import NO_OUTPUT, Chunk, ChunkWrite, OutputMark, PartialRow, Write, after_chunk, running_digest

_INSERT_CHUNK = "INSERT INTO output_chunks VALUES (?, ?, ?, ?, ?)"
_MOVE_MARK = (
    "INSERT INTO output_marks VALUES (?, ?, 1, ?, ?, ?) ON CONFLICT (run_id, fence) DO UPDATE SET "
    "chunks = chunks + 1, bytes = bytes + excluded.bytes, digest = excluded.digest, "
    "last_seq = max(last_seq, excluded.last_seq)"
)
_SAVE_PARTIAL = (
    "INSERT INTO partials VALUES (?, ?, ?, 1) ON CONFLICT (run_id, fence) DO UPDATE SET "
    "body = excluded.body, saved = saved + 1"
)
_MARK = "SELECT chunks, bytes, digest, last_seq FROM output_marks WHERE run_id = ? AND fence = ?"
_ATTEMPTS = (
    "SELECT run_id, fence FROM output_marks WHERE (run_id, fence) > (?, ?) "
    "UNION SELECT run_id, fence FROM output_chunks WHERE (run_id, fence) > (?1, ?2) ORDER BY 1, 2 LIMIT ?3"
)
_ARRIVED = "SELECT run_id, fence, seq, stream, data FROM output_chunks WHERE run_id = ? AND fence = ? ORDER BY rowid"
_CHUNKS = (
    "SELECT fence, seq, stream, data FROM output_chunks WHERE run_id = ? AND (fence, seq) > (?, ?) "
    "ORDER BY fence, seq LIMIT ?"
)

ATTEMPTS_AT_ONCE = 500
"""Attempts that a check of all output reads in one statement."""


def write_registers(c: SQLiteCursor, writes: Sequence[Write]) -> None:
    """Record these, in order, in the transaction of the cursor."""
    for w in writes:
        if isinstance(w, ChunkWrite):
            c.execute(_INSERT_CHUNK, (w.run_id, w.fence, w.seq, w.stream, w.data))
            c.execute(_MOVE_MARK, (w.run_id, w.fence, len(w.data.encode()), w.digest, w.seq))
        else:
            c.execute(_SAVE_PARTIAL, (w.run_id, w.fence, bytes(w.body)))


class RegisterTables:
    """The reading side, for a store with a datastore."""

    datastore: Any

    def _rows(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        datastore: JournalDatastore = self.datastore
        return datastore.read(statement, parameters)

    def output_mark(self, run_id: str, fence: int) -> OutputMark:
        """The mark of an attempt's output; the zero mark if it has none."""
        rows = self._rows(_MARK, (run_id, fence))
        return OutputMark(*rows[0]) if rows else NO_OUTPUT

    def has_chunk(self, run_id: str, fence: int, seq: int) -> bool:
        """Whether this chunk is recorded."""
        return bool(
            self._rows("SELECT 1 FROM output_chunks WHERE run_id = ? AND fence = ? AND seq = ?", (run_id, fence, seq))
        )

    def chunks(self, run_id: str, after: tuple[int, int] | None, limit: int) -> list[Chunk]:
        """Chunks of a run after (fence, seq), in that order."""
        fence, seq = after if after is not None else (-1, -1)
        return [Chunk(*row) for row in self._rows(_CHUNKS, (run_id, fence, seq, limit))]

    def altered_output(self) -> str | None:
        """The first attempt whose output is not what its mark says, in words; None when all are sound."""
        after = ("", -1)
        while attempts := self._rows(_ATTEMPTS, (*after, ATTEMPTS_AT_ONCE)):
            for run_id, fence in attempts:
                if not self._is_sound(run_id, fence):
                    return f"the output of run {run_id} under fence {fence} is not what was acknowledged"
            after = attempts[-1]
        return None

    def _is_sound(self, run_id: str, fence: int) -> bool:
        """Whether an attempt's output is what its mark says: both as of one instant, also while it goes on."""
        datastore: JournalDatastore = self.datastore
        with datastore.snapshot() as connection:
            told = connection.execute(_MARK, (run_id, fence)).fetchone()
            mark = NO_OUTPUT
            for *attempt, seq, stream, data in connection.execute(_ARRIVED, (run_id, fence)):
                if attempt != [run_id, fence]:
                    return False  # SQLite trusts the order of its index, and gives what lies between two that match
                digest = running_digest(mark.digest, seq, stream, data)
                mark = after_chunk(mark, ChunkWrite(run_id, fence, seq, stream, data, digest))
        return mark == (NO_OUTPUT if told is None else OutputMark(*told))

    def saved_partial(self, run_id: str, fence: int) -> PartialRow | None:
        """The partial that was saved under one fence, None when none was."""
        rows = self._rows("SELECT body, saved FROM partials WHERE run_id = ? AND fence = ?", (run_id, fence))
        return PartialRow(run_id, fence, Json(rows[0][0]), rows[0][1]) if rows else None

    def partial(self, run_id: str) -> PartialRow | None:
        """The partial of the latest fence that saved one."""
        rows = self._rows(
            "SELECT fence, body, saved FROM partials WHERE run_id = ? ORDER BY fence DESC LIMIT 1", (run_id,)
        )
        return PartialRow(run_id, rows[0][0], Json(rows[0][1]), rows[0][2]) if rows else None
