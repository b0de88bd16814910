"""Every measurement of ours, one after another, and `benchmarks/RESULTS.md` with what they found.

    python -m benchmarks [--only P2 P6] [--keep FILE]

Each runs in a process of its own with its defaults, once, however many figures are taken from it; what it prints is
kept as it is. The table says what must be reached and whether it was; a figure that was missed is said to be missed,
and ends this with exit code 1. So does a measurement that failed; the others are taken nevertheless. `--only` measures
some and prints them, and writes nothing. Nobody need watch: which one is under way, what it found and how long all have
taken is said on the standard error; each is given up after `BOUND_S` seconds.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
BOUND_S = 900
Document = dict[str, Any]


class Target(NamedTuple):
    """A measurement: its module, what it reaches, in which unit, and what it must reach."""

    name: str
    module: str
    what: str
    figure: Callable[[Document], float]
    unit: str
    must: float
    least: bool = True

    def met(self, document: Document) -> bool:
        """Whether it was reached."""
        if "failed" in document:
            return False
        found = self.figure(document)
        return found >= self.must if self.least else found < self.must

    @property
    def wanted(self) -> str:
        """What must be reached, in words."""
        return f"{'at least' if self.least else 'under'} {self.must:,g} {self.unit}"


TARGETS = (
    Target("P1", "p1_append", "appends in process, 1,000 concurrent commands, against raw `sqlite3` transactions "
           "of the same rows and group size", lambda d: d["ratio"], "x", 0.5),
    Target("P2", "p2_commands", "one durable command per HTTP request (claim, close), 64 connections, against "
           "`GET /livez` of the same service", lambda d: d["ratio"], "x", 0.4),
    Target("P3", "p3_drain", "drain 5,000 no-op runs, 32 slots, claims and closes in batches of 16",
           lambda d: d["runs_per_s"], "runs/s", 2500),
    Target("P3b", "p3b_one_by_one", "whole runs one by one (submit, claim, close), 8 clients",
           lambda d: d["runs_per_s"], "runs/s", 750),
    Target("P5", "p5_start", "one run submitted alone to its handler started, idle service, median through the SDK",
           lambda d: d["sdk"]["p50_ms"], "ms", 10, least=False),
    Target("P6", "p6_takeover", "kill -9 of a worker to the next attempt's command running, defaults",
           lambda d: d["command_runs_s"], "s", 3, least=False),
    Target("P7", "p7_renewals", "lease renewals, heartbeats of 100 leases each, no journal write",
           lambda d: d["leases_per_s"], "leases/s", 100_000),
    Target("P8", "p8_settle", "1,000 open runs of one leader settled after its grace, facts first, each re-checked",
           lambda d: d["all_after_grace_s"], "s", 2, least=False),
    Target("P9", "p9_rebuild", "rebuild of the stored read models, against a scan and decode of the same journal",
           lambda d: d["ratio"], "x", 0.4),
    Target("P10", "p10_lag", "lag of the stored read models at 5,000 facts/s, 99th percentile",
           lambda d: d["lag"]["p99_ms"] if d["at_that_rate"] else math.inf, "ms", 250, least=False),
    Target("P11", "p11_start", "start to `/readyz` from a checkpoint, 150,000 facts of settled runs, 1,000 open ones, "
           "against the same start on an empty journal", lambda d: d["beside_empty"], "x", 2, least=False),
    Target("P12", "p12_size", "a long journal of whole lives of runs: bytes of its file for each fact",
           lambda d: d["bytes_per_fact"], "bytes", 600, least=False),
    Target("P12b", "p12_size", "a service's start on that journal, with no read models there",
           lambda d: d["start_without_read_models_s"], "s", 60, least=False),
    Target("P12c", "p12_size", "`why` on its first run, asked for the first time",
           lambda d: d["why"]["first_ms"], "ms", 50, least=False),
    Target("P13", "p13_streams", "1,000 presence streams and 1,000 followers of run facts, 500 facts/s, none dropped: "
           "command due to event read, 99th percentile", lambda d: d["since_due"]["p99_ms"], "ms", 500, least=False),
    Target("P14", "p14_idle", "idle with 10,000 parked runs and 100 connected workers that renew",
           lambda d: d["percent_of_a_core"], "% of a core", 3, least=False),
    Target("P16", "p16_growth", "cost of a run with 50,000 settled runs in the journal, against the first thousand",
           lambda d: d["ratio"], "x", 1.25, least=False),
    Target("P17", "p17_kubernetes", "500 pods, 50 evictions/s: a change in the cluster to the loss durable and the run "
           "decided, 99th percentile", lambda d: d["change_to_verdict"]["p99_ms"], "ms", 500, least=False),
    Target("P17b", "p17_kubernetes", "a frozen API server to everything unknown, beyond the length of a watch and its "
           "slack", lambda d: d["frozen_to_unknown"]["beyond_the_bound_s"], "s", 1, least=False),
)  # fmt: skip


def main() -> int:
    """Measure; 1 when something was missed."""
    parser = argparse.ArgumentParser(description="every measurement of ours")
    parser.add_argument("--only", nargs="+", default=None, help="measure these, print them, write nothing")
    options = parser.parse_args()
    wanted = [target for target in TARGETS if options.only is None or target.name in options.only]
    began, documents = time.perf_counter(), dict[str, Document]()
    found: list[tuple[Target, Document]] = []
    for number, target in enumerate(wanted, 1):
        print(f"{target.name} ({number} of {len(wanted)}): {target.what} ...", file=sys.stderr, flush=True)
        if target.module not in documents:
            documents[target.module] = measured(target)
        found.append((target, documents[target.module]))
        took = f"after {time.perf_counter() - began:.0f} s"
        print(f"{target.name}, {took}: {_line(*found[-1])}", file=sys.stderr, flush=True)
    if options.only is None:
        RESULTS.write_text(report(found))
        print(f"written: {RESULTS.relative_to(HERE.parent)}", file=sys.stderr)
    else:
        print(json.dumps(list(documents.values()), indent=2))
    return 0 if all(target.met(document) for target, document in found) else 1


def measured(target: Target) -> Document:
    """What the measurement printed; or that it failed, when it has said why."""
    command = ["python", "-m", f"benchmarks.{target.module}"]
    try:
        done = subprocess.run(
            [sys.executable, *command[1:]], cwd=HERE.parent, stdout=subprocess.PIPE, check=True, timeout=BOUND_S
        )
    except subprocess.SubprocessError as error:
        return {"id": target.name, "failed": str(error), "command": " ".join(command), "machine": {}, "versions": {}}
    document: Document = json.loads(done.stdout)
    return document


def report(found: Iterable[tuple[Target, Document]]) -> str:
    """The whole of `RESULTS.md`."""
    found = list(found)
    machine: Document = next((document["machine"] for _, document in found if "cpu" in document["machine"]), {})
    versions: Document = next((document["versions"] for _, document in found if "uvicorn" in document["versions"]), {})
    return "\n".join(
        [
            "# Results",
            "",
            "Written by `make bench` (`python -m benchmarks`); do not edit. Figures are medians of the rounds of one "
            "run, ratios are against a reference in the same run, durability is on (`synchronous=FULL`). Service and "
            "client share the machine; what the client costs is in each measurement's own document below.",
            "",
            f"Measured {datetime.now(UTC):%Y-%m-%d} on {_said(machine)}.",
            f"Versions: {_said(versions)}.",
            _elsewhere(document for _, document in found),
            "",
            "| id | what | must reach | reached | |",
            "| --- | --- | --- | --- | --- |",
            *(_row(target, document) for target, document in found),
            "",
            *(part for target, document in found for part in _details(target, document)),
        ]
    )


def _elsewhere(documents: Iterable[Document]) -> str:
    """What else the machine was doing; P6 is left out, whose workers are processes of its own."""
    shares = [one["cpu_used_elsewhere"] for one in documents if "cpu_used_elsewhere" in one and one["id"] != "P6"]
    return f"Meanwhile others used at most {max(shares, default=0):.0%} of its CPU time."


def _row(target: Target, document: Document) -> str:
    verdict = "reached" if target.met(document) else "**missed**"
    return f"| {target.name} | {target.what} | {target.wanted} | {_figure(target, document)} | {verdict} |"


def _details(target: Target, document: Document) -> list[str]:
    if target.name != document["id"]:
        return []  # told with the first figure that was taken from it
    shown = {name: value for name, value in document.items() if name not in ("rounds", "machine", "versions", "what")}
    return [
        f"## {target.name}", "", f"`{document['command']}`", "",
        "```json", json.dumps(shown, indent=2), "```", "",
    ]  # fmt: skip


def _figure(target: Target, document: Document) -> str:
    if "failed" in document:
        return "failed"
    found = target.figure(document)
    return f"{found:,.0f} {target.unit}" if found >= 1000 else f"{found:.3g} {target.unit}"


def _line(target: Target, document: Document) -> str:
    verdict = "reached" if target.met(document) else "MISSED"
    return f"{_figure(target, document)}, wanted {target.wanted}: {verdict}"


def _said(values: Document) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
