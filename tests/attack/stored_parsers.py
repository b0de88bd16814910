"""Everything that reads files which somebody may have touched, as functions of bytes.

Each file is made for real, beside a journal with everything in it, and read by what reads it in the service and in the
tools. Where a digest, a chain or SQLite itself would turn away whatever was altered, what lies behind it is tried too.
"""

import contextlib
import functools
import hashlib
import shutil
import sqlite3
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from api.keys import KeyRing
from journal.archives import MARK, Archives, pack
from journal.archiving import archive
from journal.backups import back_up, restore
from journal.carried import FOLDER, settle
from journal.checkpoints import Checkpoint, Head, read_checkpoint, write_checkpoint
from journal.exporting import Range, export_lines
from journal.importing import import_lines
from journal.opening import JOURNAL_NAME, open_readonly
from journal.reached import REACHED_NAME, Reached
from journal.store import SQLiteStore
from projections.hindsight import as_of
from tests.journal.accounts import minting
from tests.journal.filled import filled, unreported

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RULES = "rules"
NUMBERED = 8
"""Bytes at the front of an input that are numbers."""


class _Ground:
    """A journal, an archived one, an export and a backup of it, made once for each process."""

    def __init__(self) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="jackline-parsers-")
        self.root = Path(self._held.name)
        self.journal = filled(self.root / "journal")
        self.archived = filled(self.root / "archived")
        archive(self.archived, NOON, NOON, minting(), unreported)
        self.export = self.root / "export.jsonl"
        with _store(self.journal) as store, self.export.open("wb") as out:
            export_lines(store, Range(), out, unreported)
        self.backup = self.root / "backup"
        back_up(self.archived, self.backup, NOON, unreported)
        self._application = open_readonly(self.journal)
        self.store = self._application.store

    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        """A directory for one input."""
        place = Path(tempfile.mkdtemp(dir=self.root))
        try:
            yield place
        finally:
            shutil.rmtree(place)


@functools.cache
def ground() -> _Ground:
    """Everything that stands around the files."""
    return _Ground()


@contextlib.contextmanager
def _store(place: Path) -> Iterator[SQLiteStore]:
    application = open_readonly(place)
    try:
        yield application.store
    finally:
        application.close()


def _number(data: bytes) -> int:
    return int.from_bytes(data[:NUMBERED], "little", signed=True)


def import_file(data: bytes) -> None:
    """An export in which one line, drawn by the first byte, is another; or a whole file."""
    lines = ground().export.read_bytes().splitlines(keepends=True)
    if data[:1] == b"\xff":
        lines = [data[1:]]
    elif data:
        lines[data[0] % len(lines)] = data[1:] + b"\n"
    with ground().place() as place:
        (place / "import").write_bytes(b"".join(lines))
        import_lines(place / "import", place / "data", minting(), unreported)


def backup_file(data: bytes) -> None:
    """A backup with some other bytes in one place, which the first bytes say."""
    body = bytearray(ground().backup.read_bytes())
    at = abs(_number(data)) % len(body)
    body[at : at + len(data[NUMBERED:])] = data[NUMBERED:]
    with ground().place() as place:
        (place / "backup").write_bytes(body)
        restore(place / "backup", place / "data", minting(), unreported)


def carried(data: bytes) -> None:
    """A file that a backup says it carries: its name and its body, each of a kind that the first byte says."""
    name, _, body = data[1:].partition(b"\n")
    kinds: list[Any] = [name.decode("utf-8", "replace"), name, _number(name), None]
    kind = data[0] if data else 0
    with ground().place() as place, closing(sqlite3.connect(place / "carrying")) as connection:
        connection.executescript(
            "CREATE TABLE backup_files (name TEXT PRIMARY KEY, body BLOB NOT NULL); CREATE TABLE meta (key, value);"
            "CREATE TABLE tail (epoch)"
        )
        values = (kinds[kind % 4], body if kind & 4 else body.decode("utf-8", "replace"))
        connection.execute("INSERT INTO backup_files VALUES (?, ?)", values)
        connection.commit()
        settle(connection, place, "epoch")
        outside = {one.name for one in place.iterdir()} - {"carrying", "keys.sqlite3", FOLDER}
        if outside:
            raise AssertionError(outside)


def checkpoint(data: bytes) -> None:
    """The file beside the journal that says where to begin."""
    with ground().place() as place:
        (place / "checkpoint").write_bytes(data)
        read_checkpoint(place / "checkpoint", ground().store, RULES)


def checkpoint_body(data: bytes) -> None:
    """What a checkpoint lists, whose digest is right; how many it says there are is in the first bytes."""
    store, body = ground().store, data[NUMBERED:]
    with ground().place() as place:
        path = place / "checkpoint"
        write_checkpoint(path, store, Checkpoint(store.tail.position, array("q", [1, 2])), RULES, NOON)
        head = msgspec.json.decode(path.read_bytes().partition(b"\n")[0], type=Head)
        kept = _number(data) % (store.tail.position + 2)
        head = msgspec.structs.replace(head, kept=kept, digest=hashlib.sha256(body).hexdigest())
        path.write_bytes(msgspec.json.encode(head) + b"\n" + body)
        read_checkpoint(path, store, RULES)


