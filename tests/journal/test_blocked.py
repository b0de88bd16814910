"""While an append is under way nobody sees anything of it: with a recorder that stands still in mid-transaction."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from domain.values import Json, Moment
from journal.commit import Journal
from journal.errors import JournalBusy
from journal.mapper import Recorded
from journal.registers import PartialWrite
from journal.writer import MAX_QUEUED
from tests.journal.accounts import command, deposit, execute, facts_in, started

BOUND_S = 20.0


class Gate:
    """Stops the recorder after it inserted and before it commits; counts transactions."""

    def __init__(self, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        self.sizes: list[int] = []
        insert = journal.store._insert_events  # type: ignore[attr-defined]

        def gated(c: Any, stored_events: Any, **kwargs: Any) -> Any:
            result = insert(c, stored_events, **kwargs)
            self.sizes.append(len(kwargs["batch"].accepted))
            self.reached.set()
            assert self._open.wait(BOUND_S), "the gate was never opened"
            return result

        monkeypatch.setattr(journal.store, "_insert_events", gated)

    async def is_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, BOUND_S), "the recorder was never called"

    def open(self) -> None:
        self._open.set()


@pytest.fixture
async def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Journal, Gate]]:
    journal = started("sqlite", tmp_path)
    await execute(journal, deposit(journal, "account-a", 1))
    gate = Gate(journal, monkeypatch)
    yield journal, gate
    gate.open()
    await journal.close()


async def test_nothing_of_an_append_is_visible_before_it_is_durable(gated: tuple[Journal, Gate]) -> None:
    journal, gate = gated
    heard: list[Recorded] = []
    journal.listeners.append(heard.extend)
    journal.registers.partial("r")
    write = PartialWrite("r", 1, Json(b"1"))
    running = asyncio.create_task(execute(journal, deposit(journal, "account-a", 5, [write]), context=command("k")))
    await gate.is_reached()

    assert 1 == journal.streams.load("account-a").balance
    journal.streams.clear()
    assert 1 == journal.streams.load("account-a").balance
    assert ([(1, "account-a", 1)], []) == (facts_in(journal), journal.feed.after(1))
    assert (None, None) == (journal.registers.partial("r"), journal.store.partial("r"))
    assert (None, 1, []) == (journal.store.command("k"), journal.position, heard)
    assert not await journal.feed.wait(2, 0)
    assert (1, 1) == (journal.store.head("account-a"), journal.store.load_tail().position)
    assert not running.done()

    gate.open()
    done = await running

    assert (6, 2, [2]) == (done.answer, done.position, [fact.position for fact in heard])
    assert 6 == journal.streams.load("account-a").balance
    assert [2] == [fact.position for fact in journal.feed.after(1)]
    assert 1 == getattr(journal.registers.partial("r"), "saved", 0)


async def test_whatever_comes_meanwhile_lands_in_one_transaction(gated: tuple[Journal, Gate]) -> None:
    journal, gate = gated
    first = asyncio.create_task(execute(journal, deposit(journal, "account-0")))
    await gate.is_reached()
    rest = [asyncio.create_task(execute(journal, deposit(journal, f"account-{n}"))) for n in range(1, 200)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    gate.open()
    await asyncio.gather(first, *rest)

    assert [1, 199] == gate.sizes
    assert 201 == journal.position


async def test_reads_go_on_while_an_append_stands_still(gated: tuple[Journal, Gate]) -> None:
    journal, gate = gated
    running = asyncio.create_task(execute(journal, deposit(journal, "account-b")))
    await gate.is_reached()

    assert [1] == [fact.position for fact in journal.feed.after(0)]
    assert journal.verify().ok

    gate.open()
    await running


async def test_a_decision_on_what_is_not_yet_visible_is_made_again_afterwards(gated: tuple[Journal, Gate]) -> None:
    journal, gate = gated
    first = asyncio.create_task(execute(journal, deposit(journal, "account-a", 10)))
    await gate.is_reached()
    second = asyncio.create_task(execute(journal, deposit(journal, "account-a", 100)))
    await asyncio.sleep(0)
    assert not second.done()

    gate.open()

    assert [11, 111] == [done.answer for done in await asyncio.gather(first, second)]


async def test_a_cancelled_caller_leaves_its_lock_to_the_append(gated: tuple[Journal, Gate]) -> None:
    journal, gate = gated
    first = asyncio.create_task(execute(journal, deposit(journal, "account-a", 10), locks=["a"]))
    await gate.is_reached()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    made: list[int] = []

    def decide(now: Moment) -> Any:
        made.append(journal.position)
        return deposit(journal, "account-a", 100)(now)

    second = asyncio.create_task(execute(journal, decide, locks=["a"]))
    await asyncio.sleep(0)
    assert (1, []) == (len(journal._locks), made)

    gate.open()
    done = await second

    assert (111, 3, [2], 0) == (done.answer, done.position, made, len(journal._locks))


async def test_a_cancelled_callers_command_is_found_when_it_is_sent_again(gated: tuple[Journal, Gate]) -> None:
    journal, gate = gated
    first = asyncio.create_task(execute(journal, deposit(journal, "account-a", 10), context=command("k")))
    await gate.is_reached()
    first.cancel()
    again = asyncio.create_task(execute(journal, deposit(journal, "account-a", 10), context=command("k")))
    await asyncio.sleep(0)

    gate.open()
    done = await again

    assert (11, 2, True, 2) == (done.answer, done.position, done.repeated, journal.position)


async def test_a_full_queue_sends_callers_away_and_forgets_nobody(gated: tuple[Journal, Gate]) -> None:
    journal, gate = gated
    first = asyncio.create_task(execute(journal, deposit(journal, "account-0")))
    await gate.is_reached()
    rest = [asyncio.create_task(execute(journal, deposit(journal, f"account-{n}"))) for n in range(1, MAX_QUEUED)]
    await asyncio.sleep(0)
    assert MAX_QUEUED == journal.queued

    with pytest.raises(JournalBusy) as caught:
        await execute(journal, deposit(journal, "account-z"), locks=["z"])

    assert ("journal_busy", 1, MAX_QUEUED) == (
        caught.value.code,
        caught.value.retry_after_s,
        caught.value.fields()["queued"],
    )
    gate.open()
    await asyncio.gather(first, *rest)
    assert (MAX_QUEUED + 1, 0, 0) == (journal.position, journal.queued, len(journal._locks))
    assert 1 == (await execute(journal, deposit(journal, "account-z"))).answer
