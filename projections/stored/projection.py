"""What a stored projection is: a name, a version of its fold, its tables, and the fold itself. One question each.

A *fold* takes facts in the order of the journal and gives, whenever it is asked, the writes that bring its tables to
where it stands. What it gives must be a function of the facts alone, never of the batches in which they came or of what
happened to be remembered: the rows of a model that followed for a year and of one that was made today are the same
bytes. Nor does it depend on how the facts of different subjects (runs, workers, leaders) lie between each other: what
is written is about one subject, or is added to a sum, so that two processes can fold half of the subjects each. A fold
is told only facts of the types it has a handler for. A handler that raises has changed nothing.

``Folding`` keeps one fold safe from the facts. A fact at which a handler raises is *put aside*: named, kept in the
file with the reason, and passed over by this projection only, with everything later of the same stream's subject (a
run, a worker, a leader), because what follows cannot be judged without it. Everything else of the model stays right,
and says how much is missing. When a fold puts aside more than ``ASIDE_MAX`` subjects, the fault is the fold's.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from domain.values import Fact, Value
from journal.errors import JournalError, UndecodableFact, UnknownTopic
from journal.mapper import Recorded
from projections.stored.database import Listed, Table, insert, table_names
from projections.stored.faults import TooManyAside
from projections.stored.known import Known, Told

ASIDE_MAX = 1_000
"""Subjects that one projection may put aside before it stops; beyond it, it is the fold that is wrong."""

REASON_MAX_CHARS = 500

PASSING = (sqlite3.Error, OSError, JournalError, MemoryError)
"""Errors that say nothing about the fact that was being folded; it is folded again later."""

Write = Callable[[sqlite3.Connection, str], None]
"""Writes rows into the tables under a suffix, in the caller's transaction."""

Handler = Callable[[str, Recorded], None]
"""Folds one fact, given the subject of its stream: what follows the first hyphen of the stream's name."""


class Fold(Protocol):
    """The moving part of a projection."""

    @property
    def handlers(self) -> Mapping[type[Fact], Handler]:
        """Who folds which type of fact; others are passed over."""

    def changes(self) -> Write:
        """What changed since it was last asked for."""


class Projection(NamedTuple):
    """One stored projection."""

    name: str
    version: int
    """Raised whenever a row would come out otherwise; a model of another version is rebuilt at the start."""
    tables: tuple[Table, ...]
    listed: tuple[Listed, ...]
    """Everything that the model knows, in an order of its own: what its digest is taken over."""
    fold: Callable[[Known], Fold]
    readable_since: int
    """The oldest version whose rows today's questions can still be put to, while they are made again."""
    asks: bool = True
    """Whether the fold asks what is known of a run; when none does, it need not be remembered."""


class Aside(Value, frozen=True, kw_only=True):
    """A fact at which a projection's fold failed, and the subject that the projection passes over since."""

    subject: str
    position: int
    stream: str
    topic: str
    reason: str


