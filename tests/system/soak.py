"""The ordeal of a loaded service for as long as one likes.

    python -m tests.system.soak [--kills 500] [--seed N]

Prints its seed first; the same seed draws the same chances again. Exit code 1 and the reason when a promise was broken.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.system.kills import Ordeal, survive
from tests.system.serving import Service


def main() -> int:
    """Survive, or say what was lost."""
    parser = argparse.ArgumentParser(description="kill -9 a loaded service, and hold it to what it acknowledged")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    ordeal = Ordeal(options.kills, options.seed if options.seed is not None else random.SystemRandom().getrandbits(32))
    print(f"soak: {ordeal.kills} kills, seed {ordeal.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="jackline-soak-") as place:
        service = Service(Path(sys.executable).with_name("jackline"), Path(place) / "data", retry_continuation_s=0)
        try:
            survived = survive(service.start(), ordeal)
        except AssertionError as broken:
            print(f"soak: {broken}", file=sys.stderr)
            return 1
        finally:
            service.end()
    acknowledged, runs = len(survived.promises), len(survived.facts)
    print(f"soak: {acknowledged} commands over {runs} runs were acknowledged; none was lost, none happened twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
