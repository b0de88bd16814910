"""Making a journal again from an export: into an empty data directory, checked line by line, whole or not at all.

The journal keeps its id, because its chain begins with it, and gets a new epoch, because what was decided on the other
one must not be appended to this one. Each fact's stored bytes are made again and must have the hash that the export
says and that follows from the one before; versions must follow one another; the last line must say what was read. The
file is filled beside its place and moved only then, so a damaged export leaves nothing behind.
"""

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from domain.values import Json
from journal.chain import Tail, genesis, link
from journal.cloud import CloudFact, state_of
from journal.datastore import connect
from journal.errors import JournalError
from journal.exporting import ANSWER, END, HEADER, OUTPUT, PARTIAL, Ending, Header
from journal.mapper import DEFAULT_CODEC, Codec
from journal.opening import open_readonly
from journal.register_tables import write_registers
from journal.registers import ChunkWrite, PartialWrite, Write, running_digest
from journal.replacing import into_place
from journal.schema import create
from journal.store import insert_facts, leave_out_own
from journal.tool_errors import ExportDamaged, ExportPartial, NotAnExport, SourceUnreadable
from journal.upcast import UPCASTS

LINE_BYTES = 64 * 1024 * 1024
"""Longest line that is read; a fact is far smaller, and a file that is no export may have no line ends at all."""

PORTION = 2_000
"""Facts inserted in one transaction."""

Report = Callable[[int, int], None]


class Line(msgspec.Struct, frozen=True):
    """A line, as far as all have it."""

    type: str
    data: Json


class Output(msgspec.Struct, frozen=True):
    """A piece of output."""

    run_id: str
    fence: int
    seq: int
    stream: str
    data: str


class Partial(msgspec.Struct, frozen=True):
    """A partial, and how often one was saved under its fence."""

    run_id: str
    fence: int
    saved: int
    body: Json


class Answer(msgspec.Struct, frozen=True):
    """A remembered answer."""

    command_id: str
    request_digest: str | None
    first: int
    last: int
    answer: bytes


class Imported(msgspec.Struct, frozen=True):
    """What was imported, and into which epoch."""

    journal_id: str
    epoch: str
    facts: int
    registers: int
    answers: int


class _Wrong(Exception):
    """What is wrong with a line, in words."""


_WRONG = (
    _Wrong, JournalError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError, sqlite3.IntegrityError,
)  # fmt: skip
"""What a line that is not what it must be ends in: too deep, a number that no column takes, a row that is there."""

_line = msgspec.json.Decoder(Line).decode
_fact = msgspec.json.Decoder(CloudFact).decode
_header = msgspec.json.Decoder(Header).decode
_ending = msgspec.json.Decoder(Ending).decode
_output = msgspec.json.Decoder(Output).decode
_partial = msgspec.json.Decoder(Partial).decode
_answer = msgspec.json.Decoder(Answer).decode


def import_lines(
    source: Path, data_dir: Path, mint: Callable[[], str], report: Report, codec: Codec = DEFAULT_CODEC
) -> Imported:
    """What was imported from a file into a data directory without facts.

    Raises:
        SourceUnreadable, NotAnExport, ExportPartial, ExportDamaged: about the file.
        JournalNotEmpty, DataDirBusy, DataDirUnusable, StorageFull: about the directory.
    """
    try:
        size = source.stat().st_size
        file = source.open("rb")
    except OSError as error:
        raise SourceUnreadable(str(source), error.strerror or str(error)) from error
    with file:
        lines = _Lines(file, str(source))
        header = lines.header()
        with into_place(data_dir) as new, contextlib.closing(connect(str(new))) as connection:
            epoch = mint()
            create(connection, header.journal_id, epoch)
            loading = _Loading(connection, header, codec)
            lines.each(loading, lambda read: report(min(read, size), size))
            loading.finish()
            report(size, size)
            _verify(new, codec, str(source), lines.number)
        return Imported(header.journal_id, epoch, loading.facts, loading.registers, loading.answers)


def _verify(new: Path, codec: Codec, source: str, lines: int) -> None:
    """Nothing, when the registers and answers that were imported are what the facts say."""
    application = open_readonly(new.parent, codec, name=new.name)
    try:
        verdict = application.store.verify()
    finally:
        application.close()
    if not verdict.ok:
        raise ExportDamaged(source, lines, f"{verdict.problem} (position {verdict.first_bad_position})")


