"""Real services and workers for the client's tests; nothing survives a test that started it."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jackline import Client
from jackline.worker.environment import MARK
from jackline.worker.processes import end_marked
from tests.client.serving import Said, Say, Service, WorkerProcess, bare_environment
from tests.waiting import BOUND_S


@pytest.fixture(scope="module")
def shared(jackline_script: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests of a module, which keep apart by their queues."""
    service = Service(jackline_script, tmp_path_factory.mktemp("service")).start()
    yield service
    service.close()
    end_commands(service)


@pytest.fixture
def client(shared: Service) -> Iterator[Client]:
    """A client of the module's service."""
    with shared.client() as client:
        yield client


@pytest.fixture
def say(shared: Service) -> Say:
    """Calls the command line of the module's service."""

    def said(
        *words: str, data_dir: Path = shared.data_dir, env: Mapping[str, str] | None = None, **options: Any
    ) -> Said:
        environment = env or bare_environment() | {"JACKLINE_DATA_DIR": str(data_dir), "COLUMNS": "200"}
        command = [str(shared.script), *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=BOUND_S, check=False, **options
        )

    return said


@pytest.fixture
def own_service(jackline_script: Path, tmp_path: Path) -> Iterator[Service]:
    """A service for one test, to be killed and started again; not started yet."""
    service = Service(jackline_script, tmp_path)
    yield service
    service.close()
    end_commands(service)


@pytest.fixture
def worker() -> Iterator[Callable[..., WorkerProcess]]:
    """Starts workers of a service."""
    started: list[WorkerProcess] = []

    def start(service: Service, worker_id: str, *words: str, **environment: str) -> WorkerProcess:
        started.append(WorkerProcess(service, worker_id, *words))
        return started[-1].start(environment)

    yield start
    for one in started:
        one.close()
    for service in {one.service for one in started}:
        end_commands(service)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that no other test of the module uses."""
    return f"q{abs(hash(request.node.nodeid))}"


def end_commands(service: Service) -> None:
    """End every command that was executed for this service."""
    for control in service.place.glob("workers/*/attempts/*"):
        end_marked(MARK, str(control))
