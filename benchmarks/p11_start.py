"""P11, in part: start to `/readyz` with many settled runs, from a checkpoint and from the whole journal.

The journal holds whole lives of settled runs and some open ones. Each round starts the real `jackline serve` on it
twice: with the checkpoint that its last clean stop left, and with that file deleted. The read models are there from a
first start, so neither builds them. The reference, in the same round, is the same start on an empty journal: most of it
is the interpreter and its imports. The replay alone is measured beside it, in this process. Figures are medians.

    python -m benchmarks.p11_start [--facts 150000] [--open 1000] [--rounds 3] [--dir DIR]
"""

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import uuid_utils

from api.clock import system_clock
from benchmarks.p9_rebuild import CONTEXT, decided, fill
from benchmarks.serving import Serving, machine, versions
from commands.boot import Opening
from commands.desk import Timers
from journal.checkpoints import CHECKPOINT_NAME, Checkpoint
from journal.commit import Decision, Entry
from journal.opening import open_journal
from tests.projections.acts import Story


async def add_open(data_dir: Path, count: int) -> None:
    """So many runs that are queued, beside what is there."""
    journal = await open_journal(data_dir, system_clock, mint=_mint)
    for _ in range(count):
        run_id = _mint()
        entries = [Entry(one.stream, one.fact, run_id) for one in Story(run_id).then("submit", at=0).facts]
        decide = partial(decided, Decision(entries, {entry.stream: 0 for entry in entries}, None))
        await journal.execute((), decide, CONTEXT, encode=lambda _: b"", decode=lambda _: None)
    await journal.close()


def _mint() -> str:
    return str(uuid_utils.uuid7())


def start_s(place: Path) -> float:
    """Seconds from the start of the process to its being ready; it is stopped in good order."""
    began = time.perf_counter()
    service = Serving(place, {})
    took = time.perf_counter() - began
    service.stop()
    return took


async def replay_s(data_dir: Path, *, listed: bool) -> float:
    """Seconds to make the live state, from a checkpoint of the journal's end or from all facts."""
    journal = await open_journal(data_dir, system_clock, mint=_mint)
    whole = Opening(journal, system_clock, _mint, Timers())
    while listed and whole.replay_some():
        pass
    checkpoint = Checkpoint(journal.position, whole.kept.positions()) if listed else None
    began = time.perf_counter()
    opening = Opening(journal, system_clock, _mint, Timers(), checkpoint)
    while opening.replay_some():
        pass
    opening.finish()
    took = time.perf_counter() - began
    await journal.close()
    return took


def one_round(full: Path, empty: Path) -> dict[str, float]:
    """One start of each kind."""
    from_checkpoint = start_s(full)
    (full / "data" / CHECKPOINT_NAME).unlink()
    return {
        "checkpoint_s": from_checkpoint,
        "whole_s": start_s(full),
        "empty_s": start_s(empty),
        "replay_checkpoint_s": asyncio.run(replay_s(full / "data", listed=True)),
        "replay_whole_s": asyncio.run(replay_s(full / "data", listed=False)),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description="P11: start to ready, with and without a checkpoint")
    parser.add_argument("--facts", type=int, default=150_000)
    parser.add_argument("--open", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None, help="where the data dirs are made (a temporary place)")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="p11-", dir=options.dir))
    before = machine()
    try:
        full, empty = place / "full", place / "empty"
        for one in (full, empty):
            (one / "data").mkdir(parents=True)
        facts, runs = asyncio.run(fill(full / "data", options.facts))
        asyncio.run(add_open(full / "data", options.open))
        start_s(full)
        start_s(empty)
        rounds = [one_round(full, empty) for _ in range(options.rounds)]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    figures = {name: round(statistics.median(one[name] for one in rounds), 3) for name in rounds[0]}
    document = {
        "id": "P11",
        **figures,
        "beside_empty": round(figures["checkpoint_s"] / figures["empty_s"], 2),
        "facts": facts + options.open,
        "settled_runs": runs,
        "open_runs": options.open,
        "rounds": rounds,
        "machine": before,
        "versions": versions(),
        "command": " ".join(["python", "-m", "benchmarks.p11_start", *sys.argv[1:]]),
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
