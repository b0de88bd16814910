"""Data directories with a closed journal of everything that this version stores, made once and copied."""

import asyncio
import contextlib
import functools
import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from journal.application import SQLiteJournal
from journal.chain import Verdict
from journal.mapper import DEFAULT_CODEC
from journal.opening import JOURNAL_NAME, open_readonly, open_sqlite
from journal.store import SQLiteStore
from tests.journal.accounts import minting
from tests.journal.releases import FIXTURES, fill

FACTS = 115
RELEASED_FACTS = 97
RELEASE = "0.1.0"


@functools.cache
def _content() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(fill(Path(place)))
        return (Path(place) / JOURNAL_NAME).read_bytes()


def filled(place: Path) -> Path:
    """The directory, with such a journal in it."""
    place.mkdir(parents=True, exist_ok=True)
    (place / JOURNAL_NAME).write_bytes(_content())
    return place


def released(place: Path, release: str = RELEASE) -> Path:
    """The directory, with the journal that a release wrote."""
    place.mkdir(parents=True, exist_ok=True)
    with gzip.open(FIXTURES / f"{release}.sqlite3.gz") as kept, (place / JOURNAL_NAME).open("wb") as file:
        shutil.copyfileobj(kept, file)
    return place


@contextlib.contextmanager
def read(place: Path, name: str = JOURNAL_NAME) -> Iterator[SQLiteStore]:
    """The store of a directory, to read."""
    application = open_readonly(place, name=name)
    try:
        yield application.store
    finally:
        application.close()


def opened(place: Path) -> SQLiteJournal:
    """The journal of a directory, to write."""
    return open_sqlite(place, DEFAULT_CODEC, minting())


def verified(place: Path, name: str = JOURNAL_NAME) -> Verdict:
    """What verifying found."""
    with read(place, name) as store:
        return store.verify()


def rows_of(place: Path) -> list[tuple[object, ...]]:
    """Every fact as it is stored, wherever its bytes are."""
    with read(place) as store:
        return list(store.rows_after(0))


def unreported(*_: object) -> None:
    """Nobody looks."""


def queue_fact(stream: str, version: int) -> tuple[object, ...]:
    """A fact that today's code reads, as it goes into a batch."""
    state = (
        b'[["f%d","2026-01-01T12:00:00Z",null,null,null,null,"default",null],'
        b'{"queue":"x","max_leases":1,"max_per_key":1}]' % version
    )
    return stream, version, "queue.configured.v1", state, None
