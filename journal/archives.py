"""Where the bytes of settled runs' facts are once they were moved out of the journal, and how they are read.

A fact that was moved keeps its row: position, stream, version, topic and hash. Its ``state`` is then ``@N.B``: block B
of archive N. An archive is a file in ``archive/`` beside the journal, named by the SHA-256 of its content and never
changed; the journal's table ``archives`` numbers them. A block holds the facts of one run, compressed together, so what
is asked about an old run is one read; the last blocks are kept unpacked, because a read in order goes through the same
few runs for a while.

The chain needs nothing more: a row's hash is over the bytes that the archive gives back, so facts of an archive that
was altered are found by position like any others.
"""

import contextlib
import hashlib
import re
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from journal.carried import FOLDER, SUFFIX, carried_file
from journal.datastore import JournalDatastore
from journal.errors import ArchiveUnusable

MARK = b"@"
KEPT_BLOCKS = 1_024
"""Blocks kept unpacked: a few kB each."""

OPEN_FILES = 16
"""Archives held open at once."""

TABLE = "CREATE TABLE blocks (number INTEGER PRIMARY KEY, body BLOB NOT NULL)"

_POINTER = re.compile(rb"([0-9]{1,18})\.([0-9]{1,18})")
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(dict[int, bytes]).decode


def pack(facts: Mapping[int, bytes]) -> bytes:
    """A block: facts' bytes by position."""
    return zlib.compress(_pack(facts), 6)


def unpack(body: bytes) -> dict[int, bytes]:
    """The facts' bytes in a block, by position.

    Raises:
        ValueError, zlib.error: it is no block.
    """
    return _unpack(zlib.decompress(body))


def pointer(number: int, block: int) -> bytes:
    """What stands in a row instead of a fact that is in this block of this archive."""
    return b"%s%d.%d" % (MARK, number, block)


def place_of(state: bytes) -> tuple[int, int]:
    """The archive and the block that a pointer names.

    Raises:
        ValueError: it is no pointer.
    """
    named = _POINTER.fullmatch(state, len(MARK))
    if named is None:
        message = f"{state[:40]!r} is no pointer"
        raise ValueError(message)
    return int(named[1]), int(named[2])


def name_of(path: Path) -> str:
    """The name that a file's content has: its SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() + SUFFIX


class Archives:
    """The archives of one journal; may be asked from any thread."""

    def __init__(self, directory: Path, datastore: JournalDatastore) -> None:
        self.folder = directory / FOLDER
        self._datastore = datastore
        self._files: OrderedDict[int, sqlite3.Connection] = OrderedDict()
        self._blocks: OrderedDict[tuple[int, int], dict[int, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def whole(self, row: Any) -> Any:
        """The row with its fact's bytes in the fifth place, wherever they are kept.

        Raises:
            ArchiveUnusable: they are in a file that is missing or altered.
        """
        state = row[4]
        if not isinstance(state, bytes) or state[:1] != MARK:
            return row  # what is no bytes is damage, and whoever reads the fact says so
        return (*row[:4], self.state(row[0], state), *row[5:])

    def state(self, position: int, kept: bytes) -> bytes:
        """The bytes of the fact at a position whose row holds this pointer."""
        try:
            place = place_of(kept)
        except ValueError as error:
            named = repr(kept[:40])
            raise ArchiveUnusable(named, f"the row at position {position} names no block") from error
        with self._lock:
            found = self._block(place).get(position)
        if found is None:
            raise ArchiveUnusable(self.name(place[0]), f"it does not hold the fact at position {position}")
        return found

    def name(self, number: int) -> str:
        """The file name of an archive.

        Raises:
            ArchiveUnusable: the journal knows none with this number.
        """
        rows = self._datastore.read("SELECT name FROM archives WHERE number = ?", (number,))
        if not rows:
            raise ArchiveUnusable(str(number), "the journal has no archive with this number")
        return str(rows[0][0])

    def names(self) -> list[str]:
        """The file names of all archives; a journal of schema 1 has none."""
        if not self._datastore.read("SELECT 1 FROM sqlite_master WHERE name = 'archives'"):
            return []
        return [str(row[0]) for row in self._datastore.read("SELECT name FROM archives ORDER BY number")]

    def _block(self, place: tuple[int, int]) -> dict[int, bytes]:
        block = self._blocks.get(place)
        if block is None:
            block = self._blocks[place] = self._load(*place)
            if len(self._blocks) > KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(place)
        return block

    def _load(self, number: int, block: int) -> dict[int, bytes]:
        name = self.name(number)
        try:
            row = self._file(number, name).execute("SELECT body FROM blocks WHERE number = ?", (block,)).fetchone()
            if row is None:
                raise ArchiveUnusable(name, f"it has no block {block}")
            return unpack(row[0])
        except (sqlite3.Error, zlib.error, msgspec.MsgspecError, TypeError, RecursionError) as error:
            there = (self.folder / name).exists()
            raise ArchiveUnusable(name, str(error) if there else "the file is missing") from error

    def _file(self, number: int, name: str) -> sqlite3.Connection:
        connection = self._files.get(number)
        if connection is None:
            connection = self._files[number] = self._open(name)
            if len(self._files) > OPEN_FILES:
                self._files.popitem(last=False)[1].close()
        return connection

    def _open(self, name: str) -> sqlite3.Connection:
        path = self.folder / name
        carried = None if path.exists() else carried_file(self._datastore, f"{FOLDER}/{name}")
        if carried is None:
            return sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.deserialize(carried)
        return connection

    def close(self) -> None:
        """Close every file."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            while self._files:
                self._files.popitem()[1].close()
