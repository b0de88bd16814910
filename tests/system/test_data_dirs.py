"""Data dirs that cannot be served: each is told in one line with the values and the remedy, and nothing in it changes.

Each case begins with a copy of a dir that was served and holds an acknowledged run, and spoils it in one way. What is
refused is left byte for byte as it was; once the spoiling is undone, what was acknowledged is still there.
"""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from journal.chain import genesis, link
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.serving import Service, cli, one_line, submit

pytestmark = pytest.mark.system

JOURNAL = "journal.sqlite3"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, jackline_script: Path) -> Path:
    """A data dir that was served and left in good order, with one run in its journal."""
    service = Service(jackline_script, tmp_path_factory.mktemp("served") / "data")
    try:
        submit(service.start().caller(), name="kept")
        assert 0 == service.terminate()
    finally:
        service.end()
    return service.data_dir


@pytest.fixture
def stopped(served: Path, make_service: Serving, tmp_path: Path) -> Service:
    """A service that is not running, on a copy of that data dir."""
    return make_service(shutil.copytree(served, tmp_path / "data"))


def contents(data_dir: Path) -> dict[str, bytes]:
    """Every file with its bytes; the lock file holds only the last process's number."""
    found = {path.name: path.read_bytes() for path in data_dir.iterdir() if path.is_file()}
    found.pop("journal.lock", None)
    return {name: content for name, content in found.items() if not name.endswith(("-shm", "-wal"))}


def kept(service: Service) -> None:
    """Start it, and find what was acknowledged."""
    items = service.start().caller().get("/v1/runs").ok()["items"]
    assert ["kept"] == [item["name"] for item in items]
    assert verified(service)["ok"]


@pytest.mark.origin("D55")
def test_a_second_service_on_the_same_data_dir_names_the_first_and_changes_nothing(
    make_service: Serving, service: Service
) -> None:
    submit(service.caller(), name="kept")
    before = contents(service.data_dir)
    second = make_service(service.data_dir)

    code, said = second.refused_to_start()

    assert 1 == code
    line = one_line(said)
    assert str(service.data_dir) in line
    assert str(service.pid) in line
    assert "--data-dir" in line
    assert before == contents(service.data_dir)
    assert service.url == (service.data_dir / "server.url").read_text().strip()
    assert 200 == service.caller().get("/readyz").status


@pytest.mark.origin("D55")
def test_a_data_dir_whose_service_was_killed_is_free_at_once(service: Service) -> None:
    submit(service.caller(), name="kept")

    service.kill()

    kept(service)


def _truncated(journal: Path) -> None:
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size - 4096)


def _emptied(journal: Path) -> None:
    journal.write_bytes(b"")


def _of_another_kind(journal: Path) -> None:
    journal.write_text("these are my notes, and no journal\n" * 100)


def _of_another_program(journal: Path) -> None:
    journal.unlink()
    with closing(sqlite3.connect(journal)) as connection:
        connection.execute("CREATE TABLE invoices (number INTEGER)")


def _newer(journal: Path) -> None:
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")


def _altered(journal: Path) -> None:
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("UPDATE stored_events SET state = replace(CAST(state AS TEXT), 'kept', 'bent')")


SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (_truncated, "facts were cut off"),
    "emptied": (_emptied, "facts were cut off"),
    "a text file": (_of_another_kind, "not an SQLite database"),
    "another program's": (_of_another_program, "another program"),
    "of a newer schema": (_newer, "999"),
    "altered": (_altered, "position 1"),
}


@pytest.mark.origin("D40", "R10")
@pytest.mark.parametrize("how", SPOILED)
def test_a_journal_that_is_spoiled_is_refused_in_one_line_and_left_as_it_is(stopped: Service, how: str) -> None:
    spoil, words = SPOILED[how]
    journal = stopped.data_dir / JOURNAL
    spoil(journal)
    before = contents(stopped.data_dir)

    code, said = stopped.refused_to_start()

    assert 1 == code
    line = one_line(said)
    assert str(journal) in line
    assert words in line
    assert before == contents(stopped.data_dir)
    checked = cli(stopped.script, "journal", "verify", "--json", "--data-dir", str(stopped.data_dir))
    assert 1 == checked.returncode


