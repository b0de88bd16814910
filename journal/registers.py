"""Work registers: output chunks and the last partial of an attempt. Durable, fenced, and not facts.

They are bulky and belong to one attempt, so they live in tables beside the facts, keyed by (run, fence, seq), and are
written by the same writer in the same transaction as facts. The fact that ends an attempt carries their counts and the
digest, so the journal vouches for every acknowledged byte.

The digest of an attempt's output is a running SHA-256 in ARRIVAL order: over the digest before, seq, stream and data.
An attempt without output has the zero mark. Of partials only the latest body of a fence is kept, with how often one was
saved. ``bytes`` counts UTF-8 bytes.

``Registers`` caches marks and partials of recent runs (negative answers too). The cache changes only after an append is
durable, and an append that failed evicts the runs that it wrote.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from domain.values import Json

CACHED_RUNS = 50_000
"""Runs whose marks and partials are remembered; beyond it the longest unused are read again."""


class ChunkWrite(msgspec.Struct, frozen=True):
    """One piece of output; ``digest`` is the running digest after it."""

    run_id: str
    fence: int
    seq: int
    stream: str
    data: str
    digest: str


class PartialWrite(msgspec.Struct, frozen=True):
    """A partial saved under a fence; it replaces the one saved under the same fence before."""

    run_id: str
    fence: int
    body: Json


Write = ChunkWrite | PartialWrite


class OutputMark(msgspec.Struct, frozen=True):
    """How far an attempt's output has come; ``last_seq`` is the highest sequence number, -1 when there is none."""

    chunks: int = 0
    bytes: int = 0
    digest: str = ""
    last_seq: int = -1


class PartialRow(msgspec.Struct, frozen=True):
    """The latest partial of a run: the fence it was saved under, its body, and how often that fence saved one."""

    run_id: str
    fence: int
    body: Json
    saved: int


class Chunk(msgspec.Struct, frozen=True):
    """One piece of output as it is read back."""

    fence: int
    seq: int
    stream: str
    data: str


NO_OUTPUT = OutputMark()


def running_digest(before: str, seq: int, stream: str, data: str) -> str:
    """The digest of an attempt's output after one more chunk; ``before`` is empty for the first."""
    body = data.encode()
    head = f"{before} {seq} {len(stream)} {stream} {len(body)} ".encode()
    return hashlib.sha256(head + body).hexdigest()


def after_chunk(mark: OutputMark, write: ChunkWrite) -> OutputMark:
    """The mark after a chunk was recorded."""
    return OutputMark(
        mark.chunks + 1, mark.bytes + len(write.data.encode()), write.digest, max(mark.last_seq, write.seq)
    )


class RegisterSource(Protocol):
    """What a store answers about registers; each reads what is durable."""

    def output_mark(self, run_id: str, fence: int) -> OutputMark:
        """The mark of an attempt's output; the zero mark if it has none."""

    def has_chunk(self, run_id: str, fence: int, seq: int) -> bool:
        """Whether this chunk is recorded."""

    def chunks(self, run_id: str, after: tuple[int, int] | None, limit: int) -> list[Chunk]:
        """Chunks of a run after (fence, seq), in that order."""

    def partial(self, run_id: str) -> PartialRow | None:
        """The partial of the latest fence that saved one."""


