"""Saying the last word about an attempt, and what all executions of one worker share to say it.

An ending is said until it is heard, under an idempotency key of its own, so that a worker which died in between says
the same thing again. A result that the service will never take (too large, say) fails the attempt, and is not left to
an expiry. Under a revoked fence there is one report, and nothing else.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from jackline._async.client import AsyncClient
from jackline.errors import IdempotencyMismatch, Invalid, JacklineError
from jackline.models import TERMINAL, LeaseRef
from jackline.worker.endings import Ending, instead_of
from jackline.worker.grounds import Grounds
from jackline.worker.held import HeldLease
from jackline.worker.log import Log
from jackline.worker.persist import Heard, until_heard
from jackline.worker.places import Home


@dataclass(frozen=True, slots=True)
class Shop:
    """What all executions of one worker share."""

    client: AsyncClient
    home: Home
    log: Log
    outer: Mapping[str, str]
    command: tuple[str, ...] = ()
    grace_s: float = 10.0
    run_key: str | None = None
    come_back_s: float | None = None
    _: KW_ONLY
    grounds: Grounds


async def tell(shop: Shop, lease: HeldLease, last: Ending) -> bool:
    """Say an ending until it is heard; True when there is nothing left to say about this attempt."""
    ref, values = lease.ref, {"run_id": lease.ref.run_id, "fence": lease.ref.fence}
    if last.verb == "nothing":
        shop.grounds.left(ref.run_id, ended=False)
        return True
    key = f"{ref.run_id}.{ref.fence}.{last.verb}"
    if last.verb == "stop-report":
        await _report_stop(shop, lease, last.body, key)
        shop.grounds.left(ref.run_id)
        return True
    state = None

    async def say() -> None:
        nonlocal state
        run = await close_or_write(shop.client, ref, last, key)
        state = run.get("state") if isinstance(run, dict) else None

    heard = await until_heard(last.verb, say, lease, shop.client.transport.clock, shop.log)
    shop.grounds.left(ref.run_id, ended=None if state is None else state in TERMINAL)
    if heard is Heard.FENCE_LOST:
        loss = lease.loss
        shop.log("claim_lost_before_finish", **values, current=loss and loss.current, holder=loss and loss.holder)
    elif heard is Heard.DELIVERED:
        shop.log("run_ended", **values, verb=last.verb, outcome=last.body.get("outcome"))
    return True


async def close_or_write(client: AsyncClient, ref: LeaseRef, last: Ending, key: str) -> Any:
    """The answer to an ending; a close that is refused for what is in it is replaced by one that says so."""
    try:
        return await client.write(ref, last.verb, last.body, key)
    except Invalid as refusal:
        if last.verb != "close" or isinstance(refusal, IdempotencyMismatch):
            raise
        return await client.write(ref, last.verb, instead_of(last.body, refusal), f"{key}.refused")


async def _report_stop(shop: Shop, lease: HeldLease, body: dict[str, Any], key: str) -> None:
    """The one report that a revoked fence is good for; under one that merely expired it is refused like the rest."""
    values = {"run_id": lease.ref.run_id, "fence": lease.ref.fence}
    try:
        await shop.client.write(lease.ref, "stop-report", body, key)
    except JacklineError:
        shop.log("claim_lost_before_finish", **values, reason=lease.loss and lease.loss.reason)
    else:
        shop.log("stop_reported", **values, **body)
