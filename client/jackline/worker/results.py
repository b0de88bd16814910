"""What a command left in JACKLINE_RESULT: JSON that becomes the run's result, and what becomes of anything else.

The command exited with success and its work is done, so a result that is not JSON is neither lost nor made a failure:
it is kept as text, inside a result that says what is wrong with it:

    {"code": "result_not_json", "message": "... line 1 column 1 ...", "text": "...", "cut": false}

Bytes that are not UTF-8 are shown as replacements. Text beyond `TEXT_MAX` characters is cut, and says so.
"""

import json
import math
from pathlib import Path
from typing import Any, NoReturn

NOT_JSON = "result_not_json"
TEXT_MAX = 100_000


def read_result(path: Path) -> Any:
    """The result that was written, as it is told to the service; None when nothing was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    try:
        return json.loads(content, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return _kept(content, str(error) or type(error).__name__)


def is_kept(result: Any) -> bool:
    """Whether this result is text that was no JSON."""
    return isinstance(result, dict) and result.get("code") == NOT_JSON


def _refuse(constant: str) -> NoReturn:
    message = f"{constant} is no number of JSON's"
    raise ValueError(message)


def _finite(text: str) -> float:
    """The number, if there is one for it: 1e999 is JSON, and infinity cannot be told to anybody."""
    number = float(text)
    return number if math.isfinite(number) else _refuse(text[:40])


def _kept(content: bytes, problem: str) -> dict[str, Any]:
    text = content.decode("utf-8", errors="replace")
    message = f"JACKLINE_RESULT is not JSON, and is kept as text: {problem}"
    return {"code": NOT_JSON, "message": message, "text": text[:TEXT_MAX], "cut": len(text) > TEXT_MAX}
