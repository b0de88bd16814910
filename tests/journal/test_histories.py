"""Random histories: clients side by side, cancellations, repeats and storage that fails at any append.

Whatever happens, what was acknowledged is there exactly once, listeners have heard exactly what is stored and in order,
states are what a replay gives, and no lock is left.
"""

import asyncio
import random
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.commit import Journal
from journal.datastore import JournalConnection
from journal.errors import Unavailable
from journal.mapper import projector
from tests.journal.accounts import Account, command, deposit, evolve, execute, started

ACCOUNTS = ("account-a", "account-b", "account-c")
ENDS = ("well", "well", "well", "instead", "although")


class History:
    """One journal, its clients, and what they were told."""

    def __init__(self, journal: Journal, chance: random.Random) -> None:
        self.journal = journal
        self.chance = chance
        self.heard: list[tuple[int, str, int]] = []
        self.acknowledged: list[tuple[str, int]] = []
        self.keys: set[str] = set()
        journal.listeners.append(lambda facts: self.heard.extend((f.position, f.stream, f.version) for f in facts))

    async def client(self, number: int, steps: int) -> None:
        for step in range(steps):
            stream = self.chance.choice(ACCOUNTS)
            locks = [stream] if self.chance.random() < 0.7 else []
            key = f"{number}-{step}"
            asked = asyncio.ensure_future(self.ask(stream, locks, key))
            if self.chance.random() < 0.15:
                await asyncio.sleep(0)
                asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            while self.chance.random() < 0.6:
                await asyncio.gather(self.ask(stream, locks, key), return_exceptions=True)

    async def ask(self, stream: str, locks: list[str], key: str) -> None:
        self.keys.add(key)
        try:
            done = await execute(self.journal, deposit(self.journal, stream), locks=locks, context=command(key))
        except Unavailable:
            return
        assert done.position is not None
        self.acknowledged.append((key, done.position))


async def live_through(kind: str, place: Path, seed: int, clients: int) -> None:
    chance = random.Random(seed)
    journal = started(kind, place)
    history = History(journal, chance)
    commit = JournalConnection.commit

    def commit_or_not(self: JournalConnection) -> None:
        end = chance.choice(ENDS)
        if end != "instead":
            commit(self)
        if end != "well":
            message = "disk I/O error"
            raise sqlite3.OperationalError(message)

    with pytest.MonkeyPatch.context() as injected:
        injected.setattr(JournalConnection, "commit", commit_or_not)
        await asyncio.gather(*(history.client(number, 6) for number in range(clients)))
        await journal.drain()
    check(history)
    await execute(journal, deposit(journal, "account-a"))
    check(history)
    await journal.close()


def check(history: History) -> None:
    journal = history.journal
    stored = journal.store.facts_after(0, 10_000)
    assert [(fact.position, fact.stream, fact.version) for fact in stored] == history.heard
    assert (len(stored), 0, True) == (journal.position, len(journal._locks), journal.verify().ok)
    by_key: dict[str | None, list[int]] = {}
    for fact in stored:
        by_key.setdefault(fact.meta.command_id, []).append(fact.position)
    assert [] == [key for key, positions in by_key.items() if key is not None and len(positions) > 1]
    assert [] == [(key, position) for key, position in history.acknowledged if by_key.get(key) != [position]]
    for stream in ACCOUNTS:
        replayed: Any = projector(evolve, Account())(Account(), journal.store.stream(stream))
        assert replayed == journal.streams.load(stream)


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), clients=st.integers(1, 12))
def test_whatever_happens_the_acknowledged_is_there_once_and_everybody_has_seen_it(
    kind: str, seed: int, clients: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(live_through(kind, Path(place), seed, clients))
