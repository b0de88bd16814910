"""Where a worker keeps what must outlive it.

    HOME/                      one worker's own place, held by an exclusive lock while it runs
      lock  worker.json        its lock, its name, and which instance it is
      bin/jackline             the command line as it is put on a run's PATH
      bin/keeper.py            the keeper of every attempt, as it was when this worker started
      rehearsal/               the attempt that a worker in trouble makes at nothing, before it claims again
      workspaces/              the directories that runs stand on, with their records: see `jackline.workspaces`
      attempts/RUN_ID.FENCE/   one attempt: state, spec, keeper, spool, evidence (see `Attempt`)

A run's directory is a convenience, not a promise: another attempt may start on another machine with an empty one.
What must survive is the partial.

Everything here is for this user alone (0700, 0600). Documents are replaced whole, never edited in place.
"""

import fcntl
import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jackline.errors import JacklineError
from jackline.models import LeaseRef
from jackline.worker import keeper

HOMES = 64
_KEEPER = Path(keeper.__file__).read_bytes()  # of the version that this worker is
_SAFE = re.compile(r"[A-Za-z0-9._-]{1,128}")


class HomeBusy(JacklineError):
    """Another worker runs in that place."""


class HomeUnusable(JacklineError):
    """Nothing can be kept in that place."""


class UnsafeName(JacklineError):
    """A run id that cannot be a directory's name."""


class Attempt:
    """The control directory of one attempt.

    `attempt.json` the claim; `worker.json` who executes it; `spec.json` what the keeper starts; `trust`, `grace` what
    it obeys; `keeper.json`, `exit.json` what it says; `stdout`, `stderr` the spool; `delivery.json` how far the spool
    was delivered; `ending.json` what is to be told to the service; `partial.json`, `answer.json`, `answers.json`,
    `payload.json`, `effects.json`, `key` what the command reads; `result.json` what it writes; `parking.json`,
    `parked.json`, `flush`, `flushed` what the command line inside the run leaves.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def save(self, name: str, document: Any) -> None:
        """Replace one document."""
        keeper.write(self.path / name, document)

    def load(self, name: str) -> Any:
        """One document, or None."""
        return keeper.read(self.path / name)

    def remove(self) -> None:
        """Forget the attempt: it was told to the service, or is nobody's business any more."""
        shutil.rmtree(self.path, ignore_errors=True)


class Home:
    """One worker's place, locked for as long as this object lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in ("attempts", "bin"):
                (path / name).mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            msg = f"the worker cannot keep anything in {path} ({error.strerror}); give it another --work-dir"
            raise HomeUnusable(msg) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            msg = f"another worker runs in {path}; give this one another --work-dir or --id"
            raise HomeBusy(msg) from error
        self.worker_id: str | None = None

        (path / "bin" / "keeper.py").unlink(missing_ok=True)  # an earlier version's

    @classmethod
    def first_free(cls, root: Path) -> "Home":
        """The first place below `root` in which no worker runs: a worker that starts anew finds its own again."""
        for number in range(1, HOMES + 1):
            try:
                return cls(root / str(number))
            except HomeBusy:
                continue
        msg = f"{HOMES} workers run below {root}; give this one a --work-dir of its own"
        raise HomeBusy(msg)

    def close(self) -> None:
        """Let another worker have the place."""
        os.close(self._lock)

    def name(self, wanted: str | None, otherwise: str) -> str:
        """The worker's name: what is wanted, else what it was called here before, else `otherwise`; remembered."""
        before = self._known("worker_id")
        name = wanted or before or otherwise
        instance = self._known("instance") or secrets.token_hex(8)
        keeper.write(self.path / "worker.json", {"worker_id": name, "instance": instance})
        self.worker_id = name
        return name

    @property
    def instance(self) -> str | None:
        """Which instance runs here: the same after a restart in the same place; None before it has a name."""
        return self._known("instance")

    def _known(self, name: str) -> str | None:
        """What was remembered, if it is still what can have been written."""
        known = keeper.read(self.path / "worker.json")
        value = known.get(name) if isinstance(known, dict) else None
        return value if isinstance(value, str) and _SAFE.fullmatch(value) else None

    def attempt(self, ref: LeaseRef) -> Attempt:
        """A fresh control directory for one attempt."""
        path = self.path / "attempts" / f"{_checked(ref.run_id)}.{ref.fence}"
        # A fence is granted once, unless the service was restored from an older copy: then the old files are void.
        return Attempt(_fresh(path))

    def attempts(self) -> Iterator[Attempt]:
        """Attempts that were begun here and not yet told to the service."""
        for path in sorted((self.path / "attempts").iterdir()):
            if path.is_dir():
                yield Attempt(path)

    def rehearsal(self) -> Attempt:
        """A fresh control directory that belongs to no run."""
        return Attempt(_fresh(self.path / "rehearsal"))

    def keeper(self) -> Path:
        """Our own copy of the keeper, which stays what it is when the installed package is replaced or goes away."""
        script = self.path / "bin" / "keeper.py"
        if not script.exists():
            draft = script.with_name(f".keeper.{os.getpid()}")
            draft.write_bytes(_KEEPER)
            draft.chmod(0o600)
            draft.replace(script)
        return script

    def command_line(self) -> Path:
        """A directory that holds the `jackline` command and nothing else, to be put on a run's PATH.

        The interpreter is isolated (-I), so that nothing in a run's directory or environment is imported into it.
        """
        script = self.path / "bin" / "jackline"
        code = "from jackline.cli.main import main; main()"
        draft = script.with_name(f".jackline.{os.getpid()}")
        draft.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -c {shlex.quote(code)} "$@"\n', encoding="utf-8"
        )
        draft.chmod(0o700)
        draft.replace(script)
        return script.parent


def _fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    return path


def _checked(run_id: str) -> str:
    if not _SAFE.fullmatch(run_id) or run_id.startswith("."):
        msg = f"the run id {run_id!r} cannot be a directory's name"
        raise UnsafeName(msg)
    return run_id
