"""Power cuts at any operation on the disk, whatever of the unsynced writes is kept: nothing acknowledged is lost."""

import random
from pathlib import Path

import pytest

from tests.faults.torn import KEPT, crash, recorded

pytestmark = [pytest.mark.system, pytest.mark.origin("D46")]

POINTS = 600
COMMANDS = 150


def test_no_power_cut_loses_corrupts_or_tears_what_was_acknowledged(tmp_path: Path, checkout: Path, seed: int) -> None:
    before, steps = recorded(tmp_path, checkout, COMMANDS)

    found = crash(before, steps, POINTS, tmp_path / "crashed", random.Random(seed))

    assert {"states": POINTS * len(KEPT), "sound": POINTS * len(KEPT)} == found, seed
    assert {"journal.sqlite3", "journal.sqlite3-wal"} == {name for kind, name, _, _ in steps if kind == "write"}


@pytest.mark.parametrize(("synchronous", "wrong"), [("NORMAL", "lost"), ("OFF", "corrupt")])
def test_the_same_power_cuts_are_noticed_when_commits_are_not_synced(
    tmp_path: Path, checkout: Path, seed: int, synchronous: str, wrong: str
) -> None:
    before, steps = recorded(tmp_path, checkout, COMMANDS, synchronous)

    found = crash(before, steps, POINTS // 12, tmp_path / "crashed", random.Random(seed))

    assert found[wrong] > 0, found
