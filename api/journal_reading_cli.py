"""The verbs that read a journal, while a service may be recording: `stats`, `verify`, `tail`, `export`.

Each opens it read-only and in portions: no lock is taken, nothing is checkpointed, and memory is bounded.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from api.verbs import Bar, DataDir, Json, fault, print_json, settings_of
from jackline.cli.exits import DONE, FAILED, USAGE, Fault
from journal.application import SQLiteJournal
from journal.chain import Verdict
from journal.cloud import CloudFact, cloud_fact_of
from journal.errors import EpochChanged, JournalDamaged, JournalError, NotAJournal
from journal.exporting import Range, export_lines, export_parquet
from journal.opening import JOURNAL_NAME, open_readonly
from journal.statistics import Statistics, statistics
from journal.targets import written_whole
from journal.tool_errors import PositionBeyond

TAIL_FACTS = 10
"""Facts that `tail` begins with, unless told after which position."""

TAIL_POLL_S = 0.2
"""How often `tail` looks for more."""

SHOWN_DATA = 160
"""Characters of a fact's own data in a line for people."""

T = TypeVar("T")

After = Annotated[int, typer.Option("--after", min=0, help="Only facts after this position.")]
Upto = Annotated[int | None, typer.Option("--upto", min=0, help="Only facts up to this position.")]


def reading(data_dir: Path | None, work: Callable[[SQLiteJournal, Path], T]) -> T:
    """What the work gives on a journal that was opened to read; a failure of the journal as one line."""
    directory = settings_of(data_dir=data_dir).data_dir
    try:
        application = open_readonly(directory)
        try:
            return work(application, directory)
        finally:
            application.close()
    except JournalError as error:
        raise fault(error) from error


def stats(data_dir: DataDir = None, json: Json = False) -> int:
    """What the journal holds: facts and bytes, by name and kind of stream, runs, files."""
    with Bar() as report:
        found = reading(data_dir, lambda app, where: statistics(app.store, where, partial(report, "counting")))
    if json:
        print_json(msgspec.to_builtins(found))
        return DONE
    _print_statistics(found)
    return DONE


def _print_statistics(found: Statistics) -> None:
    console = Console()
    values = {name: value for name, value in msgspec.to_builtins(found).items() if not isinstance(value, dict | list)}
    console.print(_table(("what", "value"), [(name.replace("_", " "), value) for name, value in values.items()]))
    for title, parts in (("topic", found.topics), ("streams of kind", found.stream_kinds)):
        console.print(
            _table((title, "facts", "bytes"), [(name, part.facts, part.bytes) for name, part in parts.items()])
        )
    console.print(_table(("file", "bytes"), list(found.files.items())))


def _table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row))
    return table


def verify(
    data_dir: DataDir = None,
    json: Json = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="Also have SQLite check every page, a table at a time; each one long read.")
    ] = False,
) -> int:
    """Read and check everything: the hash chain, indexes, versions, registers, remembered answers. Exit 1 when not ok.

    With --pages the log of a running service grows while its largest table is read: do it on a backup.
    """
    directory = settings_of(data_dir=data_dir).data_dir
    with Bar() as report:
        verdict = _verified(directory, report, pages=pages)
    if json:
        print_json(msgspec.to_builtins(verdict))
    elif verdict.ok:
        print(f"ok: {verdict.facts} facts in {directory / JOURNAL_NAME}")
    else:
        where = "" if verdict.first_bad_position is None else f" at position {verdict.first_bad_position}"
        print(f"not ok: {verdict.problem}{where}", file=sys.stderr)
    return DONE if verdict.ok else FAILED


def _verified(directory: Path, report: Callable[[str, int, int], None], *, pages: bool) -> Verdict:
    try:
        application = open_readonly(directory)
    except (NotAJournal, JournalDamaged) as error:
        return Verdict(False, 0, error.fields().get("position"), error.message)
    except JournalError as error:
        raise fault(error) from error
    try:
        verdict = application.store.verify(partial(report, "verifying"))
        problem = application.store.check_pages(partial(report, "checking pages (tables)")) if pages else None
        return verdict if problem is None or not verdict.ok else Verdict(False, verdict.facts, None, problem)
    except JournalError as error:
        raise fault(error) from error
    finally:
        application.close()


