"""A service that runs out of descriptors or memory: who was there goes on, who comes is told or waits, nothing is lost.

The bound is set on the running process, below what a crowd then asks for. Idle connections are the cheapest way to take
descriptors from somebody; large bodies and their answers, to take memory.
"""

import contextlib
import re
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.descriptors import FEWEST, OWN
from tests.faults.books import Books
from tests.system.calling import HOST, Caller, Listening, Unanswered
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.serving import Service, one_line, register
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("D38")]

SPARE_FILES = 12
IDLE = 60
ENOUGH_BYTES, TOO_FEW_BYTES = 512 * 1024 * 1024, 48 * 1024 * 1024
GREEDY = 40
BIG = "x" * 1_000_000


@pytest.fixture
def service(make_quick_service: Serving) -> Service:
    return make_quick_service().start()


def open_files(service: Service) -> int:
    return len(list(Path(f"/proc/{service.pid}/fd").iterdir()))


def virtual_bytes(service: Service) -> int:
    found = re.search(r"^VmSize:\s+(\d+) kB$", Path(f"/proc/{service.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1)) * 1024


@contextlib.contextmanager
def idle_connections(service: Service, count: int) -> Iterator[None]:
    """So many connections on which nobody says anything."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection((HOST, service.port), timeout=5))
        yield


def answered(caller: Caller) -> bool:
    try:
        return caller.get("/readyz").status == 200
    except Unanswered:
        return False


def test_a_client_that_is_connected_works_on_while_no_descriptor_is_left(service: Service) -> None:
    books, worker = Books(service.caller()), register(service.caller(), "steady")
    assert books.submit_next()
    limit = open_files(service) + SPARE_FILES
    resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (limit, limit + 1_000))
    with idle_connections(service, IDLE):
        for _ in range(20):
            books.submit_next()
        assert not books.refused
        claim = books.caller.post("/v1/claims", {"worker_id": worker, "queues": ["books"]}).ok()["claims"][0]
        path = f"/v1/runs/{claim['run_id']}"
        books.caller.post(f"{path}/partial", {"fence": 1, "partial": "kept"}).ok(204)
        assert "kept" == books.caller.get(path).ok()["partial"]
        books.caller.post(f"{path}/hand-back", {"fence": 1}).ok()
        assert open_files(service) <= limit

    newcomer = service.caller(timeout_s=5)
    until(lambda: answered(newcomer), what="a newcomer to be let in again")
    books.settle()
    assert verified(service)["ok"]


@pytest.mark.parametrize("spare", [ENOUGH_BYTES, TOO_FEW_BYTES], ids=["enough", "too-little"])
def test_a_service_that_is_short_of_memory_loses_nothing_that_it_acknowledged(service: Service, spare: int) -> None:
    books = Books(service.caller())
    assert books.submit_next()
    most = virtual_bytes(service) + spare
    resource.prlimit(service.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    kept: dict[str, str] = {}
    crowd = [threading.Thread(target=greedy, args=(service, number, kept)) for number in range(GREEDY)]
    for one in crowd:
        one.start()
    told = [submitted(books) for _ in range(10)]
    for one in crowd:
        one.join(60)

    if spare == ENOUGH_BYTES:
        assert ([True] * 10, GREEDY) == (told, len(kept))
    # A library that is given no memory may take the whole process with it: then it is a crash like any other.
    service.kill()
    service.start()
    books.caller.close()
    books.settle()
    for name, run_id in kept.items():
        assert name == books.caller.get(f"/v1/runs/{run_id}").ok()["name"]
    assert verified(service)["ok"]


def submitted(books: Books) -> bool:
    try:
        return books.submit_next()
    except Unanswered:
        return False


def greedy(service: Service, number: int, kept: dict[str, str]) -> None:
    """A submission as large as it may be, whose answer is noted."""
    caller, name = Caller(service.port, service.key, timeout_s=20), f"greedy-{number}"
    with contextlib.suppress(Unanswered):
        answer = caller.post("/v1/runs", {"name": name, "queue": "greedy", "payload": BIG})
        if answer.status == 201:
            kept[name] = answer.body["run_id"]
    caller.close()


@pytest.mark.parametrize("files", [12, 24, FEWEST - 1])
def test_a_start_with_too_few_descriptors_names_the_limit_in_one_line(service: Service, files: int) -> None:
    service.terminate()
    service.bounds = {"files": files}
    code, said = service.refused_to_start()

    assert 1 == code
    assert f"at most {files} files may be open at once" in one_line(said)


def test_streams_are_carried_as_far_as_descriptors_reach_and_one_too_many_is_refused(service: Service) -> None:
    service.terminate()
    service.bounds = {"files": FEWEST}
    service.start()
    room = FEWEST - OWN
    with contextlib.ExitStack() as stack:
        for number in range(room):
            stack.enter_context(Listening(service.caller(), f"/v1/leaders/leader-{number}/presence"))
        answer = service.caller().get("/v1/leaders/one-more/presence", accept="text/event-stream")
        answer.refused(503, "too_many_streams")
        assert Books(service.caller()).submit_next()

    assert f"so {room} streams are carried" in service.log.read_text()
