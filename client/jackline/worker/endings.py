"""From the evidence of how a command ended to what is told to the service.

Exit codes are evidence, not verdicts: they become the *outcome of the attempt*, and the run's policy says who judges
it.

    exit 0                       succeeded, with the JSON of JACKLINE_RESULT (what is no JSON is kept as text, with
                                 code "result_not_json"), else {"exit_code": 0}
    exit N                       failed, error {"code": "exit", "exit_code": N}
    ended by signal S            failed, error {"code": "signal", "signal": S, "name": "SIGTERM"}
    killed for want of memory    failed, error {"code": "memory_limit"} with the exit code or the signal
    neither is known             failed, error {"code": "exit_unknown"}; the service settles the run as lost, not
                                 failed, when no attempt is left
    could not be started         failed, error {"code": "not_started", "errno": E}, not retryable
    not started by our fault     nothing: the run is handed back before it comes to this, see `starting`
    no command to run            failed, error {"code": "no_command"}, not retryable
    its result is refused        failed, error {"code": "result_refused", ...}, not retryable: too large, say

A command that was *asked* to end is another matter: exit 0 then only says that it ended politely. Unless it says
outright that it has finished, by exiting 0 with a JACKLINE_RESULT written, its ending follows from why it was asked:

    cancel                       failed, error {"code": "stopped", ...}: the service settles the run as cancelled
    pause                        parked as paused
    shutdown, slice, distrust    handed back, to be continued from its partial; nothing is counted
    lost                         nothing but one report: saved (it ended by itself) or ignored (it had to be killed)

A command that parked its run is not closed; if it kept its lease and ended without waiting, the lease is given up.
"""

import signal
from dataclasses import dataclass, field
from typing import Any, Literal

from jackline.decode import decode
from jackline.errors import Garbled, Invalid

Verb = Literal["close", "hand-back", "park", "stop-report", "nothing"]


@dataclass(frozen=True, slots=True)
class Exit:
    """How the command ended; all None when nobody knows."""

    exit_code: int | None = None
    signal: int | None = None
    not_started: dict[str, Any] | None = None
    stop: str | None = None
    killed: bool = False
    memory_limit: bool = False

    @classmethod
    def of(cls, document: Any) -> "Exit":
        """The evidence that a keeper left; a missing document is the absence of evidence."""
        if not isinstance(document, dict):
            return cls()
        try:
            return decode(cls, document)
        except Garbled:
            return cls()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Everything beside the exit itself that its meaning depends on."""

    asked: str | None = None
    lost: bool = False
    parked: Any = None
    result: Any = None
    result_written: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """What to tell: the verb of a guarded write, and its body."""

    verb: Verb
    body: dict[str, Any] = field(default_factory=dict)


def ending(exit_: Exit, around: Circumstances) -> Ending:
    """What is told to the service about a command that has ended."""
    if around.lost:
        return Ending("stop-report", {"report": "ignored" if exit_.killed else "saved"})
    if around.parked is not None:
        return _after_parking(around.parked)
    finished = exit_.exit_code == 0 and (around.result_written or (around.asked is None and exit_.stop is None))
    if finished:
        return Ending("close", {"outcome": "succeeded", "result": _result(around)})
    asked = around.asked or exit_.stop
    if asked == "cancel":
        return Ending("close", _failed(_error(exit_) | {"code": "stopped"}, retryable=False))
    if asked == "pause":
        return Ending("park", {"kind": "paused", "question": None, "keep_lease": False})
    if asked is not None:
        return Ending("hand-back")
    return Ending("close", _failed(_error(exit_), retryable=exit_.not_started is None))


def no_command() -> Ending:
    """The ending of a run that says nothing about what to execute."""
    message = "the payload has no command, and the worker was not given one: submit with `-- command...`"
    return Ending("close", _failed({"code": "no_command", "message": message}, retryable=False))


def instead_of(body: dict[str, Any], refusal: Invalid) -> dict[str, Any]:
    """What is said in place of a close that the service will never take: that it was refused, and why.

    Left unsaid, the lease would run out, and all the work would be done again to be refused again.
    """
    succeeded = body.get("outcome") == "succeeded"
    what = "result" if succeeded else "error"
    error = {"code": f"{what}_refused", "message": f"the service refused the {what}: {refusal}"}
    return _failed(error, retryable=bool(not succeeded and body.get("retryable")))


def _after_parking(parked: Any) -> Ending:
    if isinstance(parked, dict) and parked.get("keep_lease"):
        body = {"kind": parked.get("kind", "waiting_input"), "question": parked.get("question"), "keep_lease": False}
        return Ending("park", body)
    return Ending("nothing")


def _result(around: Circumstances) -> Any:
    return around.result if around.result_written else {"exit_code": 0}


def _failed(error: dict[str, Any], *, retryable: bool) -> dict[str, Any]:
    return {"outcome": "failed", "error": error, "retryable": retryable}


def _error(exit_: Exit) -> dict[str, Any]:
    if exit_.not_started is not None:
        return {"code": "not_started", **exit_.not_started}
    if exit_.memory_limit:
        how = {"exit_code": exit_.exit_code} if exit_.signal is None else {"signal": exit_.signal}
        message = "memory limit: the kernel killed the command for want of memory"
        return {"code": "memory_limit", **how, "message": message}
    if exit_.exit_code is not None:
        return {"code": "exit", "exit_code": exit_.exit_code, "message": f"the command exited with {exit_.exit_code}"}
    if exit_.signal is not None:
        name = _name(exit_.signal)
        return {"code": "signal", "signal": exit_.signal, "name": name, "message": f"the command was ended by {name}"}
    return {"code": "exit_unknown", "message": "the command ended, and neither its exit code nor a signal is known"}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
