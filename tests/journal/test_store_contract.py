"""What a store promises, told once and asked of every backend."""

from typing import Any

import pytest
from eventsourcing.persistence import IntegrityError, OperationalError

from domain.values import Json
from journal.application import MemoryJournal, SQLiteJournal
from journal.chain import Tail
from journal.errors import CommandRecorded, EpochChanged, JournalTaken, StaleRead
from journal.mapper import Meta, Recorded, projector
from journal.opening import renew_epoch
from journal.pending import Batch
from journal.registers import ChunkWrite, OutputMark, PartialWrite, running_digest
from tests.journal.accounts import (
    CODEC,
    NOON,
    Account,
    Deposited,
    answered,
    append,
    deciding,
    evolve,
    stored,
)

pytestmark = pytest.mark.origin("B16")

App = SQLiteJournal | MemoryJournal


def places(facts: list[Recorded]) -> list[tuple[int, str, int]]:
    return [(fact.position, fact.stream, fact.version) for fact in facts]


def test_facts_of_several_streams_are_numbered_in_the_order_of_their_append(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1), stored("account-b", 1)), deciding(stored("account-a", 2)))

    assert [(1, "account-a", 1), (2, "account-b", 1), (3, "account-a", 2)] == places(app.store.facts_after(0, 10))
    assert 3 == app.store.load_tail().position


def test_an_append_over_several_streams_happens_whole_or_not_at_all(app: App) -> None:
    append(app.store, deciding(stored("account-b", 1)))

    with pytest.raises(IntegrityError):
        append(app.store, deciding(stored("account-a", 1), stored("account-b", 1)))

    assert [(1, "account-b", 1)] == places(app.store.facts_after(0, 10))
    assert 0 == app.store.head("account-a")


def test_one_contradiction_in_a_batch_keeps_the_whole_batch_out(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))

    with pytest.raises(IntegrityError):
        append(app.store, deciding(stored("account-b", 1)), deciding(stored("account-a", 1)))

    assert 1 == app.store.load_tail().position == app.store.tail.position


def test_one_after_another_only_the_guilty_decision_is_refused(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))
    before, guilty, after = (
        deciding(stored("account-b", 1)),
        deciding(stored("account-a", 1)),
        deciding(stored("account-c", 1)),
    )

    app.store.append_each([before, guilty, after])

    assert (None, None) == (before.error, after.error)
    assert isinstance(guilty.error, StaleRead)
    assert (2, 3) == (before.first, after.first)
    assert [(2, "account-b", 1), (3, "account-c", 1)] == places(app.store.facts_after(1, 10))
    assert app.store.verify().ok


def test_a_version_that_exists_is_refused(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))

    with pytest.raises(IntegrityError):
        append(app.store, deciding(stored("account-a", 1, 5)))


@pytest.mark.parametrize("version", [2, 5, 0, -1])
def test_a_version_without_the_one_before_it_is_refused(app: App, version: int) -> None:
    with pytest.raises(IntegrityError):
        append(app.store, deciding(stored("account-a", version)))

    assert 0 == app.store.head("account-a") == app.store.load_tail().position


def test_a_gap_in_the_middle_of_a_batch_is_refused(app: App) -> None:
    with pytest.raises(IntegrityError):
        append(app.store, deciding(stored("account-a", 1)), deciding(stored("account-a", 3)))

    assert [] == app.store.facts_after(0, 10)


def test_a_stream_that_was_only_read_guards_as_well_as_one_that_is_written(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))
    stale = deciding(stored("account-b", 1), guards={"account-b": 0, "account-a": 0})
    sound = deciding(stored("account-c", 1), guards={"account-c": 0, "account-a": 1})

    app.store.append_each([stale, sound])

    assert isinstance(stale.error, StaleRead)
    assert ("account-a", 0, 1) == tuple(stale.error.fields().values())
    assert [(2, "account-c", 1)] == places(app.store.facts_after(1, 10))


def test_a_guard_sees_what_the_decisions_before_it_in_the_same_transaction_wrote(app: App) -> None:
    first = deciding(stored("account-a", 1))
    second = deciding(stored("account-b", 1), guards={"account-b": 0, "account-a": 0})

    app.store.append_each([first, second])

    assert isinstance(second.error, StaleRead)
    assert [(1, "account-a", 1)] == places(app.store.facts_after(0, 10))


