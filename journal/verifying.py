"""Reading and checking a whole journal, also while another process writes it.

First every fact up to the end at the beginning: that its hash follows, that it decodes, that it is filed where it
belongs, and that the registers hold what it says its attempt produced. Then that the indexes lead to every row
(``indexes``), that the versions of each stream follow one another, that each attempt's output is what its mark says,
that every remembered answer belongs to facts that carry its command id, and that the epoch is still the one in which
the journal was opened. The first thing wrong is named, by position where it has one.

Everything is read in portions, so that memory is bounded and no read keeps the log of a running service from being
reset; what is compared with each other is read in one statement or one short transaction.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from domain.values import digest
from journal.chain import Row, Tail, Verdict, genesis, verify_rows
from journal.errors import EpochChanged, JournalError, RegistersAltered, UnreadableStorage
from journal.indexes import INDEXES, astray
from journal.mapper import Codec, Recorded
from journal.reached import cut_off

Reported = Callable[[int, int], None]
"""Told how many facts are checked, and how many there are."""

Found = tuple[int | None, str]
"""Something wrong: at which position, if it has one, and what, in words."""

FACTS = "stored_events"
OUTPUT, PARTIAL = "output", "partial"
_UNREADABLE = (ValueError, TypeError, AttributeError, RecursionError)
"""What is raised by stored values that are not of the kind that was stored."""

REPORT_EVERY = 500
"""Facts between two reports."""

GAP_PORTION = 20_000
"""Facts whose versions are checked in one statement."""

PAGE = 500
"""Attempts or answers read in one statement."""

_ENDS = "SELECT tail.epoch, tail.position, tail.hash, (SELECT max(position) FROM stored_events) FROM tail"
_FIRST_GAP = (
    "SELECT min(position) FROM stored_events AS fact WHERE position > ? AND position <= ? "
    "AND originator_version <> 1 AND NOT EXISTS ("
    "SELECT 1 FROM stored_events WHERE originator_id = fact.originator_id "
    "AND originator_version = fact.originator_version - 1)"
)
_ANSWERS = (
    "SELECT c.command_id, c.first, c.last, f.topic, f.state, f.originator_id FROM "
    "(SELECT * FROM commands WHERE command_id > ? ORDER BY command_id LIMIT ?) AS c "
    "LEFT JOIN stored_events AS f ON f.position = c.first ORDER BY c.command_id"
)


def unreported(done: int, total: int) -> None:
    """Nobody is told."""


class Verifiable(Protocol):
    """What a store answers to a verification."""

    codec: Codec
    epoch: str
    journal_id: str
    datastore: Any
    archives: Any

    def rows_after(self, position: int, upto: int | None = None) -> Iterator[Row]:
        """Every stored row after a position and not beyond ``upto``."""

    def output_mark(self, run_id: str, fence: int) -> Any:
        """The mark of an attempt's output."""

    def saved_partial(self, run_id: str, fence: int) -> Any:
        """The partial that was saved under one fence."""

    def altered_output(self) -> str | None:
        """The first attempt whose output is not what its mark says, in words."""


