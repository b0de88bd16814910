"""What may lie where a journal should be, and what is said about it in one line."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from journal.errors import (
    DataDirUnusable,
    JournalDamaged,
    JournalError,
    NotAJournal,
    SchemaTooNew,
    StorageFull,
    UnknownTopic,
)
from journal.lock import filesystem_of
from journal.mapper import Codec
from journal.opening import JOURNAL_NAME, _plain, open_readonly, open_sqlite
from journal.schema import SCHEMA_VERSION
from journal.topics import Topics
from tests.journal.accounts import minting
from tests.journal.places import alter, closed_journal, one_line, opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data directory with a closed journal."""
    return closed_journal(tmp_path)


def truncate_to(size: Callable[[int], int]) -> Callable[[Path], None]:
    def cut(path: Path) -> None:
        os.truncate(path, size(path.stat().st_size))

    return cut


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (truncate_to(lambda _: 0), "it is empty (0 bytes)"),
        (truncate_to(lambda size: size - 1), "so facts were cut off"),
        (truncate_to(lambda size: size // 2), "so facts were cut off"),
        (truncate_to(lambda _: 50), "so facts were cut off"),
        (truncate_to(lambda _: 20), "so facts were cut off"),
    ],
    ids=["to nothing", "by a byte", "by half", "to half a header", "to a fifth of a header"],
)
def test_a_journal_that_was_cut_off_is_not_taken_for_a_new_one(
    place: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(place / JOURNAL_NAME)

    with pytest.raises(JournalDamaged) as caught:
        opened(place)
    with pytest.raises(JournalDamaged):
        open_readonly(place)

    assert "journal_damaged" == caught.value.code
    assert said in one_line(caught.value)


def test_a_page_that_makes_no_sense_is_found_at_the_start(place: Path) -> None:
    with (place / JOURNAL_NAME).open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096)

    with pytest.raises(JournalDamaged) as caught:
        opened(place)

    assert str(place / JOURNAL_NAME) in one_line(caught.value)


def test_a_log_without_its_journal_is_not_a_beginning(place: Path) -> None:
    (place / JOURNAL_NAME).unlink()
    (place / f"{JOURNAL_NAME}-wal").write_bytes(b"facts")

    with pytest.raises(JournalDamaged, match="it is missing"):
        opened(place)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_NAME).write_text("my shopping list, which is rather long: milk, bread and salt " * 5)

    with pytest.raises(NotAJournal) as caught:
        opened(tmp_path)

    assert "it is not an SQLite database" in one_line(caught.value)
    assert (tmp_path / JOURNAL_NAME).read_text().startswith("my shopping list")


@pytest.mark.parametrize("claims", [False, True])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, claims: bool) -> None:
    with closing(sqlite3.connect(tmp_path / JOURNAL_NAME)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        if claims:
            connection.execute("CREATE TABLE stored_events (originator_id TEXT)")
        connection.commit()
    before = (tmp_path / JOURNAL_NAME).read_bytes()

    with pytest.raises(NotAJournal) as caught:
        opened(tmp_path)

    assert "it is a database of another program (bookmarks" in one_line(caught.value)
    assert before[100:] == (tmp_path / JOURNAL_NAME).read_bytes()[100:]


@pytest.mark.origin("D40", "R10")
def test_a_journal_of_a_later_version_is_refused_with_both_versions(place: Path) -> None:
    alter(place, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")

    with pytest.raises(SchemaTooNew) as caught:
        opened(place)
    with pytest.raises(SchemaTooNew):
        open_readonly(place)

    assert (99, SCHEMA_VERSION) == (caught.value.fields()["found"], caught.value.fields()["supported"])
    assert f"has schema 99, this version supports up to {SCHEMA_VERSION}" in one_line(caught.value)


@pytest.mark.origin("R10", "D46")
def test_a_journal_of_an_earlier_version_is_upgraded_in_place(place: Path) -> None:
    alter(place, "ALTER TABLE partials RENAME TO salvage", "UPDATE meta SET value = '0' WHERE key = 'schema_version'")

    app = opened(place, steps={0: ["ALTER TABLE salvage RENAME TO partials"], 1: []})

    assert app.store.partial("r") is None
    assert [("schema_version", str(SCHEMA_VERSION))] == app.store.datastore.read(
        "SELECT key, value FROM meta WHERE key = 'schema_version'"
    )
    app.close()


def test_an_upgrade_that_fails_leaves_the_journal_as_it_was(place: Path) -> None:
    alter(place, "UPDATE meta SET value = '0' WHERE key = 'schema_version'")

    with pytest.raises(JournalError):
        opened(place, steps={0: ["CREATE TABLE extra (a)", "DROP TABLE never_there"], 1: []})

    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        assert [("0",)] == connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall()
        assert [] == connection.execute("SELECT name FROM sqlite_master WHERE name = 'extra'").fetchall()


def test_a_version_that_nothing_leads_from_is_refused(place: Path) -> None:
    alter(place, "UPDATE meta SET value = '0' WHERE key = 'schema_version'")

    with pytest.raises(NotAJournal, match="no upgrade leads from its schema 0"):
        opened(place)


@pytest.mark.parametrize("where", ["below a file", "where nothing may be made"])
def test_a_directory_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "data" if where == "below a file" else Path("/proc/jackline")

    with pytest.raises(DataDirUnusable) as caught:
        opened(place)

    assert f"{place} cannot be used" in one_line(caught.value)


def test_a_directory_on_another_machine_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "2 1 0:5 / /mnt rw - nfs4 server:/ rw\n"
        "3 2 0:6 / /mnt/my\\040disk rw - xfs /dev/sdb rw\n"
    )

    found = [filesystem_of(Path(path), mounts) for path in ("/home", "/mnt/data", "/mnt/my disk/x", "/mntx")]

    assert ["ext4", "nfs4", "xfs", "ext4"] == found
    assert filesystem_of(Path("/"), tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, StorageFull),
        (sqlite3.SQLITE_NOTADB, NotAJournal),
        (sqlite3.SQLITE_CORRUPT, JournalDamaged),
        (sqlite3.SQLITE_READONLY, DataDirUnusable),
        (sqlite3.SQLITE_CANTOPEN, DataDirUnusable),
    ],
)
def test_what_the_database_says_becomes_one_line_with_a_remedy(
    tmp_path: Path, code: int, kind: type[JournalError]
) -> None:
    error = sqlite3.OperationalError("said so")
    error.sqlite_errorcode = code

    plain = _plain(tmp_path / JOURNAL_NAME, error)

    assert kind is type(plain)
    assert str(tmp_path) in one_line(plain)


def test_a_journal_that_ends_with_names_from_a_later_version_is_refused(place: Path) -> None:
    with pytest.raises(JournalDamaged, match=r"at position 1: the journal holds a fact named 'account.deposited.v1'"):
        open_sqlite(place, Codec(Topics({})), minting())
    assert "unknown_topic" == UnknownTopic.code
