"""How the read models stand, and whether they are what the journal says: ``list`` and ``verify`` of the command line.

``verify`` folds the same facts once more into a private database, each projection up to the position of its live rows,
and compares both row by row. A model that has put facts aside agrees with such a fold and is still not what the journal
says, so it does not pass.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from domain.values import Value
from projections.comparing import Difference, count, digest, first_difference
from projections.rebuild import Progress, opened
from projections.refolding import Changes, Refolding, Source, Start, fold_into
from projections.stored.catalogue import named
from projections.stored.database import (
    Database,
    Tracked,
    create_tables,
    has_tables,
    scratch,
    table_names,
    tracked,
    tracked_beside,
)
from projections.stored.file import plainly
from projections.stored.projection import Aside, Projection, aside_of


class Shown(Value, frozen=True, kw_only=True):
    """How a read model stands: ``current``, ``behind``, ``outdated`` (another version or journal) or ``missing``.

    ``lag`` is in facts; ``rebuilt_to`` is the position of a rebuild that is under way or was stopped, null for none.
    """

    name: str
    version: int
    state: str
    position: int
    journal_position: int
    lag: int
    build: int
    rows: int
    digest: str | None
    rebuilt_to: int | None
    quarantined: tuple[Aside, ...]


class Verified(Value, frozen=True, kw_only=True):
    """What comparing a read model with the journal found."""

    name: str
    ok: bool
    position: int
    rows: int
    digest: str | None
    problem: str | None
    difference: Difference | None
    quarantined: tuple[Aside, ...]


def list_all(data_dir: Path, *, digests: bool = True) -> list[Shown]:
    """How each read model stands; digests are left out on request, because they take reading every row."""
    with opened(data_dir) as (source, database):
        if not database.path.exists():
            return [_missing(projection, source) for projection in named()]
        with _snapshot(database) as connection:
            return [shown(connection, source, projection, digests=digests) for projection in named()]


def shown(connection: sqlite3.Connection, source: Source, projection: Projection, *, digests: bool) -> Shown:
    """How one read model stands in this snapshot."""
    tail, at = source.load_tail().position, _tracked(connection, projection.name)
    beside = _beside(connection, projection.name)
    if at is None or not has_tables(connection, projection.tables):
        return _missing(projection, source, beside)
    if (at.version, at.epoch) != (projection.version, source.epoch):
        state = "outdated"
    else:
        state = "behind" if at.position < tail else "current"
    return Shown(
        name=projection.name,
        version=at.version,
        state=state,
        position=at.position,
        journal_position=tail,
        lag=max(0, tail - at.position),
        build=at.build,
        rows=count(connection, projection),
        digest=digest(connection, projection) if digests and at.version == projection.version else None,
        rebuilt_to=beside,
        quarantined=tuple(aside_of(connection, projection.name)),
    )


def _missing(projection: Projection, source: Source, beside: int | None = None) -> Shown:
    tail = source.load_tail().position
    return Shown(
        name=projection.name,
        version=projection.version,
        state="missing",
        position=0,
        journal_position=tail,
        lag=tail,
        build=0,
        rows=0,
        digest=None,
        rebuilt_to=beside,
        quarantined=(),
    )


def _tracked(connection: sqlite3.Connection, name: str) -> Tracked | None:
    return tracked(connection, name) if "tracking" in table_names(connection) else None


def _beside(connection: sqlite3.Connection, name: str) -> int | None:
    """The position up to which a rebuild has come with all streams; None when there is no rebuild."""
    found = tracked_beside(connection, name) if "tracking" in table_names(connection) else []
    return min((at.position for at in found), default=None)


@contextlib.contextmanager
def _snapshot(database: Database) -> Iterator[sqlite3.Connection]:
    """A snapshot of the file.

    Raises:
        ProjectionsUnusable, StorageFull: it is not one of read models, or cannot be read.
    """
    try:
        with database.reading() as connection:
            yield connection
    except sqlite3.Error as error:
        raise plainly(database.path, error) from error


def verify(data_dir: Path, names: Sequence[str] = (), progress: Progress | None = None) -> list[Verified]:
    """What comparing the named read models with the journal found; all of them when none is named."""
    wanted = named(tuple(names))
    title = ", ".join(projection.name for projection in wanted)
    with opened(data_dir) as (source, database):
        if not database.path.exists():
            return [_unverified(_missing(projection, source)) for projection in wanted]
        with _snapshot(database) as live, contextlib.closing(scratch()) as again:
            stands = {one.name: one for one in (shown(live, source, each, digests=False) for each in wanted)}
            refolds = [each for each in wanted if stands[each.name].state in ("current", "behind")]
            failures = _fold_again(
                source, again, [(each, stands[each.name].position) for each in refolds],
                lambda at, total: None if progress is None else progress(title, at, total),
            )  # fmt: skip
            return [
                _compared(stands[each.name], each, live, again, failures.get(each.name))
                if each in refolds
                else _unverified(stands[each.name])
                for each in wanted
            ]


def _fold_again(
    source: Source,
    into: sqlite3.Connection,
    wanted: Sequence[tuple[Projection, int]],
    report: Callable[[int, int], None],
) -> dict[str, Exception]:
    """Fold each projection up to its own position; projections at one position share a pass over the journal."""
    failures: dict[str, Exception] = {}
    for position in sorted({position for _, position in wanted}):
        together = [projection for projection, own in wanted if own == position]
        for projection in together:
            create_tables(into, projection.tables, "")
        refolding = Refolding(source, [Start(projection) for projection in together])
        fold_into(refolding, position, lambda changes: _write(into, changes), report)
        failures.update(refolding.failures)
    return failures


def _write(connection: sqlite3.Connection, changes: Changes) -> None:
    connection.execute("BEGIN")
    for _, change in changes:
        change(connection, "")
    connection.execute("COMMIT")


def _compared(
    stands: Shown,
    projection: Projection,
    live: sqlite3.Connection,
    again: sqlite3.Connection,
    failure: Exception | None,
) -> Verified:
    difference = None if failure is not None else first_difference(live, again, projection)
    problem = _problem(difference, failure, stands.quarantined)
    return Verified(
        name=projection.name,
        ok=problem is None,
        position=stands.position,
        rows=stands.rows,
        digest=digest(live, projection),
        problem=problem,
        difference=difference,
        quarantined=stands.quarantined,
    )


def _problem(difference: Difference | None, failure: Exception | None, aside: Sequence[Aside]) -> str | None:
    if failure is not None:
        return f"it cannot be folded: {failure}"
    if difference is not None:
        field = "" if difference.field is None else f" in {difference.field}"
        return f"{difference.table} {difference.key} differs from the journal{field}"
    if aside:
        first = aside[0]
        return f"{len(aside)} put aside, first {first.topic} at position {first.position}: {first.reason}"
    return None


def _unverified(stands: Shown) -> Verified:
    return Verified(
        name=stands.name,
        ok=False,
        position=stands.position,
        rows=stands.rows,
        digest=None,
        problem=f"the read model is {stands.state}; rebuild it, or start the service",
        difference=None,
        quarantined=stands.quarantined,
    )
