"""Opening a data directory: what may be there instead of a sound journal, and what is said about it in one line."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from journal.datastore import READER_PROFILE, assert_durable, connect
from journal.errors import (
    DataDirBusy,
    JournalDamaged,
    JournalTaken,
    NoJournal,
    NotDurable,
)
from journal.lock import LOCK_NAME, DirLock
from journal.opening import JOURNAL_NAME, KEYS_NAME, JournalMissing, open_journal, open_readonly
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
from tests.journal.places import closed_journal, one_line, opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data directory with a closed journal of three facts."""
    return closed_journal(tmp_path)


def test_a_journal_is_there_again_after_it_was_closed(place: Path) -> None:
    app = opened(place)

    assert [1, 2, 3] == [fact.position for fact in app.store.facts_after(0, 10)]
    assert app.store.verify().ok
    app.close()
    assert {JOURNAL_NAME, "journal.lock", "journal.reached"} == {path.name for path in place.iterdir()}


@pytest.mark.origin("D59")
async def test_a_service_whose_lock_file_was_removed_appends_nothing_once_another_has_the_journal(place: Path) -> None:
    old = await open_journal(place, HandClock(), mint=minting(), codec=CODEC, folds=FOLDS)
    (place / LOCK_NAME).unlink()
    assert 4 == (await execute(old, deposit(old, "account-a"))).position  # nobody else is there yet

    new = await open_journal(place, HandClock(), mint=minting(), codec=CODEC, folds=FOLDS)
    for _ in range(3):  # also when the other one appends nothing in between
        with pytest.raises(JournalTaken) as caught:
            await execute(old, deposit(old, "account-a"))
        assert new.store.writer == caught.value.fields()["found"]
    done = await execute(new, deposit(new, "account-a"))

    assert (5, 4) == (done.position, old.position)
    assert new.verify().ok
    await old.close()
    assert 6 == (await execute(new, deposit(new, "account-a"))).position
    await new.close()


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

    with (
        pytest.raises(sqlite3.OperationalError, match="readonly"),
        closing(connect(str(place / JOURNAL_NAME), READER_PROFILE)) as reader,
    ):
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
        [sys.executable, "-c", holding, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
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

    with pytest.raises(NoJournal, match="nowhere"):
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


def test_a_journal_that_is_gone_is_missed_by_whoever_only_reads_it(tmp_path: Path) -> None:
    place = closed_journal(tmp_path)
    (place / JOURNAL_NAME).unlink()
    (place / KEYS_NAME).touch()

    with pytest.raises(JournalMissing, match=KEYS_NAME):
        open_readonly(place, CODEC)