def journal_row(data: bytes) -> None:
    """A column of a stored fact, drawn by the first byte, that holds what it cannot; verified, and read like any other.

    The second byte says what kind of value it is.
    """
    column, kind, said = *(data + b"\0\0")[:2], data[2:]
    columns = ("originator_id", "originator_version", "topic", "state", "correlation_id", "hash")
    name = columns[column % len(columns)]
    value = (said, said.decode("utf-8", "replace"), _number(said), 0.5, None)[
        kind % (4 if name != "correlation_id" else 5)
    ]
    with ground().place() as place:
        shutil.copy(ground().journal / JOURNAL_NAME, place)
        with closing(sqlite3.connect(place / JOURNAL_NAME)) as file, contextlib.suppress(sqlite3.IntegrityError):
            file.execute(f"UPDATE stored_events SET {name} = ? WHERE position = 5", (value,))
            file.commit()
        with _store(place) as store:
            store.verify()
            store.facts_after(0, 20)


def reached(data: bytes) -> None:
    """How far the journal had come."""
    with ground().place() as place:
        (place / REACHED_NAME).write_bytes(data)
        Reached(place / JOURNAL_NAME).position("epoch")


def archive_block(data: bytes) -> None:
    """A block of an archive, as it lies in its file; the first byte says of what kind it is there."""
    body = data[1:]
    with _archives((body, body.decode("utf-8", "replace"), len(body))[data[0] % 3] if data else b"") as archives:
        archives.state(1, MARK + b"1.0")


def archive_pointer(data: bytes) -> None:
    """What stands in a row instead of a fact."""
    with _archives(pack({1: b"{}"})) as archives:
        archives.state(1, MARK + data)


@contextlib.contextmanager
def _archives(body: bytes | str | int) -> Iterator[Archives]:
    """The archives of the journal, with this as the first block of the first."""
    application = open_readonly(ground().archived)
    datastore: Any = application.store.datastore
    with ground().place() as place:
        (place / FOLDER).mkdir()
        archives = Archives(place, datastore)
        with closing(sqlite3.connect(place / FOLDER / archives.name(1))) as file:
            file.execute("CREATE TABLE blocks (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
            file.execute("INSERT INTO blocks VALUES (0, ?)", (body,))
            file.commit()
        try:
            yield archives
        finally:
            archives.close()
            application.close()


def at(data: bytes) -> None:
    """A position or an instant of the past."""
    as_of(ground().store, data.decode("utf-8", "replace"), NOON)


def keys_file(data: bytes) -> None:
    """A row in the file of the service's keys; the first byte says which column holds what was drawn."""
    columns = ["key_id", "name", "role", "leader_ids", "worker_ids", "not_after", "created_at", "created_by"]
    row = dict.fromkeys(columns, "x") | {"role": "admin", "leader_ids": '["a"]', "worker_ids": None, "not_after": None}
    row["created_at"] = "2026-01-01T00:00:00Z"
    row[columns[data[0] % len(columns)] if data else "name"] = data[1:].decode("utf-8", "replace")
    with ground().place() as place:
        KeyRing(place).close()
        with closing(sqlite3.connect(place / "keys.sqlite3")) as file:
            names, marks = ", ".join([*row, "hash"]), ", ".join("?" * (len(row) + 1))
            file.execute(f"INSERT INTO keys ({names}) VALUES ({marks})", [*row.values(), b"hash"])
            file.commit()
        KeyRing(place).close()


def keys_file_whole(data: bytes) -> None:
    """The file of the service's keys."""
    with ground().place() as place:
        (place / "keys.sqlite3").write_bytes(data)
        KeyRing(place).close()


PARSERS = {
    parser.__name__: parser
    for parser in (
        import_file, backup_file, carried, checkpoint, checkpoint_body, reached, archive_block, archive_pointer, at,
        keys_file, journal_row, keys_file_whole,
    )
}  # fmt: skip
DEEP = b"[" * 5_000
SEEDS: dict[str, list[bytes]] = {
    "import_file": [
        b"\0" + DEEP, b"\1" + DEEP, b'\1{"type": "x", "data": ' + DEEP, b"\xff" + b'{"type": "jackline.header"}\n',
        b'\x01{"specversion":"1.0","type":"run.submitted.v1","subject":"run-a","data":{},"position":1}', b"\x60{}",
    ],
    "backup_file": [b"\0" * 8 + b"SQLite format 3\0", b"\x10\x10" + b"\0" * 6 + b"\xff" * 64],
    "carried": [b"\4keys.sqlite3\nbody", b"\4archives/../../x\nbody", b"\5keys.sqlite3\nbody", b"\2", b"\3", b"\0\xff"],
    "checkpoint": [b"{}\n", DEEP, b'{"format": 1, "rules": "rules", "position": 1}\n', b"\xff\n"],
    "checkpoint_body": [b"\2" + b"\0" * 7 + b"x\x9c", b"\xff" * 8 + b"x\x9cc\x00\x00\x00\x01\x00\x01"],
    "journal_row": [bytes([n, kind]) + said for n in range(6) for kind in range(5) for said in (b"", b"run-x")],
    "reached": [b"00000000000000000001 epoch 00000000\n", b"\xd9\xa1" * 10, b"9" * 5_000],
    "archive_block": [b"\0" + pack({1: b"{}"}), b"\0x\x9c", b"\1x", b"\2", b"\0x\x9c\x03\x00\x00\x00\x00\x01"],
    "archive_pointer": [b"1.0", b"1.1", b"-1.0", b"9" * 30 + b".0", b"\xd9\xa1.0", b"9" * 5_000 + b".0", b"1"],
    "at": [b"1", b"2026-01-01T12:00:00Z", b"0001-01-01T00:00:00+23:59", b"9" * 400, "\u0661".encode()],
    "keys_file": [bytes([n]) + said for n in range(8) for said in (b"", b"{", DEEP, b"\xff", b"[1]", b'["a b"]')],
    "keys_file_whole": [b"", b"SQLite format 3\0", b"x" * 100],
}  # fmt: skip
