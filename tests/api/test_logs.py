"""The log: what is foreseen is one line, a bug has its traceback, and the same is not said again and again."""

import io
import logging
import sqlite3

import pytest

from api.logs import EVERY_S, KEPT, Line, Once
from journal.errors import UnreadableStorage


class Said:
    """A logger of its own, whose clock is moved by hand."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.now = 1_000.0
        self.log = logging.Logger("part")
        handler = logging.StreamHandler(self.out)
        handler.setFormatter(Line("%(levelname)s %(message)s"))
        handler.addFilter(self._at)
        handler.addFilter(Once())
        self.log.addHandler(handler)

    def _at(self, record: logging.LogRecord) -> bool:
        record.created = self.now
        return True

    def failed(self, error: Exception, message: str = "it failed at %d", at: int = 7) -> None:
        self.log.error(message, at, exc_info=error)

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


@pytest.fixture
def said() -> Said:
    return Said()


def full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def wrapped() -> RuntimeError:
    error = RuntimeError("the library's own")
    error.__cause__ = full()
    return error


@pytest.mark.parametrize(
    "error", [full(), wrapped(), OSError(28, "No space left on device"), UnreadableStorage("disk I/O error")]
)
def test_what_a_handbook_knows_is_one_line(said: Said, error: Exception) -> None:
    said.failed(error)

    assert [f"ERROR it failed at 7: {error}"] == said.lines


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), sqlite3.OperationalError("no such table"), OSError(22, "?")])
def test_what_is_a_bug_keeps_its_traceback(said: Said, error: Exception) -> None:
    said.failed(error)

    assert "ERROR it failed at 7" == said.lines[0]
    assert f"{type(error).__name__}: {error}" in said.lines[-1]


def test_the_same_is_said_once_in_a_minute_and_then_with_how_often(said: Said) -> None:
    for _ in range(5):
        said.failed(full())
        said.now += 1
    said.now = 1_000.0 + EVERY_S - 0.001
    said.failed(full())
    assert 1 == len(said.lines)
    said.now = 1_000.0 + EVERY_S
    said.failed(full())

    assert "ERROR it failed at 7 (and 5 times more since it was said last): database or disk is full" == said.lines[-1]
    assert 2 == len(said.lines)


def test_something_else_is_said_at_once_and_a_clock_that_is_set_back_silences_nothing(said: Said) -> None:
    said.failed(full())
    said.failed(full(), "another failed at %d")
    said.failed(OSError(28, "No space left on device"))
    said.now -= 3_600
    said.failed(full())

    assert 4 == len(said.lines)


def test_a_full_disk_is_one_thing_wherever_it_is_met_and_bugs_are_not(said: Said) -> None:
    for position in (7, 8):
        said.failed(full(), at=position)
    foreseen = len(said.lines)
    for position in (7, 8, 8):
        said.failed(ZeroDivisionError("x"), at=position)

    assert 1 == foreseen
    assert 2 == sum(line.startswith("ERROR it failed") for line in said.lines[foreseen:])


def test_no_more_messages_are_remembered_than_there_is_room_for(said: Said) -> None:
    for number in range(KEPT + 1):
        said.failed(full(), f"part {number} failed at %d")
    said.failed(full(), f"part {KEPT} failed at %d")
    said.failed(full(), "part 0 failed at %d")

    assert KEPT + 2 == len(said.lines)
