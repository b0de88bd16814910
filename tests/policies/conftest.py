"""Tests here run on a clock that is moved by hand."""

from tests.commands.fixtures import each_world, pytest_asyncio_loop_factories, world

__all__ = ["each_world", "pytest_asyncio_loop_factories", "world"]
