"""Both faces of the client have one source, and the same operations."""

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

from jackline import AsyncClient, Client


def generator(checkout: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_sync", checkout / "client" / "generate_sync.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def operations(kind: type) -> dict[str, list[str]]:
    public = inspect.getmembers(kind, lambda one: inspect.isfunction(one))
    return {name: list(inspect.signature(one).parameters) for name, one in public if not name.startswith("_")}


def test_the_blocking_client_is_what_the_source_gives_today(checkout: Path) -> None:
    assert [] == generator(checkout).stale()


def test_both_clients_have_the_same_operations_with_the_same_parameters() -> None:
    assert operations(AsyncClient) == operations(Client)


def test_nothing_in_the_blocking_client_is_a_coroutine() -> None:
    awaited = [name for name, one in inspect.getmembers(Client) if inspect.iscoroutinefunction(one)]

    assert [] == awaited
