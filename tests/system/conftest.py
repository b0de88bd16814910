"""Services for tests of real processes: each test that asks gets its own, and none outlives its test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.nursery import Nursery
from tests.system.serving import Service

Serving = Callable[..., Service]


@pytest.fixture(scope="session")
def nursery(checkout: Path) -> Iterator[Nursery]:
    """Where services come from that start at once."""
    nursery = Nursery(checkout)
    yield nursery
    nursery.close()


@pytest.fixture
def make_quick_service(make_service: Serving, nursery: Nursery) -> Serving:
    """Makes services that start at once, and whose disk and clock can be made to fail."""

    def make(data_dir: Path | None = None, **settings: object) -> Service:
        service = make_service(data_dir, **settings)
        service.nursery = nursery
        return service

    return make


@pytest.fixture
def make_service(tmp_path: Path, jackline_script: Path) -> Iterator[Serving]:
    """Makes services that are not started yet; settings are given by name, as in `lease_gone_s=1`."""
    made: list[Service] = []

    def make(data_dir: Path | None = None, **settings: object) -> Service:
        service = Service(jackline_script, data_dir or tmp_path / f"data-{len(made)}", **settings)
        made.append(service)
        return service

    yield make
    for service in made:
        service.end()


@pytest.fixture
def service(make_service: Serving) -> Service:
    """A running service with default settings."""
    return make_service().start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, jackline_script: Path) -> Iterator[Service]:
    """A running service that the tests of one module share: each keeps to runs, queues and workers of its own."""
    service = Service(jackline_script, tmp_path_factory.mktemp("shared") / "data", retry_continuation_s=0)
    try:
        yield service.start()
    finally:
        service.end()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run of the suite, which its header prints."""
    return int(request.config.getoption("randomly_seed", default=1) or 1)