def tail(
    data_dir: DataDir = None,
    after: Annotated[int | None, typer.Option("--after", min=0, help="Begin after this position.")] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f/-F", help="Go on as facts are recorded.")] = True,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="End after so many facts.")] = None,
    json: Json = False,
) -> int:
    """Show the last facts, and more as they are recorded; with --json one CloudEvent to a line."""

    def show(application: SQLiteJournal, directory: Path) -> int:
        begin = _beginning(application, after)
        for number, fact in enumerate(_facts(application, directory / JOURNAL_NAME, begin, follow=follow), start=1):
            print(msgspec.json.encode(fact).decode() if json else _line(fact), flush=True)
            if number == limit:
                break
        return DONE

    return reading(data_dir, show)


def _beginning(application: SQLiteJournal, after: int | None) -> int:
    last = application.store.load_tail().position
    if after is None:
        return max(0, last - TAIL_FACTS)
    if after > last:
        raise PositionBeyond(after, last)
    return after


def _facts(application: SQLiteJournal, path: Path, after: int, *, follow: bool) -> Iterator[CloudFact]:
    store = application.store
    inode = path.stat().st_ino
    while True:
        last = store.load_tail().position
        for row in store.rows_after(after, last):
            yield cloud_fact_of(row, store.codec, store.journal_id)
        after = last
        if not follow:
            return
        time.sleep(TAIL_POLL_S)
        if not path.exists() or path.stat().st_ino != inode:
            raise EpochChanged(store.epoch, _epoch_of(path))


def _epoch_of(path: Path) -> str:
    """The epoch of the journal that is at this path by now."""
    application = open_readonly(path.parent)
    try:
        return application.store.epoch
    finally:
        application.close()


def _line(fact: CloudFact) -> str:
    data = bytes(fact.data).decode()
    shown = data if len(data) <= SHOWN_DATA else data[:SHOWN_DATA] + "..."
    at = fact.time.isoformat(timespec="milliseconds")
    return f"{fact.position:>8}  {at}  {fact.type:<28} {fact.subject}  {shown}"


def export(
    file: Annotated[Path, typer.Argument(help="Where to; - is standard output.")] = Path("-"),
    data_dir: DataDir = None,
    after: After = 0,
    upto: Upto = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="A Parquet table of the facts (extra `parquet`).")] = False,
    json: Json = False,
) -> int:
    """Write the journal as JSON Lines of CloudEvents, or its facts as Parquet; the file is there whole or not at all.

    Without --after and --upto it holds all that `jackline journal import` needs.
    """
    wanted = Range(after, upto)
    piped = str(file) == "-"
    if piped and parquet:
        message = "Parquet is written to a file, not to standard output"
        raise Fault(message, "give a file name", USAGE)
    with Bar() as report:
        work = partial(_exported, file, wanted, partial(report, "exporting"), parquet=parquet)
        found = reading(data_dir, lambda app, _: work(app))
    if json and not piped:
        print_json({"path": str(file), **found})
    else:
        print(f"{found['facts']} facts in {'standard output' if piped else file}", file=sys.stderr)
    return DONE


def _exported(
    file: Path, wanted: Range, report: Callable[[int, int], None], application: SQLiteJournal, *, parquet: bool
) -> dict[str, Any]:
    store = application.store
    if str(file) == "-":
        return _ended(export_lines(store, wanted, sys.stdout.buffer, report))
    with written_whole(file) as partial_path:
        if parquet:
            return {"facts": export_parquet(store, wanted, partial_path, report)}
        with _buffered(partial_path) as out:
            return _ended(export_lines(store, wanted, out, report))


def _ended(ending: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(ending)
    return found


@contextlib.contextmanager
def _buffered(path: Path) -> Iterator[BinaryIO]:
    with path.open("wb") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())
