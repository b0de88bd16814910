"""`work`: executing runs on this machine.

The worker keeps its things below `--work-dir` (default: `workers` in the data dir): see `jackline.worker.places`.
Started again in the same place it goes on with the commands that it finds still running under a lease, and ends the
others.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from jackline.address import default_data_dir
from jackline.cli.exits import USAGE, Fault
from jackline.cli.place import Place, run_async, verb
from jackline.cli.show import safe
from jackline.cli.submit import pairs
from jackline.retrying import Retry
from jackline.worker.log import Log
from jackline.worker.work import Work, work

PANEL = "Workers"
COME_BACK_S = 1.0  # the service's own reconnect window: with a stream, another takes over after it
PATIENCE = Retry(patience_s=5.0)


def join(app: typer.Typer) -> None:
    """Add this verb."""
    verb(app, PANEL, "work", context_settings={"allow_interspersed_args": False})(work_verb)


def work_verb(
    place: Place,
    queue: Annotated[list[str] | None, typer.Option("--queue", "-q", help="A queue to work on; repeatable.")] = None,
    slots: Annotated[int, typer.Option("--slots", "-s", min=1, max=10_000, help="Runs at a time.")] = 1,
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="What this worker has.")] = None,
    worker_id: Annotated[str | None, typer.Option("--id", help="Its name; default: made once per place.")] = None,
    work_dir: Annotated[Path | None, typer.Option(help="Where it keeps its things.")] = None,
    grace: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="From SIGTERM to SIGKILL.")] = 10.0,
    stream: Annotated[bool, typer.Option(help="Keep a stream open: a death is noticed at once.")] = True,
    come_back: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="How long commands go on without it. [1; --no-stream: the ttl]"),
    ] = None,
    run_key: Annotated[str | None, typer.Option(envvar="JACKLINE_RUN_KEY", help="The key commands get.")] = None,
    command: Annotated[list[str] | None, typer.Argument(help="Instead of each run's own command.")] = None,
) -> int:
    """Claim runs and execute their commands, each in a directory and a process session of its own."""
    if worker_id is not None and ("/" in worker_id or worker_id.startswith(".") or not worker_id):
        msg = f"--id {worker_id!r} cannot be a directory's name"
        raise Fault(msg, code=USAGE)
    wanted = Work(
        queues=tuple(queue or ["default"]),
        work_dir=(work_dir or (place.data_dir or default_data_dir(os.environ)) / "workers").absolute(),
        slots=slots,
        labels=pairs(label, "--label"),
        worker_id=worker_id,
        command=tuple(command or ()),
        grace_s=grace,
        stream=stream,
        come_back_s=COME_BACK_S if come_back is None and stream else come_back,
        run_key=run_key,
    )
    log = Log(_print_json if place.json else _print_line)
    run_async(_work(place, wanted, log))
    log("stopped", **{name: count for name, count in log.counts.items() if name in COUNTED})
    return 0


COUNTED = ("run_started", "run_ended", "claim_lost", "claim_lost_before_finish", "delivery_refused")


async def _work(place: Place, wanted: Work, log: Log) -> None:
    async with place.async_client(PATIENCE) as client:
        await work(client, wanted, log)


def _print_json(happening: str, values: Mapping[str, Any]) -> None:
    print(json.dumps({"happening": happening, **values}, ensure_ascii=False, default=str), flush=True)


def _print_line(happening: str, values: Mapping[str, Any]) -> None:
    told = "  ".join(f"{name}={safe(str(value))}" for name, value in values.items() if value is not None)
    print(f"{happening:<24} {told}", file=sys.stderr, flush=True)
