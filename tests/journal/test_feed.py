"""Facts after a position: in order, in pieces, from memory near the end and from storage before it."""

import asyncio

import pytest

from journal.feed import MAX_BATCH, Feed
from journal.mapper import Meta, Recorded
from tests.journal.accounts import NOON, Deposited


def fact(position: int) -> Recorded:
    return Recorded(position, "account-a", position, "account.deposited.v1", Deposited(amount=1), Meta("f", NOON))


class Source:
    """Facts one to a number; remembers what was asked."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.asked: list[tuple[int, int, int | None]] = []

    def facts_after(self, position: int, limit: int, upto: int | None = None) -> list[Recorded]:
        self.asked.append((position, limit, upto))
        end = min(position + limit, self.last if upto is None else upto)
        return [fact(n) for n in range(position + 1, end + 1)]


def positions(facts: list[Recorded]) -> list[int]:
    return [recorded.position for recorded in facts]


def test_facts_near_the_end_come_from_memory() -> None:
    source = Source(0)
    feed = Feed(source, 0)
    feed.publish([fact(n) for n in range(1, 8)])

    assert ([1, 2, 3], [6, 7], [], []) == (
        positions(feed.after(0, 3)),
        positions(feed.after(5, 10)),
        feed.after(7),
        feed.after(99),
    )
    assert [] == source.asked


def test_older_facts_come_from_storage_and_the_rest_from_memory() -> None:
    source = Source(5)
    feed = Feed(source, 5)
    feed.publish([fact(6), fact(7)])

    assert [3, 4, 5] == positions(feed.after(2, 10))
    assert [6, 7] == positions(feed.after(5, 10))
    assert [(2, 10, 5)] == source.asked


def test_nothing_beyond_the_published_position_is_given_out() -> None:
    feed = Feed(Source(100), 5)

    assert [4, 5] == positions(feed.after(3, 10))


def test_one_read_is_bounded_whatever_is_asked() -> None:
    feed = Feed(Source(0), 0)
    feed.publish([fact(n) for n in range(1, MAX_BATCH + 2)])

    assert MAX_BATCH == len(feed.after(0, 10**9))


def test_memory_is_bounded_and_nothing_is_missed() -> None:
    source = Source(1_000)
    feed = Feed(source, 0, recent=10)
    for start in range(1, 100, 3):
        feed.publish([fact(n) for n in range(start, start + 3)])

    seen: list[int] = []
    while batch := feed.after(seen[-1] if seen else 0, 7):
        seen += positions(batch)

    assert list(range(1, 100)) == seen
    assert len(feed._window[1]) <= 20
    assert source.asked


def test_a_gap_in_what_was_told_is_read_from_storage() -> None:
    feed = Feed(Source(3), 3)
    feed.publish([fact(4)])
    feed.publish([fact(7)])

    assert ([7], [4, 5, 6]) == (positions(feed.after(6)), positions(feed.after(3)))


async def test_who_waits_is_woken_by_the_position_that_was_waited_for() -> None:
    feed = Feed(Source(0), 0)
    waiting = [asyncio.create_task(feed.wait(position, 10)) for position in (1, 2, 5)]
    await asyncio.sleep(0)

    feed.publish([fact(1), fact(2)])
    assert [True, True] == [await one for one in waiting[:2]]
    assert not waiting[2].done()

    feed.publish([fact(n) for n in (3, 4, 5)])
    assert await waiting[2]
    assert {} == feed._waiting


async def test_waiting_for_what_is_there_returns_at_once_and_for_what_is_not_ends_in_time() -> None:
    feed = Feed(Source(3), 3)

    assert (True, False) == (await feed.wait(3, 0), await feed.wait(4, 0))
    assert {} == feed._waiting


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    feed = Feed(Source(0), 0)
    waiting = asyncio.create_task(feed.wait(1))
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    feed.publish([fact(1)])

    assert {} == feed._waiting


async def test_a_follower_sees_every_fact_once_and_in_order() -> None:
    feed = Feed(Source(5), 5)
    seen: list[int] = []

    async def follow() -> None:
        async for batch in feed.follow(2, 2):
            seen.extend(positions(batch))
            if seen[-1] == 9:
                return

    following = asyncio.create_task(follow())
    for start in (6, 8):
        assert await feed.wait(start - 1, 1)
        await asyncio.sleep(0)
        feed.publish([fact(start), fact(start + 1)])
    await asyncio.wait_for(following, 10)

    assert list(range(3, 10)) == seen
