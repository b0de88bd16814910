"""Writes `jackline/_sync` from `jackline/_async`, so that both faces of the client have one source.

    python client/generate_sync.py

Dropping `async` and `await` is unasync's part; the names that differ are listed here. The result is formatted like the
rest of the code and committed; `tests/client/test_one_source.py` fails when it is stale.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import unasync  # type: ignore[import-untyped]

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "jackline" / "_async"
TARGET = HERE / "jackline" / "_sync"

NAMES = {
    "AsyncAside": "Aside",
    "AsyncClient": "Client",
    "AsyncEventStream": "EventStream",
    "AsyncHolding": "Holding",
    "AsyncLeader": "Leader",
    "AsyncLeading": "Leading",
    "AsyncLists": "Lists",
    "AsyncObserver": "Observer",
    "AsyncOperating": "Operating",
    "AsyncRuns": "Runs",
    "AsyncTransport": "Transport",
    "AsyncTurning": "Turning",
    "AsyncWorking": "Working",
    "AsyncWorkspaces": "Workspaces",
    "aclose": "close",
    "aiter_lines": "iter_lines",
    "aread": "read",
    "asyncio": "time",
    "_async": "_sync",
}

NOTE = '"""The blocking client: generated from `jackline._async` by `client/generate_sync.py`; do not edit."""\n'


def render(target: Path) -> None:
    """Write the blocking face into `target`."""
    target.mkdir(parents=True, exist_ok=True)
    sources = sorted(SOURCE.glob("*.py"))
    rule = unasync.Rule(fromdir=f"{SOURCE}/", todir=f"{target}/", additional_replacements=NAMES)
    unasync.unasync_files([str(path) for path in sources], [rule])
    (target / "__init__.py").write_text(NOTE, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run(
        [*ruff, "check", "--quiet", "--select", "I,UP028", "--fix", "--unsafe-fixes", str(target)],
        check=True,
        cwd=HERE.parent,
    )
    subprocess.run([*ruff, "format", "--quiet", str(target)], check=True, cwd=HERE.parent)


def stale() -> list[str]:
    """Names of generated files that are not what the source gives today."""
    with tempfile.TemporaryDirectory(dir=HERE) as place:
        fresh = Path(place) / "jackline" / "_sync"
        render(fresh)
        names = {path.name for path in fresh.glob("*.py")} | {path.name for path in TARGET.glob("*.py")}
        return sorted(name for name in names if _text(fresh / name) != _text(TARGET / name))


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    render(TARGET)
