"""Tests here run on a clock that is moved by hand."""

from tests.commands.fixtures import data_dir, each_world, pytest_asyncio_loop_factories, world

__all__ = ["data_dir", "each_world", "pytest_asyncio_loop_factories", "world"]
