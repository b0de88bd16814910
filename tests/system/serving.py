"""A service under test: the real `jackline serve` as a process of its own, on a data dir and a port of its own.

It listens on loopback only. The port is chosen free at the first start and kept, so that clients find the service again
after a restart. It is ready when it says so on standard error. Whatever happens to the test, the process is ended.

With a nursery it is forked from a process that has loaded everything, for tests that start one many times or spoil its
disk and clock; without, it is the console script.
"""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.system.calling import Caller
from tests.system.nursery import Child, Nursery, bound
from tests.waiting import BOUND_S, until

READY = re.compile(r"^jackline ready on http://127\.0\.0\.1:(\d+)$", re.MULTILINE)
START_S = BOUND_S
STOP_S = BOUND_S


class Service:
    """One data dir, and at most one process that serves it."""

    def __init__(self, script: Path, data_dir: Path, **settings: object) -> None:
        self.script = script
        self.data_dir = data_dir
        self.settings: Mapping[str, str] = {f"JACKLINE_{name.upper()}": str(value) for name, value in settings.items()}
        self.log = data_dir.with_name(f"{data_dir.name}.log")
        self.port = 0
        self.process: subprocess.Popen[bytes] | Child | None = None
        self._callers: list[Caller] = []
        self.bounds: Mapping[str, int] = {}
        """How much of what the next process may use, by the names of `BOUNDS`; it may be raised while it runs."""
        self.nursery: Nursery | None = None
        self.faults: Path | None = None
        """The file that tells the next process's disk and clock to fail; only with a nursery."""

    @property
    def key(self) -> str:
        """The admin key of the first start."""
        return (self.data_dir / "admin.key").read_text().strip()

    @property
    def pid(self) -> int:
        """The running process."""
        assert self.process is not None
        return self.process.pid

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def caller(self, key: str | None = None, *, timeout_s: float = BOUND_S) -> Caller:
        """A client of it; with the admin key unless another is given. Its connection is closed with the service."""
        return self._remembered(Caller(self.port, key or self.key, timeout_s=timeout_s))

    def stranger(self) -> Caller:
        """A client of it without a key."""
        return self._remembered(Caller(self.port, None))

    def _remembered(self, caller: Caller) -> Caller:
        self._callers.append(caller)
        return caller

    def start(self) -> "Service":
        """Start the process, and return once it is ready."""
        assert self.process is None, "it runs already"
        begun = self.log.stat().st_size if self.log.exists() else 0
        self.process = self._launch(["serve", "--data-dir", str(self.data_dir), "--port", str(self.port)])
        said = until(lambda: self._ready(begun), what=f"the service to be ready ({self.log})", within_s=START_S)
        self.port = int(said.group(1))
        return self

    def _ready(self, begun: int) -> re.Match[str] | None:
        said = self.log.read_text(errors="replace")[begun:]
        assert self.process is not None
        assert self.process.poll() is None, f"it ended with {self.process.returncode} instead of starting:\n{said}"
        return READY.search(said)

    def _launch(self, arguments: Sequence[str]) -> subprocess.Popen[bytes] | Child:
        if self.nursery is not None:
            return self.nursery.bear(arguments, self.settings, self.log, bounds=self.bounds, faults=self.faults)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(self.script), *arguments],
                env={**os.environ, **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=self._bound,
            )

    def _bound(self) -> None:
        """Runs in the new process before the service does."""
        for name, most in self.bounds.items():
            bound(name, most)

    def kill(self) -> None:
        """kill -9, and nothing else."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_S)
        self.process = None

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """The exit code of a process that is about to end."""
        assert self.process is not None
        code = self.process.wait(STOP_S)
        self.process = None
        return code

    def restart(self) -> "Service":
        """Stop in good order, and start again on the same port."""
        assert self.terminate() == 0, self.log.read_text()
        return self.start()

    def refused_to_start(self) -> tuple[int, str]:
        """The exit code and the last words of a start that must fail."""
        begun = self.log.stat().st_size if self.log.exists() else 0
        process = self._launch(["serve", "--data-dir", str(self.data_dir), "--port", "0"])
        try:
            code = process.wait(START_S)
        finally:
            process.kill()
            process.wait()
        return code, self.log.read_text(errors="replace")[begun:].strip()

    def peak_rss_mb(self) -> float:
        """The most memory that the running process ever had, in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found.group(1)) / 1024

    def run_cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A finished call of the command line, beside the service or without it."""
        return cli(self.script, *arguments)

    def end(self) -> None:
        """Leave nothing behind."""
        for caller in self._callers:
            caller.close()
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()


def cli(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished call of the command line."""
    return subprocess.run(
        [str(script), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


def one_line(said: str) -> str:
    """The one line that was said; a traceback, or a second line, fails."""
    assert "Traceback" not in said, said
    lines = [line for line in said.splitlines() if line.strip()]
    assert len(lines) == 1, said
    return lines[0]


def submit(caller: Caller, **wish: Any) -> str:
    """The id of a new run."""
    return str(caller.post("/v1/runs", wish).ok(201)["run_id"])


def register(caller: Caller, worker_id: str, slots: int = 10) -> str:
    """The id of a registered worker."""
    caller.put(f"/v1/workers/{worker_id}", {"slots": slots}).ok()
    return worker_id


def claim_one(caller: Caller, worker_id: str, *, wait_s: float = 0.0, queue: str = "default") -> dict[str, Any]:
    """One granted claim."""
    asked = {"worker_id": worker_id, "queues": [queue], "max": 1, "wait_s": wait_s}
    claims = caller.post("/v1/claims", asked).ok()["claims"]
    assert len(claims) == 1, f"{worker_id} was granted {len(claims)} runs"
    return dict(claims[0])
