"""The checkpoint file: which facts a start needs of everything up to a position.

    {"format": 1, "rules": "...", "journal_id": "...", "epoch": "...", "position": 9, "hash": "...", "kept": 4, ...}
    <the kept positions: differences of 8 bytes each, compressed>

The first line says what the file belongs to and carries a digest of the rest. It is used only if everything agrees:
the format and the rules of this version, the journal's id and epoch, the hash that the journal has at that position,
and the digest. Whatever is wrong with it, no answer is: it is left aside with one line that says why, the start reads
the whole journal instead, and the next checkpoint replaces it. So it needs no repair and no migration, and may be
deleted at any time.

It is written under another name, made durable, and moved into place: there is the old one or the new one, never half.
"""

import hashlib
import os
import sys
import zlib
from array import array
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import msgspec

from journal.errors import JournalError
from journal.owned import keep_private, made_private
from journal.store import Store

CHECKPOINT_NAME = "checkpoint"
FORMAT = 1
HEAD_MAX_BYTES = 4_096
"""Longest first line that is read."""

_LEVEL = 1
_BYTES = 8


class CheckpointUnusable(JournalError):
    """A checkpoint that is not used; the start takes longer, and nothing else follows."""

    code: ClassVar[str] = "checkpoint_unusable"

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is left aside, because {problem}", "the whole journal is read instead", path=str(path)
        )
        self.problem = problem


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a checkpoint belongs to, and how much is in it."""

    format: int
    rules: str
    journal_id: str
    epoch: str
    position: int
    hash: str
    kept: int
    """How many positions it lists."""
    digest: str
    """SHA-256 of the compressed rest, in hexadecimal."""
    written_at: datetime


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything up to ``position`` comes to the facts at these ascending positions."""

    position: int
    positions: "array[int]"


def write_checkpoint(path: Path, store: Store, checkpoint: Checkpoint, rules: str, now: datetime) -> int:
    """Put a checkpoint in place of the one before, durably; its size in bytes.

    Raises:
        OSError: it could not be written; the one before is still there.
    """
    body = zlib.compress(_packed(checkpoint.positions), _LEVEL)
    head = Head(
        format=FORMAT,
        rules=rules,
        journal_id=store.journal_id,
        epoch=store.epoch,
        position=checkpoint.position,
        hash=store.tail_at(checkpoint.position).hash.hex(),
        kept=len(checkpoint.positions),
        digest=hashlib.sha256(body).hexdigest(),
        written_at=now,
    )
    content = msgspec.json.encode(head) + b"\n" + body
    new = path.with_name(path.name + ".new")
    try:
        made_private(new)
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)
    return len(content)


def read_checkpoint(path: Path, store: Store, rules: str) -> Checkpoint | None:
    """The checkpoint of this journal; None when there is none.

    Raises:
        CheckpointUnusable: there is one that is damaged, or of another journal, life, version or future.
    """
    try:
        keep_private(path)
        with path.open("rb") as file:
            line = file.readline(HEAD_MAX_BYTES)
            body = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointUnusable(path, f"it cannot be read ({error.strerror})") from error
    head = _head_of(path, line)
    problem = _problem_of(head, store, rules)
    if problem is not None:
        raise CheckpointUnusable(path, problem)
    return Checkpoint(head.position, _positions_of(path, head, body))


def _head_of(path: Path, line: bytes) -> Head:
    try:
        return msgspec.json.decode(line, type=Head)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise CheckpointUnusable(path, f"its first line is damaged ({error})") from error


def _problem_of(head: Head, store: Store, rules: str) -> str | None:
    if (head.format, head.rules) != (FORMAT, rules):
        return "another version wrote it"
    if head.journal_id != store.journal_id:
        return f"it belongs to journal {head.journal_id!r}, and this is {store.journal_id!r}"
    if head.epoch != store.epoch:
        return "the journal was restored since it was written"
    if head.position > store.tail.position:
        return f"it is of position {head.position}, and the journal ends at {store.tail.position}"
    if head.position < 1 or store.tail_at(head.position).hash.hex() != head.hash:
        return f"the journal has another fact at position {head.position}"
    return None


def _positions_of(path: Path, head: Head, body: bytes) -> "array[int]":
    """The kept positions, ascending, none beyond the checkpoint's own."""
    if hashlib.sha256(body).hexdigest() != head.digest:
        raise CheckpointUnusable(path, "its content is damaged or cut off")
    if not 0 <= head.kept <= head.position:
        raise CheckpointUnusable(path, f"it lists {head.kept} of {head.position} facts")
    try:
        packed = zlib.decompressobj().decompress(body, _BYTES * head.kept + 1)
    except zlib.error as error:
        raise CheckpointUnusable(path, f"its content is damaged ({error})") from error
    if len(packed) != _BYTES * head.kept:
        raise CheckpointUnusable(path, f"it does not list {head.kept} facts")
    positions = _unpacked(packed)
    ascends = all(before < after for before, after in zip(_with_zero(positions), positions, strict=False))
    if not ascends or (positions and positions[-1] > head.position):
        raise CheckpointUnusable(path, "it lists facts out of order or beyond its own position")
    return positions


def _with_zero(positions: "array[int]") -> Iterator[int]:
    yield 0
    yield from positions


def _packed(positions: "array[int]") -> bytes:
    steps = array("q", (after - before for before, after in zip(_with_zero(positions), positions, strict=False)))
    if sys.byteorder == "big":
        steps.byteswap()
    return steps.tobytes()


def _unpacked(packed: bytes) -> "array[int]":
    steps = array("q")
    steps.frombytes(packed)
    if sys.byteorder == "big":
        steps.byteswap()
    position = 0
    positions = array("q")
    for step in steps:
        position = max(-1, min(position + step, 2**62))
        positions.append(position)
    return positions


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
