"""Saying something to the service until it has been heard.

A delivery is repeated, under the idempotency key that it carries, for as long as nobody answers. What comes back is how
it went: `delivered`, `fence_lost` (the run is somebody else's; the lease is ended), `refused` (the service said no for
another reason: logged, counted, and not tried again), or `abandoned` (the caller gave up waiting).

Bounds: pauses of at most two seconds. A refusal of the key itself (401, 403) and a rate limit are waited out like
silence: they say nothing about the delivery.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, TypeVar

from jackline.clock import Clock
from jackline.errors import FenceLost, Forbidden, Problem, RateLimited, Unauthorised, Unknown
from jackline.retrying import Retry
from jackline.worker.held import HeldLease
from jackline.worker.log import Log

T = TypeVar("T")

FOR_EVER = Retry(first_s=0.1, cap_s=2.0)


class Heard(Enum):
    """What came of a delivery."""

    DELIVERED = "delivered"
    FENCE_LOST = "fence_lost"
    REFUSED = "refused"


async def until_answered(say: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """The answer, once there is one; raises the refusal if it is one."""
    pauses = FOR_EVER.pauses(clock)
    while True:
        try:
            return await say()
        except (Unknown, Unauthorised, Forbidden, RateLimited):
            await asyncio.sleep(next(pauses))


async def until_heard(what: str, say: Callable[[], Awaitable[Any]], lease: HeldLease, clock: Clock, log: Log) -> Heard:
    """How the delivery went, once somebody answered it."""
    try:
        await until_answered(say, clock)
    except FenceLost as refusal:
        lease.lose_to(refusal)
        return Heard.FENCE_LOST
    except Problem as refusal:
        log("delivery_refused", what=what, run_id=lease.ref.run_id, code=refusal.code, detail=refusal.detail)
        return Heard.REFUSED
    return Heard.DELIVERED
