"""Files that are taken away from under a running service: what it cannot keep it does not acknowledge.

An open file that was removed or moved can still be written, and everything written is lost with the process. The
service notices before it acknowledges; when the files are put back it goes on by itself, with all that it acknowledged.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.opening import JOURNAL_NAME
from tests.faults.books import Books
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.serving import Service

pytestmark = [pytest.mark.system, pytest.mark.origin("D38")]

Taking = Callable[[Path, Path], None]


def directory(data_dir: Path, aside: Path) -> None:
    data_dir.rename(aside)


def journal(data_dir: Path, aside: Path) -> None:
    aside.mkdir()
    (data_dir / JOURNAL_NAME).rename(aside / JOURNAL_NAME)


def log(data_dir: Path, aside: Path) -> None:
    aside.mkdir()
    (data_dir / f"{JOURNAL_NAME}-wal").rename(aside / f"{JOURNAL_NAME}-wal")


def exchanged(data_dir: Path, aside: Path) -> None:
    """A copy takes the journal's place, as after a restore that nobody stopped the service for."""
    journal(data_dir, aside)
    shutil.copy(aside / JOURNAL_NAME, data_dir / JOURNAL_NAME)


@pytest.fixture
def service(make_quick_service: Serving) -> Service:
    return make_quick_service().start()


@pytest.mark.parametrize("take", [directory, journal, log, exchanged], ids=lambda take: take.__name__)
def test_nothing_is_acknowledged_while_a_file_is_gone_and_all_goes_on_once_it_is_back(
    service: Service, tmp_path: Path, take: Taking
) -> None:
    books, aside = Books(service.caller()), tmp_path / "aside"
    assert [True] * 3 == [books.submit_next() for _ in range(3)]
    take(service.data_dir, aside)

    assert [False] * 3 == [books.submit_next() for _ in range(3)]
    assert not books.submit_without_key()
    health = books.caller.get("/healthz").ok()
    assert ("error", True) == (health["status"], str(service.data_dir) in health["first_error"])

    put_back(service.data_dir, aside)
    books.settle()
    books.caller.post("/v1/health/ack").ok(204)
    assert "ok" == books.caller.get("/healthz").ok()["status"]
    service.kill()
    service.start()
    books.caller.close()
    books.settle()
    assert verified(service)["ok"]


def put_back(data_dir: Path, aside: Path) -> None:
    data_dir.mkdir(exist_ok=True)
    for file in aside.iterdir():
        file.rename(data_dir / file.name)


def test_a_service_whose_directory_was_removed_acknowledges_nothing_until_it_is_ended(service: Service) -> None:
    books = Books(service.caller())
    assert books.submit_next()
    shutil.rmtree(service.data_dir)

    assert not books.submit_next()
    assert not books.submit(1)
    assert "error" == books.caller.get("/healthz").ok()["status"]
    service.terminate()
