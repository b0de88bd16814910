"""Judging by a mark: it is taken for as long as the append that follows from it is under way, and put back after that.

Whoever would renew the mark meanwhile waits for the end of the append and is answered by what came of it. So the mark
may not be put back before that end, also when whoever decided goes away in the middle; where the fact is there, nothing
is left to be put back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from commands.desk import Desk

T = TypeVar("T")


async def judged(desk: Desk, key: str, doing: Awaitable[T], put_back: Callable[[], None]) -> T:
    """What came of a decision under this key that may have taken a mark; ``put_back`` once its append has ended."""
    try:
        done = await doing
    except asyncio.CancelledError:
        desk.afterwards(_when_known(desk, key, put_back))
        raise
    except BaseException:
        put_back()
        raise
    put_back()
    return done


async def _when_known(desk: Desk, key: str, put_back: Callable[[], None]) -> None:
    await desk.journal.quiet(key)
    put_back()
