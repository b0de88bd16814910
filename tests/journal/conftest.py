"""Both kinds of store, fresh for each test, and closed after it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from journal.application import MemoryJournal, SQLiteJournal
from journal.commit import Journal
from tests.journal.accounts import application, started

KINDS = ["sqlite", "memory"]


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLiteJournal | MemoryJournal]:
    """An open application of each kind."""
    opened = application(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=KINDS)
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    """A started journal of each kind."""
    opened = started(request.param, tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[Journal]:
    """A started journal on an SQLite file."""
    opened = started("sqlite", tmp_path)
    yield opened
    await opened.close()
