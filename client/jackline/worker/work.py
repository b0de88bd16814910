"""`jackline work`: a worker that executes commands, as one process.

SIGTERM or SIGINT begins a stop in good order: no new claims, every command asked to end, what it did handed back or
closed, then the worker leaves. A second signal kills the commands at once; what could not be told to the service in
time stays on disk and is told at the next start.
"""

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from jackline._async.client import AsyncClient
from jackline.models import Claim
from jackline.worker.command import CommandExecution
from jackline.worker.engine import Engine, Execution, Setup
from jackline.worker.grounds import Grounds
from jackline.worker.held import HeldLease
from jackline.worker.leftovers import put_in_order
from jackline.worker.log import Log
from jackline.worker.places import Home
from jackline.worker.runkeys import RunKeys
from jackline.worker.starting import rehearse
from jackline.worker.telling import Shop

GROUNDS_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Work:
    """What `jackline work` was asked to do."""

    queues: tuple[str, ...]
    work_dir: Path
    slots: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    worker_id: str | None = None
    command: tuple[str, ...] = ()
    grace_s: float = 10.0
    stream: bool = True
    come_back_s: float | None = None
    run_key: str | None = None
    outer: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


async def work(client: AsyncClient, wanted: Work, log: Log) -> None:
    """Claim and execute until told to stop."""
    home = Home(wanted.work_dir / wanted.worker_id) if wanted.worker_id else Home.first_free(wanted.work_dir)
    try:
        worker_id = home.name(wanted.worker_id, f"{socket.gethostname()}-{secrets.token_hex(3)}")
        await _work_in(home, client, wanted, worker_id, log)
    finally:
        home.close()


async def _work_in(home: Home, client: AsyncClient, wanted: Work, worker_id: str, log: Log) -> None:
    keys = RunKeys(client, home, worker_id, log)
    grounds = Grounds(client, home, log)
    more = (wanted.grace_s, wanted.run_key, wanted.come_back_s)
    shop = Shop(client, home, log, wanted.outer, wanted.command, *more, grounds=grounds)

    def begin(claim: Claim, lease: HeldLease) -> Execution:
        return CommandExecution.begin(shop, claim, lease)

    async def prepare() -> None:
        nonlocal shop
        if shop.run_key is None:
            shop = replace(shop, run_key=await keys.obtain())
        await put_in_order(engine, shop)

    setup = Setup(
        worker_id,
        wanted.queues,
        wanted.slots,
        wanted.labels,
        grace_s=wanted.grace_s,
        stream=wanted.stream,
        stop_within_s=wanted.grace_s + 20.0,
        instance=home.instance,
        where=f"{socket.gethostname()}, process {os.getpid()}, {home.path}",
    )
    engine = Engine(client, setup, begin, log)
    engine.able = lambda: rehearse(home)
    engine.staying.on_destroy = grounds.sweep
    _stop_on_signals(engine)
    looking_after = asyncio.create_task(_look_after(grounds, log))
    try:
        with client.transport.telling(grounds.look_again):
            await engine.run(prepare)
    finally:
        looking_after.cancel()
        await asyncio.gather(looking_after, return_exceptions=True)
    await keys.give_back()


async def _look_after(grounds: Grounds, log: Log) -> None:
    """Look after the grounds until cancelled; a fault of ours is told, and does not end the watch."""
    while True:
        try:
            await grounds.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the directories must be watched
            log("grounds_failed", error=repr(error))
        await asyncio.sleep(GROUNDS_AGAIN_S)


def _stop_on_signals(engine: Engine) -> None:
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        engine.stop()
        if heard > 1:
            engine.press("now")

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear)