class Folding:
    """One projection being folded: its fold, and what it has put aside."""

    def __init__(self, projection: Projection, known: Known, aside: Iterable[Aside] = ()) -> None:
        self.projection = projection
        self.aside = {one.subject: one for one in aside}
        self._fold = projection.fold(known)
        self.handlers = self._fold.handlers
        self._new: list[Aside] = []

    @property
    def facts(self) -> frozenset[type[Fact]]:
        """The types of facts that matter to it."""
        return frozenset(self.handlers)

    def handler(self, kind: type[Fact]) -> Handler:
        """The fold's own handler of facts of a type, behind the question whether their subject was put aside."""
        handle, aside = self.handlers[kind], self.aside
        if not aside:
            return handle

        def unless_aside(subject: str, recorded: Recorded) -> None:
            if subject not in aside:
                handle(subject, recorded)

        return unless_aside

    def absorb(self, batch: Iterable[Told]) -> None:
        """Fold these facts, in order; one at which the fold fails is put aside.

        Raises:
            TooManyAside: so many failed that the fold itself must be wrong.
            JournalError, sqlite3.Error, OSError: something was not to be had now; fold them again later.
        """
        handlers, aside = self.handlers, self.aside
        for kind, subject, recorded in batch:
            handle = handlers.get(kind)
            if handle is None or (aside and subject in aside):
                continue
            try:
                handle(subject, recorded)
            except Exception as error:  # noqa: BLE001  (whatever it is, the other facts must go on)
                self.failed(subject, recorded, error)

    def failed(self, subject: str, recorded: Recorded, error: Exception) -> None:
        """Put aside a fact at which its handler raised; an error that says nothing about the fact is raised again."""
        if isinstance(error, PASSING) and not isinstance(error, UndecodableFact | UnknownTopic):
            raise error
        reason = f"{type(error).__name__}: {error}"[:REASON_MAX_CHARS]
        put = Aside(
            subject=subject, position=recorded.position, stream=recorded.stream, topic=recorded.topic, reason=reason
        )
        if len(self.aside) >= ASIDE_MAX:
            raise TooManyAside(self.projection.name, recorded.position, reason)
        self.aside[subject] = put
        self._new.append(put)

    def changes(self) -> Write:
        """What changed since it was last asked for, with what was newly put aside."""
        write, name, new = self._fold.changes(), self.projection.name, self._new
        self._new = []
        if not new:
            return write

        def both(connection: sqlite3.Connection, suffix: str) -> None:
            write(connection, suffix)
            write_aside(connection, name + suffix, new)

        return both


def write_aside(connection: sqlite3.Connection, owner: str, new: Sequence[Aside]) -> None:
    """Remember what a projection has put aside."""
    rows = [(owner, one.subject, one.position, one.stream, one.topic, one.reason) for one in new]
    insert(connection, "INSERT OR REPLACE INTO aside VALUES ", rows)


def aside_of(connection: sqlite3.Connection, owner: str) -> list[Aside]:
    """What a projection has put aside, in the order of the journal."""
    if "aside" not in table_names(connection):  # a file of before facts could be put aside
        return []
    rows = connection.execute(
        "SELECT subject, position, stream, topic, reason FROM aside WHERE projection = ? ORDER BY position", (owner,)
    )
    return [Aside(subject=row[0], position=row[1], stream=row[2], topic=row[3], reason=row[4]) for row in rows]


def forget_aside(connection: sqlite3.Connection, owner: str) -> None:
    """Forget what a projection has put aside."""
    connection.execute("DELETE FROM aside WHERE projection = ?", (owner,))


class _Rows(dict[tuple[Any, ...], list[int]]):
    """Rows of so many sums; one that is asked for first is all zeros."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def __missing__(self, key: tuple[Any, ...]) -> list[int]:
        sums = self[key] = [0] * self._width
        return sums


class Sums:
    """Counts by key that are added to rows: what many facts add to one row is one write.

    ``keys`` are the columns of the primary key. Sums are integers, so they do not depend on the order of the facts.
    """

    def __init__(self, table: str, keys: tuple[str, ...], columns: tuple[str, ...]) -> None:
        self.rows = _Rows(len(columns))
        """What is to be added, by key: ``rows[key][place[column]] += 1`` is what a fold does at most facts."""
        self.place = {column: index for index, column in enumerate(columns)}
        added = ", ".join(f"{column} = {column} + excluded.{column}" for column in columns)
        named = ", ".join((*keys, *columns))
        marks = ", ".join("?" * (len(keys) + len(columns)))
        self._statement = (
            f"INSERT INTO {table}~ ({named}) VALUES ({marks}) ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {added}"
        )

    def add(self, key: tuple[Any, ...], column: str, count: int = 1) -> None:
        """Add to a column of the row under this key."""
        self.rows[key][self.place[column]] += count

    def changes(self) -> Write:
        """What was added since it was last asked for."""
        rows, statement = [(*key, *sums) for key, sums in self.rows.items()], self._statement
        self.rows.clear()

        def write(connection: sqlite3.Connection, suffix: str) -> None:
            connection.executemany(statement.replace("~", suffix), rows)

        return write
