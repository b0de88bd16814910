"""What is installed is what is in the checkout, under names that nobody else provides, from pinned sources.

The rooms are literal top-level packages (docs/adr/0001). That is safe only while the service is alone in its
environment and the two ways of installing it (editable, and as wheels) carry the same folders.
"""

import importlib.metadata
import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.sources import ROOMS, ROOT

SERVICE = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLIENT = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())
PINS = (ROOT / "constraints.txt").read_text()
PINNED = {canonicalize_name(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", PINS, re.MULTILINE)}


def test_no_other_distribution_provides_the_name_of_a_room() -> None:
    providers = importlib.metadata.packages_distributions()
    foreign = {room: set(providers.get(room, [])) - {"jackline-server"} for room in ROOMS}

    assert {} == {room: others for room, others in foreign.items() if others}


def test_the_one_console_script_is_the_clients() -> None:
    assert ["jackline"] == list(CLIENT["project"]["scripts"])
    assert "scripts" not in SERVICE["project"]


def test_both_distributions_have_one_version_and_one_licence() -> None:
    version = SERVICE["project"]["version"]

    assert version == CLIENT["project"]["version"]
    assert f"jackline=={version}" in SERVICE["project"]["dependencies"]
    assert SERVICE["project"]["license"] == CLIENT["project"]["license"]


def test_every_verb_that_the_service_adds_to_the_command_line_can_be_loaded() -> None:
    verbs = importlib.metadata.entry_points(group="jackline.commands")

    assert set(SERVICE["project"]["entry-points"]["jackline.commands"]) == {verb.name for verb in verbs}
    assert all(callable(verb.load()) for verb in verbs)


@pytest.mark.parametrize("distribution", [SERVICE, CLIENT], ids=["service", "client"])
def test_everything_that_a_distribution_needs_is_pinned(distribution: dict[str, Any]) -> None:
    project = distribution["project"]
    extras = [line for extra in project.get("optional-dependencies", {}).values() for line in extra]
    needed = [*project["dependencies"], *extras, *distribution["build-system"]["requires"]]
    names = {canonicalize_name(Requirement(line).name) for line in needed} - {"jackline"}

    assert set() == names - PINNED


def test_every_pin_is_one_version_with_its_hashes() -> None:
    entries = [entry for entry in re.split(r"\n(?=\S)", PINS.strip()) if not entry.startswith("#")]

    assert [] == [entry.splitlines()[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]


def test_the_pins_name_no_index_and_no_path() -> None:
    options = [line for line in PINS.splitlines() if re.match(r"\s*(-[a-z]\b|--(?!hash=)|\.|/|file:|https?:)", line)]

    assert [] == options
