"""The verb `projections`: list the read models, make them again from the journal, and prove that they are right.

It opens the data directory itself, beside a running service or without one; the journal is only read.

Exit codes: 0 done, 1 failed or found wrong, 2 the command line (a name, a position or an instant that there is not).
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from api.clock import system_clock
from api.verbs import HELP_OPTIONS, Bar, DataDir, Json, guarded, print_json, settings_of
from domain.refusal import Refusal
from jackline.cli import show
from jackline.cli.exits import DONE, FAILED, USAGE, Fault
from journal.tool_errors import PositionBeyond
from projections import past, proving
from projections import rebuild as rebuilding
from projections.finding import meant
from projections.stored.faults import InstantBefore, ProjectionUnknown

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Which; all when none is named.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="POSITION|INSTANT", help="As they were then, into a file of their own."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="With --at: where to put it.")]
NoDigest = Annotated[bool, typer.Option("--no-digest", help="Leave the digests out, which take reading every row.")]

projections = typer.Typer(
    help="List, rebuild and verify the read models.", no_args_is_help=True, context_settings=HELP_OPTIONS
)

_SHORT = 12


@projections.command("list")
def list_projections(data_dir: DataDir = None, json: Json = False, no_digest: NoDigest = False) -> int:
    """The read models: position, lag in facts, version and digest of each, and how many facts were put aside."""
    directory = settings_of(data_dir=data_dir).data_dir
    shown = _guarded(lambda: proving.list_all(directory, digests=not no_digest))
    if json:
        print_json(msgspec.to_builtins(shown))
        return DONE
    columns = ("name", "state", "position", "lag", "version", "build", "rows", "digest", "aside", "rebuilt to")
    show.table(
        columns,
        [
            (one.name, one.state, one.position, one.lag, one.version, one.build, one.rows,
             (one.digest or "")[:_SHORT], len(one.quarantined), "" if one.rebuilt_to is None else one.rebuilt_to)
            for one in shown
        ],
    )  # fmt: skip
    for one in shown:
        for aside in one.quarantined:
            print(f"{one.name}: {aside.topic} at position {aside.position} of {aside.stream} put aside: {aside.reason}")
    return DONE


@projections.command("rebuild")
def rebuild_projections(
    names: Names = None, data_dir: DataDir = None, json: Json = False, at: At = None, out: Out = None
) -> int:
    """Make read models again from the journal, beside the live ones, and swap them in. Safe while the service runs.

    One that was stopped or killed goes on where it was. With --at, the live ones stay as they are.
    """
    directory, wanted = settings_of(data_dir=data_dir).data_dir, tuple(names or ())
    if out is not None and at is None:
        message = "--out is for --at"
        raise Fault(message, "say --at POSITION or --at INSTANT", USAGE)
    with Bar() as report:
        if at is not None:
            moment = partial(meant, at, system_clock().wall)
            path, position = _guarded(lambda: past.rebuild_at(directory, moment(), wanted, out, report))
        else:
            done = _guarded(lambda: rebuilding.rebuild(directory, wanted, report))
    if at is not None:
        if json:
            print_json({"path": str(path), "position": position})
        else:
            print(path)
        return DONE
    if json:
        print_json([{"name": name, **tracked._asdict()} for name, tracked in done.items()])
    else:
        columns = ("name", "position", "version", "build")
        show.table(columns, [(name, one.position, one.version, one.build) for name, one in done.items()])
    return DONE


@projections.command("verify")
def verify_projections(names: Names = None, data_dir: DataDir = None, json: Json = False) -> int:
    """Fold the journal once more and compare every row; names the first that differs. Exit 1 when one does."""
    directory = settings_of(data_dir=data_dir).data_dir
    with Bar() as report:
        found = _guarded(lambda: proving.verify(directory, tuple(names or ()), report))
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        columns = ("name", "ok", "position", "rows", "digest", "problem")
        rows = [
            (one.name, one.ok, one.position, one.rows, (one.digest or "")[:_SHORT], one.problem or "") for one in found
        ]
        show.table(columns, rows)
    return DONE if all(one.ok for one in found) else FAILED


def _guarded(work: Callable[[], Any]) -> Any:
    try:
        return guarded(work)
    except Refusal as error:
        message = f"{error.code}: {error}"
        raise Fault(message, "give a place in the journal: --at POSITION|INSTANT", USAGE) from error
    except Fault as error:
        if isinstance(error.__cause__, ProjectionUnknown | PositionBeyond | InstantBefore):
            raise Fault(error.message, error.remedy, USAGE) from error.__cause__
        raise
