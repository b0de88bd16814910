"""P12: a long journal: its size per fact, the start of a service on it, and `why` on an old run.

The journal holds whole lives of runs (those of P9), recorded as the service records them. Size is that of the file with
its log taken in, indexes included, divided by its facts; also by part of the row. The start is that of the real
`jackline serve` until it answers ready, with no read models there and then with them. `why` is asked over HTTP, about
the first run of all.

    python -m benchmarks.p12_size [--facts 200000] [--asks 50] [--dir DIR]
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.lean import Client
from benchmarks.p9_rebuild import fill
from benchmarks.serving import Serving
from journal.opening import JOURNAL_NAME

PARTS = (
    "sum(length(originator_id))", "sum(length(topic))", "sum(length(state))", "sum(length(correlation_id))",
    "sum(length(hash))",
)  # fmt: skip


def size(journal: Path, facts: int) -> dict[str, Any]:
    """Bytes per fact: of the file, and of each part of a row."""
    with contextlib.closing(sqlite3.connect(journal)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        parts = connection.execute(f"SELECT {', '.join(PARTS)} FROM stored_events").fetchone()
        first = connection.execute(
            "SELECT originator_id FROM stored_events WHERE topic = 'run.submitted.v1'"
        ).fetchone()
    names = ("stream", "topic", "state", "correlation", "hash")
    return {
        "bytes_per_fact": round(journal.stat().st_size / facts, 1),
        "of_which": {name: round((part or 0) / facts, 1) for name, part in zip(names, parts, strict=True)},
        "first_run": first[0].removeprefix("run-"),
    }


async def why(service: Serving, run_id: str, asks: int) -> dict[str, float]:
    """How long `why` takes for one run, in milliseconds."""
    client = Client(service.port, service.key, service.pid)
    connection = (await client.connect())[0]
    request, took = client.get(f"/v1/runs/{run_id}/why"), []
    for _ in range(asks):
        began = time.perf_counter()
        await client.told(connection, request)
        took.append((time.perf_counter() - began) * 1e3)
    client.close()
    return {"first_ms": round(took[0], 2), "median_ms": round(statistics.median(took), 2)}


def started(place: Path, run_id: str, asks: int) -> tuple[float, dict[str, float]]:
    """Seconds until the service is ready on this directory, and what `why` takes then."""
    began = time.perf_counter()
    service = Serving(place, {})
    try:
        took = time.perf_counter() - began
        return took, uvloop.run(why(service, run_id, asks))
    finally:
        service.stop()


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description="P12: size, start-up and `why` of a long journal")
    parser.add_argument("--facts", type=int, default=200_000)
    parser.add_argument("--asks", type=int, default=50)
    parser.add_argument("--dir", type=Path, default=None, help="where the files are made (a temporary one)")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="p12-", dir=options.dir))
    try:
        facts, runs = asyncio.run(fill(place / "data", options.facts))
        sized = size(place / "data" / JOURNAL_NAME, facts)
        first_s, _ = started(place, sized["first_run"], 1)
        again_s, asked = started(place, sized["first_run"], options.asks)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    document = {
        "id": "P12",
        **sized,
        "start_without_read_models_s": round(first_s, 2),
        "start_s": round(again_s, 2),
        "why": asked,
        "facts": facts,
        "runs": runs,
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "processor": platform.machine()},
        "versions": {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version},
        "command": " ".join(["python", "-m", "benchmarks.p12_size", *sys.argv[1:]]),
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
