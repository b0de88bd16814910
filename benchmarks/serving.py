"""The service to be measured: the real `jackline serve`, with defaults, in a process and a data dir of its own.

Durability is as it always is (`synchronous=FULL`); the data dir is on the disk that `--dir` names, else on the one of
temporary files, and its file system is reported, since an fsync costs what the disk makes it cost.
"""

import os
import platform
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

READY = re.compile(r"jackline ready on http://127\.0\.0\.1:(\d+)")
START_S = 180.0
PAUSE_S = 0.01


class Serving:
    """A running service."""

    def __init__(self, place: Path, timers: Mapping[str, str]) -> None:
        self.place = place
        self.data_dir = place / "data"
        self.log = place / "serve.log"
        self.script = Path(sys.executable).with_name("jackline")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(self.script), "serve", "--data-dir", str(self.data_dir), "--port", "0"],
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith("JACKLINE_")},
                    **timers,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.port = self._ready()
        self.key = (self.data_dir / "admin.key").read_text().strip()

    def _ready(self) -> int:
        over = time.monotonic() + START_S
        while time.monotonic() < over and self.process.poll() is None:
            said = READY.search(self.log.read_text(errors="replace"))
            if said is not None:
                return int(said.group(1))
            time.sleep(PAUSE_S)
        self.process.kill()
        message = f"the service did not start: {self.log.read_text(errors='replace')}"
        raise RuntimeError(message)

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it in good order, or at all."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()


@contextmanager
def serving(directory: Path | None = None, timers: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """A fresh service for as long as the block lasts, with these settings beside the defaults."""
    place = Path(tempfile.mkdtemp(prefix="jackline-bench-", dir=directory))
    try:
        service = Serving(place, timers or {})
        try:
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def machine() -> dict[str, Any]:
    """What this was measured on."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cpus": os.cpu_count(),
        "cpu": model.group(1) if model else platform.machine(),
        "memory_gib": round(int(memory.group(1)) / 2**20, 1) if memory else None,
        "platform": platform.platform(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """What was running."""
    packages = ("jackline-server", "eventsourcing", "fastapi", "msgspec", "uvicorn", "uvloop", "httptools", "pydantic")
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{package: version(package) for package in packages},
    }
