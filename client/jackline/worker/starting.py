"""Starting a command under a keeper, and knowing for certain when it was not started.

Between the grant of a lease and the start of a command much can go wrong that says nothing about the command: the
interpreter is gone, the disk is full, the machine has no process to give. Such an attempt is handed back with nothing
counted, and the worker rehearses before it claims again (`rehearse`), so that it never eats a queue that it cannot
serve.

What is certain is read off the control directory. The keeper announces itself (`keeper.json`) before it starts the
command, and looks once more at `spec.json` after that: so where there is no announcement, and the spec has been taken
away, no command was or will be started. A keeper that found that it could not start it says so (`not_begun` in
`exit.json`). Everything else counts as started, because it may have been.

The keeper that is started is the worker's own copy (`Home.keeper`), so that replacing the installed package under a
running worker changes nothing for it.
"""

import asyncio
import contextlib
import subprocess
import sys
from typing import Any

from jackline.worker.places import Attempt, Home

WORDS_MAX = 1000  # characters of a keeper's complaint that are told
REHEARSAL_S = 30.0


class NotBegun(Exception):
    """The command was certainly not started, for a reason that is not its own."""


def start_keeper(home: Home, attempt: Attempt) -> subprocess.Popen[bytes]:
    """The keeper of one attempt whose `spec.json` is written; what it complains of goes into `keeper.log`."""
    with (attempt / "keeper.log").open("ab") as complaints:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(home.keeper()), str(attempt.path)],
            cwd=attempt.path,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            start_new_session=True,
        )


def withhold(attempt: Attempt) -> None:
    """Take away what a keeper that has not announced itself yet, if there is one, would start."""
    if not (attempt / "keeper.json").exists():
        (attempt / "spec.json").unlink(missing_ok=True)


def never_began(attempt: Attempt) -> str | None:
    """Why the command of an attempt without a living keeper was certainly never started; None when it may have been."""
    told = attempt.load("exit.json")
    if isinstance(told, dict):
        return _words_of(told.get("not_begun"))
    withhold(attempt)
    if (attempt / "keeper.json").exists():
        return None
    if not (attempt / "keeper.log").exists():
        return "the worker was cut off before it started a keeper"
    complaint = _complaint(attempt)
    return f"the keeper ended before it started the command: {complaint or 'it said nothing'}"


def _words_of(not_begun: Any) -> str | None:
    return str(not_begun.get("message")) if isinstance(not_begun, dict) else None


def _complaint(attempt: Attempt) -> str:
    """The end of what the keeper, or the interpreter in its place, complained of."""
    with contextlib.suppress(OSError):
        text = (attempt / "keeper.log").read_text(encoding="utf-8", errors="replace").strip()
        return text[-WORDS_MAX:]
    return ""


async def rehearse(home: Home) -> None:
    """Start a command that does nothing, as every other is started. Raises `NotBegun` or `OSError` when that fails."""
    attempt = home.rehearsal()
    try:
        attempt.save(
            "spec.json",
            {
                "command": [sys.executable, "-I", "-S", "-c", ""],
                "cwd": str(attempt.path),
                "env": {},
                "grace_s": 0.0,
            },
        )
        await _see_through(home, attempt)
    finally:
        attempt.remove()


async def _see_through(home: Home, attempt: Attempt) -> None:
    keeping = start_keeper(home, attempt)
    try:
        await asyncio.to_thread(keeping.wait, REHEARSAL_S)
    except subprocess.TimeoutExpired as error:
        msg = f"a keeper has not started a command within {REHEARSAL_S:g} s"
        raise NotBegun(msg) from error
    finally:
        keeping.kill()
    told = attempt.load("exit.json")
    if not isinstance(told, dict) or told.get("exit_code") != 0:
        raise NotBegun(never_began(attempt) or f"a command that does nothing ended otherwise: {told!r}")