@pytest.mark.origin("B27")
def test_a_command_id_is_remembered_with_its_answer_and_its_facts(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))
    append(app.store, deciding(stored("account-a", 2), stored("account-a", 3), command=answered("k", b'{"n":1}')))

    assert (("digest", 2, 3, b'{"n":1}'), None) == (app.store.command("k"), app.store.command("other"))


@pytest.mark.origin("B27")
def test_a_command_id_takes_effect_once_and_keeps_its_first_answer(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1), command=answered("k", b"1")))
    again = deciding(stored("account-a", 2), command=answered("k", b"2"))

    with pytest.raises(IntegrityError):
        append(app.store, again)
    app.store.append_each([again])

    assert isinstance(again.error, CommandRecorded)
    assert 1 == app.store.head("account-a")
    assert b"1" == getattr(app.store.command("k"), "answer", None)


def test_a_repeated_command_among_others_is_refused_alone(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1, command_id="k"), command=answered("k")))
    pendings = [
        deciding(stored("account-b", 1)),
        deciding(stored("account-c", 1, command_id="k"), command=answered("k")),
        deciding(stored("account-d", 1, command_id="j"), command=answered("j")),
        deciding(stored("account-e", 1)),
    ]

    app.store.append_each(pendings)

    assert [False, True, False, False] == [isinstance(p.error, CommandRecorded) for p in pendings]
    assert [(2, "account-b", 1), (3, "account-d", 1), (4, "account-e", 1)] == places(app.store.facts_after(1, 10))
    assert app.store.verify().ok


def test_two_decisions_under_one_command_id_do_not_fit_into_one_batch(app: App) -> None:
    with pytest.raises(IntegrityError):
        append(
            app.store,
            deciding(stored("account-a", 1), command=answered("k")),
            deciding(stored("account-b", 1), command=answered("k")),
        )

    assert [] == app.store.facts_after(0, 10)


def test_an_append_under_another_epoch_is_refused(app: App) -> None:
    if isinstance(app, SQLiteJournal):
        renew_epoch(app, lambda: "restored")
    else:
        app.store.stored_epoch = "restored"

    with pytest.raises(EpochChanged) as caught:
        append(app.store, deciding(stored("account-a", 1)))

    assert ("restored", "id-2") == (caught.value.fields()["found"], caught.value.fields()["held"])
    assert [] == app.store.facts_after(0, 10)


def test_an_append_by_a_process_that_is_not_the_writer_any_more_is_refused(app: App) -> None:
    app.store.writer = "before"

    for append_ in (app.store.append, lambda batch: app.store.append_each(batch.accepted)):
        with pytest.raises(JournalTaken) as caught:
            append_(Batch.of([deciding(stored("account-a", 1))], app.store.tail))
        assert "before" == caught.value.fields()["held"] != caught.value.fields()["found"]
    assert [] == app.store.facts_after(0, 10)


def test_an_append_that_expects_another_end_of_the_journal_is_refused(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))

    with pytest.raises(OperationalError):
        app.store.append(Batch.of([deciding(stored("account-b", 1))], Tail(0, b"")))

    assert 1 == app.store.load_tail().position


def test_facts_are_read_in_bounded_pieces(app: App) -> None:
    append(app.store, *(deciding(stored("account-a", version)) for version in range(1, 8)))

    assert [1, 2, 3] == [fact.position for fact in app.store.facts_after(0, 3)]
    assert [4, 5] == [fact.position for fact in app.store.facts_after(3, 10, upto=5)]
    assert [] == app.store.facts_after(7, 10)


def test_facts_of_one_correlation_are_read_across_streams(app: App) -> None:
    append(
        app.store,
        deciding(stored("account-a", 1, correlation="x"), stored("account-b", 1, correlation="y")),
        deciding(stored("account-c", 1, correlation="x"), stored("account-d", 1, correlation=None)),
    )

    assert [(1, "account-a", 1), (3, "account-c", 1)] == places(app.store.facts_of("x", 0, 10))
    assert [(3, "account-c", 1)] == places(app.store.facts_of("x", 1, 10))
    assert [(1, "account-a", 1)] == places(app.store.facts_of("x", 0, 1))
    assert (3, 2, 0) == tuple(app.store.last_position(name) for name in ("x", "y", "z"))


