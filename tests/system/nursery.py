"""Services that start at once: a process that has loaded everything, and forks a service whenever a test wants one.

Most of a start is Python reading modules, a second of it, and a test that kills a service forty times would spend its
time there. What is forked is the console script's own entry, with its own environment, log and bounds, in a process of
its own that has run nothing yet: from there on it is what `jackline serve` is. The forking process has no threads,
opens nothing and draws no random numbers.

The two sides talk in lines of JSON. A service that has ended is a zombie until the test has asked for its exit code, so
its number is never somebody else's. When the test's side goes away, what still runs is killed.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import BOUND_S, until

BOUNDS = {"files": resource.RLIMIT_NOFILE, "memory": resource.RLIMIT_AS, "file_size": resource.RLIMIT_FSIZE}


def bound(name: str, most: int) -> None:
    """Bound this process; how many files may be open is bound for good, for the service raises what may be raised."""
    kind = BOUNDS[name]
    resource.setrlimit(kind, (most, most if name == "files" else resource.getrlimit(kind)[1]))


class Nursery:
    """The forking process seen from the test."""

    def __init__(self, checkout: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.nursery"],
            cwd=checkout,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def bear(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        bounds: Mapping[str, int] | None = None,
        faults: Path | None = None,
    ) -> "Child":
        """A new process of `jackline`; `faults` is the file that tells its disk and its clock to fail."""
        log.touch()
        wish = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "log": str(log),
            "bounds": dict(bounds or {}),
            "faults": None if faults is None else str(faults),
        }
        return Child(self, int(self.ask(wish)))

    def ask(self, wish: dict[str, Any]) -> Any:
        """One question and its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=BOUND_S)
        self._process.kill()
        self._process.wait()


class Child:
    """One forked process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        """The exit code, once it has ended; a signal's number below zero."""
        if self.returncode is None:
            self.returncode = self._nursery.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float = 30.0) -> int:
        """The exit code of a process that is about to end."""
        until(lambda: self.poll() is not None, what=f"process {self.pid} to end", within_s=timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _main() -> None:
    """Fork what is asked for until nobody asks any more."""
    for module in ("api.serve", "api.cli", "jackline.cli.main"):
        importlib.import_module(module)
    alive: set[int] = set()
    for line in sys.stdin:
        wish = json.loads(line)
        if "poll" in wish:
            print(json.dumps(_polled(wish["poll"], alive)), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _serve(wish)
        alive.add(pid)
        print(pid, flush=True)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def _polled(pid: int, alive: set[int]) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    alive.discard(pid)
    return os.waitstatus_to_exitcode(status)


def _serve(wish: dict[str, Any]) -> None:
    """Become what was wished for; it does not return."""
    log = os.open(wish["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 256)
    for name, most in wish["bounds"].items():
        bound(name, most)
    os.environ.update(wish["environment"])
    sys.argv = ["jackline", *wish["arguments"]]
    code = 1
    try:
        if wish["faults"] is not None:
            from tests.faults.spoiling import spoil

            spoil(Path(wish["faults"]))
        from jackline.cli.main import main

        main()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _main()
