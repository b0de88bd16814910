"""The checkout as data: its rooms, its modules with their syntax trees, and the files that git tracks.

The architecture tests read source text; they import no room, so that they can also speak about one that is broken.
"""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("domain", "journal", "projections", "evidence", "commands", "policies", "api", "watchers")
CLIENT = "client/jackline"
PRODUCTION = (*ROOMS, CLIENT)
EVERYTHING = (*PRODUCTION, "simulation", "benchmarks", "tools", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One Python file: its path relative to the checkout, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """Lines of the file, blank ones included."""
        return len(self.text.splitlines())

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones included."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def at(self, node: ast.expr | ast.stmt) -> str:
        """`path:line`, as editors understand it."""
        return f"{self.path}:{node.lineno}"


@cache
def module(path: Path) -> Module:
    """The module in that file."""
    text = path.read_text()
    return Module(path.relative_to(ROOT).as_posix(), text, ast.parse(text))


def modules(*folders: str) -> list[Module]:
    """Every module below these folders of the checkout, by path."""
    return [module(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def tracked() -> tuple[str, ...]:
    """Every file that git tracks, or would if it were added, relative to the checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(line for line in listing.stdout.splitlines() if (ROOT / line).is_file())


def dotted(node: ast.expr) -> str:
    """`a.b.c` for such an expression, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
