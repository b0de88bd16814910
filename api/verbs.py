"""What the service's verbs have in common: the options that all take, the words of a failure, a bar, and JSON."""

import json as jsonlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from api.settings import InvalidSetting, Settings, load
from jackline.cli.exits import FAILED, USAGE, Fault
from journal.errors import JournalError

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The service's data dir. [JACKLINE_DATA_DIR]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
"""For a group of verbs: help by either name, as everywhere else."""

T = TypeVar("T")


def settings_of(**options: Any) -> Settings:
    """The service's settings, with what the command line said before anything else.

    Raises:
        Fault: one of them is not acceptable.
    """
    try:
        return load(**options)
    except InvalidSetting as error:
        raise Fault(str(error), "`jackline config` lists every setting", USAGE) from error


def guarded(work: Callable[[], T]) -> T:
    """What the work gives.

    Raises:
        Fault: the journal or a file beside it cannot be used; one line says why and what to do.
    """
    try:
        return work()
    except JournalError as error:
        raise fault(error) from error


def fault(error: JournalError) -> Fault:
    """The error as the command line says it."""
    return Fault(f"{error.code}: {error.message}", error.remedy, FAILED)


def print_json(value: Any) -> None:
    """The value, for programs."""
    print(jsonlib.dumps(value, indent=2, ensure_ascii=False))


class Bar:
    """A progress bar on standard error, with its rate and the time that is left; nothing where nobody looks."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> Callable[[str, int, int], None]:
        self._progress.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _report(self, name: str, done: int, total: int) -> None:
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total, rate="")
        bar = self._bars[name]
        self._progress.update(bar, completed=done, total=total)
        speed = next((one.speed for one in self._progress.tasks if one.id == bar), None)
        self._progress.update(bar, rate=f"{speed:,.0f}/s" if speed else "")
