"""`python -m simulation`: worlds from one seed after another, so many or for some seconds, or one seed with its story.

Prints the first seed, so that a failing soak can be had again, and the story of a world in which a law was broken.
Then it tells how often these worlds came into which situation. With `--exhaustive SECONDS` small worlds are walked
through instead, every interleaving of them, as deep as the time allows. With `--crashes` the service dies under each
canonical scenario, at every step. With `--planted` every planted fault is put into the code, one at a time, and must
be found. Exit code 1 when a law was broken or a planted fault was not found, 0 otherwise. `--write` puts what is said
into a document.
"""

import argparse
import logging
import secrets
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from api.clock import system_clock
from simulation import crashing
from simulation.broken import LawBroken
from simulation.exhaustive import Breach, explore_all
from simulation.planted.registry import PLANTED, find, told
from simulation.reaching import table
from simulation.seeded import STEPS, SeedFailed, play

SEEDS = 2**32


def main(arguments: Sequence[str] | None = None) -> int:
    """Play worlds; 1 when a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0, help="how long to go on")
    parser.add_argument("--worlds", type=int, default=1, help="how many worlds at least (1)")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; drawn when left out")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each world ({STEPS})")
    parser.add_argument("--story", action="store_true", help="tell the story of a world in which nothing broke, too")
    parser.add_argument("--exhaustive", type=float, default=None, metavar="SECONDS", help="every small world instead")
    parser.add_argument("--crashes", action="store_true", help="die at every step of every scenario instead")
    parser.add_argument("--planted", action="store_true", help="find every planted fault instead")
    parser.add_argument("--write", type=Path, default=None, metavar="DOCUMENT", help="put what is said into it")
    options = parser.parse_args(arguments)
    if options.planted:
        return _plant(options.write)
    if options.crashes:
        return _crash(options.write)
    if options.exhaustive is not None:
        return _walk(options.exhaustive, options.write)
    seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    print(f"first seed {seed}, {options.steps} steps a world", flush=True)
    return _play_on(seed, options)


def _walk(seconds: float, document: Path | None) -> int:
    lines: list[str] = []
    try:
        states = explore_all(seconds, lambda: system_clock().mono, partial(_say, lines))
    except Breach as breach:
        print(breach)
        return 1
    _say(lines, f"{states:,} distinct states, no law broken")
    _write(document, "small worlds", lines)
    return 0


def _crash(document: Path | None) -> int:
    told: list[str] = []
    try:
        for line in crashing.lines():
            _say(told, line)
    except LawBroken as broken:
        print(broken)
        return 1
    _write(document, "deaths", told)
    return 0


def _plant(document: Path | None) -> int:
    lines: list[str] = []
    missed = 0
    for fault in PLANTED:
        found = find(fault)
        missed += found is None
        _say(lines, told(fault, found))
    _say(lines, f"{len(PLANTED) - missed} of {len(PLANTED)} planted faults found")
    _write(document, "planted faults", lines)
    return 1 if missed else 0


def _say(lines: list[str], line: str) -> None:
    lines.append(line)
    print(line, flush=True)


def _write(document: Path | None, section: str, lines: Sequence[str]) -> None:
    """Put the lines between the section's marks, which say how they were made."""
    if document is not None:
        before, mark, rest = document.read_text().partition(f"<!-- {section}: ")
        how, _, rest = rest.partition("\n")
        _, end, after = rest.partition(f"<!-- end of the {section} -->")
        document.write_text("\n".join([before + mark + how, "", "```", *lines, "```", "", end + after]))


def _play_on(seed: int, options: argparse.Namespace) -> int:
    until, worlds, facts, reached = system_clock().mono + options.seconds, 0, 0, Counter[str]()
    while worlds < options.worlds or system_clock().mono < until:
        try:
            world = play(seed + worlds, options.steps)
        except SeedFailed as failed:
            print(failed)
            return 1
        worlds += 1
        facts += world.history.position
        reached.update(world.history.reached.counts)
        if options.story:
            print("\n".join(world.story))
    lines: list[str] = []
    _say(lines, f"{worlds:,} worlds, {facts:,} facts, no law broken; in these situations:")
    for line in table(reached):
        _say(lines, line)
    _write(options.write, "situations", lines)
    return 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # faults are made on purpose here, and the story tells them
    sys.exit(main())