class Verification:
    """One verification of one store."""

    def __init__(self, store: Verifiable, report: Reported = unreported) -> None:
        self._store = store
        self._report = report
        self._total = 0
        self._done = 0

    def verdict(self) -> Verdict:
        """What was found."""
        store = self._store
        reached = store.datastore.reached.position(store.epoch)
        epoch, tail, last = self._ends()
        self._total = position = tail.position
        rows = store.rows_after(0, last)
        verdict = verify_rows(rows, Tail(0, genesis(store.journal_id)), tail, self._read)
        self._report(self._total, self._total)
        if verdict.ok and position < reached:
            return Verdict(False, verdict.facts, position + 1, cut_off(position, reached))
        try:
            found = self._astray() or self._gap(last)
            first = verdict.first_bad_position
            if found is not None and (verdict.ok or (found[0] is not None and first is not None and found[0] < first)):
                return Verdict(False, verdict.facts, *found)
            if not verdict.ok:
                return verdict
            return self._beside(verdict, epoch, position)
        except JournalError as error:
            return verdict if not verdict.ok else Verdict(False, verdict.facts, None, error.message)
        except _UNREADABLE as error:
            problem = f"what is beside the facts cannot be read: {type(error).__name__} {error}"
            return Verdict(False, verdict.facts, None, problem)

    def _ends(self) -> tuple[str, Tail, int]:
        """The epoch, the end of the chain, and the last position stored, as of one instant if all can be read."""
        read = self._store.datastore.read
        try:
            epoch, position, hashed, last = read(_ENDS)[0]
        except UnreadableStorage:
            (epoch, position, hashed), last = read("SELECT epoch, position, hash FROM tail")[0], 0
        return epoch, Tail(position, hashed), max(position, last or 0)

    def _beside(self, verdict: Verdict, epoch: str, position: int) -> Verdict:
        """The verdict on what is beside the facts, once those are sound."""
        if epoch != self._store.epoch:
            return Verdict(False, verdict.facts, None, EpochChanged(self._store.epoch, epoch).message)
        altered = self._store.altered_output()
        if altered is not None:
            return Verdict(False, verdict.facts, None, altered)
        found = self._wrong_answer(position)
        return verdict if found is None else Verdict(False, verdict.facts, *found)

    def _read(self, row: Row) -> str | None:
        self._done += 1
        if self._done % REPORT_EVERY == 0:
            self._report(self._done, self._total)
        recorded = self._store.codec.recorded(row)
        self._require_work(recorded)
        return recorded.meta.correlation_id

    def _require_work(self, recorded: Recorded) -> None:
        """Nothing, when the registers hold what a fact says its attempt produced."""
        fact: Any = recorded.fact
        work = getattr(fact, "work", None)
        run_id = recorded.meta.correlation_id
        if work is None or run_id is None or not (work.output_chunks or work.partials):
            return
        mark = self._store.output_mark(run_id, fact.fence)
        told = (work.output_chunks, work.output_bytes, work.output_digest)
        if (mark.chunks, mark.bytes, mark.digest or None) != told:
            raise RegistersAltered(OUTPUT, run_id, fact.fence)
        if self._partial_of(run_id, fact.fence) != (work.partials, work.partial_digest):
            raise RegistersAltered(PARTIAL, run_id, fact.fence)

    def _partial_of(self, run_id: str, fence: int) -> tuple[int, str | None]:
        """How often an attempt saved a partial, and the digest of the last."""
        try:
            partial = self._store.saved_partial(run_id, fence)
            return (0, None) if partial is None else (partial.saved, digest(partial.body))
        except _UNREADABLE as error:
            raise RegistersAltered(PARTIAL, run_id, fence) from error

    def _astray(self) -> Found | None:
        """Where an index does not say what its table says; by position, if a fact is meant."""
        for index in INDEXES:
            found = astray(self._store.datastore.read, index)
            if found is not None:
                return found.row if index.table == FACTS else None, found.problem
        return None

    def _gap(self, last: int) -> Found | None:
        for after in range(0, last, GAP_PORTION):
            gap = self._store.datastore.read(_FIRST_GAP, (after, min(last, after + GAP_PORTION)))[0][0]
            if gap is not None:
                return int(gap), "its version does not follow the one before it in its stream"
        return None

    def _wrong_answer(self, position: int) -> Found | None:
        """The first remembered answer that belongs to no facts of its command, by position, in words."""
        after = ""
        while rows := self._store.datastore.read(_ANSWERS, (after, PAGE)):
            end = int(self._store.datastore.read("SELECT position FROM tail")[0][0])  # later than the rows
            for command_id, first, last, topic, state, stream in rows:
                after = command_id
                if position < first <= end:
                    continue  # it was recorded after this began
                if not 0 < first <= last <= end or topic is None:
                    return first, f"the answer remembered under {command_id!r} is of facts {first} to {last}"
                if self._command_of(first, topic, state, stream) != command_id:
                    return first, f"the answer remembered under {command_id!r} is of a fact of another command"
        return None

    def _command_of(self, position: int, topic: str, state: bytes, stream: str) -> str | None:
        row = self._store.archives.whole((position, stream, 0, topic, state))
        return self._store.codec.decode_raw(topic, row[4], stream).meta.command_id
