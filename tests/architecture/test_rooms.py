"""The arrows and the purity of the domain, as far as an import line can break them.

`make arrows` checks who may know whom among the rooms. Here is the other half: what the domain may know of the world
outside, as a list of what is allowed, because a list of what is forbidden is never complete.
"""

import ast
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.sources import CLIENT, PRODUCTION, ROOMS, ROOT, dotted, modules

PURE = {
    "abc", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "functools", "hashlib", "heapq",
    "itertools", "json", "math", "operator", "re", "string", "types", "typing",
    "msgspec", "domain",
}  # fmt: skip
PROVING = {"simulation", "benchmarks", "tests", "tools", "pytest", "hypothesis", "unittest"}


def test_the_domain_imports_only_what_has_no_outside() -> None:
    worldly = [f"{path}: {name}" for path, name in _imports("domain") if name not in PURE]

    assert [] == worldly


def test_only_the_journal_knows_the_library_that_stores() -> None:
    knowing = {path.split("/")[0] for path, name in _imports(*PRODUCTION) if name == "eventsourcing"}

    assert {"journal"} == knowing


def test_no_production_code_knows_what_proves_or_measures_it() -> None:
    knowing = [f"{path}: {name}" for path, name in _imports(*PRODUCTION) if name in PROVING]

    assert [] == knowing


def test_the_client_knows_the_service_over_http_only() -> None:
    knowing = [f"{path}: {name}" for path, name in _imports(CLIENT) if name in {*ROOMS, "fastapi", "msgspec"}]

    assert [] == knowing


def test_every_room_is_in_the_contract_of_the_arrows() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(contract for contract in configuration["contracts"] if contract["id"] == "arrows")["layers"]
    listed = [room.strip() for layer in layers for room in layer.split("|")]

    assert sorted(ROOMS) == sorted(listed)
    assert set(ROOMS) < set(configuration["root_packages"])


@pytest.mark.parametrize(
    ("project", "folders"),
    [
        pytest.param("pyproject.toml", ROOMS, id="service"),
        pytest.param("client/pyproject.toml", (CLIENT,), id="client"),
    ],
)
def test_whatever_is_imported_is_declared(project: str, folders: tuple[str, ...]) -> None:
    described = tomllib.loads((ROOT / project).read_text())["project"]
    extras = described.get("optional-dependencies", {}).values()
    needs = [*described["dependencies"], *(line for extra in extras for line in extra)]
    declared = {canonicalize_name(Requirement(line).name) for line in needs}
    providers = importlib.metadata.packages_distributions()
    foreign = {name for _, name in _imports(*folders)} - sys.stdlib_module_names - {*ROOMS, "jackline"}

    assert [] == [
        name for name in sorted(foreign) if not declared & {canonicalize_name(by) for by in providers.get(name, [])}
    ]


@pytest.mark.origin("D34")
def test_no_room_but_the_journal_names_a_backend() -> None:
    backends = {"SQLiteStore", "MemoryStore"}
    naming = {module.path.split("/")[0] for module in modules(*ROOMS) if backends & set(_mentioned(module.tree))}

    assert {"journal"} == naming


@pytest.mark.origin("D34")
def test_a_lease_is_granted_in_one_place_only() -> None:
    grants = {"FenceBumped", "LeaseReserved", "LeaseBound"}
    granting = {
        module.path
        for module in modules(*ROOMS)
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and dotted(call.func).split(".")[-1] in grants and (call.keywords or call.args)
    }

    assert {"domain/claiming.py"} == granting


def _mentioned(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _imports(*folders: str) -> list[tuple[str, str]]:
    """Path and imported top-level name, for every import below these folders, wherever in a module it stands."""
    return [
        (module.path, name.split(".")[0])
        for module in modules(*folders)
        for node in ast.walk(module.tree)
        for name in _names(node)
    ]


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "."]
    return []
