"""What goes over the wire, and what comes back, without any I/O.

Shared by both faces of the client: how a body is encoded, how an answer becomes a value, a `Problem` or `Unknown`, and
which answers are worth asking again for. A 502, 503 or 504 is silence with a letterhead: the command may have taken
effect, so it is `Unknown`, except where the problem's code says that nothing was tried.

Bounds: bodies of 1 MiB and output chunks of 256 KiB are the service's; they are not second-guessed here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jackline.decode import parsed
from jackline.errors import Garbled, Problem, Unknown, problem

NOT_A_PROBLEM = "http_error"  # the code of a refusal that is not the service's own
UNANSWERED = frozenset({502, 503, 504})
WORTH_REPEATING = frozenset({429}) | UNANSWERED
DIGITS_MAX = 18
# Statuses of silence whose codes are a real answer: nothing was tried, and asking again does not help by itself.
ANSWERED_CODES = frozenset({"read_model_behind"})


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that was not a refusal: its JSON (None when empty), and the position of what it appended."""

    status: int
    body: Any
    position: int | None = None


def encode(body: Any) -> bytes:
    """`body` as compact UTF-8 JSON; NaN and infinities are errors here, because they are not JSON."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")


def settle(status: int, content: bytes, headers: Mapping[str, str]) -> Reply:
    """The reply in an HTTP answer; raises what the answer refuses or leaves open."""
    body = _json(content, status)
    if status < 400:
        return Reply(status, body, _position(headers))
    document = body if isinstance(body, Mapping) else {"code": NOT_A_PROBLEM, "title": f"HTTP {status}"}
    refusal = problem(status, _with_retry_after(document, headers))
    if status in UNANSWERED and refusal.code not in ANSWERED_CODES:
        raise Unknown(str(refusal), problem=refusal) from refusal
    raise refusal


def repeat_after_s(error: Problem | Unknown) -> float | None:
    """Seconds to wait at least before asking again; None when the answer is final."""
    if isinstance(error, Unknown):
        return (error.problem.retry_after_s if error.problem else None) or 0.0
    if error.status in WORTH_REPEATING and error.code not in ANSWERED_CODES:
        return error.retry_after_s or 0.0
    return None


def _json(content: bytes, status: int) -> Any:
    if not content:
        return None
    try:
        return parsed(content, "the answer")
    except Garbled:
        if status >= 400:
            return None
        raise


def _position(headers: Mapping[str, str]) -> int | None:
    text = headers.get("Jackline-Position", "")
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    """Whether this is a whole number as HTTP writes them; there are digits that are none, and numbers without end."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


def _with_retry_after(document: Mapping[str, Any], headers: Mapping[str, str]) -> Mapping[str, Any]:
    text = headers.get("Retry-After", "")
    if "retry_after_s" in document or not _is_number(text):
        return document
    return {**document, "retry_after_s": float(text)}
