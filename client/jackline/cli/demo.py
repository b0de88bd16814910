"""`demo`: a story on real work, told by the journal, and checked."""

import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from jackline.cli import explain, show
from jackline.cli.exits import DONE, FAILED, USAGE, Fault
from jackline.cli.place import verb
from jackline.demo.checks import Check, checks
from jackline.demo.narrator import line_of, refusal_line
from jackline.demo.story import play
from jackline.errors import FenceLost
from jackline.models import Fact, Why

PANEL = "Begin here"


def join(app: typer.Typer) -> None:
    """Add this verb."""
    verb(app, PANEL, "demo")(demo)


def demo(keep: Annotated[bool, typer.Option(help="Leave the directory in which it took place.")] = False) -> int:
    """Show what it is for: three runs, a worker killed with -9, another that continues."""
    if not list(metadata.entry_points(group="jackline.commands", name="serve")):
        msg = "the demo starts a service, and the server distribution is not installed here"
        raise Fault(msg, "pip install jackline-server", USAGE)
    place = Path(tempfile.mkdtemp(prefix="jackline-demo-"))
    try:
        told = play(place, Printed())
        found = list(checks(told))
    except Exception:
        keep = True
        show.err.print(f"what the processes said is in {place}", style="dim")
        raise
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)
    _conclude(found)
    return DONE if all(check.holds for check in found) else FAILED


class Printed:
    """The story on the terminal, as it happens."""

    def fact(self, name: str, fact: Fact) -> None:
        """One line, unless another fact tells the same."""
        line = line_of(name, fact)
        if line is not None:
            show.out.print(line)

    def why(self, name: str, answer: Why) -> None:
        """What `jackline why` says at this moment."""
        show.out.print()
        explain.why(name, answer)
        show.out.print()

    def refusal(self, name: str, grant: Fact, refusal: FenceLost) -> None:
        """What the service said to the first worker's write."""
        show.out.print(refusal_line(name, grant, refusal))


def _conclude(found: list[Check]) -> None:
    show.out.print()
    for check in found:
        mark = Text("true  ", "green") if check.holds else Text("FALSE ", "red")
        where = f"  [{check.position}]" if check.position is not None else ""
        show.out.print(Text.assemble(mark, show.safe(check.claim), (where, "dim")))
