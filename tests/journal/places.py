"""A data directory with a closed journal in it, and what the tests do to it behind its back."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from journal.application import SQLiteJournal
from journal.errors import JournalError
from journal.opening import JOURNAL_NAME, open_sqlite
from tests.journal.accounts import CODEC, append, deciding, minting, stored


def opened(place: Path, **options: Any) -> SQLiteJournal:
    """The journal of a directory."""
    return open_sqlite(place, CODEC, minting(), **options)


def closed_journal(place: Path, facts: int = 3) -> Path:
    """A data directory with a closed journal of some facts in one stream."""
    app = opened(place)
    append(app.store, *(deciding(stored("account-a", version)) for version in range(1, facts + 1)))
    app.close()
    return place


def alter(place: Path, *statements: str) -> None:
    """Change a closed journal behind its back."""
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def one_line(error: JournalError) -> str:
    """What an operator is told; it ends with the remedy."""
    line = str(error)
    assert "\n" not in line
    assert error.remedy
    assert line.endswith(error.remedy)
    return line
