"""`python -m simulation`: worlds from one seed after another for some seconds, or one seed with its whole story.

Prints the first seed, so that a failing soak can be had again, and the story of a world in which a law was broken.
With `--exhaustive SECONDS` small worlds are walked through instead, every interleaving of them, as deep as the time
allows. With `--planted` every planted fault is put into the code, one at a time, and must be found. Exit code 1 when
a law was broken or a planted fault was not found, 0 otherwise.
"""

import argparse
import logging
import secrets
import sys
from collections.abc import Sequence
from functools import partial

from api.clock import system_clock
from simulation.exhaustive import Breach, explore_all
from simulation.planted.registry import PLANTED, find, told
from simulation.seeded import STEPS, SeedFailed, play

SEEDS = 2**32


def main(arguments: Sequence[str] | None = None) -> int:
    """Play worlds; 1 when a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0, help="how long to go on; 0 plays one world")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; drawn when left out")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each world ({STEPS})")
    parser.add_argument("--story", action="store_true", help="tell the story of a world in which nothing broke, too")
    parser.add_argument("--exhaustive", type=float, default=None, metavar="SECONDS", help="every small world instead")
    parser.add_argument("--planted", action="store_true", help="find every planted fault instead")
    options = parser.parse_args(arguments)
    if options.planted:
        return _plant()
    if options.exhaustive is not None:
        return _walk(options.exhaustive)
    seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    print(f"first seed {seed}, {options.steps} steps a world", flush=True)
    return _play_on(seed, options)


def _walk(seconds: float) -> int:
    try:
        states = explore_all(seconds, lambda: system_clock().mono, partial(print, flush=True))
    except Breach as breach:
        print(breach)
        return 1
    print(f"{states:,} distinct states, no law broken")
    return 0


def _plant() -> int:
    missed = 0
    for fault in PLANTED:
        found = find(fault)
        missed += found is None
        print(told(fault, found), flush=True)
    print(f"{len(PLANTED) - missed} of {len(PLANTED)} planted faults found")
    return 1 if missed else 0


def _play_on(seed: int, options: argparse.Namespace) -> int:
    until, worlds, facts = system_clock().mono + options.seconds, 0, 0
    while worlds == 0 or system_clock().mono < until:
        try:
            world = play(seed + worlds, options.steps)
        except SeedFailed as failed:
            print(failed)
            return 1
        worlds += 1
        facts += world.history.position
        if options.story:
            print("\n".join(world.story))
    print(f"{worlds} worlds, {facts} facts, no law broken")
    return 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # faults are made on purpose here, and the story tells them
    sys.exit(main())
