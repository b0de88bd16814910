"""The handbook is true: every command in it is run as it is written, in its order, on a data dir with work in it."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.serving import Service, claim_one, register, submit

pytestmark = pytest.mark.system

TEXT = (ROOT / "docs" / "operations.md").read_text()
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = {"Look", "Backup"}
"""Sections whose commands are for a running service; for the others it is stopped."""


def sections() -> list[tuple[str, list[str]]]:
    """Every section with its blocks, in order."""
    parts = SECTION.split(TEXT)
    return [(name, BLOCK.findall(text)) for name, text in zip(parts[1::2], parts[2::2], strict=True)]


def with_work(service: Service) -> None:
    """Some settled runs and an open one."""
    caller = service.caller()
    register(caller, "w1")
    for number in range(3):
        submit(caller, name=f"run-{number}")
        claim = claim_one(caller, "w1")
        caller.post(f"/v1/runs/{claim['run_id']}/close", {"fence": claim["fence"], "outcome": "succeeded"}).ok()
    submit(caller, name="open")


def test_every_command_of_the_handbook_does_what_it_says(make_service: Serving, tmp_path: Path) -> None:
    service = make_service(tmp_path / "data").start()
    with_work(service)
    place = tmp_path / "elsewhere"
    place.mkdir()
    environment = {
        **os.environ,
        "JACKLINE_DATA_DIR": str(service.data_dir),
        "PATH": f"{service.script.parent}:{os.environ['PATH']}",
    }
    ran = 0
    for name, blocks in sections():
        if blocks and (name in SERVED) != (service.process is not None):
            _switch(service)
        for block in blocks:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block], cwd=place, env=environment, capture_output=True, text=True,
                timeout=120, check=False,
            )  # fmt: skip
            assert 0 == done.returncode, f"{name}:\n{block}\n{done.stdout}{done.stderr}"
            ran += 1

    assert 9 <= ran
    service.start()
    assert verified(service)["ok"]
    caller = service.caller()
    position = caller.get("/healthz").ok()["journal"]["position"]
    found = caller.get(f"/v1/runs?min_position={position}").ok()["items"]
    assert {"open", "run-0", "run-1", "run-2"} == {item["name"] for item in found}


def _switch(service: Service) -> None:
    if service.process is None:
        service.start()
    else:
        assert 0 == service.terminate()


def test_every_file_of_a_served_data_dir_is_in_the_handbook_and_for_its_owner_alone(
    make_service: Serving, tmp_path: Path
) -> None:
    place = tmp_path / "open to all"
    place.mkdir(mode=0o755)
    service = make_service(place).start()
    submit(service.caller())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()}
    assert 0 == service.terminate()
    for path in place.glob("*.sqlite3"):
        path.chmod(0o644)
    (place / "checkpoint").chmod(0o644)
    assert 0 == service.start().terminate()
    modes |= {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()}

    assert 0o644 == modes.pop("server.url")
    assert {0o600} == set(modes.values())
    assert {"checkpoint", "journal.sqlite3-wal", "journal.sqlite3", "projections.sqlite3"} <= modes.keys()

    table = TEXT.partition("## What is in the data dir")[2].partition("\n## ")[0]
    named = re.findall(r"`([^`]+)`", table)
    unknown = [
        path.name
        for path in service.data_dir.iterdir()
        if path.name not in named and not path.name.startswith(("projections.", "journal.sqlite3", "keys.sqlite3-"))
    ]

    assert [] == unknown