def test_the_streams_of_one_correlation_are_named_in_the_order_in_which_they_began(app: App) -> None:
    for stream, correlation in (("b-1", "r1"), ("a-9", "r1"), ("b-2", "r2"), ("b-0", "r1"), ("b-3", None)):
        append(app.store, deciding(stored(stream, 1, correlation=correlation)))
    append(app.store, deciding(stored("b-1", 2, correlation="r1")))

    assert ["b-1", "b-0"] == app.store.streams_of("r1", "b-", 10)
    assert ["b-0"] == app.store.streams_of("r1", "b-", 1)
    assert [] == app.store.streams_of("r3", "b-", 10)


def test_facts_in_the_streams_of_a_run_are_filed_under_it_with_those_filed_elsewhere(app: App) -> None:
    append(
        app.store,
        deciding(stored("run-x", 1, correlation="x"), stored("run-y", 1, correlation="y")),
        deciding(stored("account-a", 1, correlation="x"), stored("worker-x", 1, correlation=None)),
        deciding(stored("lease-x", 1, correlation="x"), stored("effects-x", 1, correlation="x")),
    )

    assert [1, 3, 5, 6] == [fact.position for fact in app.store.facts_of("x", 0, 10)]
    assert [3, 5] == [fact.position for fact in app.store.facts_of("x", 1, 2)]
    assert [6, 2, 0] == [app.store.last_position(run) for run in ("x", "y", "z")]
    assert app.store.verify().ok


def test_a_stream_is_read_whole_and_by_version(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1, 10)), deciding(stored("account-b", 1)))
    append(app.store, deciding(stored("account-a", 2, 20)))

    facts = app.store.stream("account-a")

    assert [Deposited(amount=10), Deposited(amount=20)] == [fact.fact for fact in facts]
    assert [] == app.store.stream("account-z")
    assert (3, stored("account-a", 2, 20)[3]) == app.store.stored_at("account-a", 2)
    assert [None] * 3 == [
        app.store.stored_at("account-a", 3),
        app.store.stored_at("account-a", 0),
        app.store.stored_at("account-z", 1),
    ]


def test_user_json_comes_back_as_the_very_bytes_that_were_sent(app: App) -> None:
    odd = b'{"_type_": "x",   "_data_":[1.0, 1e3, "\\u00e9"], "_type_":2}'
    meta = Meta("f", NOON)
    state = CODEC.encode(meta, Deposited(amount=1, note=Json(odd)))
    append(app.store, deciding(("account-a", 1, "account.deposited.v1", state, None)))

    fact: Any = app.store.stream("account-a")[0].fact

    assert odd == bytes(fact.note)


def test_output_is_read_in_the_order_of_fence_and_sequence_number(app: App) -> None:
    writes = [
        ChunkWrite("r", 2, 0, "stdout", "d", "4"),
        ChunkWrite("r", 1, 1, "stderr", "é", "2"),
        ChunkWrite("r", 1, 0, "stdout", "a", "3"),
        ChunkWrite("other", 1, 0, "stdout", "z", "9"),
    ]
    append(app.store, deciding(guards={}, writes=writes))

    chunks = app.store.chunks("r", None, 10)

    assert [(1, 0, "a"), (1, 1, "é"), (2, 0, "d")] == [(c.fence, c.seq, c.data) for c in chunks]
    assert [(2, 0)] == [(c.fence, c.seq) for c in app.store.chunks("r", (1, 1), 10)]
    assert [(1, 0)] == [(c.fence, c.seq) for c in app.store.chunks("r", None, 1)]
    assert (OutputMark(2, 3, "3", 1), OutputMark()) == (app.store.output_mark("r", 1), app.store.output_mark("r", 9))
    assert (True, False) == (app.store.has_chunk("r", 1, 1), app.store.has_chunk("r", 1, 2))


