"""What tests of the face stand on: a service of their own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.api.service import Service, running


@pytest_asyncio.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A booted service in a fresh directory."""
    async with running(tmp_path) as service:
        yield service
