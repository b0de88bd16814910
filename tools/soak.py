"""Random worlds and real kills for as long as one likes: `make soak SOAK_S=3600`.

Each round runs seeded worlds, the laws and the tests of real processes under one seed, which it prints first; a round
that fails is repeated with `make soak SEED=that`. Bounded: no round starts after SOAK_S seconds (600 by default, at
most a day), and the first failure ends it with exit code 1. A given SEED is run once.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator

DEFAULT_S = 600.0
LONGEST_S = 86_400.0
SEED_BITS = 32
SUITES = ("tests/simulation", "tests/system")
WORLDS_S = 60
"""How long fresh worlds are made in a round."""


def main() -> int:
    """Run rounds until one fails or the time is over; 1 after a failure."""
    for number, seed in enumerate(_seeds(), start=1):
        print(f"soak: round {number}, seed {seed}", flush=True)
        if _round(seed) != 0:
            print(f"soak: round {number} failed; repeat it with: make soak SEED={seed}", file=sys.stderr)
            return 1
    return 0


def _seeds() -> Iterator[int]:
    given = os.environ.get("SEED")
    if given:
        yield int(given)
        return
    over = time.monotonic() + min(float(os.environ.get("SOAK_S") or DEFAULT_S), LONGEST_S)
    chance = random.SystemRandom()
    while time.monotonic() < over:
        yield chance.getrandbits(SEED_BITS)


def _round(seed: int) -> int:
    seeds = [f"--hypothesis-seed={seed}", f"--randomly-seed={seed}"]
    worlds = ["-m", "simulation", "--seconds", str(WORLDS_S), "--seed", str(seed)]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "soak"}
    for command in (worlds, ["-m", "pytest", "-q", *seeds, *SUITES]):
        code = subprocess.run([sys.executable, *command], env=environment, check=False).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
