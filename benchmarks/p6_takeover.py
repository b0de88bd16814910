"""P6: kill -9 of `jackline work` to the next attempt started, everything at its default.

Two workers wait in one queue; one is granted a run and runs its command. It is killed; its kernel closes its stream,
which is evidence: the lease gets the reconnect window (1 s) instead of the rest of its 60 s, and the other worker is
granted the run. Measured from just before the kill, on one clock: until the second attempt's fact was recorded, and
until its command runs, which is what the run's owner sees.

    python -m benchmarks.p6_takeover [--rounds 5] [--dir DIR]
"""

import argparse
import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.lean import Client, Connection
from benchmarks.measuring import Figures, measure, without_settings
from benchmarks.serving import Serving

COMMAND = 'date +%s.%N > "$0.$JACKLINE_ATTEMPT.new" && mv "$0.$JACKLINE_ATTEMPT.new" "$0.$JACKLINE_ATTEMPT"; ' + (
    'if [ "$JACKLINE_ATTEMPT" = 1 ]; then exec sleep 20; fi'
)
WAIT_S = 30.0


@contextmanager
def working(service: Serving, worker_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """A `jackline work` process with defaults."""
    with (service.place / f"{worker_id}.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(service.script), "work", "--data-dir", str(service.data_dir), "--id", worker_id,
                "--work-dir", str(service.place / "work"),
            ],
            env=without_settings(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        finally:
            process.kill()
            process.wait()


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """The figures of one round."""
    (connection,) = await client.connect()
    mark = service.place / f"mark-{number}"
    with working(service, f"p6-{number}-a") as first, working(service, f"p6-{number}-b") as second:
        by_id = {f"p6-{number}-a": first, f"p6-{number}-b": second}
        for worker_id in by_id:
            await _until(lambda worker_id=worker_id: _registered(client, connection, worker_id))
        payload = {"command": ["sh", "-c", COMMAND, str(mark)]}
        receipt = await client.told(connection, client.send("/v1/runs", {"payload": payload}))
        path = f"/v1/runs/{receipt['run_id']}"
        await _until(lambda: _begun(mark, 1))
        holder = (await client.told(connection, client.get(path)))["owner"]
        killed_at = time.time()
        os.kill(by_id[holder].pid, signal.SIGKILL)
        begun_at = await _until(lambda: _begun(mark, 2))
        facts = (await client.told(connection, client.get(f"{path}/facts")))["facts"]
        await client.told(connection, client.get(f"{path}?until=settled&wait_s=30"))
    started = [fact for fact in facts if fact["topic"] == "run.attempt_started.v1"][1]
    recorded_at = datetime.fromisoformat(started["recorded_at"]).timestamp()
    ended = next(fact for fact in facts if fact["topic"] == "run.attempt_ended.v1")
    if ended["data"]["outcome"] != "detached":
        message = f"the attempt ended as {ended['data']['outcome']}"
        raise RuntimeError(message)
    return {"attempt_started_s": round(recorded_at - killed_at, 3), "command_runs_s": round(begun_at - killed_at, 3)}


async def _registered(client: Client, connection: Connection, worker_id: str) -> bool:
    status, _ = await connection.ask(client.get(f"/v1/workers/{worker_id}"))
    return status == 200


async def _begun(mark: Path, attempt: int) -> float:
    path = mark.with_name(f"{mark.name}.{attempt}")
    return float(path.read_text()) if path.exists() else 0.0


async def _until(question: Any) -> Any:
    """The first truthy answer, within a bound."""
    over = time.monotonic() + WAIT_S
    while time.monotonic() < over:
        answer = await question()
        if answer:
            return answer
        await asyncio.sleep(0.005)
    message = "nothing happened in time"
    raise RuntimeError(message)


if __name__ == "__main__":
    measure("P6", "kill -9 of a worker to the next attempt started, defaults", one_round, rounds=5)
