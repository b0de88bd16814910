"""In-process locks: one at a time for each key, in the order of asking, without deadlock and without leftovers."""

import asyncio

import pytest

from journal.locks import Locks


async def test_free_keys_are_taken_at_once_and_all_or_none() -> None:
    locks = Locks()

    assert locks.try_take(["a", "b"])
    assert not locks.try_take(["b", "c"])
    assert locks.try_take(["c"])
    locks.release(["a", "b"])
    locks.release(["c"])

    assert 0 == len(locks)


async def test_a_key_goes_to_the_one_that_waits_longest() -> None:
    locks = Locks()
    order: list[int] = []

    async def one(number: int) -> None:
        await locks.take(["a"])
        order.append(number)
        locks.release(["a"])

    assert locks.try_take(["a"])
    waiting = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert [] == order

    locks.release(["a"])
    await asyncio.gather(*waiting)

    assert ([0, 1, 2, 3, 4], 0) == (order, len(locks))


async def test_nobody_overtakes_one_that_waits() -> None:
    locks = Locks()
    assert locks.try_take(["a"])
    waiting = asyncio.create_task(locks.take(["a"]))
    await asyncio.sleep(0)

    locks.release(["a"])

    assert not locks.try_take(["a"])
    await waiting
    locks.release(["a"])
    assert 0 == len(locks)


async def test_one_that_gives_up_waiting_is_passed_over() -> None:
    locks = Locks()
    assert locks.try_take(["a"])
    first, second = (asyncio.create_task(locks.take(["a"])) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.sleep(0)
    locks.release(["a"])
    await second
    locks.release(["a"])

    assert (True, 0) == (first.cancelled(), len(locks))


async def test_one_that_gives_up_in_the_moment_of_its_turn_hands_it_on() -> None:
    locks = Locks()
    assert locks.try_take(["a"])
    first, second = (asyncio.create_task(locks.take(["a"])) for _ in range(2))
    await asyncio.sleep(0)

    locks.release(["a"])
    first.cancel()
    await second
    locks.release(["a"])

    with pytest.raises(asyncio.CancelledError):
        await first
    assert 0 == len(locks)


async def test_one_that_gives_up_half_way_returns_what_it_had() -> None:
    locks = Locks()
    assert locks.try_take(["b"])
    waiting = asyncio.create_task(locks.take(["a", "b"]))
    await asyncio.sleep(0)
    assert not locks.try_take(["a"])

    waiting.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert locks.try_take(["a"])


async def test_one_can_wait_for_a_key_without_taking_it() -> None:
    locks = Locks()
    await locks.quiet("a")
    assert locks.try_take(["a"])
    waiting = asyncio.create_task(locks.quiet("a"))
    await asyncio.sleep(0)
    assert not waiting.done()

    locks.release(["a"])
    await waiting

    assert 0 == len(locks)
