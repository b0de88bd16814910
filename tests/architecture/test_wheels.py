"""What users install is what developers run: the wheels carry every file that the editable checkout shows.

Built from a copy of the tracked files, so that nothing is left in the checkout and nothing untracked slips in.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOMS, ROOT, tracked

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The names of the files in each wheel, by distribution."""
    copy, built = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheels")
    for name in tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(built), ".", "./client"]
    subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=240)
    return {wheel.name.split("-")[0]: _content(wheel) for wheel in built.glob("*.whl")}


def test_the_wheel_of_the_service_carries_every_file_of_the_rooms(wheels: dict[str, set[str]]) -> None:
    assert {name for name in tracked() if name.split("/")[0] in ROOMS} == wheels["jackline_server"]


def test_the_wheel_of_the_client_carries_every_file_of_its_package(wheels: dict[str, set[str]]) -> None:
    package = {name.removeprefix("client/") for name in tracked() if name.startswith("client/jackline/")}

    assert package == wheels["jackline"]


def _content(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}
