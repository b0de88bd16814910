"""Where a worker keeps its things: one worker a place, nothing outside it, nothing imported from a run's directory."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from jackline.address import Address
from jackline.models import Claim, LeaseRef
from jackline.worker.environment import environment
from jackline.worker.places import Home, HomeBusy, HomeUnusable, UnsafeName
from tests.waiting import BOUND_S


def test_a_place_is_held_by_one_worker_and_free_again_when_that_has_gone(tmp_path: Path) -> None:
    first = Home(tmp_path / "home")
    with pytest.raises(HomeBusy, match="another worker"):
        Home(tmp_path / "home")
    first.close()

    Home(tmp_path / "home").close()


def test_a_worker_without_a_name_takes_the_first_free_place_and_finds_its_name_again(tmp_path: Path) -> None:
    first, second = Home.first_free(tmp_path), Home.first_free(tmp_path)
    name = first.name(None, "made-up")
    first.close()
    again = Home.first_free(tmp_path)

    assert (first.path, "made-up") == (again.path, again.name(None, "another"))
    assert second.path != first.path
    assert "made-up" == name


def test_a_place_in_which_nothing_can_be_kept_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusable, match="file"):
        Home(tmp_path / "file")


@pytest.mark.parametrize("run_id", ["../up", "a/b", "", ".", "..", ".hidden", "a\0b", "x" * 129])
def test_a_run_id_that_leads_out_of_the_place_is_refused(tmp_path: Path, run_id: str) -> None:
    home = Home(tmp_path)
    with pytest.raises(UnsafeName):
        home.attempt(LeaseRef(run_id, 1))


def test_everything_is_for_the_workers_own_user_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    kept = [home.path, home.attempt(LeaseRef("r", 1)).path, home.command_line()]

    assert {0o700} == {stat.S_IMODE(path.stat().st_mode) for path in kept}


def test_an_attempt_that_was_granted_anew_by_a_restored_service_starts_from_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.attempt(LeaseRef("r", 1)).save("exit.json", {"exit_code": 0})

    assert home.attempt(LeaseRef("r", 1)).load("exit.json") is None


def test_the_command_line_inside_a_run_imports_nothing_from_where_it_is_called(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    hostile = tmp_path / "hostile"
    for name in ("jackline", "typer", "httpx", "json"):
        (hostile / name).mkdir(parents=True)
        (hostile / name / "__init__.py").write_text("raise SystemExit('imported from the run')")
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(hostile), "PYTHONSTARTUP": str(hostile / "json")}
    said = subprocess.run(
        [str(home.command_line() / "jackline"), "--version"],
        cwd=hostile, env=variables, capture_output=True, text=True, timeout=BOUND_S, check=False,
    )  # fmt: skip

    assert (0, "jackline 0.1.0\n", "") == (said.returncode, said.stdout, said.stderr)


def test_a_runs_own_variables_cannot_pretend_to_be_another_run(tmp_path: Path) -> None:
    home = Home(tmp_path)
    asked = {"JACKLINE_FENCE": "9", "JACKLINE_KEY": "x", "A=B": "x", "NUL": "a\0b", "": "x", "FINE": 1}
    claim = Claim("r", 1, payload={"env": asked})
    outer = {"PATH": "/bin", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "x", "JACKLINE_KEY": "admin"}
    attempt, address = home.attempt(LeaseRef("r", 1)), Address("http://u", None)
    made = environment(outer, claim, attempt, address=address, command_line=tmp_path / "bin")

    assert ("1", "1", f"/bin:{tmp_path}/bin") == (made["JACKLINE_FENCE"], made["FINE"], made["PATH"])
    assert not {"JACKLINE_KEY", "AWS_SECRET_ACCESS_KEY", "A=B", "NUL", ""} & set(made)
