"""A worker as a process of its own that can be frozen: it does what it reads from standard input, one request a line.

    python -m tests.system.frozen_worker PORT        (its key in JACKLINE_KEY)

A line is `[method, path, body]`; the line that it prints is `[status, body]`. What is written to it while it is stopped
is what it was about to do: it goes on with that in the instant it is continued, without learning that time has passed.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.system.calling import Caller
from tests.waiting import until

STOPPED = "T"


class FrozenWorker:
    """The process seen from the test."""

    def __init__(self, checkout: Path, port: int, key: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.frozen_worker", str(port)],
            cwd=checkout,
            env={**os.environ, "JACKLINE_KEY": key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def begin(self, method: str, path: str, body: Any = None) -> None:
        """Give it something to do, without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, path, body]).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> tuple[int, Any]:
        """Status and body of the next thing that it did."""
        assert self.process.stdout is not None
        status, body = json.loads(self.process.stdout.readline())
        return status, body

    def do(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Have it do something, and wait."""
        self.begin(method, path, body)
        return self.answer()

    def freeze(self) -> None:
        """Stop it (SIGSTOP) wherever it is, and return once it stands."""
        self.process.send_signal(signal.SIGSTOP)
        until(self._stands, what="the worker to be frozen")

    def _stands(self) -> bool:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == STOPPED

    def thaw(self) -> None:
        """Let it go on (SIGCONT)."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.communicate()


def main() -> None:
    """Do what is read."""
    caller = Caller(int(sys.argv[1]), os.environ["JACKLINE_KEY"])
    for line in sys.stdin:
        method, path, body = json.loads(line)
        answer = caller.ask(method, path, body)
        print(json.dumps([answer.status, answer.body]), flush=True)


if __name__ == "__main__":
    main()
