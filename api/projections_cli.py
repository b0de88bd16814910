"""The verb `projections`: list the read models, make them again from the journal, and prove that they are right.

It opens the data directory itself, beside a running service or without one; the journal is only read.
"""

from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from api.verbs import HELP_OPTIONS, Bar, DataDir, Json, guarded, print_json, settings_of
from jackline.cli.exits import DONE, FAILED, USAGE, Fault
from projections import rebuild as rebuilding

projections = typer.Typer(
    help="List, rebuild and verify the read models.", no_args_is_help=True, context_settings=HELP_OPTIONS
)


@projections.command("list")
def list_projections(data_dir: DataDir = None, json: Json = False) -> int:
    """The read models: how far each has come, and how big it is."""
    directory = settings_of(data_dir=data_dir).data_dir
    _print_shown(guarded(lambda: rebuilding.list_all(directory)), json=json)
    return DONE


@projections.command("rebuild")
def rebuild_projections(
    names: Annotated[list[str] | None, typer.Argument(help="Which; all when none is named.")] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> int:
    """Make read models again from the journal, beside the live ones, and swap them in. Safe while the service runs."""
    directory = settings_of(data_dir=data_dir).data_dir
    wanted = tuple(names or rebuilding.NAMES)
    unknown = sorted(set(wanted) - set(rebuilding.NAMES))
    if unknown:
        message = f"no read model is named {unknown[0]!r}"
        raise Fault(message, f"there are: {', '.join(rebuilding.NAMES)}", USAGE)
    with Bar() as report:
        shown = guarded(lambda: rebuilding.rebuild(directory, wanted, report))
    _print_shown(shown, json=json)
    return DONE


@projections.command("verify")
def verify_projections(data_dir: DataDir = None, json: Json = False) -> int:
    """Fold the journal once more and compare every row. Exit 1 when one differs."""
    directory = settings_of(data_dir=data_dir).data_dir
    with Bar() as report:
        verified = guarded(lambda: rebuilding.verify(directory, report))
    _print_shown(verified, json=json)
    return DONE if all(one.ok for one in verified) else FAILED


def _print_shown(shown: Any, *, json: bool) -> None:
    rows = [msgspec.to_builtins(one) for one in shown]
    if json:
        print_json(rows)
        return
    table = Table(box=None, header_style="bold")
    for column in rows[0] if rows else ():
        table.add_column(column)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console().print(table)
