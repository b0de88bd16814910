"""A keeper under test: its control directory, its process, and what it leaves."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jackline.clock import monotonic
from jackline.worker import keeper
from jackline.worker.environment import MARK
from jackline.worker.processes import Identity, end_marked
from tests.waiting import BOUND_S, until


class Kept:
    """One command under a keeper."""

    def __init__(self, place: Path, command: Sequence[str], *, grace_s: float = 5.0) -> None:
        self.control = place / "attempt"
        self.control.mkdir()
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", MARK: str(self.control)}
        spec = {"command": list(command), "cwd": str(place), "env": environment, "grace_s": grace_s}
        (self.control / "spec.json").write_text(json.dumps(spec))
        self.trust(60.0)
        self.process: subprocess.Popen[bytes] | None = None

    def worker(self, identity: Identity, come_back_s: float | None) -> None:
        """Say who the worker is, and how long it may be away."""
        document = {"pid": identity.pid, "started": identity.started, "come_back_s": come_back_s}
        keeper.write(self.control / "worker.json", document)

    def start(self) -> "Kept":
        """Start the keeper."""
        words = [sys.executable, "-I", "-S", keeper.__file__, str(self.control)]
        self.process = subprocess.Popen(words, env={}, start_new_session=True)
        return self

    def trust(self, seconds: float, lead_s: float = 0.0) -> None:
        """Let the lease be trusted for so long from now."""
        (self.control / "trust").write_text(f"{monotonic() + seconds} {lead_s}")

    def ended(self) -> dict[str, Any]:
        """The evidence, once the keeper has gone."""
        assert self.process is not None
        self.process.wait(timeout=BOUND_S)
        found: dict[str, Any] = json.loads((self.control / "exit.json").read_text())
        return found

    def output(self, name: str = "stdout") -> str:
        """What the command has written so far."""
        path = self.control / name
        return path.read_text() if path.exists() else ""

    def says(self, text: str) -> None:
        """Wait until the command has written this."""
        until(lambda: text in self.output(), what=f"the command says {text!r}")

    def close(self) -> None:
        """End whatever the test left running."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        end_marked(MARK, str(self.control))
