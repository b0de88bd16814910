"""Opening a data directory: what may be there instead of a sound journal, and what is said about it in one line."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journal.application import SQLiteJournal
from journal.datastore import READER_PROFILE, assert_durable, connect
from journal.errors import (
    DataDirBusy,
    DataDirUnusable,
    JournalDamaged,
    JournalError,
    NotAJournal,
    NotDurable,
    SchemaTooNew,
    StorageFull,
    UnknownTopic,
)
from journal.lock import DirLock, filesystem_of
from journal.mapper import Codec
from journal.opening import JOURNAL_NAME, _plain, open_journal, open_readonly, open_sqlite
from journal.schema import SCHEMA_VERSION
from journal.topics import Topics
from tests.journal.accounts import (
    CODEC,
    FOLDS,
    Deposited,
    HandClock,
    append,
    deciding,
    deposit,
    execute,
    minting,
    stored,
)


def opened(place: Path, **options: Any) -> SQLiteJournal:
    return open_sqlite(place, CODEC, minting(), **options)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data directory with a closed journal of three facts."""
    app = opened(tmp_path)
    append(app.store, *(deciding(stored("account-a", version)) for version in (1, 2, 3)))
    app.close()
    return tmp_path


def alter(place: Path, *statements: str) -> None:
    """Change a closed journal behind its back."""
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def one_line(error: JournalError) -> str:
    line = str(error)
    assert "\n" not in line
    assert error.remedy
    assert line.endswith(error.remedy)
    return line


def test_a_journal_is_there_again_after_it_was_closed(place: Path) -> None:
    app = opened(place)

    assert [1, 2, 3] == [fact.position for fact in app.store.facts_after(0, 10)]
    assert app.store.verify().ok
    app.close()
    assert {JOURNAL_NAME, "journal.lock"} == {path.name for path in place.iterdir()}


async def test_a_journal_opened_by_the_service_goes_on_where_it_ended(place: Path) -> None:
    journal = await open_journal(place, HandClock(), mint=minting(), codec=CODEC, folds=FOLDS)
    assert (3, "sqlite", 3) == (journal.position, journal.kind, journal.streams.load("account-a").version)
    assert journal.last_append_at is not None

    done = await execute(journal, deposit(journal, "account-a"))

    assert (4, 4) == (done.position, done.facts[0].version)
    await journal.close()


async def test_without_a_data_directory_the_journal_is_kept_in_memory() -> None:
    journal = await open_journal(None, HandClock(), mint=minting(), codec=CODEC, folds=FOLDS)

    assert ("memory", 1) == (journal.kind, (await execute(journal, deposit(journal, "account-a"))).position)
    await journal.close()


@pytest.mark.origin("D46")
def test_a_commit_survives_a_power_loss_because_the_profile_says_so(place: Path) -> None:
    app = opened(place)

    with app.store.datastore.get_connection(commit=True) as writer:
        cursor = writer.cursor()
        found = {}
        for pragma in ("journal_mode", "synchronous", "busy_timeout", "wal_autocheckpoint", "cache_size"):
            cursor.execute(f"PRAGMA {pragma}")
            found[pragma] = cursor.fetchone()[0]
    app.close()

    expected = {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 5_000, "wal_autocheckpoint": 4_000}
    assert expected | {"cache_size": -64_000} == found


@pytest.mark.origin("D46")
def test_a_weaker_profile_is_refused_at_the_start(place: Path) -> None:
    with closing(connect(str(place / JOURNAL_NAME))) as connection:
        connection.execute("PRAGMA synchronous=NORMAL")
        with pytest.raises(NotDurable) as caught:
            assert_durable(connection, "journal")

    assert "journal runs with synchronous=1, and 2 is required" in one_line(caught.value)


def test_only_one_connection_writes_and_the_others_cannot(place: Path) -> None:
    app = opened(place)

    with pytest.raises(sqlite3.OperationalError, match="readonly"), closing(
        connect(str(place / JOURNAL_NAME), READER_PROFILE)
    ) as reader:
        reader.execute("UPDATE tail SET position = 0")
    with app.store.datastore.transaction(commit=False) as c, pytest.raises(sqlite3.OperationalError, match="readonly"):
        c.execute("UPDATE tail SET position = 0")
    app.close()


