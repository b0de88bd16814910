"""Results that commands leave: JSON is taken as it is, and anything else is kept as text that says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from jackline.worker.results import NOT_JSON, TEXT_MAX, is_kept, read_result


def left(tmp_path: Path, content: bytes) -> Any:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    return read_result(path)


@pytest.mark.parametrize("value", [None, 0, "text", [1, 2], {"code": "mine"}, {"deep": {"er": [None]}}])
def test_json_is_taken_as_it_is(tmp_path: Path, value: Any) -> None:
    result = left(tmp_path, json.dumps(value).encode())

    assert value == result
    assert not is_kept(result)


def test_nothing_written_is_no_result(tmp_path: Path) -> None:
    assert read_result(tmp_path / "result.json") is None


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"done: 7 files\n", "done: 7 files\n"), (b"", ""), (b"{'a': 1}", "{'a': 1}"), (b"NaN", "NaN"), (b"1 2", "1 2"),
     (b"[-1e999]", "[-1e999]"), (b"\xff\xfe", "\ufffd\ufffd"), (b"[" * 100_000, "[" * 100_000)],
)  # fmt: skip
def test_what_is_no_json_is_kept_as_text_with_what_is_wrong(tmp_path: Path, content: bytes, text: str) -> None:
    result = left(tmp_path, content)

    assert (NOT_JSON, text, False) == (result["code"], result["text"], result["cut"])
    assert result["message"].startswith("JACKLINE_RESULT is not JSON, and is kept as text: ")
    assert is_kept(result)


def test_text_is_cut_one_character_past_its_bound_and_says_so(tmp_path: Path) -> None:
    whole, cut = left(tmp_path, b"x" * TEXT_MAX), left(tmp_path, b"x" * (TEXT_MAX + 1))

    assert (TEXT_MAX, False) == (len(whole["text"]), whole["cut"])
    assert (TEXT_MAX, True) == (len(cut["text"]), cut["cut"])
