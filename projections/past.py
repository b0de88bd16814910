"""The read models as they were: folded up to a position or an instant, into a file of their own.

The file has the tables, indexes and tracking rows of the live one and can be asked with any SQLite tool. It is for its
owner alone, appears whole or not at all, and never in the place of another file: what is there may be a journal.
Nothing reads it by itself, and it may be deleted at any time.

Which position an instant means is said in ``projections.finding``.
"""

import contextlib
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from journal.opening import open_whole
from journal.targets import written_whole
from projections.finding import place_at
from projections.rebuild import Progress
from projections.refolding import Changes, Refolding, Source, Start, fold_into
from projections.stored.catalogue import named
from projections.stored.database import (
    Tracked,
    create_indexes,
    create_tables,
    new_file,
    track,
)
from projections.stored.projection import Projection

FIRST_BUILD = 1


def file_at(data_dir: Path, position: int) -> Path:
    """Where the read models as of a position are put when no other place is named."""
    return data_dir / f"projections-at-{position}.sqlite3"


def rebuild_at(
    data_dir: Path,
    at: int | datetime,
    names: Sequence[str] = (),
    out: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Path, int]:
    """The file with the named read models as they were, and the position that they show; all when none is named.

    Raises:
        ProjectionUnknown, InvalidCommand, PositionBeyond, InstantBefore: there is no such thing.
        TargetExists: there is a file of that name, which is never replaced.
        TargetFull: the disk is full; no file was left.
        JournalError: the journal cannot be read, or the file not written.
    """
    wanted = named(tuple(names))
    application = open_whole(data_dir)
    try:
        position = place_at(application.store, at).position
        target = file_at(data_dir, position) if out is None else out
        with written_whole(target) as partial, contextlib.closing(new_file(partial)) as connection:
            _fold(connection, application.store, wanted, position, progress or _quiet)
    finally:
        application.close()
    return target, position


def _fold(
    connection: sqlite3.Connection, source: Source, wanted: Sequence[Projection], position: int, progress: Progress
) -> None:
    title = ", ".join(projection.name for projection in wanted)
    for projection in wanted:
        create_tables(connection, projection.tables, "")
    refolding = Refolding(source, [Start(projection) for projection in wanted])

    def write(changes: Changes) -> None:
        connection.execute("BEGIN")
        for _, change in changes:
            change(connection, "")
        connection.execute("COMMIT")

    fold_into(refolding, position, write, lambda done, total: progress(title, done, total))
    for failure in refolding.failures.values():
        raise failure
    for projection in wanted:
        create_indexes(connection, projection.tables, "", FIRST_BUILD)
        track(connection, projection.name, Tracked(position, projection.version, source.epoch, FIRST_BUILD))


def _quiet(title: str, done: int, total: int) -> None:
    """Nobody looks."""
