"""Histories that the real service recorded, replayed: following, rebuilding and folding to a position are one."""

import asyncio
import contextlib
import gzip
import sqlite3
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.mapper import Recorded
from journal.opening import JOURNAL_NAME, open_readonly
from projections.comparing import digest, first_difference
from projections.past import rebuild_at
from projections.proving import list_all, verify
from projections.rebuild import rebuild
from projections.refolding import Refolding, Source, Start
from projections.stored.catalogue import PROJECTIONS
from projections.stored.database import create_tables, scratch
from projections.stored.known import Known, told
from projections.stored.projection import Folding

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.sqlite3.gz"))
LEAST_TOPICS = 48
"""Stored names that the recorded histories have together, at least: they are about everything."""


def unpacked(history: Path, into: Path) -> Path:
    (into / JOURNAL_NAME).write_bytes(gzip.decompress(history.read_bytes()))
    return into


def folded(
    source: Source, batches: Sequence[Sequence[Recorded]], states: int, *, restarted: bool
) -> sqlite3.Connection:
    """Every model, folded as a follower does; that is stopped and started between all batches, if so."""
    made = scratch()
    for projection in PROJECTIONS:
        create_tables(made, projection.tables, "")
    known, foldings = begun(source, states)
    for facts in batches:
        if restarted:
            known, foldings = begun(source, states)
        batch = told(facts)
        known.note(batch)
        for folding in foldings:
            folding.absorb(batch)
            folding.changes()(made, "")
            assert {} == folding.aside
    return made


def begun(source: Source, states: int) -> tuple[Known, list[Folding]]:
    known = Known(source.stream, states + 1, states)
    return known, [Folding(projection, known) for projection in PROJECTIONS]


def refolded(source: Source, upto: int) -> sqlite3.Connection:
    made = scratch()
    for projection in PROJECTIONS:
        create_tables(made, projection.tables, "")
    refolding = Refolding(source, [Start(projection) for projection in PROJECTIONS])
    refolding.finish(upto)
    for _, write in refolding.changes():
        write(made, "")
    return made


@given(data=st.data())
@settings(max_examples=40)
@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name.partition(".")[0])
def test_a_recorded_history_gives_the_same_rows_in_any_batches_up_to_any_position(
    history: Path, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as place:
        application = open_readonly(unpacked(history, Path(place)))
        source: Source = application.store
        facts = source.facts_after(0, 100_000)
        end = data.draw(st.integers(0, len(facts)), label="position")
        cuts = data.draw(st.lists(st.integers(0, end), max_size=12), label="cuts")
        states = data.draw(st.integers(0, 4), label="states")
        restarted = data.draw(st.booleans(), label="restarted")
        edges = [0, *sorted(cuts), end]
        with (
            contextlib.closing(
                folded(source, [facts[a:b] for a, b in pairwise(edges)], states, restarted=restarted)
            ) as live,
            contextlib.closing(refolded(source, end)) as again,
        ):
            for projection in PROJECTIONS:
                assert first_difference(live, again, projection) is None
                assert digest(live, projection) == digest(again, projection)
        application.close()


def test_the_recorded_histories_are_about_everything(tmp_path: Path) -> None:
    topics: set[str] = set()
    for number, history in enumerate(HISTORIES):
        place = tmp_path / str(number)
        place.mkdir()
        application = open_readonly(unpacked(history, place))
        topics |= {row[3] for row in application.store.rows_after(0)}
        application.close()

    assert len(topics) >= LEAST_TOPICS
    for kind in ("run", "lease", "effect", "worker", "queue", "presence", "workspace"):
        assert any(topic.startswith(f"{kind}.") for topic in topics), kind


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name.partition(".")[0])
def test_models_of_a_recorded_history_are_rebuilt_verified_and_answered_by_instant(
    history: Path, tmp_path: Path
) -> None:
    data_dir = unpacked(history, tmp_path)
    rebuild(data_dir)
    now = {one.name: one.digest for one in list_all(data_dir)}
    assert {(True, None)} == {(one.ok, one.problem) for one in verify(data_dir)}
    application = open_readonly(data_dir)
    last = application.store.load_tail().position
    middle = application.store.facts_after(last // 2, 1)[0]
    application.close()

    path, position = rebuild_at(data_dir, middle.meta.recorded_at)
    whole, end = rebuild_at(data_dir, last, out=tmp_path / "whole.sqlite3")

    assert middle.position <= position < last == end
    with contextlib.closing(sqlite3.connect(whole)) as then, contextlib.closing(sqlite3.connect(path)) as before:
        assert now == {projection.name: digest(then, projection) for projection in PROJECTIONS}
        assert now["timeline"] != digest(before, PROJECTIONS[1])


async def test_a_rebuild_beside_another_ones_reads_gives_both_the_same(tmp_path: Path) -> None:
    data_dir = unpacked(HISTORIES[0], tmp_path)
    await asyncio.to_thread(rebuild, data_dir)
    first = [one.digest for one in list_all(data_dir)]
    await asyncio.gather(asyncio.to_thread(rebuild, data_dir), asyncio.to_thread(verify, data_dir))

    assert first == [one.digest for one in list_all(data_dir)]
