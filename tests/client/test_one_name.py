"""Two processes under one worker's name: one at a time, each told of the other, and nobody is kept waiting."""

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from jackline import Client
from jackline._sync.transport import Ask
from jackline._sync.working import worker_path
from tests.client.conftest import end_commands
from tests.client.serving import Service, WorkerProcess
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system

REFUSED = 3
NAME = "namesake"
GONE_S = 4
"""Half of it is how long a process must be unheard before another may have its name."""


class Namesakes:
    """Processes under one name, each in a place of its own."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.all: list[WorkerProcess] = []

    def begin(self, place: str, *words: str) -> WorkerProcess:
        """Start one, and wait for nothing."""
        one = WorkerProcess(self.service, NAME, "--queue", "names", *words, place=place)
        one.begin()
        self.all.append(one)
        return one

    def registered(self, one: WorkerProcess) -> WorkerProcess:
        """Wait until the service has taken it, as the first in its place."""
        until(lambda: one.happened("registered"), what=f"it is registered: {one.text()}", within_s=30)
        return one

    def refused(self, one: WorkerProcess) -> str:
        """What it says as it ends because there is another."""
        assert one.process is not None
        assert REFUSED == one.process.wait(timeout=BOUND_S), one.text()
        return one.text()


@pytest.fixture
def namesakes(own_service: Service) -> Iterator[Namesakes]:
    made = Namesakes(own_service)
    yield made
    for one in made.all:
        one.close()
    end_commands(own_service)


def test_a_second_process_under_one_name_is_refused_and_the_first_works_on(
    namesakes: Namesakes, tmp_path: Path
) -> None:
    namesakes.service.start()
    os.mkfifo(tmp_path / "enough")
    script = "import sys\nopen(sys.argv[1]).read()"  # until somebody writes
    with namesakes.service.client() as client:
        command = [sys.executable, "-c", script, str(tmp_path / "enough")]
        run_id = client.submit({"command": command}, queue="names", policy={"lease_ttl_s": 2.0}).run_id
        first = namesakes.registered(namesakes.begin("here"))
        until(lambda: client.run(run_id).state == "running", what="the first has the run", within_s=30)

        said = namesakes.refused(namesakes.begin("there"))
        (tmp_path / "enough").write_text("")

        assert "worker_in_use" in said
        assert f"process {first.process.pid if first.process else 0}, {first.home}" in said
        assert ("succeeded", 1) == _ended(client, run_id)
        assert "active" == _state(client)
        assert 0 == first.stop()


def test_a_killed_process_is_followed_at_once_by_another_and_by_itself(namesakes: Namesakes) -> None:
    namesakes.service.start()
    namesakes.registered(namesakes.begin("here")).kill()
    again = namesakes.begin("here")
    until(lambda: len(again.happened("registered")) > 1, what=f"it is back: {again.text()}", within_s=30)

    again.kill()
    second = _taken(namesakes, "there")

    assert "worker_in_use" in namesakes.refused(namesakes.begin("here"))
    assert 0 == second.stop()


def test_a_frozen_process_finds_its_name_taken_and_stops(namesakes: Namesakes) -> None:
    namesakes.service.settings["JACKLINE_WORKER_GONE_S"] = str(GONE_S)
    namesakes.service.start()
    first = namesakes.registered(namesakes.begin("here"))
    first.send(signal.SIGSTOP)
    second = _taken(namesakes, "there")
    first.send(signal.SIGCONT)

    said = namesakes.refused(first)

    assert ("taken_over" in said, "worker_in_use" in said) == (True, True)
    with namesakes.service.client() as client:
        assert "active" == _state(client)
    assert second.process is not None
    assert second.process.poll() is None
    assert 0 == second.stop()


def _taken(namesakes: Namesakes, place: str) -> WorkerProcess:
    """A process that has got the name, however often it had to be started until the other counted as silent."""
    while True:
        one = namesakes.begin(place)
        until(partial(_decided, one), what=f"it is registered or refused: {one.text()}", within_s=30)
        if one.happened("registered"):
            return one
        assert len(namesakes.all) < 100, one.text()


def _decided(one: WorkerProcess) -> bool:
    return bool(one.happened("registered")) or one.process is None or one.process.poll() is not None


def _state(client: Client) -> str:
    """How the worker of that name stands, asked of itself and not of a read model."""
    return str(client.transport.ask(Ask("GET", worker_path(NAME))).body["state"])


def _ended(client: Client, run_id: str) -> tuple[str, int]:
    run = client.wait(run_id, BOUND_S)
    return run.state, run.fence
