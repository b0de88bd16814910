"""The line that says how far the journal had come: it tells a journal that was cut off from one that ends there."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from journal.archiving import compact
from journal.backups import back_up, restore
from journal.errors import JournalDamaged, JournalError
from journal.exporting import Range, export_lines
from journal.importing import import_lines
from journal.opening import JOURNAL_NAME, open_readonly
from journal.reached import REACHED_NAME, Reached
from journal.targets import logs_of
from tests.journal.accounts import CODEC, minting
from tests.journal.filled import FACTS, filled, read, unreported, verified
from tests.journal.places import closed_journal, opened

NOW = datetime(2026, 3, 1, tzinfo=UTC)


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


def lost_after_a_backup(place: Path) -> Path:
    """A directory whose journal went on after its backup ``backup`` and is lost; the line is what is left of it."""
    back_up(filled(place), place / "backup", NOW, unreported)
    with read(place) as store, (place / "all.jsonl").open("wb") as out:
        export_lines(store, Range(), out, unreported)
        line = Reached(place / JOURNAL_NAME)
        line.note(store.epoch, FACTS + 1)
        line.close()
    (place / JOURNAL_NAME).unlink()
    for log in logs_of(place / JOURNAL_NAME):
        log.unlink(missing_ok=True)
    return place


def test_a_restore_brings_back_less_than_the_lost_journal_had_reached(tmp_path: Path) -> None:
    place = lost_after_a_backup(tmp_path)

    assert FACTS == restore(place / "backup", place, minting(), unreported).facts

    assert not (place / REACHED_NAME).exists()
    assert verified(place).ok


def test_a_restore_that_fails_leaves_the_line(tmp_path: Path) -> None:
    place = lost_after_a_backup(tmp_path)
    said = (place / REACHED_NAME).read_bytes()
    (place / "backup").write_bytes(b"SQLite format 3\x00")

    with pytest.raises(JournalError):
        restore(place / "backup", place, minting(), unreported)

    assert said == (place / REACHED_NAME).read_bytes()


def test_an_import_brings_back_less_than_the_lost_journal_had_reached(tmp_path: Path) -> None:
    place = lost_after_a_backup(tmp_path)

    assert FACTS == import_lines(place / "all.jsonl", place, minting(), unreported).facts

    assert not (place / REACHED_NAME).exists()
    assert verified(place).ok


def test_a_file_of_another_name_is_not_the_journal_that_was_acknowledged(tmp_path: Path) -> None:
    place = closed_journal(tmp_path)
    with read(place) as store:
        epoch = store.epoch
    for name in ("backup", "journal", "journal.sqlite3.new", "other.sqlite3"):
        assert 0 == Reached(place / name).position(epoch)
    assert 3 == Reached(place / JOURNAL_NAME).position(epoch)


def test_compacting_a_journal_that_was_cut_off_does_not_make_it_whole(tmp_path: Path) -> None:
    place = closed_journal(tmp_path)
    with read(place) as store:
        epoch = store.epoch
    compact(place)
    opened(place).close()
    line = Reached(place / JOURNAL_NAME)
    line.note(epoch, 4)
    line.close()

    compact(place)

    with pytest.raises(JournalDamaged, match="it ends at position 3, and position 4 had been"):
        opened(place)
