"""A service that is started again on another port is found by everybody who found it through its data directory."""

import http.server
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.serving import Service, WorkerProcess, free_port, text_of
from tests.waiting import until

pytestmark = pytest.mark.system

Start = Callable[..., WorkerProcess]
# Saves through the command line until it is allowed to end, so that it asks for the service from inside its run.
SAVER = """
import os, subprocess, sys, time
place = 0
while not os.path.exists(sys.argv[1]):
    place += 1
    subprocess.run(["jackline", "partial", "save", "-"], input=str(place), text=True, check=True)
print("from", os.environ["JACKLINE_ATTEMPT"], flush=True)
"""


class Stranger(http.server.BaseHTTPRequestHandler):
    """Answers everything, and knows of nothing."""

    def do_GET(self) -> None:
        """Not here."""
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def stranger(port: int) -> Iterator[None]:
    """Somebody else's server where ours used to be."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Stranger)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_workers_leaders_and_commands_find_a_service_that_came_back_on_another_port(
    own_service: Service, worker: Start, tmp_path: Path
) -> None:
    service = own_service.start()
    with service.client() as client, client.leader("ada") as leader:
        hand = worker(service, "mover")
        command = [sys.executable, "-c", SAVER, str(tmp_path / "enough")]
        run_id = leader.submit({"command": command}, policy={"lease_ttl_s": 600.0}).run_id
        before = until(lambda: client.run(run_id).partial, what="its place is saved", within_s=120)
        was_at, service.port = service.port, free_port()
        service.kill()
        service.start()
        until(lambda: (client.run(run_id).partial or 0) > before, what="the command found it", within_s=120)
        until(lambda: leader.connected_by, what="the leader found it", within_s=120)
        (tmp_path / "enough").touch()
        run = client.wait(run_id, 120)

        assert service.port != was_at
        assert ("succeeded", 1, 1) == (run.state, run.attempt, run.fence)
        assert "from 1\n" == text_of(client, run_id)
        assert 0 == hand.stop(within_s=120)
        assert ["admin"] == [key.name for key in client.keys() if key.revoked_at is None]


def test_a_service_whose_port_was_taken_meanwhile_is_found_where_it_had_to_go(own_service: Service) -> None:
    service = own_service.start()
    was_at = service.port
    with service.client() as client:
        run_id = client.submit({}).run_id
        service.kill()
        with stranger(was_at):
            service.port = 0
            service.start()

            assert run_id == client.run(run_id).run_id
    assert was_at != service.port
