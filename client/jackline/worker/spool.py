"""A command's output on its way to the service: two files, cut into numbered chunks, each delivered once.

The command writes into the files; this reads what was added since the last chunk, and writes down (`delivery.json`)
what the next chunk is *before* it is sent. So a worker that was killed in between sends the same bytes under the same
number again, and the service, which accepts a number once, has them exactly once.

Bytes become text by UTF-8, what is not UTF-8 becomes U+FFFD, and a character is never cut in two. A chunk is bounded
in its JSON form, because that is what is sent: a control character takes six bytes there.

Units: bytes. Bounds: CHUNK_BYTES of JSON per chunk. Delivered output is given back to the disk where the file system
can.
"""

import contextlib
import ctypes
import ctypes.util
import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

from jackline.decode import decode
from jackline.errors import Garbled
from jackline.worker.places import Attempt

STREAMS = ("stdout", "stderr")
CHUNK_BYTES = 192 * 1024  # the service accepts 256 KiB
READ_BYTES = 128 * 1024
RELEASE_BYTES = 1024 * 1024  # how much is delivered before its disk space is given back
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk: where it is in which file, and its number."""

    seq: int
    stream: str
    offset: int
    length: int


class Spool:
    """The output of one attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        state = _delivered(attempt.load("delivery.json"))
        self._next_seq = state.next_seq
        self._offsets: dict[str, int] = {name: getattr(state, name) for name in STREAMS}
        self._released = dict(self._offsets)
        self._sent = state.sent

    def next_piece(self, *, final: bool) -> tuple[Piece, str] | None:
        """The next chunk and its text; None when nothing is there. `final`: no more will be written."""
        if self._sent is not None:
            return self._sent, self._read(self._sent).decode("utf-8", "replace")
        for stream in STREAMS:
            data = self._read(Piece(self._next_seq, stream, self._offsets[stream], READ_BYTES))
            text, length = _fitting(data, len(data) if final and len(data) < READ_BYTES else len(data) - _torn(data))
            if length:
                self._sent = Piece(self._next_seq, stream, self._offsets[stream], length)
                self._save()
                return self._sent, text
        return None

    def delivered(self, piece: Piece) -> None:
        """The service has that chunk, or will never want it."""
        self._next_seq = piece.seq + 1
        self._offsets[piece.stream] = piece.offset + piece.length
        self._sent = None
        self._save()
        self._release(piece.stream)

    def _save(self) -> None:
        sent = asdict(self._sent) if self._sent else None
        # On a full disk the delivery itself is what frees space: it goes on, at the risk of a crash right then.
        with contextlib.suppress(OSError):
            self._attempt.save("delivery.json", {"next_seq": self._next_seq, **self._offsets, "sent": sent})

    def _read(self, piece: Piece) -> bytes:
        try:
            with (self._attempt / piece.stream).open("rb") as file:
                file.seek(piece.offset)
                return file.read(piece.length)
        except FileNotFoundError:
            return b""

    def _release(self, stream: str) -> None:
        """Give the disk space of what was delivered back; elsewhere it stays until the attempt is over."""
        reached = self._offsets[stream]
        if sys.platform != "linux" or reached - self._released[stream] < RELEASE_BYTES:
            return
        descriptor = os.open(self._attempt / stream, os.O_WRONLY)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.fallocate(descriptor, _KEEP_SIZE_PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(reached))
        finally:
            os.close(descriptor)
        self._released[stream] = reached


@dataclass(frozen=True, slots=True)
class Delivery:
    """How far the spool was delivered: the next number, an offset into each stream, and what was sent last."""

    next_seq: int = 1
    stdout: int = 0
    stderr: int = 0
    sent: Piece | None = None


def _delivered(saved: Any) -> Delivery:
    """What was written down of it; from the beginning when nothing was, or nothing that makes sense."""
    with contextlib.suppress(Garbled):
        found = decode(Delivery, saved)
        if _makes_sense(found):
            return found
    return Delivery()


def _makes_sense(found: Delivery) -> bool:
    numbers = [found.stdout, found.stderr, *((found.sent.offset, found.sent.length) if found.sent else ())]
    streams = found.sent is None or found.sent.stream in STREAMS
    return streams and found.next_seq > 0 and all(0 <= number < 2**63 for number in numbers)


def _torn(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that has not been written whole."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if needs > back else 0
    return 0


def _fitting(data: bytes, length: int) -> tuple[str, int]:
    """As much of the first `length` bytes as fits into a chunk once it is JSON, and how many bytes that is."""
    while length > 0:
        text = data[:length].decode("utf-8", "replace")
        if len(json.dumps(text, ensure_ascii=False).encode()) <= CHUNK_BYTES:
            return text, length
        length //= 2
        length -= _torn(data[:length])
    return "", 0
