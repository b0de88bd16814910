"""Output on its way: each byte once, in order, in chunks that fit, whatever the bytes and whenever the worker dies."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from jackline.worker.places import Attempt
from jackline.worker.spool import CHUNK_BYTES, READ_BYTES, Spool


def drained(attempt: Attempt, stream: str = "stdout") -> str:
    """Everything that a fresh spool would send of one stream."""
    spool, text = Spool(attempt), ""
    while (found := spool.next_piece(final=True)) is not None:
        piece, part = found
        assert len(json.dumps(part, ensure_ascii=False).encode()) <= CHUNK_BYTES
        text += part if piece.stream == stream else ""
        spool.delivered(piece)
    return text


def written(place: Path, data: bytes, stream: str = "stdout") -> Attempt:
    (place / stream).write_bytes(data)
    return Attempt(place)


def test_numbers_rise_by_one_over_both_streams(tmp_path: Path) -> None:
    written(tmp_path, b"out")
    spool = Spool(written(tmp_path, b"err", "stderr"))
    seen = []
    while (found := spool.next_piece(final=True)) is not None:
        seen.append((found[0].seq, found[0].stream, found[1]))
        spool.delivered(found[0])

    assert [(1, "stdout", "out"), (2, "stderr", "err")] == seen


def test_ten_megabytes_without_a_line_break_go_out_whole(tmp_path: Path) -> None:
    data = b"x" * 10_000_000

    assert data.decode() == drained(written(tmp_path, data))


def test_control_characters_which_take_six_bytes_in_json_still_fit(tmp_path: Path) -> None:
    data = b"\0" * (3 * READ_BYTES)

    assert data.decode() == drained(written(tmp_path, data))


@given(data=st.binary(max_size=300))
def test_any_bytes_become_text_as_if_they_had_been_read_at_once(data: bytes, tmp_path_factory: object) -> None:
    place = tmp_path_factory.mktemp("spool")  # type: ignore[attr-defined]

    assert data.decode("utf-8", "replace") == drained(written(place, data))


def test_a_character_that_is_not_written_whole_yet_waits(tmp_path: Path) -> None:
    euro = "€".encode()
    spool = Spool(written(tmp_path, b"a" + euro[:2]))
    found = spool.next_piece(final=False)
    assert found is not None
    spool.delivered(found[0])
    assert spool.next_piece(final=False) is None
    written(tmp_path, b"a" + euro)

    rest = spool.next_piece(final=False)

    assert ("a", "€") == (found[1], rest and rest[1])


def test_a_worker_that_died_before_the_answer_sends_the_same_chunk_under_the_same_number(tmp_path: Path) -> None:
    attempt = written(tmp_path, b"one")
    first = Spool(attempt).next_piece(final=False)
    written(tmp_path, b"one and two")

    again = Spool(attempt).next_piece(final=False)

    assert first == again


def test_a_worker_that_died_after_the_answer_goes_on_with_the_next_chunk(tmp_path: Path) -> None:
    attempt = written(tmp_path, b"one")
    spool = Spool(attempt)
    found = spool.next_piece(final=False)
    assert found is not None
    spool.delivered(found[0])
    written(tmp_path, b"one and two")

    rest = Spool(attempt).next_piece(final=False)

    assert (2, " and two") == (rest and rest[0].seq, rest and rest[1])


def test_bytes_that_never_become_a_character_are_sent_at_the_end_and_sent_alike_again(tmp_path: Path) -> None:
    attempt = written(tmp_path, b"ok\xe2\x82")
    first = Spool(attempt).next_piece(final=True)

    assert first == Spool(attempt).next_piece(final=True)
    assert "ok\ufffd" == (first and first[1])


def test_delivered_output_gives_its_disk_space_back(tmp_path: Path) -> None:
    attempt = written(tmp_path, b"x" * 20_000_000)
    before = (tmp_path / "stdout").stat()
    drained(attempt)
    after = (tmp_path / "stdout").stat()

    assert before.st_size == after.st_size
    assert after.st_blocks < before.st_blocks
