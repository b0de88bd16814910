"""What tests of the face stand on: a service of their own, in a directory that costs no disk where there is one.

The directory is in memory where the system has such a place: nothing here is about what survives a loss of power.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.api.service import Service, running

IN_MEMORY = "/dev/shm"


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A fresh directory."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="jackline-", dir=place) as path:
        yield Path(path)


@pytest_asyncio.fixture
async def service(data_dir: Path) -> AsyncIterator[Service]:
    """A booted service."""
    async with running(data_dir) as service:
        yield service
