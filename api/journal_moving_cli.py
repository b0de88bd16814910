"""The verbs that make or move a journal: `import`, `archive`, `backup`, `restore`.

A backup is taken while a service records. The others write a journal, so they take the data directory's lock, and are
refused with the pid of whoever holds it.
"""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from api.clock import new_fact_id, system_clock
from api.verbs import Bar, DataDir, Json, guarded, print_json, settings_of
from jackline.cli.exits import DONE
from journal import archiving, backups
from journal.importing import import_lines

BELOW = 1e6
"""Most days that `archive` may be asked to go back."""


def import_journal(
    file: Annotated[Path, typer.Argument(help="What `jackline journal export` wrote.")],
    data_dir: DataDir = None,
    json: Json = False,
) -> int:
    """Make a journal from an export, in a data dir that has none: every line is checked, and it is all or nothing."""
    directory = settings_of(data_dir=data_dir).data_dir
    with Bar() as report:
        found = guarded(lambda: import_lines(file, directory, new_fact_id, partial(report, "importing (bytes)")))
    _say(found, f"{found.facts} facts of journal {found.journal_id} are in {directory}, in epoch {found.epoch}", json)
    return DONE


def archive(
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, max=BELOW, help="Runs of which nothing is younger, in days.")
    ],
    data_dir: DataDir = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Give the freed space back; needs as much again for a while.")
    ] = False,
    json: Json = False,
) -> int:
    """Move the facts of runs that settled long ago into files beside the journal; the hash chain stays whole.

    The service must be stopped. `show`, `why`, `facts`, replay and every tool read archived runs as before.
    """
    directory = settings_of(data_dir=data_dir).data_dir
    now = system_clock().wall
    with Bar() as report:
        before = now - timedelta(days=older_than)
        found = guarded(lambda: archiving.archive(directory, before, now, new_fact_id, report))
        shrunk = guarded(lambda: archiving.compact(directory)) if compact else None
    document = {**msgspec.to_builtins(found), "journal_bytes": None if shrunk is None else shrunk[1]}
    if json:
        print_json(document)
        return DONE
    print(
        f"{found.facts} facts of {found.runs} runs were moved: {found.bytes_before} bytes of them are "
        f"{found.bytes_after} in {len(found.files)} files now"
    )
    if shrunk is not None:
        print(f"the journal's file has {shrunk[1]} bytes, and had {shrunk[0]}")
    return DONE


def backup(
    file: Annotated[Path, typer.Argument(help="Where to; it must not be there yet.")],
    data_dir: DataDir = None,
    json: Json = False,
) -> int:
    """Copy journal, archives and keys into one file, while the service runs too; it counts once it was verified."""
    directory = settings_of(data_dir=data_dir).data_dir
    with Bar() as report:
        found = guarded(lambda: backups.back_up(directory, file, system_clock().wall, report))
    _say(found, f"{found.facts} facts, verified, in {file} ({found.bytes} bytes)", json)
    return DONE


def restore(
    file: Annotated[Path, typer.Argument(help="What `jackline journal backup` wrote.")],
    data_dir: DataDir = None,
    keys: Annotated[
        bool, typer.Option("--keys/--no-keys", help="Restore the keys too; without, the next start makes an admin key.")
    ] = True,
    json: Json = False,
) -> int:
    """Put a backup into a data dir that has no journal, verified, and begin another epoch."""
    directory = settings_of(data_dir=data_dir).data_dir
    with Bar() as report:
        found = guarded(lambda: backups.restore(file, directory, new_fact_id, report, keys=keys))
    _say(found, f"{found.facts} facts are in {found.path}, in the new epoch {found.epoch}", json)
    return DONE


def _say(found: Any, sentence: str, json: bool) -> None:
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        print(sentence)
