"""`jackline work`: a worker that executes commands, as one process.

SIGTERM or SIGINT begins a stop in good order: no new claims, every command asked to end, what it did handed back or
closed, then the worker leaves. A second signal kills the commands at once; what could not be told to the service in
time stays on disk and is told at the next start.
"""

import asyncio
import os
import re
import secrets
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jackline._async.client import AsyncClient
from jackline.errors import JacklineError
from jackline.models import Claim
from jackline.worker import keeper
from jackline.worker.command import CommandExecution, Shop
from jackline.worker.engine import Engine, Execution, Setup
from jackline.worker.held import HeldLease
from jackline.worker.leftovers import put_in_order
from jackline.worker.log import Log
from jackline.worker.places import Home


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
        run_key = wanted.run_key or await _key_for_runs(client, home, worker_id, log)
        shop = Shop(client, home, log, wanted.outer, wanted.command, wanted.grace_s, run_key, wanted.come_back_s)

        def begin(claim: Claim, lease: HeldLease) -> Execution:
            return CommandExecution.begin(shop, claim, lease)

        setup = Setup(
            worker_id,
            wanted.queues,
            wanted.slots,
            wanted.labels,
            grace_s=wanted.grace_s,
            stream=wanted.stream,
            stop_within_s=wanted.grace_s + 20.0,
        )
        engine = Engine(client, setup, begin, log)
        _stop_on_signals(engine)
        await engine.run(before_claiming=lambda: put_in_order(engine, shop))
    finally:
        home.close()


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


def _key_name(worker_id: str) -> str:
    return "runs-of-" + re.sub(r"[^A-Za-z0-9._-]", "-", worker_id)[:100]


async def _key_for_runs(client: AsyncClient, home: Home, worker_id: str, log: Log) -> str | None:
    """A key of role worker for the commands, when the worker's own could do more than they should.

    It is made once per place and kept there; when none can be made, commands get the worker's own key.
    """
    path = home.path / "run-key.json"
    saved = keeper.read(path)
    if isinstance(saved, dict) and saved.get("url") == client.url and saved.get("worker_id") == worker_id:
        return str(saved["key"])
    try:
        if (await client.whoami()).role != "admin":
            return None
        key = await client.create_key(_key_name(worker_id), "worker", worker_ids=[worker_id])
    except JacklineError as error:
        log("run_key_not_made", error=str(error))
        return None
    document = {"url": client.url, "worker_id": worker_id, "key_id": key.key_id, "key": key.key}
    keeper.write(path, document)
    return key.key
