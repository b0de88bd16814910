"""Writing checkpoints: a follower of the journal that notes which facts a start needs, and puts the list on disk.

It runs beside everything else and is never inside an append. It reads what was published, in steps, in a thread of its
own, and writes when a start would have to read ``EVERY_FACTS`` facts beyond the last checkpoint (or a quarter of what
it lists, if that is more, so that writing stays cheap beside what is appended), when ``EVERY_S`` seconds have passed
with anything to write, and at a clean stop. A write that fails is counted, shown, and tried again with the next step;
the service does not depend on it.

Units: seconds on the monotonic clock.
"""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

from domain.values import Clock
from journal.checkpoints import Checkpoint, CheckpointUnusable, read_checkpoint, write_checkpoint
from journal.commit import Journal
from journal.errors import JournalError
from projections.live.kept import Kept, rules

EVERY_FACTS = 20_000
"""Facts beyond the last checkpoint from which the next one is written: about half a second of a start."""

EVERY_S = 300.0
STEP_FACTS = 5_000
"""Facts that are followed in one step: few enough that they are still in memory."""

STEP_S = 30.0
"""Longest pause between two steps."""

_PART = 4

log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoint of one journal: found at the start, then kept up."""

    def __init__(self, journal: Journal, path: Path, clock: Clock) -> None:
        self.ignored: str | None = None
        """Why the checkpoint that was there at the start was not used."""
        self.position = 0
        """Of the last checkpoint that is on disk; 0 when there is none."""
        self.errors = 0
        self.first_error: str | None = None
        self._journal = journal
        self._path = path
        self._clock = clock
        self._kept: Kept | None = None
        self._listed = 0
        self._written_at = clock().mono
        self._bytes = 0
        self._turn = threading.Lock()
        """Held by the thread that folds or writes: it goes on when whoever waited for it was cancelled."""

    def find(self) -> Checkpoint | None:
        """The checkpoint to start from, if there is one that can be used; why not is logged once."""
        try:
            found = read_checkpoint(self._path, self._journal.store, rules())
        except CheckpointUnusable as unusable:
            self.ignored = unusable.problem
            log.warning("%s", unusable)
            return None
        if found is not None:
            self.position, self._listed = found.position, len(found.positions)
        return found

    def follow(self, kept: Kept, used: Checkpoint | None) -> None:
        """Go on from what a start has folded; ``used`` is the checkpoint that it went by after all."""
        self._kept = kept
        if used is None and self.position:
            self.ignored, self.position, self._listed = "it lists facts that the journal does not hold", 0, 0

    async def run(self) -> None:
        """Follow the journal until this is cancelled."""
        while True:
            await self.step()
            await self._journal.feed.wait(self._folded + STEP_FACTS, STEP_S)

    async def step(self) -> None:
        """Take over what was published since, and write if it is time to."""
        await self._guarded(force=False)

    async def stop(self) -> None:
        """Write what there is to write, so that the next start reads nothing twice."""
        await self._guarded(force=True)

    async def _guarded(self, *, force: bool) -> None:
        try:
            await asyncio.to_thread(self._go_on, force=force)
        except (OSError, JournalError) as error:  # a full disk is no fault of the code: one line says it
            self._failed(error)
            level = logging.INFO if force else logging.WARNING  # who stops has said what the matter is
            log.log(level, "no checkpoint was written after position %d; it is tried again: %s", self.position, error)
        except Exception as error:
            self._failed(error)
            log.exception("no checkpoint was written after position %d; it is tried again", self.position)

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self.first_error = self.first_error or f"after position {self.position}: {error!r}"

    @property
    def _folded(self) -> int:
        return 0 if self._kept is None else self._kept.position

    def _go_on(self, *, force: bool) -> None:
        kept = self._kept
        if kept is None:
            return
        with self._turn:
            while facts := self._journal.feed.after(kept.position, STEP_FACTS):
                kept.fold(facts)
            behind = kept.position - self.position
            if behind and (force or self._is_time(behind)):
                self._write(kept)

    def _is_time(self, behind: int) -> bool:
        return behind >= max(EVERY_FACTS, self._listed // _PART) or self._clock().mono - self._written_at >= EVERY_S

    def _write(self, kept: Kept) -> None:
        now = self._clock()
        checkpoint = Checkpoint(kept.position, kept.positions())
        self._bytes = write_checkpoint(self._path, self._journal.store, checkpoint, rules(), now.wall)
        self.position, self._listed, self._written_at = checkpoint.position, len(checkpoint.positions), now.mono
        self.first_error = None

    def acknowledge(self) -> None:
        """Forget the first error; the count stays."""
        self.first_error = None

    def health(self) -> dict[str, Any]:
        """Where the last checkpoint is, how much it lists, and what went wrong."""
        return {
            "position": self.position,
            "behind": max(0, self._journal.position - self.position),
            "kept": self._listed,
            "bytes": self._bytes,
            "ignored_at_start": self.ignored,
            "errors": self.errors,
            "first_error": self.first_error,
        }
