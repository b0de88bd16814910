"""What a power cut may leave behind: every crash state that recorded operations allow, rebuilt and judged.

A crash comes between two recorded operations. What was synced by then is on the disk. Of what was written since, a disk
may have kept nothing, a prefix, or any of its 512-byte sectors; a truncation is kept or not, like a sector. Each state
is opened by the journal as a start would open it, verified as a whole, and held against the acknowledgements before the
crash. What is wrong is one of `lost` (acknowledged and not there), `corrupt` (it does not open, or does not verify) and
`gap` (a version that does not follow).
"""

import pickle
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from journal.errors import JournalError
from journal.opening import JOURNAL_NAME, open_sqlite
from tests.faults.disk import Step
from tests.journal.accounts import CODEC, minting

SECTOR = 512
Kept = Literal["nothing", "prefix", "sectors"]
KEPT: tuple[Kept, ...] = ("nothing", "prefix", "sectors")


@dataclass
class Image:
    """One file: what is on the disk for certain, and what was done to it since the last sync."""

    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Step] = field(default_factory=list)

    def do(self, step: Step) -> None:
        """One more operation."""
        if step[0] != "sync":
            self.unsynced.append(step)
            return
        for unsynced in self.unsynced:
            _apply(self.durable, unsynced)
        self.unsynced.clear()

    def left(self, kept: Kept, chance: random.Random) -> bytes:
        """What a crash leaves."""
        content = bytearray(self.durable)
        steps = self.unsynced
        if kept == "prefix":
            for step in steps[: chance.randint(0, len(steps))]:
                _apply(content, step)
        elif kept == "sectors":
            for step in steps:
                for sector in _sectors(step):
                    if chance.random() < 0.5:
                        _apply(content, sector)
        return bytes(content)


def _apply(content: bytearray, step: Step) -> None:
    kind, _, offset, written = step
    if kind == "truncate":
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(written)] = written


def _sectors(step: Step) -> Iterator[Step]:
    kind, name, offset, written = step
    if kind == "truncate":
        yield step
    done = 0
    while done < len(written):
        size = min(SECTOR - (offset + done) % SECTOR, len(written) - done)
        yield (kind, name, offset + done, written[done : done + size])
        done += size


def recorded(place: Path, checkout: Path, commands: int, synchronous: str = "FULL") -> tuple[bytes, list[Step]]:
    """The journal before, and everything that was done to it by so many commands under this pragma."""
    data_dir, steps = place / "data", place / "steps"
    data_dir.mkdir()
    open_sqlite(data_dir, CODEC, minting()).close()
    before = (data_dir / JOURNAL_NAME).read_bytes()
    told = [str(data_dir), str(steps), str(commands), synchronous]
    subprocess.run([sys.executable, "-m", "tests.faults.recorded", *told], cwd=checkout, check=True)
    found: list[Step] = pickle.loads(steps.read_bytes())  # noqa: S301 - written by our own process just now
    return before, found


def crash(before: bytes, steps: Sequence[Step], points: int, place: Path, chance: random.Random) -> Counter[str]:
    """How many states were judged, and how many of them were wrong in which way, over this many crash points."""
    after = set(chance.sample(range(len(steps)), points))
    images = {JOURNAL_NAME: Image(bytearray(before)), f"{JOURNAL_NAME}-wal": Image()}
    told: dict[str, int] = {}
    found: Counter[str] = Counter()
    place.mkdir()
    for number, step in enumerate(steps):
        if step[0] == "told":
            key, position = step[1].split()
            told[key] = int(position)
        else:
            images[step[1]].do(step)
        if number in after:
            for kept in KEPT:
                found["states"] += 1
                found[judged(images, kept, told, place, chance)] += 1
    shutil.rmtree(place)
    return found


def judged(images: dict[str, Image], kept: Kept, told: dict[str, int], place: Path, chance: random.Random) -> str:
    """`sound`, or what is wrong with the state."""
    for old in place.iterdir():
        old.unlink()
    for name, image in images.items():
        content = image.left(kept, chance)
        if content:
            (place / name).write_bytes(content)
    try:
        app = open_sqlite(place, CODEC, minting())
    except JournalError:
        return "corrupt"
    store = app.store
    try:
        verdict = store.verify()
        if not verdict.ok:
            return "gap" if "does not follow" in str(verdict.problem) else "corrupt"
        rows = store.datastore.read("SELECT command_id, last FROM commands")
        saved = store.datastore.read("SELECT run_id, fence, body FROM partials")
        partials = {body.decode().strip('"') for _, _, body in saved}
        there = {key: last for key, last in rows if key in partials}
        return "sound" if told.items() <= there.items() else "lost"
    finally:
        app.close()
