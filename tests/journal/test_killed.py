"""Kill -9 in the middle of appending: what was acknowledged is there, and what is there is whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from journal.opening import open_sqlite
from tests.journal.accounts import CODEC, minting

KILLS = 5
LINES_BEFORE = 150


def acknowledged_until_killed(place: Path, checkout: Path) -> list[tuple[str, int, int]]:
    """Stream, balance and position of everything acknowledged before the kill."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.journal.appending", str(place)],
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(LINES_BEFORE)]
        process.kill()
        lines += process.stdout.readlines()
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [(stream, int(balance), int(position)) for stream, balance, position in whole]


@pytest.mark.system
def test_a_killed_process_loses_and_repeats_nothing_that_it_acknowledged(tmp_path: Path, checkout: Path) -> None:
    for _ in range(KILLS):
        acknowledged = acknowledged_until_killed(tmp_path, checkout)
        assert LINES_BEFORE <= len(acknowledged)

        app = open_sqlite(tmp_path, CODEC, minting())
        found = {(fact.stream, fact.version, fact.position) for fact in app.store.facts_after(0, 1_000_000)}
        verdict = app.store.verify()
        app.close()

        assert [] == [entry for entry in acknowledged if entry not in found]
        assert (True, len(found)) == (verdict.ok, verdict.facts)
