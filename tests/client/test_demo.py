"""The demo: its story is told by the journal, is true, fits into a minute, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.client.serving import bare_environment
from tests.waiting import BOUND_S

pytestmark = pytest.mark.system


def test_the_demo_tells_a_true_story_and_leaves_nothing_behind(jackline_script: Path, tmp_path: Path) -> None:
    environment = bare_environment() | {"TMPDIR": str(tmp_path)}
    said = subprocess.run(
        [str(jackline_script), "demo"], env=environment, capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    lines = said.stdout.splitlines()

    assert 0 == said.returncode, said.stdout + said.stderr
    assert 12 == sum(line.startswith("true ") for line in lines)
    assert [] == [line for line in lines if line.startswith("FALSE")]
    assert [] == list(tmp_path.iterdir())
    assert [] == [process.pid for process in psutil.process_iter() if str(tmp_path) in _words_of(process)]


def test_every_line_of_the_story_names_the_fact_that_it_comes_from(jackline_script: Path, tmp_path: Path) -> None:
    program = (
        "from jackline.demo import narrator\n"
        "from jackline.models import Fact\n"
        "fact = Fact(7, 'run.attempt_started.v1', {'attempt': 1, 'worker': 'one', 'fence': 1})\n"
        "print(narrator.line_of('crawl', fact).plain)\n"
        "print(narrator.line_of('crawl', Fact(8, 'unheard.of.v1', {})))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=BOUND_S, check=True)

    assert said.stdout.splitlines()[0].startswith("   7 ")
    assert "one acts under fence 1" in said.stdout
    assert "None" == said.stdout.splitlines()[1]


def _words_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
