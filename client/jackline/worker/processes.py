"""Finding processes again: by pid *and* start, because pids are used again; by environment, when both are unknown.

The start is counted in clock ticks since boot where /proc tells it: it does not move when somebody sets the clock.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from jackline.worker import keeper


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for its whole life, and no other."""

    pid: int
    started: str

    @classmethod
    def of(cls, document: Any) -> "Identity | None":
        """The identity that a keeper wrote down; None for one of another boot, whose pid and start mean nothing now."""
        if isinstance(document, dict) and isinstance(document.get("pid"), int):
            if not may_be_this_boot(document.get("boot_id")):
                return None
            return cls(document["pid"], str(document.get("started", "")))
        return None

    @classmethod
    def mine(cls) -> "Identity":
        """This very process."""
        return cls(os.getpid(), keeper.start_of(os.getpid()))

    @property
    def alive(self) -> bool:
        """Whether that process is still running; a zombie is not."""
        return keeper.is_running({"pid": self.pid, "started": self.started})

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is still that process."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


def may_be_this_boot(other: Any) -> bool:
    """Whether what was written down may be of this boot: it is not when both are known, and differ."""
    boot = keeper.boot_id()
    return not boot or not other or other == boot


def marked(name: str, value: str) -> Iterator[psutil.Process]:
    """Processes of ours whose environment says `name=value`: the mark that a run's processes inherit."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(name) == value:
                yield process


def end_marked(name: str, value: str) -> int:
    """Kill every process with that mark, until none is left; how many there were."""
    ended = 0
    for _ in range(20):
        found = list(marked(name, value))
        if not found:
            break
        ended += len(found)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=1.0)
    return ended
