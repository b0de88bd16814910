"""Journals of earlier versions, as those versions wrote them: verified, folded, brought up to date, gone on with."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from domain.queue import QueueConfigured
from journal.cloud import cloud_fact_of, state_of
from journal.mapper import DEFAULT_CODEC
from journal.opening import JOURNAL_NAME
from journal.schema import SCHEMA_VERSION
from journal.streams import Streams
from journal.topics import TOPICS
from tests.journal.filled import opened, read, released, rows_of, verified
from tests.journal.releases import FIXTURES, RUN

RELEASES = sorted(path.name.removesuffix(".sqlite3.gz") for path in FIXTURES.glob("*.sqlite3.gz"))
NAMES_OF_0_1_0 = 44
FROZEN = {"0.1.0": "a8ca7984c5e5e470613ab4240b48ca818c7e1694280766311759e990bfe4cd95"}
"""SHA-256 of each fixture: one that was made anew by later code proves nothing."""


@pytest.fixture(params=RELEASES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data directory with the journal of a release."""
    return released(tmp_path, request.param)


def test_every_kept_journal_is_the_one_that_its_release_wrote() -> None:
    found = {
        release: hashlib.sha256((FIXTURES / f"{release}.sqlite3.gz").read_bytes()).hexdigest() for release in RELEASES
    }

    assert FROZEN == found


def test_the_first_release_is_kept_with_every_name_it_had(tmp_path: Path) -> None:
    topics = {row[3] for row in rows_of(released(tmp_path, "0.1.0"))}

    assert NAMES_OF_0_1_0 == len(topics)
    assert set() == topics - set(TOPICS)


def test_a_journal_of_an_earlier_release_is_verified_before_and_after_it_is_brought_up_to_date(place: Path) -> None:
    before, rows = verified(place), rows_of(place)

    opened(place).close()

    assert before.ok, before.problem
    assert before == verified(place)
    assert rows == rows_of(place)
    with read(place) as store:
        assert [(str(SCHEMA_VERSION),)] == store.datastore.read("SELECT value FROM meta WHERE key = 'schema_version'")


def test_every_stream_of_an_earlier_release_folds_to_its_last_version(place: Path) -> None:
    with read(place) as store:
        streams = Streams(store)
        heads = {row[1]: row[2] for row in store.rows_after(0)}

        assert heads == {name: streams.load(name).version for name in heads}


def test_facts_of_a_run_of_an_earlier_release_are_found_before_and_after_it_is_brought_up_to_date(place: Path) -> None:
    run_id = RUN.format(1)
    expected = [row[0] for row in rows_of(place) if str(row[1]).endswith(run_id)]

    with read(place) as store:
        found = [fact.position for fact in store.facts_of(run_id, 0, 100)]
        assert expected[-1] == store.last_position(run_id)
    opened(place).close()
    with read(place) as store:
        assert found == expected == [fact.position for fact in store.facts_of(run_id, 0, 100)]


def test_a_journal_of_an_earlier_release_goes_on_in_todays_form_under_one_chain(place: Path) -> None:
    app = opened(place)
    old = app.store.facts_of(RUN.format(1), 0, 1)[0]
    again = type(old)(
        0, "queue-new", 1, "queue.configured.v1", QueueConfigured(queue="new", max_leases=1, max_per_key=1), old.meta
    )
    app.save(again)
    app.close()

    verdict = verified(place)
    assert verdict.ok, verdict.problem
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        forms = {row[0] for row in connection.execute("SELECT substr(state, 1, 1) FROM stored_events")}
    assert {b"{", b"["} == forms


def test_exported_facts_of_an_earlier_release_give_back_the_very_bytes(place: Path) -> None:
    with read(place) as store:
        for row in store.rows_after(0):
            fact = cloud_fact_of(row, store.codec, store.journal_id)

            assert None is fact.state
            assert row[4] == state_of(fact, DEFAULT_CODEC)
