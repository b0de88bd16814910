"""Silent damage and tampering: the verification names the first position at which the journal is not what it was."""

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from domain.values import NULL
from journal.chain import Tail, genesis, link
from journal.errors import JournalDamaged, JournalError
from journal.opening import JOURNAL_NAME, open_readonly, open_sqlite
from journal.registers import ChunkWrite, PartialWrite, running_digest
from tests.journal.accounts import CODEC, append, deciding, minting, stored
from tests.journal.filled import filled, verified

FACTS = 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A closed journal of twenty facts, two streams in turn."""
    app = open_sqlite(tmp_path, CODEC, minting())
    for n in range(FACTS):
        append(app.store, deciding(stored(f"account-{'ab'[n % 2]}", n // 2 + 1)))
    app.close()
    return tmp_path


def alter(place: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        connection.execute(statement, parameters)
        connection.commit()


def first_bad(place: Path) -> tuple[int | None, str]:
    app = open_readonly(place, CODEC)
    verdict = app.store.verify()
    app.close()
    assert verdict.ok == (verdict.problem is None)
    return verdict.first_bad_position, verdict.problem or ""


def rechain(place: Path) -> None:
    """Recompute every hash and the tail, as somebody would who knows how."""
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        journal_id = connection.execute("SELECT value FROM meta WHERE key = 'journal_id'").fetchone()[0]
        tail = Tail(0, genesis(journal_id))
        for position, stream, version, topic, state in connection.execute(
            "SELECT position, originator_id, originator_version, topic, state FROM stored_events ORDER BY position"
        ).fetchall():
            tail = Tail(position, link(tail.hash, position, stream, version, topic, state))
            connection.execute("UPDATE stored_events SET hash = ? WHERE position = ?", (tail.hash, position))
        connection.execute("UPDATE tail SET position = ?, hash = ?", tail)
        connection.commit()


def test_an_untouched_journal_is_sound(place: Path) -> None:
    assert (None, "") == first_bad(place)


@pytest.mark.parametrize(
    "change",
    [
        "state = replace(state, '\"amount\":1', '\"amount\":9')",
        "state = CAST(replace(state, '\"amount\":1', '\"amount\":9') AS BLOB)",
        "topic = 'account.opened.v1'",
        "originator_id = 'account-c'",
        "originator_version = 999",
        "hash = zeroblob(32)",
    ],
)
def test_whatever_is_changed_in_a_fact_is_found_at_its_position(place: Path, change: str) -> None:
    alter(place, f"UPDATE stored_events SET {change} WHERE position = 7")

    position, problem = first_bad(place)

    assert (7, "its hash does not follow from the fact and the hash before it") == (position, problem)


def test_a_fact_filed_under_another_run_is_found(place: Path) -> None:
    alter(place, "UPDATE stored_events SET correlation_id = 'other' WHERE position = 7")

    assert (7, "it is filed under correlation 'other', and belongs to 'c'") == first_bad(place)


def test_a_fact_that_was_taken_out_is_missed(place: Path) -> None:
    alter(place, "DELETE FROM stored_events WHERE position = 7")

    assert (7, "position 8 follows 6") == first_bad(place)


def test_facts_that_were_cut_off_at_the_end_are_missed(place: Path) -> None:
    alter(place, "DELETE FROM stored_events WHERE position > 15")

    assert (16, "the journal ends at 15, and its tail record says 20") == first_bad(place)


def test_a_fact_that_was_slipped_in_at_the_end_is_found(place: Path) -> None:
    stream, version, topic, state, correlation = stored("account-a", 11)
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        before = connection.execute("SELECT hash FROM stored_events WHERE position = 20").fetchone()[0]
    digest = link(before, 21, stream, version, topic, state)

    alter(
        place,
        "INSERT INTO stored_events VALUES (21, ?, ?, ?, ?, ?, ?)",
        stream,
        version,
        topic,
        state,
        correlation,
        digest,
    )

    assert (21, "the journal ends at 21, and its tail record says 20") == first_bad(place)


def test_two_facts_that_changed_places_are_found(place: Path) -> None:
    alter(place, "UPDATE stored_events SET position = -1 WHERE position = 7")
    alter(place, "UPDATE stored_events SET position = 7 WHERE position = 8")
    alter(place, "UPDATE stored_events SET position = 8 WHERE position = -1")

    assert 7 == first_bad(place)[0]


def test_the_beginning_of_another_journal_is_found(place: Path) -> None:
    alter(place, "UPDATE meta SET value = 'another' WHERE key = 'journal_id'")

    assert 1 == first_bad(place)[0]


def test_a_perfect_chain_over_an_unknown_name_is_found(place: Path) -> None:
    alter(place, "UPDATE stored_events SET topic = 'account.closed.v1' WHERE position = 7")
    rechain(place)

    position, problem = first_bad(place)

    assert 7 == position
    assert "the journal holds a fact named 'account.closed.v1' (account-a@4)" in problem


def test_a_perfect_chain_over_bytes_without_sense_is_found(place: Path) -> None:
    alter(place, "UPDATE stored_events SET state = ? WHERE position = 7", b'{"meta":{},"data":{}}')
    rechain(place)

    position, problem = first_bad(place)

    assert 7 == position
    assert "account-a@4 (account.deposited.v1) cannot be read" in problem


def test_a_perfect_chain_over_a_gap_in_a_stream_is_found(place: Path) -> None:
    alter(place, "UPDATE stored_events SET originator_version = 99 WHERE position = 20")
    rechain(place)

    assert (20, "its version does not follow the one before it in its stream") == first_bad(place)


def test_a_tail_that_is_not_the_last_fact_is_found(place: Path) -> None:
    alter(place, "UPDATE tail SET hash = zeroblob(32)")

    assert (20, "its hash is not the one in the tail record") == first_bad(place)


def test_a_page_that_cannot_be_read_is_named_by_the_first_fact_on_it(place: Path) -> None:
    with (place / JOURNAL_NAME).open("r+b") as file:
        content = file.read()
        # The page with the first facts: the one in which the first fact's id stands.
        page = content.index(b"account-a@1") // 4096
        file.seek(page * 4096)
        file.write(b"\xff" * 4096)

    position, problem = first_bad(place)

    assert 1 == position
    assert "cannot be read from storage" in problem


@pytest.mark.parametrize("position", [1, 12, 20])
def test_damage_among_the_last_facts_stops_the_start_and_is_named(place: Path, position: int) -> None:
    alter(place, "UPDATE stored_events SET hash = zeroblob(32) WHERE position = ?", position)

    with pytest.raises(JournalDamaged) as caught:
        open_sqlite(place, CODEC, minting())

    assert position == caught.value.fields()["position"]
    assert f"at position {position}: its hash does not follow" in str(caught.value)


def test_only_the_last_facts_are_checked_at_the_start(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(place, "UPDATE stored_events SET state = zeroblob(10) WHERE position = 3")
    monkeypatch.setattr("journal.opening.TAIL_FACTS", 5)

    app = open_sqlite(place, CODEC, minting())

    assert 3 == app.store.verify().first_bad_position
    app.close()


def test_no_two_facts_have_one_hash_by_shifting_what_belongs_to_which_part() -> None:
    before = bytes(32)
    digests = {
        link(before, 1, "run-1", 12, "a.b.v1", b"x"),
        link(before, 11, "run-1", 2, "a.b.v1", b"x"),
        link(before, 1, "run-1 ", 12, "a.b.v1", b"x"),
        link(before, 1, "run-", 12, "a.b.v1", b"1 x"),
        link(before, 1, "run-1 x", 12, "a.b.v1", b""),
        link(before, 1, "é", 12, "a.b.v1", b"x"),
    }

    assert 6 == len(digests)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE output_chunks SET data = 'hullo' WHERE seq = 0",
        "DELETE FROM output_chunks WHERE seq = 1",
        "UPDATE output_chunks SET stream = 'stderr' WHERE seq = 0",
        "UPDATE output_marks SET bytes = 9",
    ],
)
def test_output_that_is_not_what_was_acknowledged_is_found(place: Path, change: str) -> None:
    app = open_sqlite(place, CODEC, minting())
    first = running_digest("", 0, "stdout", "hello")
    second = running_digest(first, 1, "stdout", "!")
    writes = [ChunkWrite("r", 1, 0, "stdout", "hello", first), ChunkWrite("r", 1, 1, "stdout", "!", second)]
    append(app.store, deciding(guards={}, writes=writes))
    assert app.store.verify().ok
    app.close()

    alter(place, change)

    assert (None, "the output of run r under fence 1 is not what was acknowledged") == first_bad(place)


@pytest.mark.parametrize("entry", range(7))
def test_an_altered_key_in_the_index_of_output_is_found(place: Path, entry: int) -> None:
    app = open_sqlite(place, CODEC, minting())
    digests = [""]
    for seq in range(7):
        digests.append(running_digest(digests[-1], seq, "stdout", "."))
    writes = [ChunkWrite("run-z", 1, seq, "stdout", ".", digests[seq + 1]) for seq in range(7)]
    append(app.store, deciding(guards={}, writes=writes))
    page = app.store.datastore.read(
        "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_output_chunks_1'"
    )[0][0]
    app.close()

    with (place / JOURNAL_NAME).open("r+b") as file:
        file.seek((page - 1) * 4096)
        content = file.read(4096)
        keys = [at for at in range(4096) if content.startswith(b"run-z", at)]
        file.seek((page - 1) * 4096 + keys[entry])
        file.write(b"run-a")

    assert 7 == len(keys)
    assert "the index of output_chunks by run_id does not lead to row" in first_bad(place)[1]


KEYS = {"sqlite_autoindex_stored_events_1": b"account-", "sqlite_autoindex_partials_1": b"run-z"}


@pytest.mark.parametrize("index", KEYS)
def test_an_index_that_does_not_lead_to_a_row_is_found(place: Path, index: str) -> None:
    app = open_sqlite(place, CODEC, minting())
    append(app.store, deciding(guards={}, writes=[PartialWrite("run-z", 1, NULL)]))
    root = app.store.datastore.read("SELECT rootpage FROM sqlite_master WHERE name = ?", (index,))[0][0]
    app.close()
    with (place / JOURNAL_NAME).open("r+b") as file:
        content = file.read()
        file.seek(content.index(KEYS[index], (root - 1) * 4096))
        file.write(b"_")

    position, problem = first_bad(place)

    assert "does not lead to row" in problem
    assert (position is None) == (index == "sqlite_autoindex_partials_1")


def unindexed(place: Path, statement: str) -> None:
    """Change the table of facts while SQLite does not know of the index of correlations."""
    name = "stored_events_correlation"
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        row = connection.execute("SELECT * FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    for change, parameters in (
        ("DELETE FROM sqlite_master WHERE name = ?", (name,)),
        (statement, ()),
        ("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row),
    ):
        with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(change, parameters)
            connection.commit()


def test_a_row_without_an_entry_and_an_entry_without_a_row_are_found(place: Path, tmp_path: Path) -> None:
    alter(place, "UPDATE stored_events SET correlation_id = NULL WHERE position = 3")
    unindexed(place, "UPDATE stored_events SET correlation_id = 'c' WHERE position = 3")
    other = filled(tmp_path / "other")
    alter(other, "UPDATE stored_events SET correlation_id = 'x' WHERE position = 1")
    unindexed(other, "UPDATE stored_events SET correlation_id = NULL WHERE position = 1")
    position, problem = verified(other).first_bad_position, verified(other).problem

    assert (3, "the index of stored_events by correlation_id does not lead to row 3") == first_bad(place)
    assert position is None
    assert problem is not None
    assert re.fullmatch(r"the index of stored_events by correlation_id has (\d+) entries for \d+ rows", problem)


def test_pages_are_checked_by_sqlite_itself_table_by_table(place: Path) -> None:
    steps: list[tuple[int, int]] = []
    app = open_readonly(place, CODEC)
    sound = app.store.check_pages(lambda done, total: steps.append((done, total)))
    app.close()
    unindexed(place, "UPDATE stored_events SET correlation_id = 'd' WHERE position = 3")
    app = open_readonly(place, CODEC)
    found = app.store.check_pages()
    app.close()

    assert sound is None
    assert steps == [(step, len(steps) - 1) for step in range(len(steps))]
    assert found is not None
    assert found.startswith("stored_events: row 3 missing from index stored_events_correlation")


def test_a_single_flipped_bit_is_never_silent(place: Path, tmp_path: Path) -> None:
    sound = (place / JOURNAL_NAME).read_bytes()
    facts = content(place)
    chance = random.Random(20260101)
    silent = []
    for number in range(100):
        spoiled = tmp_path / f"flip-{number}"
        spoiled.mkdir()
        place_of_bit = chance.randrange(len(sound) * 8)
        altered = bytearray(sound)
        altered[place_of_bit // 8] ^= 1 << place_of_bit % 8
        (spoiled / JOURNAL_NAME).write_bytes(altered)
        if not noticed(spoiled) and content(spoiled) != facts:
            silent.append(place_of_bit)

    assert [] == silent


def noticed(place: Path) -> bool:
    """Whether the start or the verification says that something is wrong, in the journal's own words."""
    try:
        app = open_sqlite(place, CODEC, minting())
    except JournalError:
        return True
    verdict = app.store.verify()
    app.close()
    return not verdict.ok


def content(place: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(place / JOURNAL_NAME)) as connection:
        return connection.execute("SELECT * FROM stored_events ORDER BY position").fetchall()


def test_a_table_whose_making_is_no_text_any_more_is_named_in_one_line(place: Path) -> None:
    content = (place / JOURNAL_NAME).read_bytes()
    (place / JOURNAL_NAME).write_bytes(content.replace(b"CREATE TABLE", b"CR\xc5ATE TABLE"))

    with pytest.raises(JournalDamaged, match=r"malformed database schema .* near .*CR\\xc5ATE") as refused:
        open_sqlite(place, CODEC, minting())
    with pytest.raises(JournalDamaged, match=r"malformed database schema .* near .*CR\\xc5ATE"):
        open_readonly(place, CODEC)
    assert "\n" not in str(refused.value)


def test_an_empty_journal_is_sound(tmp_path: Path) -> None:
    app = open_sqlite(tmp_path, CODEC, minting())

    assert (True, 0) == (app.store.verify().ok, app.store.verify().facts)
    app.close()
