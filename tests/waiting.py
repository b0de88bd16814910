"""Waiting for a condition in the real world: bounded, named, and the only place where a test may pause.

Most tests move an injected clock and never wait. Those that start real processes ask a question again and again
until it is answered or the bound is over; the failure then says what was waited for, how long, and what was seen
last. Seconds everywhere.

A bound ends what hangs, and times nothing: a machine with twenty others at work takes a minute to start what else
takes two seconds, and is no fault of what is tried. So none is shorter than `BOUND_S`; where a test knows that more is
needed it says so.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PAUSE_S = 0.02
"""Between two questions: long enough to leave a core to the processes under test."""

BOUND_S = 120.0
"""The shortest bound there is; less than half of what the suite grants a test before it says where it hangs."""

T = TypeVar("T")


def until(question: Callable[[], T | None], *, what: str, within_s: float = BOUND_S) -> T:
    """The first truthy answer to the question.

    Raises:
        AssertionError: none came within the bound.
    """
    within_s = max(within_s, BOUND_S)
    bound = time.monotonic() + within_s
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < bound, _missed(what, within_s, answer)
        time.sleep(PAUSE_S)


async def eventually(question: Callable[[], Awaitable[T | None]], *, what: str, within_s: float = BOUND_S) -> T:
    """The first truthy answer to the question, leaving the event loop to others between two questions.

    Raises:
        AssertionError: none came within the bound.
    """
    within_s = max(within_s, BOUND_S)
    bound = time.monotonic() + within_s
    while True:
        answer = await question()
        if answer:
            return answer
        assert time.monotonic() < bound, _missed(what, within_s, answer)
        await asyncio.sleep(PAUSE_S)


def _missed(what: str, within_s: float, answer: object) -> str:
    return f"waited {within_s:g} s for {what}, and saw {answer!r} last"
