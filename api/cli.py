"""The service's verbs on the one command line: `serve`, `config`, `projections`, `journal`.

They join `jackline` through the entry-point group `jackline.commands`. `journal` and `projections` open the data
directory themselves, read-only where they only read, also beside a running service.

Exit codes are those of `jackline`: 0 done, 1 failed or found wrong, 2 a setting or the command line.
"""

import json as jsonlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from api.settings import InvalidSetting, Settings, describe, load
from jackline.cli.exits import DONE, FAILED, USAGE, Fault
from journal.errors import JournalDamaged, JournalError, NotAJournal
from journal.opening import JOURNAL_NAME, open_readonly
from projections import rebuild as rebuilding

TABLE_COLUMNS = 140
"""How wide a terminal must be for the table of settings; on a narrower one its words would be broken."""

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The service's data dir. [JACKLINE_DATA_DIR]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Host = Annotated[str | None, typer.Option(help="Where to listen. [JACKLINE_HOST]")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one. [JACKLINE_PORT]")]
Insecure = Annotated[
    bool | None, typer.Option("--insecure", help="Listen beyond loopback, keys in clear text. [JACKLINE_INSECURE]")
]

projections = typer.Typer(help="List, rebuild and verify the read models.", no_args_is_help=True)
journal = typer.Typer(help="Verify the journal.", no_args_is_help=True)


def _settings(**options: Any) -> Settings:
    try:
        return load(**options)
    except InvalidSetting as error:
        raise Fault(str(error), "`jackline config` lists every setting", USAGE) from error


def serve(data_dir: DataDir = None, host: Host = None, port: Port = None, insecure: Insecure = None) -> int:
    """Start the service, on an embedded journal in its data dir.

    It prints `jackline ready on URL` to standard error once it answers, and where the admin key is at the first start.
    SIGTERM drains and ends it with 0.
    """
    from api.serve import run

    return run(_settings(data_dir=data_dir, host=host, port=port, insecure=insecure))


def config(data_dir: DataDir = None, json: Json = False) -> int:
    """Every setting of the service: its value, unit, bound and source."""
    settings = _settings(data_dir=data_dir)
    options = frozenset({"data_dir"} if data_dir is not None else ())
    rows = describe(settings, options, os.environ)
    if json:
        _print_json({row["setting"]: row for row in rows})
        return DONE
    _print_settings(rows)
    return DONE


def _print_settings(rows: list[dict[str, str]]) -> None:
    """A table where there is room for one; elsewhere a line for each setting, and its meaning below."""
    console = Console(highlight=False)
    if console.width >= TABLE_COLUMNS:
        table = Table(box=None, header_style="bold")
        for column in ("setting", "value", "unit", "bounds", "source", "meaning"):
            table.add_column(column, overflow="fold", no_wrap=column == "setting")
        for row in rows:
            table.add_row(*row.values())
        console.print(table)
        return
    for row in rows:
        value = " ".join(filter(None, (row["value"], row["unit"])))
        console.print(Text.assemble((row["setting"], "bold"), f" = {value}  ({row['source']}; {row['bounds']})"))
        console.print(Padding(Text(row["meaning"]), (0, 0, 0, 4)))


@journal.callback()
def _journal() -> None:
    """Verify the journal."""


@journal.command("verify")
def verify_journal(data_dir: DataDir = None, json: Json = False) -> int:
    """Read and check every fact: the hash chain, the versions, the names. Exit 1 when something is wrong."""
    directory = _settings(data_dir=data_dir).data_dir
    found = _verified(directory)
    if json:
        _print_json(found)
    elif found["ok"]:
        print(f"ok: {found['facts']} facts in {directory / JOURNAL_NAME}")
    else:
        where = "" if found["first_bad_position"] is None else f" at position {found['first_bad_position']}"
        print(f"not ok: {found['problem']}{where}", file=sys.stderr)
    return DONE if found["ok"] else FAILED


def _verified(directory: Path) -> dict[str, Any]:
    try:
        application = open_readonly(directory)
    except (NotAJournal, JournalDamaged) as error:
        position = error.fields().get("position")
        return {"ok": False, "facts": 0, "first_bad_position": position, "problem": error.message}
    except JournalError as error:
        raise _fault(error) from error
    try:
        verdict = application.store.verify()
    finally:
        application.close()
    return {
        "ok": verdict.ok,
        "facts": verdict.facts,
        "first_bad_position": verdict.first_bad_position,
        "problem": verdict.problem,
    }


@projections.command("list")
def list_projections(data_dir: DataDir = None, json: Json = False) -> int:
    """The read models: how far each has come, and how big it is."""
    directory = _settings(data_dir=data_dir).data_dir
    _print_shown(_guarded(lambda: rebuilding.list_all(directory)), json=json)
    return DONE


@projections.command("rebuild")
def rebuild_projections(
    names: Annotated[list[str] | None, typer.Argument(help="Which; all when none is named.")] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> int:
    """Make read models again from the journal, beside the live ones, and swap them in. Safe while the service runs."""
    directory = _settings(data_dir=data_dir).data_dir
    wanted = tuple(names or rebuilding.NAMES)
    unknown = sorted(set(wanted) - set(rebuilding.NAMES))
    if unknown:
        message = f"no read model is named {unknown[0]!r}"
        raise Fault(message, f"there are: {', '.join(rebuilding.NAMES)}", USAGE)
    with _bar() as report:
        shown = _guarded(lambda: rebuilding.rebuild(directory, wanted, report))
    _print_shown(shown, json=json)
    return DONE


@projections.command("verify")
def verify_projections(data_dir: DataDir = None, json: Json = False) -> int:
    """Fold the journal once more and compare every row. Exit 1 when one differs."""
    directory = _settings(data_dir=data_dir).data_dir
    with _bar() as report:
        verified = _guarded(lambda: rebuilding.verify(directory, report))
    _print_shown(verified, json=json)
    return DONE if all(one.ok for one in verified) else FAILED


def _guarded(work: Any) -> Any:
    try:
        return work()
    except JournalError as error:
        raise _fault(error) from error


def _fault(error: JournalError) -> Fault:
    return Fault(error.message, error.remedy, FAILED)


class _bar:
    """A progress bar on standard error; nothing where nobody looks."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> Any:
        self._progress.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _report(self, name: str, done: int, total: int) -> None:
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total)
        self._progress.update(self._bars[name], completed=done, total=total)


def _print_shown(shown: Any, *, json: bool) -> None:
    rows = [msgspec.to_builtins(one) for one in shown]
    if json:
        _print_json(rows)
        return
    table = Table(box=None, header_style="bold")
    for column in rows[0] if rows else ():
        table.add_column(column)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console().print(table)


def _print_json(value: Any) -> None:
    print(jsonlib.dumps(value, indent=2, ensure_ascii=False))
