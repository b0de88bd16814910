"""Waiting for a condition in the real world: bounded, named, and the only place where a test may pause.

Most tests move an injected clock and never wait. Those that start real processes ask a question again and again
until it is answered or the bound is over; the failure then says what was waited for, how long, and what was seen
last. Seconds everywhere.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PAUSE_S = 0.02
"""Between two questions: long enough to leave a core to the processes under test."""

T = TypeVar("T")


def until(question: Callable[[], T | None], *, what: str, within_s: float = 10.0) -> T:
    """The first truthy answer to the question.

    Raises:
        AssertionError: none came within the bound.
    """
    bound = time.monotonic() + within_s
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < bound, _missed(what, within_s, answer)
        time.sleep(PAUSE_S)


async def eventually(question: Callable[[], Awaitable[T | None]], *, what: str, within_s: float = 10.0) -> T:
    """The first truthy answer to the question, leaving the event loop to others between two questions.

    Raises:
        AssertionError: none came within the bound.
    """
    bound = time.monotonic() + within_s
    while True:
        answer = await question()
        if answer:
            return answer
        assert time.monotonic() < bound, _missed(what, within_s, answer)
        await asyncio.sleep(PAUSE_S)


def _missed(what: str, within_s: float, answer: object) -> str:
    return f"waited {within_s:g} s for {what}, and saw {answer!r} last"
