"""What every measurement over HTTP has in common: its options, its rounds, and the document that it prints.

A measurement is a function that takes a running service and gives one round's figures. Rounds run one after another
against one service, after a round that does not count where that is asked for (`WARM`); each figure is the median of
its rounds, and the ratio is the median of the rounds' own ratios, never a ratio of medians.
"""

import argparse
import inspect
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.lean import TICKS, Client, cpu_of
from benchmarks.serving import Serving, machine, serving, versions

Figures = dict[str, Any]
Round = Callable[[Client, Serving, int, argparse.Namespace], Awaitable[Figures]]


class Rounds(NamedTuple):
    """How many rounds count, and how many come before that do not."""

    counted: int
    before: int = 0


WARM = Rounds(3, before=1)


def measure(
    name: str,
    what: str,
    one_round: Round,
    *,
    rounds: Rounds | int = 3,
    timers: Mapping[str, str] | None = None,
    **sizes: int,
) -> None:
    """Run the rounds, and print one JSON document; `sizes` become options, `timers` settings of the service."""
    parser = argparse.ArgumentParser(description=what)
    planned = rounds if isinstance(rounds, Rounds) else Rounds(rounds)
    parser.add_argument("--rounds", type=int, default=planned.counted)
    parser.add_argument("--dir", type=Path, default=None, help="where the data dir is made (a temporary place)")
    for size, default in sizes.items():
        parser.add_argument(f"--{size}", type=int, default=default)
    options = parser.parse_args()
    before = machine()
    with serving(options.dir, timers) as service, elsewhere(service.pid) as share:
        found = uvloop.run(_rounds(one_round, service, options, before=planned.before))
    print(
        json.dumps(
            {
                "id": name,
                "what": what,
                **median(found),
                "cpu_used_elsewhere": share(),
                "rounds": found,
                "sizes": {size: getattr(options, size) for size in sizes},
                "settings": dict(timers or {}),
                "machine": before,
                "versions": versions(),
                "command": " ".join(["python", "-m", _module(one_round), *sys.argv[1:]]),
            },
            indent=2,
        )
    )


def _module(one_round: Round) -> str:
    """The module's own name, which is `__main__` while it runs."""
    return f"benchmarks.{Path(inspect.getfile(one_round)).stem}"


async def _rounds(one_round: Round, service: Serving, options: argparse.Namespace, *, before: int) -> list[Figures]:
    found: list[Figures] = []
    for number in range(options.rounds + before):
        client = Client(service.port, service.key, service.pid)
        try:
            found.append(await one_round(client, service, number, options))
        finally:
            client.close()
    return found[before:]


@contextmanager
def elsewhere(pid: int) -> Iterator[Callable[[], float]]:
    """After the block: the share of the machine's CPU time that others than client and service used during it.

    A figure that was taken while it was not small says more about the others than about the service. Workers that a
    measurement starts itself count as others.
    """
    busy, whole = _cpu_of_machine()
    own = time.process_time() + cpu_of(pid)
    share = 0.0
    yield lambda: share
    busy_now, whole_now = _cpu_of_machine()
    others = busy_now - busy - (time.process_time() + cpu_of(pid) - own)
    share = round(max(0.0, others / (whole_now - whole)), 3)


def _cpu_of_machine() -> tuple[float, float]:
    """Seconds that all cores have been busy, and that they have been at all."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy / TICKS, (busy + idle + iowait) / TICKS


def median(rounds: list[Figures]) -> Figures:
    """The median of each figure, figures within figures included."""
    first = rounds[0]
    return {name: _median_of([one[name] for one in rounds]) for name in first}


def _median_of(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return median(values)
    if isinstance(values[0], bool):
        return all(values)
    return round(statistics.median(values), 4)


def quantiles(seconds: list[float]) -> Figures:
    """Median and 99th percentile, in milliseconds."""
    ranked = statistics.quantiles(seconds, n=100)
    return {"p50_ms": round(ranked[49] * 1e3, 3), "p99_ms": round(ranked[98] * 1e3, 3)}


def without_settings() -> dict[str, str]:
    """The environment without the caller's own settings of Jackline."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JACKLINE_")}