def test_nothing_is_taken_from_the_environment_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQLITE_DBNAME", "JOURNAL_SQLITE_DBNAME"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PERSISTENCE_MODULE", "eventsourcing.popo")
    monkeypatch.setenv("COMPRESSOR_TOPIC", "gzip")
    monkeypatch.setenv("IS_SNAPSHOTTING_ENABLED", "y")

    app = opened(tmp_path / "here")
    append(app.store, deciding(stored("account-a", 1)))
    app.close()

    assert ["here"] == [path.name for path in tmp_path.iterdir()]
    assert app.snapshots is None


@pytest.mark.origin("A45", "D55")
def test_a_second_server_on_the_same_directory_is_told_who_has_it(place: Path) -> None:
    app = opened(place)

    with pytest.raises(DataDirBusy) as caught:
        opened(place)

    assert f"{place} is in use by process {os.getpid()}" in one_line(caught.value)
    app.close()
    opened(place).close()


@pytest.mark.system
@pytest.mark.origin("A45", "D55")
def test_the_directory_of_a_killed_process_is_free_at_once(place: Path) -> None:
    holding = (
        "import sys; from pathlib import Path; from journal.lock import DirLock; "
        "lock = DirLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(DataDirBusy, match=f"process {holder.pid}"):
            opened(place)
        holder.kill()

    opened(place).close()


def test_a_failed_start_gives_the_directory_back(place: Path) -> None:
    (place / JOURNAL_NAME).write_bytes(b"")
    with pytest.raises(JournalDamaged):
        opened(place)

    DirLock(place).release()


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

    app = opened(place, steps={0: ["ALTER TABLE salvage RENAME TO partials"]})

    assert app.store.partial("r") is None
    assert [("schema_version", str(SCHEMA_VERSION))] == app.store.datastore.read(
        "SELECT key, value FROM meta WHERE key = 'schema_version'"
    )
    app.close()


def test_an_upgrade_that_fails_leaves_the_journal_as_it_was(place: Path) -> None:
    alter(place, "UPDATE meta SET value = '0' WHERE key = 'schema_version'")

    with pytest.raises(JournalError):
        opened(place, steps={0: ["CREATE TABLE extra (a)", "DROP TABLE never_there"]})

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


def test_a_journal_is_read_beside_the_process_that_serves_it(place: Path) -> None:
    serving = opened(place)
    append(serving.store, deciding(stored("account-a", 4)))

    reading = open_readonly(place, CODEC)

    assert [1, 2, 3, 4] == [row[0] for row in reading.store.rows_after(0)]
    append(serving.store, deciding(stored("account-a", 5)))
    assert 5 == reading.store.load_tail().position
    with pytest.raises(Exception, match="opened to read"):
        append(reading.store, deciding(stored("account-b", 1)))
    reading.close()
    serving.close()


def test_reading_makes_nothing_and_changes_nothing(place: Path, tmp_path: Path) -> None:
    before = (place / JOURNAL_NAME).read_bytes()
    reading = open_readonly(place, CODEC)
    assert reading.store.verify().ok
    reading.close()

    with pytest.raises(DataDirUnusable):
        open_readonly(tmp_path / "nowhere", CODEC)

    assert before == (place / JOURNAL_NAME).read_bytes()
    assert not (tmp_path / "nowhere").exists()


def test_a_place_with_odd_characters_in_its_name_is_a_place_like_any_other(tmp_path: Path) -> None:
    place = tmp_path / "it's 100% odd?mode=ro#x"
    app = opened(place)
    append(app.store, deciding(stored("account-a", 1)))
    app.close()

    assert 1 == open_readonly(place, CODEC).store.load_tail().position


def test_a_half_made_journal_of_an_earlier_start_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / f"{JOURNAL_NAME}.new").write_bytes(b"half")

    app = opened(tmp_path)

    assert 0 == app.store.load_tail().position
    app.close()
    assert ["journal.lock", JOURNAL_NAME] == sorted(path.name for path in tmp_path.iterdir())


async def test_a_copy_of_the_files_of_a_running_journal_opens_with_everything_acknowledged(tmp_path: Path) -> None:
    journal = await open_journal(tmp_path / "a", HandClock(), mint=minting(), codec=CODEC, folds=FOLDS)
    await asyncio.gather(*(execute(journal, deposit(journal, f"account-{n}")) for n in range(20)))

    shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("*-shm", "*.lock"))

    app = opened(tmp_path / "b")
    assert (20, True) == (app.store.tail.position, app.store.verify().ok)
    app.close()
    await journal.close()
    assert Deposited(amount=1) == journal.feed.after(0)[0].fact
