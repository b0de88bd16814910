"""What the exit code of `jackline` says.

    0    done; the run succeeded
    1    the run failed; a check (doctor, demo) found something wrong
    2    the command line was not understood
    3    refused: the service said no, and its code is on standard error
    4    unknown: nobody answered, and what was asked may or may not have happened
    5    no such run, worker, queue or key
    6    the key is missing, not known, or may not do this
    7    still going: the wait was over before the run was (`show --wait`)
    10   effect: existing (it was done before; its outcome is printed)
    11   effect: mismatch (same key, another payload)
    12   effect: ambiguous (somebody started it and nobody knows)
    20   the run was cancelled      21   aborted      22   lost
    70   a bug of this command line; JACKLINE_TRACEBACK=1 shows where
    129, 130, 143  the terminal was closed, interrupted, terminated: left, and the run was not followed to its end

Errors are one line on standard error: what happened, with its code and values, and what can be done about it.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, Final

from jackline.errors import FenceLost, Forbidden, Garbled, JacklineError, NotFound, Problem, Unauthorised, Unknown

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
UNKNOWN: Final = 4
NOT_FOUND: Final = 5
NOT_ALLOWED: Final = 6
GOING: Final = 7
EFFECT: Final = {"claimed": 0, "existing": 10, "mismatch": 11, "ambiguous": 12}
OUTCOME: Final = {"succeeded": DONE, "failed": FAILED, "cancelled": 20, "aborted": 21, "lost": 22}
BUG: Final = 70
HUNG_UP: Final = 129
INTERRUPTED: Final = 130
TERMINATED: Final = 143

REMEDIES: Final = {
    "fence_lost": "the run has moved on: stop acting for it",
    "run_settled": "the run has ended; `jackline retry RUN` makes a new one",
    "run_paused": "`jackline resume RUN` brings it back",
    "lease_held": "wait until the lease is given up or has expired",
    "worker_unknown": "`jackline work` does that, and `jackline workers` lists who is there",
    "leases_held": "hand the runs back first",
    "worker_in_use": "it may be taken over once it is silent",
    "revision_stale": "somebody else has reassigned the run: look again with `jackline show RUN`",
    "timeout_unknown": "`jackline facts RUN` shows the run's timeouts",
    "timeout_answered": "nothing more is to be answered; `jackline why RUN` shows which clocks run now",
    "idempotency_mismatch": "use another idempotency key for another request",
    "run_unknown": "`jackline ls` lists the runs",
    "key_unknown": "`jackline keys list` lists the keys",
    "effect_unknown": "claim it first: `jackline effect claim KEY`",
    "position_beyond": "give an earlier position, or leave --at out",
    "instant_before": "give a later instant",
    "run_not_yet": "`jackline facts RUN` shows since which position it is there",
    "past_too_wide": "narrow the list with --queue, --tag or --search",
    "outcome_unknown": "ask again under the same idempotency key",
}
BY_KIND: Final[tuple[tuple[type[JacklineError], int, str], ...]] = (
    (Unauthorised, NOT_ALLOWED, "give a key with --key, JACKLINE_KEY, or --data-dir of the service"),
    (Forbidden, NOT_ALLOWED, "use a key whose role allows it"),
    (NotFound, NOT_FOUND, ""),
    (FenceLost, REFUSED, REMEDIES["fence_lost"]),
    (Unknown, UNKNOWN, "is the service running? `jackline doctor` looks into it"),
    (Garbled, UNKNOWN, "is that really a Jackline service, of this version? `jackline doctor` looks into it"),
    (Problem, REFUSED, ""),
)


class Fault(JacklineError):
    """Something that this command found wrong by itself."""

    def __init__(self, message: str, remedy: str = "", code: int = FAILED) -> None:
        super().__init__(message, remedy, code)
        self.message = message
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        return self.message


def complain(message: str, remedy: str = "") -> None:
    """One line on standard error."""
    line = " ".join(f"jackline: {message}{'; ' + remedy if remedy else ''}".split())
    print(line, file=sys.stderr)


def exit_code_of(error: JacklineError) -> int:
    """Complain about `error`, and the exit code that says it."""
    if isinstance(error, Fault):
        complain(error.message, error.remedy)
        return error.code
    code, remedy = next(((code, text) for kind, code, text in BY_KIND if isinstance(error, kind)), (USAGE, ""))
    if isinstance(error, Problem):
        remedy = REMEDIES.get(error.code) or remedy
        complain(f"{error}{_values(error)}", remedy)
    else:
        complain(str(error), remedy)
    return code


def _values(problem: Problem) -> str:
    """The values of the case, as far as the sentence does not name them already."""
    told = {
        name: value
        for name, value in problem.fields.items()
        if value is not None and isinstance(value, str | int | float) and str(value) not in problem.detail
    }
    return f" ({', '.join(f'{name} {value}' for name, value in told.items())})" if told else ""


def guarded(call: Callable[[], Any]) -> int:
    """The exit code of `call`: its own, or that of what went wrong."""
    try:
        result = call()
    except JacklineError as error:
        return exit_code_of(error)
    except (KeyboardInterrupt, EOFError):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever was reading has gone; nothing more can be said, and Python must not try when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        if os.environ.get("JACKLINE_TRACEBACK"):
            raise
        complain(f"this is a bug: {type(error).__name__}: {error}", "JACKLINE_TRACEBACK=1 shows where")
        return BUG
    return result if isinstance(result, int) else DONE
