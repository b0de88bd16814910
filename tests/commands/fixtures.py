"""What the tests of a running desk have in common: the loop on a clock of its own, and a world on it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.commands.clockwork import VirtualLoop
from tests.commands.world import World, opened


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test beside this conftest runs on a loop whose time is the service's clock."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world on a journal in memory."""
    async with opened() as one:
        yield one


@pytest.fixture(params=["memory", "sqlite"])
async def each_world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A world on each kind of journal."""
    async with opened(tmp_path / "data" if request.param == "sqlite" else None) as one:
        yield one