class Registers:
    """Registers as of the last durable append, with a bounded cache."""

    def __init__(self, source: RegisterSource, cached_runs: int = CACHED_RUNS) -> None:
        self._source = source
        self._limit = cached_runs
        self._marks: OrderedDict[str, dict[int, OutputMark]] = OrderedDict()
        self._partials: OrderedDict[str, PartialRow | None] = OrderedDict()
        self._silent: OrderedDict[str, None] = OrderedDict()

    def output_mark(self, run_id: str, fence: int) -> OutputMark:
        """The mark of an attempt's output; the zero mark if it has none."""
        if run_id in self._silent:
            return NO_OUTPUT
        marks = self._marks.get(run_id)
        if marks is not None and fence in marks:
            return marks[fence]
        mark = self._source.output_mark(run_id, fence)
        _remember(self._marks, run_id, {**(marks or {}), fence: mark}, self._limit)
        return mark

    def seen(self, run_id: str, fence: int, seq: int) -> bool:
        """Whether this chunk is already recorded."""
        return seq <= self.output_mark(run_id, fence).last_seq and self._source.has_chunk(run_id, fence, seq)

    def chunks(self, run_id: str, after: tuple[int, int] | None, limit: int) -> list[Chunk]:
        """At most ``limit`` chunks of a run after (fence, seq), in that order."""
        return self._source.chunks(run_id, after, limit)

    def partial(self, run_id: str) -> PartialRow | None:
        """The partial of the latest fence that saved one, None when none did."""
        if run_id in self._partials:
            return self._partials[run_id]
        row = self._source.partial(run_id)
        _remember(self._partials, run_id, row, self._limit)
        return row

    def fresh(self, run_id: str) -> None:
        """Note that a run is new, so that its first look-ups need not ask storage."""
        _remember(self._partials, run_id, None, self._limit)
        _remember(self._silent, run_id, None, self._limit)

    def forget(self, run_id: str) -> None:
        """Drop what is cached about a run."""
        self._partials.pop(run_id, None)
        self._marks.pop(run_id, None)
        self._silent.pop(run_id, None)

    def apply(self, writes: Iterable[Write]) -> None:
        """Take over what has become durable."""
        for write in writes:
            if isinstance(write, ChunkWrite):
                self._apply_chunk(write)
            else:
                self._apply_partial(write)

    def evict(self, writes: Iterable[Write]) -> None:
        """Forget what an append of unknown outcome may have changed."""
        for write in writes:
            self.forget(write.run_id)

    def _apply_chunk(self, write: ChunkWrite) -> None:
        self._silent.pop(write.run_id, None)
        marks = self._marks.get(write.run_id)
        if marks is not None and write.fence in marks:
            marks[write.fence] = after_chunk(marks[write.fence], write)

    def _apply_partial(self, write: PartialWrite) -> None:
        if write.run_id not in self._partials:
            return
        before = self._partials[write.run_id]
        if before is not None and before.fence > write.fence:
            return
        saved = before.saved + 1 if before is not None and before.fence == write.fence else 1
        self._partials[write.run_id] = PartialRow(write.run_id, write.fence, write.body, saved)


def _remember(cache: OrderedDict[Any, Any], key: Any, value: Any, limit: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > limit:
        cache.popitem(last=False)


class RegisterMaps:
    """Registers in memory, for the memory store."""

    def __init__(self) -> None:
        self._chunks: dict[str, dict[tuple[int, int], Chunk]] = {}
        self._marks: dict[tuple[str, int], OutputMark] = {}
        self._partials: dict[str, dict[int, PartialRow]] = {}

    def conflict(self, writes: Sequence[Write]) -> bool:
        """Whether a chunk among these is already recorded, or is there twice."""
        chunks = [(w.run_id, w.fence, w.seq) for w in writes if isinstance(w, ChunkWrite)]
        return len(set(chunks)) < len(chunks) or any(self.has_chunk(*key) for key in chunks)

    def write(self, writes: Sequence[Write]) -> None:
        """Record these."""
        for w in writes:
            if isinstance(w, ChunkWrite):
                chunk = Chunk(w.fence, w.seq, w.stream, w.data)
                self._chunks.setdefault(w.run_id, {})[w.fence, w.seq] = chunk
                key = (w.run_id, w.fence)
                self._marks[key] = after_chunk(self._marks.get(key, NO_OUTPUT), w)
            else:
                rows = self._partials.setdefault(w.run_id, {})
                before = rows.get(w.fence)
                rows[w.fence] = PartialRow(w.run_id, w.fence, w.body, 1 if before is None else before.saved + 1)

    def output_mark(self, run_id: str, fence: int) -> OutputMark:
        """The mark of an attempt's output."""
        return self._marks.get((run_id, fence), NO_OUTPUT)

    def has_chunk(self, run_id: str, fence: int, seq: int) -> bool:
        """Whether this chunk is recorded."""
        return (fence, seq) in self._chunks.get(run_id, {})

    def chunks(self, run_id: str, after: tuple[int, int] | None, limit: int) -> list[Chunk]:
        """Chunks of a run after (fence, seq), in that order."""
        found = self._chunks.get(run_id, {})
        return [found[key] for key in sorted(found) if after is None or key > after][:limit]

    def partial(self, run_id: str) -> PartialRow | None:
        """The partial of the latest fence that saved one."""
        rows = self._partials.get(run_id)
        return rows[max(rows)] if rows else None
