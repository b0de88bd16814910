"""What the tests of a running desk have in common: the loop on a clock of its own, and a world on it."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.commands.clockwork import VirtualLoop
from tests.commands.world import World, opened

MEMORY_DISK = Path("/dev/shm")
"""Where the usual Linux keeps files in memory: an fsync costs nothing there."""


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test beside this conftest runs on a loop whose time is the service's clock."""
    return {"virtual": VirtualLoop}


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A directory for a journal: in memory where the machine offers that, since no test here pulls the plug."""
    if not os.access(MEMORY_DISK, os.W_OK):
        yield tmp_path / "data"
        return
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as found:
        yield Path(found) / "data"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world on a journal in memory."""
    async with opened() as one:
        yield one


@pytest.fixture(params=["memory", "sqlite"])
async def each_world(request: pytest.FixtureRequest, data_dir: Path) -> AsyncIterator[World]:
    """A world on each kind of journal."""
    async with opened(data_dir if request.param == "sqlite" else None) as one:
        yield one
