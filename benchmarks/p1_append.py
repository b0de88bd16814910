"""P1: appends in process. A thousand concurrent commands of one fact each, on an SQLite file, synchronous=FULL.

Measured is everything between deciding and being answered: the locks, the decision on a folded state, metadata, one
encoding, guards, hash chain, insert with both indexes, fsync, the fold, the wake-up of the caller.

The reference is plain ``sqlite3`` in the same run: the very rows that the journal stored, in transactions of the same
mean size, into a file with the same table, indexes and pragmas, prepared beforehand and inserted with ``executemany``.
Rounds alternate; figures are medians. CPU is that of the whole process, for each fact.

    python -m benchmarks.p1_append [--facts 50000] [--clients 1000] [--rounds 3] [--dir DIR]
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uuid_utils
import uvloop

from api.serve import GC_THRESHOLDS
from domain.lease import FenceBumped
from domain.values import Moment
from journal.commit import Context, Decision, Entry, Journal
from journal.datastore import connect
from journal.opening import JOURNAL_NAME, open_journal
from journal.schema import TABLES

CONTEXT = Context("default", "bench")


class Round(msgspec.Struct):
    """One measurement: facts per second, CPU microseconds per fact, mean facts per transaction, latencies in ms."""

    rate: float
    cpu_us: float
    group: float = 0
    p50_ms: float = 0
    p99_ms: float = 0


def clock() -> Moment:
    """The real clock."""
    return Moment(datetime.now(UTC), time.monotonic())


def mint() -> str:
    """A new id."""
    return str(uuid_utils.uuid7())


class Measured:
    """Wall and CPU seconds of a block."""

    wall = 0.0
    cpu = 0.0


@contextlib.contextmanager
def measured() -> Iterator[Measured]:
    """Measure a block."""
    result = Measured()
    wall, cpu = time.perf_counter(), time.process_time()
    yield result
    result.wall, result.cpu = time.perf_counter() - wall, time.process_time() - cpu


async def one_client(journal: Journal, run_id: str, facts: int, latencies: list[float]) -> None:
    """Append one fact after another to one lease's stream."""
    stream = f"lease-{run_id}"
    locks = (run_id,)
    worker = f"worker-{run_id}"

    def decide(now: Moment) -> Decision[int]:
        lease = journal.streams.load(stream)
        fact = FenceBumped(
            fence=lease.version + 1,
            worker=worker,
            ttl_s=60.0,
            granted_at=now.wall,
            slice_ends_at=None,
            cause="queue",
        )
        return Decision([Entry(stream, fact, run_id)], {stream: lease.version}, lease.version + 1)

    for _ in range(facts):
        begun = time.perf_counter()
        await journal.execute(locks, decide, CONTEXT, encode=lambda _: b"", decode=len)
        latencies.append(time.perf_counter() - begun)


async def ours(directory: Path, facts: int, clients: int) -> Round:
    """A round of the journal, in an empty directory, with the collector of cycles set as the service sets it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    journal = await open_journal(directory, clock, mint=mint)
    batches = 0

    def count(_: Any) -> None:
        nonlocal batches
        batches += 1

    journal.listeners.append(count)
    latencies: list[float] = []
    runs = [mint() for _ in range(clients)]
    with measured() as took:
        async with asyncio.TaskGroup() as group:
            for run_id in runs:
                group.create_task(one_client(journal, run_id, facts // clients, latencies))
    total = journal.position
    await journal.close()
    ranked = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else latencies * 100
    return Round(total / took.wall, took.cpu / total * 1e6, total / batches, ranked[49] * 1e3, ranked[98] * 1e3)


def raw(source: Path, target: Path, group: int) -> Round:
    """A round of plain ``sqlite3`` with the rows of the journal in ``source``."""
    with contextlib.closing(sqlite3.connect(source / JOURNAL_NAME)) as stored:
        rows = stored.execute("SELECT * FROM stored_events ORDER BY position").fetchall()
    target.mkdir()
    with contextlib.closing(connect(str(target / JOURNAL_NAME))) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for statement in TABLES:
            if "stored_events" in statement and "TRIGGER" not in statement:
                connection.execute(statement)
        with measured() as took:
            for start in range(0, len(rows), group):
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT INTO stored_events VALUES (?,?,?,?,?,?,?)", rows[start : start + group])
                connection.execute("COMMIT")
    return Round(len(rows) / took.wall, took.cpu / len(rows) * 1e6, group)


def median(rounds: list[Round]) -> dict[str, float]:
    """The median of each figure."""
    return {name: round(statistics.median(getattr(r, name) for r in rounds), 2) for name in Round.__struct_fields__}


def report(ours_rounds: list[Round], raw_rounds: list[Round], options: argparse.Namespace) -> dict[str, Any]:
    """What was measured, where, and with which command."""
    ratios = [o.rate / r.rate for o, r in zip(ours_rounds, raw_rounds, strict=True)]
    return {
        "id": "P1",
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "journal": median(ours_rounds),
        "raw_sqlite3": median(raw_rounds),
        "facts": options.facts,
        "clients": options.clients,
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "processor": platform.machine()},
        "versions": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "msgspec": msgspec.__version__,
        },
        "command": " ".join(["python", "-m", "benchmarks.p1_append", *sys.argv[1:]]),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description="P1: appends in process against raw sqlite3")
    parser.add_argument("--facts", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None, help="where the files are made (a temporary one)")
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop", help="the service runs on uvloop")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="p1-", dir=options.dir))
    run = uvloop.run if options.loop == "uvloop" else asyncio.run
    ours_rounds: list[Round] = []
    raw_rounds: list[Round] = []
    try:
        for number in range(options.rounds):
            mine, plain = place / f"ours-{number}", place / f"raw-{number}"
            ours_rounds.append(run(ours(mine, options.facts, options.clients)))
            raw_rounds.append(raw(mine, plain, max(1, round(ours_rounds[-1].group))))
            shutil.rmtree(mine)
            shutil.rmtree(plain)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps(report(ours_rounds, raw_rounds, options), indent=2))


if __name__ == "__main__":
    main()
