"""What a command finds in its environment.

It does not inherit the worker's: an agent's command must not see the secrets that happen to be exported where the
worker was started. Only what makes a program run at all is handed through (`KEPT`, and every `LC_*`), then what the
run's own payload asks for, then Jackline's own names, which a payload cannot replace:

    JACKLINE_RUN_ID JACKLINE_FENCE JACKLINE_ATTEMPT   which run, under which fence, which attempt
    JACKLINE_URL JACKLINE_KEY_FILE                    the service, and the file that holds a key to it
    JACKLINE_URL_FILE                                 the file to read again when nobody answers at that url, if any
    JACKLINE_WORKSPACE_ID                             what the run stands on: the directory in which it starts
    JACKLINE_PARTIAL   file: the JSON that an earlier attempt saved last, or null
    JACKLINE_ANSWER    file: the JSON of the latest answer, or null
    JACKLINE_ANSWERS   file: all questions with their answers, a JSON list
    JACKLINE_PAYLOAD   file: the run's payload
    JACKLINE_RESULT    file to write: JSON that becomes the result of a run that succeeds (else it is kept as text)
    JACKLINE_CONTROL   directory of this attempt: the mark by which its processes are found again

The `jackline` command line is on the PATH, last, and needs nothing else.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jackline.address import Address
from jackline.models import Claim
from jackline.worker.places import Attempt

KEPT = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
MARK = "JACKLINE_CONTROL"


def environment(
    outer: Mapping[str, str], claim: Claim, attempt: Attempt, *, address: Address, command_line: Path
) -> dict[str, str]:
    """The environment of one attempt's command."""
    kept = {name: value for name, value in outer.items() if name in KEPT or name.startswith("LC_")}
    kept.update(_asked_for(claim.payload))
    kept["PATH"] = f"{kept.get('PATH', DEFAULT_PATH)}:{command_line}"
    if address.url_file is not None:
        kept["JACKLINE_URL_FILE"] = str(address.url_file.absolute())
    return kept | {
        "JACKLINE_RUN_ID": claim.run_id,
        "JACKLINE_FENCE": str(claim.fence),
        "JACKLINE_ATTEMPT": str(claim.attempt),
        "JACKLINE_URL": address.url,
        "JACKLINE_KEY_FILE": str(attempt / "key"),
        "JACKLINE_PARTIAL": str(attempt / "partial.json"),
        "JACKLINE_ANSWER": str(attempt / "answer.json"),
        "JACKLINE_ANSWERS": str(attempt / "answers.json"),
        "JACKLINE_PAYLOAD": str(attempt / "payload.json"),
        "JACKLINE_RESULT": str(attempt / "result.json"),
        MARK: str(attempt.path),
    }


def _asked_for(payload: Any) -> dict[str, str]:
    asked = payload.get("env") if isinstance(payload, dict) else None
    if not isinstance(asked, dict):
        return {}
    return {
        str(name): str(value)
        for name, value in asked.items()
        if name and "=" not in str(name) and "\0" not in f"{name}{value}" and not str(name).startswith("JACKLINE_")
    }