def test_a_spoiled_journal_that_is_put_back_is_served_again(stopped: Service, served: Path) -> None:
    _truncated(stopped.data_dir / JOURNAL)
    assert 1 == stopped.refused_to_start()[0]

    shutil.copy(served / JOURNAL, stopped.data_dir / JOURNAL)

    kept(stopped)


def _of_a_later_version(journal: Path) -> None:
    """Rename the last fact to one that nobody knows yet, with a chain that is whole: as a later version would write."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        (journal_id,) = connection.execute("SELECT value FROM meta WHERE key = 'journal_id'").fetchone()
        stream, state = connection.execute("SELECT originator_id, state FROM stored_events").fetchone()
        follows = link(genesis(journal_id), 1, stream, 1, "run.teleported.v1", bytes(state))
        connection.execute("UPDATE stored_events SET topic = 'run.teleported.v1', hash = ?", (follows,))
        connection.execute("UPDATE tail SET hash = ?", (follows,))


@pytest.mark.origin("D40")
def test_a_fact_with_an_unknown_name_is_refused_by_its_name_and_place(stopped: Service) -> None:
    _of_a_later_version(stopped.data_dir / JOURNAL)
    before = contents(stopped.data_dir)

    code, said = stopped.refused_to_start()

    assert 1 == code
    assert "run.teleported.v1" in one_line(said)
    checked = cli(stopped.script, "journal", "verify", "--json", "--data-dir", str(stopped.data_dir))
    found = json.loads(checked.stdout)
    assert (1, False, 1) == (checked.returncode, found["ok"], found["first_bad_position"])
    assert "run.teleported.v1" in found["problem"]
    assert before == contents(stopped.data_dir)


def test_a_read_only_data_dir_is_refused_in_one_line(stopped: Service) -> None:
    before = contents(stopped.data_dir)

    with read_only(stopped.data_dir):
        code, said = stopped.refused_to_start()

    assert 1 == code
    line = one_line(said)
    assert str(stopped.data_dir) in line
    assert "writable" in line
    assert before == contents(stopped.data_dir)
    kept(stopped)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """A directory in which nobody can write: a read-only mount for root, permissions for anybody else."""
    bind = ["mount", "--bind", str(place), str(place)]
    if os.geteuid() == 0 and subprocess.run(bind, capture_output=True, check=False).returncode == 0:
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
            yield
        finally:
            subprocess.run(["umount", str(place)], check=True)
        return
    modes = {path: path.stat().st_mode for path in [*place.iterdir(), place]}
    for path in modes:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        yield
    finally:
        for path, mode in reversed(modes.items()):
            path.chmod(mode)


def test_a_data_dir_that_is_a_file_is_refused_in_one_line(make_service: Serving, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    service = make_service(tmp_path / "file")

    code, said = service.refused_to_start()

    assert 1 == code
    assert str(tmp_path / "file") in one_line(said)
    assert "not a directory" == (tmp_path / "file").read_text()


def test_files_that_are_not_ours_are_left_alone(make_service: Serving, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    (place / "photos").mkdir()

    service = make_service(place).start()
    assert 0 == service.terminate()

    assert "mine" == (place / "notes.txt").read_text()
    assert (place / "photos").is_dir()
    assert 0o600 == (place / "admin.key").stat().st_mode & 0o777


def test_a_setting_out_of_bounds_and_an_open_address_are_refused_in_one_line(make_service: Serving) -> None:
    silly = make_service(worker_gone_s=-1)
    code, said = silly.refused_to_start()
    line = one_line(said)
    assert 2 == code
    assert "JACKLINE_WORKER_GONE_S" in line
    assert "-1" in line

    exposed = make_service(host="0.0.0.0")
    code, said = exposed.refused_to_start()
    assert 2 == code
    assert "0.0.0.0" in one_line(said)
    assert not exposed.data_dir.exists()
