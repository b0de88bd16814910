"""P9: rebuilding every stored projection from the journal, against a scan and decode of the same journal.

The journal holds whole lives of runs (a plain one, one that fails and is retried, one that waits for an answer, one
whose worker is lost), told with the domain's own decisions. A rebuild is what `jackline projections rebuild` does: it
reads the journal, folds it, writes all rows and indexes beside an empty model, and takes over, on two cores where there
are so many. The reference reads the same rows in order and decodes each, on one. Rounds alternate; figures are medians
of wall time. Nothing else writes meanwhile.

    python -m benchmarks.p9_rebuild [--facts 400000] [--rounds 3] [--dir DIR]
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import uuid_utils

from domain.values import Moment
from journal.commit import Context, Decision, Entry
from journal.opening import open_journal, open_readonly
from projections.rebuild import rebuild
from projections.stored.catalogue import NAMES
from projections.stored.file import FILE_NAME
from tests.projections.acts import Story

CONTEXT = Context("default", "bench")
LIVES = (
    ("submit", "claim", "begin an effect", "succeed"),
    ("submit", "claim", "fail", "claim by id", "succeed"),
    ("submit", "claim", "wait for input", "answer", "claim", "succeed"),
    ("submit", "claim", "expire", "claim", "succeed"),
)
RUNS_AT_ONCE = 200


def life(number: int) -> Iterable[Entry]:
    """The facts of one run's life."""
    run_id = str(uuid_utils.uuid7())
    story = Story(run_id)
    for step, act in enumerate(LIVES[number % len(LIVES)]):
        story.then(act, at=step * 61.0)
    return [Entry(recorded.stream, recorded.fact, run_id) for recorded in story.facts]


def decided(decision: Decision[None], _: Moment) -> Decision[None]:
    """The decision, whatever the moment."""
    return decision


async def fill(data_dir: Path, facts: int) -> tuple[int, int]:
    """A journal of so many facts: how many there are, and of how many runs."""
    journal = await open_journal(
        data_dir, lambda: Moment(datetime.now(UTC), time.monotonic()), mint=lambda: str(uuid_utils.uuid7())
    )
    runs = 0
    while journal.position < facts:
        entries = [entry for number in range(RUNS_AT_ONCE) for entry in life(runs + number)]
        guards = {entry.stream: 0 for entry in entries}
        decide = partial(decided, Decision(entries, guards, None))
        await journal.execute((), decide, CONTEXT, encode=lambda _: b"", decode=lambda _: None)
        runs += RUNS_AT_ONCE
    count = journal.position
    await journal.close()
    return count, runs


def scan(data_dir: Path) -> float:
    """Seconds to read and decode every fact."""
    application = open_readonly(data_dir)
    began = time.perf_counter()
    recorded = application.store.codec.recorded
    for row in application.store.rows_after(0):
        recorded(row)
    took = time.perf_counter() - began
    application.close()
    return took


def remade(data_dir: Path) -> float:
    """Seconds to rebuild every stored projection into a new file."""
    for file in data_dir.glob("projections*"):
        file.unlink()
    began = time.perf_counter()
    rebuild(data_dir)
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description="P9: rebuild against scan and decode")
    parser.add_argument("--facts", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None, help="where the files are made (a temporary one)")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="p9-", dir=options.dir))
    try:
        facts, runs = asyncio.run(fill(place, options.facts))
        scan(place)
        rounds = [(scan(place), remade(place)) for _ in range(options.rounds)]
        size = (place / FILE_NAME).stat().st_size
    finally:
        shutil.rmtree(place, ignore_errors=True)
    ratios = [scanned / rebuilt for scanned, rebuilt in rounds]
    print(
        json.dumps(
            {
                "id": "P9",
                "ratio": round(statistics.median(ratios), 3),
                "ratios": [round(ratio, 3) for ratio in ratios],
                "rebuild_facts_per_s": round(facts / statistics.median(rebuilt for _, rebuilt in rounds)),
                "scan_facts_per_s": round(facts / statistics.median(scanned for scanned, _ in rounds)),
                "projections": list(NAMES),
                "facts": facts,
                "runs": runs,
                "bytes_per_run": round(size / runs),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "processor": platform.machine()},
                "versions": {
                    "python": platform.python_version(),
                    "sqlite": sqlite3.sqlite_version,
                    "msgspec": msgspec.__version__,
                },
                "command": " ".join(["python", "-m", "benchmarks.p9_rebuild", *sys.argv[1:]]),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
