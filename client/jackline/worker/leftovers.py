"""What an earlier life of this worker left behind, put in order before the first claim.

A worker may have been killed at any point. For every attempt whose last word was not heard:

- it was never started: forget it; the service will hand the run on;
- its last word was already written down: say it;
- its command is still running: ask the service about its lease. Renewed: go on with it, as if nothing had happened.
  Lost, or nobody answers while it may still be trusted: it is ended (by us, or by its keeper), and told for what it is;
- its command has ended meanwhile: deliver its output and say how it ended. A run that nobody else has taken yet still
  accepts that; otherwise the service refuses it, which is logged as `claim_lost_before_finish`.

Then every directory that runs stand on is looked at, and what is seen is told.

Whatever is left of an attempt without a keeper is found by the mark in its environment and ended. So a process never
outlives what the service knows of its run by more than the time for which its lease could be trusted.
"""

import contextlib

from jackline.decode import decode
from jackline.errors import Garbled, JacklineError
from jackline.worker.command import CommandExecution, ref_of
from jackline.worker.endings import Ending
from jackline.worker.engine import Engine
from jackline.worker.environment import MARK
from jackline.worker.held import HeldLease, Loss
from jackline.worker.places import Attempt
from jackline.worker.processes import Identity, end_marked
from jackline.worker.telling import Shop


async def put_in_order(engine: Engine, shop: Shop) -> None:
    """Take up, finish or end every attempt of an earlier life."""
    for attempt in shop.home.attempts():
        known = ref_of(attempt)
        if known is None:
            attempt.remove()
            continue
        ref, ttl_s = known
        lease = HeldLease(ref, ttl_s, engine.clock, shop.grace_s)
        await _put_one_in_order(engine, shop, attempt, lease)
    await shop.grounds.take_up()


async def _put_one_in_order(engine: Engine, shop: Shop, attempt: Attempt, lease: HeldLease) -> None:
    values = {"run_id": lease.ref.run_id, "fence": lease.ref.fence}
    keeper = Identity.of(attempt.load("keeper.json"))
    running = keeper is not None and keeper.alive
    if not running:
        ended = end_marked(MARK, str(attempt.path))
        if ended:
            shop.log("orphans_ended", **values, processes=ended)
    try:
        await engine.staying.confirm([lease])
    except JacklineError as error:
        lease.lose(Loss("distrust", f"nobody answered after the restart: {error}"))
    shop.log("run_found_again", **values, running=running, held=lease.loss is None)
    last = None
    with contextlib.suppress(Garbled):
        last = decode(Ending, attempt.load("ending.json"))
    engine.take_on(CommandExecution.found(shop, lease, attempt, last), lease)
