"""Finding an interpreter: the first usable one, or one line that says what to do."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT


def find_python(path: Path) -> subprocess.CompletedProcess[str]:
    """What the script says when only this folder is on the path."""
    bash = shutil.which("bash")
    assert bash is not None
    command = [bash, str(ROOT / "tools" / "find-python")]
    return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True, check=False, timeout=60)


def test_the_interpreter_that_can_carry_us_is_printed(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)

    assert f"{tmp_path}/python3\n" == find_python(tmp_path).stdout


def test_one_that_is_too_old_is_passed_over_for_a_later_name(tmp_path: Path) -> None:
    (tmp_path / "python3.11").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.11").chmod(0o755)
    (tmp_path / "python3.13").symlink_to(sys.executable)

    assert f"{tmp_path}/python3.13\n" == find_python(tmp_path).stdout


def test_without_any_one_line_says_what_is_needed_and_how_to_get_it(tmp_path: Path) -> None:
    answer = find_python(tmp_path)

    assert 1 == answer.returncode
    assert 1 == len(answer.stderr.splitlines())
    assert "3.11" in answer.stderr
    assert "apt-get install" in answer.stderr
