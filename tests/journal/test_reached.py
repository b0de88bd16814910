"""The line that says how far the journal had come: it tells a journal that was cut off from one that ends there."""

from pathlib import Path

import pytest

from journal.errors import JournalDamaged
from journal.opening import JOURNAL_NAME, open_readonly
from journal.reached import REACHED_NAME, Reached
from tests.journal.accounts import CODEC
from tests.journal.places import closed_journal, opened


@pytest.fixture
def line(tmp_path: Path) -> Reached:
    """A line that nobody has written yet."""
    return Reached(tmp_path / JOURNAL_NAME)


def test_what_was_noted_last_is_what_was_reached(line: Reached) -> None:
    assert 0 == line.position("epoch-1")
    for position in (1, 12, 123_456_789):
        line.note("epoch-1", position)
        assert position == line.position("epoch-1")
    line.close()


def test_a_line_of_another_epoch_says_nothing(line: Reached) -> None:
    line.note("epoch-1", 12)
    line.close()

    assert 0 == line.position("epoch-2")


@pytest.mark.parametrize("bit", range(0, 60 * 8, 7))
def test_a_line_with_a_flipped_bit_says_nothing(line: Reached, tmp_path: Path, bit: int) -> None:
    line.note("01a2298e-e543-7027-bf8d-f487fab7179d", 12)
    line.close()
    content = bytearray((tmp_path / REACHED_NAME).read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    (tmp_path / REACHED_NAME).write_bytes(content)

    assert 0 == line.position("01a2298e-e543-7027-bf8d-f487fab7179d")


def test_a_line_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    line = Reached(tmp_path / "nowhere" / JOURNAL_NAME)
    line.note("epoch-1", 1)

    assert 0 == line.position("epoch-1")
    line.close()


@pytest.mark.parametrize(("noted", "bad"), [(3, None), (2, None), (4, 4), (9, 4)])
def test_a_journal_that_ends_before_what_it_had_reached_is_refused_by_the_first_missing_position(
    tmp_path: Path, noted: int, bad: int | None
) -> None:
    place = closed_journal(tmp_path, facts=3)
    reading = open_readonly(place, CODEC)
    line = Reached(place / JOURNAL_NAME)
    line.note(reading.store.epoch, noted)
    line.close()
    verdict = reading.store.verify()
    reading.close()

    assert (bad is None, bad) == (verdict.ok, verdict.first_bad_position)
    if bad is None:
        opened(place).close()
        return
    with pytest.raises(JournalDamaged, match=f"it ends at position 3, and position {noted} had been") as refused:
        opened(place)
    assert bad == refused.value.fields()["position"]
    (place / REACHED_NAME).unlink()
    opened(place).close()