class _Lines:
    """The lines of an export, read one by one; knows which one it is at."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._digest = hashlib.sha256()
        self.number = 0

    def header(self) -> Header:
        """What the first line says.

        Raises:
            NotAnExport: it is no first line of an export.
            ExportPartial: a part of a journal follows.
        """
        text = self._next()
        try:
            line = _line(text)
            if line.type != HEADER:
                raise NotAnExport(self._name, f"its first line is of type {line.type[:60]!r}, not {HEADER!r}")
            header = _header(line.data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise NotAnExport(self._name, f"its first line is {text[:40]!r}") from error
        self._digest.update(text)
        if not header.whole:
            raise ExportPartial(self._name, header.after, header.upto)
        return header

    def each(self, loading: "_Loading", report: Callable[[int], None]) -> None:
        """Load every line up to the last.

        Raises:
            ExportDamaged: one is not what it must be, or the last one is missing.
        """
        try:
            while text := self._next():
                line = _line(text)
                if line.type == END:
                    self._end(_ending(line.data), loading)
                    return
                loading.load(line, text)
                self._digest.update(text)
                if self.number % PORTION == 0:
                    report(self._file.tell())
            self.number += 1
            message = "it ends here, and its last line is missing"
            raise _Wrong(message)
        except _WRONG as error:
            problem = error.message if isinstance(error, JournalError) else str(error)
            raise ExportDamaged(self._name, self.number, " ".join(problem.split())) from error

    def _end(self, ending: Ending, loading: "_Loading") -> None:
        found = Ending(loading.facts, loading.registers, loading.answers, self._digest.hexdigest())
        if found != ending:
            message = f"its last line tells of {_told(ending)}, and there are {_told(found)}"
            raise _Wrong(message)
        if self._file.read(1):
            self.number += 1
            message = "something follows its last line"
            raise _Wrong(message)

    def _next(self) -> bytes:
        self.number += 1
        text = self._file.readline(LINE_BYTES)
        if text and not text.endswith(b"\n"):
            if self.number == 1:
                raise NotAnExport(self._name, f"its first line is {text[:40]!r}")
            message = "it is cut off in this line"
            raise _Wrong(message)
        if not text:
            self.number -= 1
        return text


def _told(ending: Ending) -> str:
    return (
        f"{ending.facts} facts, {ending.registers} registers, {ending.answers} answers with the digest "
        f"{ending.sha256[:12]}"
    )


class _Loading:
    """Fills an empty journal, in the order of the export."""

    def __init__(self, connection: sqlite3.Connection, header: Header, codec: Codec) -> None:
        self._c: Any = connection
        self._codec = codec
        self._tail = Tail(0, genesis(header.journal_id))
        self._rows: list[Any] = []
        self.facts = self.registers = self.answers = 0
        self._c.execute("BEGIN IMMEDIATE")

    def load(self, line: Line, text: bytes) -> None:
        """Take over one line.

        Raises:
            _Wrong, JournalError, MsgspecError, IntegrityError: it is not what it must be.
        """
        if line.type == OUTPUT:
            self._write(self._chunk(_output(line.data)))
        elif line.type == PARTIAL:
            self._load_partial(_partial(line.data))
        elif line.type == ANSWER:
            self._load_answer(_answer(line.data))
        else:
            self._load_fact(_fact(text))

    def _load_fact(self, fact: CloudFact) -> None:
        if self.registers or self.answers:
            message = f"a fact ({fact.type[:60]}) follows what is not one"
            raise _Wrong(message)
        state = state_of(fact, self._codec)
        position = self._tail.position + 1
        digest = link(self._tail.hash, position, fact.subject, fact.version, fact.type, state)
        if fact.position != position:
            message = f"position {fact.position} follows {position - 1}"
            raise _Wrong(message)
        if digest.hex() != fact.hash:
            message = f"the hash of position {position} does not follow from the fact and the hash before it"
            raise _Wrong(message)
        if fact.type in self._codec.topics or fact.type in UPCASTS:
            self._codec.decode(fact.type, state, fact.subject, fact.version)
        self._tail = Tail(position, digest)
        self._rows += (position, fact.subject, fact.version, fact.type, state, fact.correlationid, digest)
        self.facts += 1
        if self.facts % PORTION == 0:
            self._insert()

    def _insert(self) -> None:
        leave_out_own(self._rows)
        insert_facts(self._c, self._rows)
        self._rows = []
        self._c.execute("UPDATE tail SET position = ?, hash = ?", self._tail)
        self._c.execute("COMMIT")
        self._c.execute("BEGIN IMMEDIATE")

    def _chunk(self, output: Output) -> ChunkWrite:
        row = self._c.execute(
            "SELECT digest FROM output_marks WHERE run_id = ? AND fence = ?", (output.run_id, output.fence)
        ).fetchone()
        digest = running_digest(row[0] if row else "", output.seq, output.stream, output.data)
        return ChunkWrite(output.run_id, output.fence, output.seq, output.stream, output.data, digest)

    def _write(self, write: Write) -> None:
        write_registers(self._c, [write])
        self.registers += 1

    def _load_partial(self, partial: Partial) -> None:
        self._write(PartialWrite(partial.run_id, partial.fence, partial.body))
        self._c.execute(
            "UPDATE partials SET saved = ? WHERE run_id = ? AND fence = ?",
            (partial.saved, partial.run_id, partial.fence),
        )

    def _load_answer(self, answer: Answer) -> None:
        if not 0 < answer.first <= answer.last <= self._tail.position:
            message = f"an answer is of facts {answer.first} to {answer.last}, and there are {self._tail.position}"
            raise _Wrong(message)
        values = (answer.command_id, answer.request_digest, answer.first, answer.last, answer.answer)
        self._c.execute("INSERT INTO commands VALUES (?, ?, ?, ?, ?)", values)
        self.answers += 1

    def finish(self) -> None:
        """Make what was loaded durable."""
        self._insert()
        self._c.execute("COMMIT")
        self._c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
