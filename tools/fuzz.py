"""One parser under a coverage-guided fuzzer: `python -m tools.fuzz body 60` tries `body` for 60 seconds.

The parsers are those of `tests/attack/parsers.py`, which says what each may answer. A failure prints what was read, and
ends with another exit code than 0. It needs `atheris`, which is in the dependency group `fuzz`: not every machine needs
its 30 MB, and the suite tries the same parsers with Hypothesis.
"""

import sys
import tempfile
from pathlib import Path

import atheris

ROOMS = ["api", "journal", "domain", "projections", "commands", "jackline", "watchers"]
with atheris.instrument_imports(include=ROOMS):
    from tests.attack.parsers import SEEDS, read

LONGEST = 4_096
"""Longest input, in bytes."""


def main() -> None:
    """Fuzz the parser that is named, for as many seconds as are given."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="jackline-fuzz-") as corpus:
        for number, seed in enumerate(SEEDS.get(name, [])):
            (Path(corpus) / str(number)).write_bytes(seed)
        options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-artifact_prefix={corpus}/", *sys.argv[3:]]
        atheris.Setup([sys.argv[0], *options, corpus], lambda data: read(name, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
