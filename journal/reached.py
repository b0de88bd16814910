"""How far the journal had come: one line in ``journal.reached``, written after every commit and before anybody is told.

SQLite takes the first frame of its log that does not add up for the log's end, and drops what follows silently: so it
must be after a power cut, where the last frames may never have arrived. A log that is damaged in the middle, or is
missing, or was exchanged for an older one, looks the same. This line tells them apart. It is written to the page cache,
after the commit is on the disk: it survives every crash of the process; after a power cut it may say too little, never
too much. So a journal that ends before it has lost facts that were acknowledged.

The line is about the directory's own journal alone. A file beside it under another name, such as a backup or what a
restore or an import is filling, is not the one that was acknowledged to anybody, and nothing is told about it.

A line that does not add up, or is of another epoch, says nothing. Whoever wants to go on without the lost facts removes
the file.
"""

import contextlib
import os
import zlib
from pathlib import Path

JOURNAL_NAME = "journal.sqlite3"
REACHED_NAME = "journal.reached"
_DIGITS = 20


class Reached:
    """The line, kept open by the one writer."""

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(REACHED_NAME) if journal.name == JOURNAL_NAME else None
        self._file = -1

    def note(self, epoch: str, position: int) -> None:
        """The journal has come to this position; a line that cannot be written is left as it was."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            if self._file < 0:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._file, _line(epoch, position), 0)

    def position(self, epoch: str) -> int:
        """The position that was reached under this epoch; 0 when nothing tells."""
        if self._path is None:
            return 0
        try:
            line = self._path.read_bytes()
            noted = int(line[:_DIGITS])
        except (OSError, ValueError):
            return 0
        return noted if line == _line(epoch, noted) else 0

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _line(epoch: str, position: int) -> bytes:
    text = f"{position:0{_DIGITS}} {epoch} ".encode()
    return text + b"%08x\n" % zlib.crc32(text)


def cut_off(position: int, reached: int) -> str:
    """What is wrong with a journal that ends before the position that it had reached."""
    return (
        f"it ends at position {position}, and position {reached} had been acknowledged, so facts were cut off "
        f"(remove {REACHED_NAME} to go on without them)"
    )
