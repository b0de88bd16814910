"""What a verification finds beside the chain, and that it finds nothing wrong with a journal that is being written."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from journal.opening import JOURNAL_NAME
from journal.statistics import statistics
from tests.journal.accounts import answered, append, deciding
from tests.journal.filled import FACTS, filled, opened, queue_fact, read, unreported, verified
from tests.journal.releases import RUN


def altered(place: Path, statement: str) -> Path:
    """The directory, with its journal changed behind its back."""
    with closing(sqlite3.connect(filled(place) / JOURNAL_NAME)) as connection:
        assert 0 < connection.execute(statement).rowcount
        connection.commit()
    return place


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("DELETE FROM output_marks", "output"),
        ("UPDATE output_marks SET digest = 'x'", "output"),
        ("UPDATE output_marks SET fence = 2", "output"),
        ("DELETE FROM partials", "partial"),
        ("UPDATE partials SET saved = 2", "partial"),
        ("UPDATE partials SET body = '{\"done\": 4}'", "partial"),
        ("UPDATE partials SET body = '{\"done\": '", "partial"),
        ("UPDATE partials SET body = x'7b22ff223a317d'", "partial"),
        ("UPDATE partials SET body = 4", "partial"),
    ],
)
def test_registers_that_a_fact_contradicts_are_named_by_the_fact(statement: str, what: str, tmp_path: Path) -> None:
    place = altered(tmp_path, statement)

    verdict = verified(place)

    with read(place) as store:
        (bad,) = store.facts_at([verdict.first_bad_position or 0])
    assert "run.closed.v1" == bad.topic
    assert f"the {what} of run {RUN.format(1)} under fence 1 is not what this fact says was saved" == verdict.problem


@pytest.mark.parametrize(
    ("statement", "position", "problem"),
    [
        (
            f"UPDATE commands SET first = {FACTS + 1}, last = {FACTS + 1} WHERE command_id = 'command-3'",
            FACTS + 1,
            f"is of facts {FACTS + 1} to {FACTS + 1}",
        ),
        ("UPDATE commands SET first = 2 WHERE command_id = 'command-2'", 2, "is of a fact of another command"),
        (
            f"UPDATE commands SET last = {FACTS + 1} WHERE command_id = 'command-2'",
            8,
            f"is of facts 8 to {FACTS + 1}",
        ),
        ("UPDATE commands SET first = 0 WHERE command_id = 'command-1'", 0, "is of facts 0 to 7"),
        ("UPDATE commands SET command_id = 'other' WHERE command_id = 'command-1'", 1, "of another command"),
    ],
)
def test_answers_that_belong_to_no_facts_of_their_command_are_named(
    statement: str, position: int, problem: str, tmp_path: Path
) -> None:
    verdict = verified(altered(tmp_path, statement))

    assert (False, position) == (verdict.ok, verdict.first_bad_position)
    assert problem in str(verdict.problem)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE commands SET first = 'x'", "UPDATE commands SET last = x'00'", "UPDATE output_chunks SET data = x'ff'"],
)
def test_values_of_another_kind_beside_the_facts_are_a_verdict_and_no_crash(statement: str, tmp_path: Path) -> None:
    verdict = verified(altered(tmp_path, statement))

    assert (False, FACTS) == (verdict.ok, verdict.facts)
    assert verdict.problem


def test_facts_that_are_recorded_meanwhile_are_no_fault(tmp_path: Path) -> None:
    app = opened(filled(tmp_path))
    reported: list[tuple[int, int]] = []

    def record(done: int, total: int) -> None:
        reported.append((done, total))
        version = app.store.head("queue-x") + 1
        row = queue_fact("queue-x", version)
        append(app.store, deciding(row, command=answered(f"c{version}")))

    with read(tmp_path) as store:
        verdict = store.verify(record)
    last = app.store.load_tail().position
    app.close()

    assert (True, FACTS) == (verdict.ok, verdict.facts), verdict.problem
    assert FACTS < last
    assert (FACTS, FACTS) == reported[-1]


def test_the_numbers_are_those_of_the_facts(tmp_path: Path) -> None:
    with read(filled(tmp_path)) as store:
        found = statistics(store, tmp_path, unreported)
        rows = list(store.rows_after(0))

    assert FACTS == found.facts == sum(part.facts for part in found.topics.values())
    assert FACTS == sum(part.facts for part in found.stream_kinds.values())
    assert {row[3] for row in rows} == set(found.topics)
    assert len({row[1] for row in rows}) == found.streams
    assert (10, 0, 6, 3) == (found.remembered_answers, found.archived_facts, found.settled_runs, found.open_runs)
    assert found.bytes == (tmp_path / JOURNAL_NAME).stat().st_size
    assert found.bytes == found.files[JOURNAL_NAME]
    assert found.first_at is not None
    assert found.last_at is not None
    assert found.first_at < found.last_at
    assert round(found.bytes / FACTS, 1) == found.bytes_per_fact


def test_an_empty_journal_has_numbers_too(tmp_path: Path) -> None:
    opened(tmp_path).close()

    with read(tmp_path) as store:
        found = statistics(store, tmp_path, unreported)

    assert (0, 0.0, None, {}) == (found.facts, found.bytes_per_fact, found.first_at, found.topics)