def test_a_chunk_is_recorded_once(app: App) -> None:
    chunk = ChunkWrite("r", 1, 0, "stdout", "a", "1")
    append(app.store, deciding(guards={}, writes=[chunk]))
    again = deciding(guards={}, writes=[chunk])

    with pytest.raises(IntegrityError):
        append(app.store, again)
    app.store.append_each([again])

    assert isinstance(again.error, StaleRead)
    assert OutputMark(1, 1, "1", 0) == app.store.output_mark("r", 1)


def test_the_latest_partial_of_the_latest_fence_is_kept_with_its_count(app: App) -> None:
    for fence, body in ((1, b"1"), (1, b"2"), (3, b"3"), (2, b"4")):
        append(app.store, deciding(guards={}, writes=[PartialWrite("r", fence, Json(body))]))

    partial = app.store.partial("r")

    assert partial is not None
    assert (3, b"3", 1) == (partial.fence, bytes(partial.body), partial.saved)
    assert app.store.partial("other") is None


def test_a_partial_saved_twice_is_one_partial_that_was_saved_twice(app: App) -> None:
    for body in (b"1", b"2"):
        append(app.store, deciding(guards={}, writes=[PartialWrite("r", 1, Json(body))]))

    partial = app.store.partial("r")

    assert partial is not None
    assert (b"2", 2) == (bytes(partial.body), partial.saved)


def test_registers_and_facts_of_one_decision_stand_or_fall_together(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))
    lost = deciding(stored("account-a", 1), writes=[PartialWrite("r", 1, Json(b"1"))])
    kept = deciding(stored("account-b", 1), writes=[PartialWrite("q", 1, Json(b"2"))])

    app.store.append_each([lost, kept])

    assert (None, 1) == (app.store.partial("r"), getattr(app.store.partial("q"), "saved", 0))


def test_the_running_digest_tells_other_chunks_and_other_borders_apart() -> None:
    digests = {
        running_digest("", 0, "stdout", "ab"),
        running_digest("", 1, "stdout", "ab"),
        running_digest("", 0, "stderr", "ab"),
        running_digest("", 0, "stdout", "a"),
        running_digest(running_digest("", 0, "stdout", "a"), 1, "stdout", "b"),
    }

    assert 5 == len(digests)


def test_a_sound_journal_is_found_sound(app: App) -> None:
    append(app.store, *(deciding(stored("account-a", version)) for version in range(1, 6)))

    verdict = app.store.verify()

    assert (True, 5, None, None) == (verdict.ok, verdict.facts, verdict.first_bad_position, verdict.problem)


def test_the_librarys_repository_folds_what_we_wrote(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1, 10)), deciding(stored("account-a", 2, 20)))

    account: Any = app.repository.get("account-a", projector_func=projector(evolve, Account()))

    assert Account(version=2, balance=30) == account


def test_the_librarys_notification_log_reads_what_we_wrote(app: App) -> None:
    append(app.store, *(deciding(stored("account-a", version)) for version in range(1, 8)))
    log = app.notification_log

    assert [3, 4, 5] == [notification.id for notification in log.select(3, 3)]
    assert [4, 5] == [n.id for n in log.select(3, 10, stop=5, inclusive_of_start=False)]
    assert [] == log.select(1, 10, topics=["account.opened.v1"])
    assert 7 == app.recorder.max_notification_id()
    assert 6 == app.mapper.to_domain_event(log.select(6, 1)[0]).position  # type: ignore[attr-defined]


def test_what_the_library_writes_joins_the_same_chain(app: App) -> None:
    append(app.store, deciding(stored("account-a", 1)))
    recorded = Recorded(0, "account-a", 2, "account.deposited.v1", Deposited(amount=5), Meta("f", NOON, None, "c"))

    recordings = app.events.put([recorded])
    append(app.store, deciding(stored("account-a", 3)))

    assert [2] == [recording.notification.id for recording in recordings]
    assert [1, 2, 3] == [fact.position for fact in app.store.facts_of("c", 0, 10)]
    assert app.store.verify().ok


def test_the_library_is_refused_a_gap_like_anybody_else(app: App) -> None:
    recorded = Recorded(0, "account-a", 2, "account.deposited.v1", Deposited(amount=5), Meta("f", NOON))

    with pytest.raises(IntegrityError):
        app.save(recorded)

    assert 0 == app.store.load_tail().position
