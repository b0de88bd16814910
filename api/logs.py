"""What the service says in its log: one line for what a handbook knows, a traceback for a bug, and nothing twice.

A disk that is full, broken or gone is met by everything that writes, again and again until it is well. That is told
without the places in the code at which it was met, because nothing there is wrong; whatever else raises keeps its
traceback. A message that was said less than ``EVERY_S`` ago, with the same exception, is left out and counted, and the
next one that is said tells of how many there were: so a log of a night with a full disk can be read in the morning.

Units: seconds. Memory is bounded: of ``KEPT`` messages it is remembered when they were said.
"""

import errno
import logging
import sqlite3
import sys
from collections import OrderedDict

from journal.errors import JournalError

EVERY_S = 60.0
"""How often the same is said, at most."""

KEPT = 1_000
"""Messages that are remembered; the one said longest ago is forgotten first."""

STORAGE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY}
)
SYSTEM = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOENT}
)

_FORMAT = "jackline: %(levelname)s %(name)s: %(message)s"


def foreseen(error: BaseException | None) -> bool:
    """Whether an exception, or what it was raised from, says of storage what the handbook has an answer to."""
    for _ in range(10):
        if error is None:
            return False
        if isinstance(error, JournalError) or getattr(error, "sqlite_errorcode", -1) & 0xFF in STORAGE:
            return True
        if isinstance(error, OSError) and error.errno in SYSTEM:
            return True
        error = error.__cause__
    return False


class Line(logging.Formatter):
    """A record as it is told: with its traceback unless its exception is foreseen."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not foreseen(error):
            return super().format(record)
        told = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        return f"{super().format(told)}: {' '.join(str(error).split())}"


class Once(logging.Filter):
    """Lets a message pass that was not said lately; one that passes says how often it was left out before."""

    def __init__(self) -> None:
        super().__init__()
        self._said: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is told."""
        error = record.exc_info[1] if record.exc_info else None
        about = "" if foreseen(error) else str(record.args)  # one full disk is met at many positions
        key = (record.name, str(record.msg), about, type(error).__name__, str(error))
        at, left_out = self._said.get(key, (record.created - EVERY_S, 0))
        if 0 <= record.created - at < EVERY_S:
            self._said[key] = (at, left_out + 1)
            return False
        self._said[key] = (record.created, 0)
        self._said.move_to_end(key)
        if len(self._said) > KEPT:
            self._said.popitem(last=False)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} times more since it was said last)", ()
        return True


def configure() -> None:
    """Tell warnings and worse on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Line(_FORMAT))
    handler.addFilter(Once())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
