"""A real service under test, on a port of its own, and real workers beside it."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jackline import Client, Problem, Retry
from tests.waiting import BOUND_S, until

PATIENT = Retry(patience_s=BOUND_S)

Said = subprocess.CompletedProcess[str]
Say = Callable[..., Said]


def text_of(client: Client, run_id: str, stream: str = "stdout") -> str:
    """What a run has written so far, over all its attempts."""
    return "".join(chunk.data for chunk in client.output_so_far(run_id) if chunk.stream == stream)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def one_line(said: Said) -> str:
    """What was complained of: one line."""
    assert "Traceback" not in said.stderr
    assert 1 == len(said.stderr.strip().splitlines()), said.stderr
    return said.stderr


def bare_environment() -> dict[str, str]:
    """Our own environment without anything of Jackline's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JACKLINE_")}


class Service:
    """One service on one data dir; it can be killed, stopped and started again."""

    def __init__(self, script: Path, place: Path, settings: Mapping[str, str] | None = None) -> None:
        self.script = script
        self.place = place
        self.data_dir = place / "data"
        self.port = 0  # the first start takes a free one, and the next ones the same again
        self.settings = dict(settings or {})
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Service":
        """Start it, and wait until it is ready."""
        words = [self.script, "serve", "--data-dir", self.data_dir, "--host", "127.0.0.1", "--port", str(self.port)]
        with (self.place / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in words], env=bare_environment() | self.settings, stdout=log, stderr=log
            )
        until(self._ready, what=f"the service is ready; its log:\n{self.log()}", within_s=30)
        self.port = int((self.data_dir / "server.url").read_text().rpartition(":")[2])
        return self

    def client(self) -> Client:
        """A patient blocking client with the admin key."""
        return Client(data_dir=self.data_dir, retry=PATIENT)

    def log(self) -> str:
        """What it has said."""
        path = self.place / "service.log"
        return path.read_text() if path.exists() else ""

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """End it in good order; its exit code."""
        if self.process is None:
            return 0
        self.process.terminate()
        return self.process.wait(timeout=BOUND_S)

    def close(self) -> None:
        """Whatever it takes."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        if not all((self.data_dir / name).exists() for name in ("admin.key", "server.url")):
            return False
        with Client(data_dir=self.data_dir) as client:
            try:
                return client.ready()
            except Problem:  # somebody else answers where it was before
                return False


class WorkerProcess:
    """A `jackline work` process, in a place of its own."""

    def __init__(self, service: Service, worker_id: str, *words: str, place: str = "workers") -> None:
        self.service = service
        self.worker_id = worker_id
        self.words = words
        self.home = service.place / place / worker_id
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> "WorkerProcess":
        """Start it, and wait until it is registered."""
        before = len(self.happened("registered"))
        self.begin(environment)
        until(lambda: len(self.happened("registered")) > before, what=f"{self.worker_id} is registered", within_s=20)
        return self

    def begin(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it, and wait for nothing."""
        words = [str(self.service.script), "work", "--data-dir", str(self.service.data_dir), "--id", self.worker_id]
        words += ["--work-dir", str(self.home.parent), "--json", *self.words]
        self.home.parent.mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                words, env=bare_environment() | dict(environment or {}), stdout=log, stderr=log
            )

    def send(self, number: signal.Signals) -> None:
        """Send the worker's own process a signal, and nobody else."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the worker's own process with SIGKILL; its commands live on."""
        self.send(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def stop(self, within_s: float = BOUND_S) -> int:
        """End it in good order; its exit code."""
        self.send(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(timeout=within_s)

    def said(self) -> list[dict[str, Any]]:
        """Everything that it has logged."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def happened(self, name: str) -> list[dict[str, Any]]:
        """Every happening of that name."""
        return [entry for entry in self.said() if entry["happening"] == name]

    def close(self) -> None:
        """Whatever it takes."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()

    def text(self) -> str:
        """Everything that it has said, also outside of its log."""
        return self._log.read_text() if self._log.exists() else ""

    @property
    def _log(self) -> Path:
        return self.home.parent / f"{self.worker_id}.log"
