"""Storage that fails in the middle: nothing acknowledged is lost, nothing is done twice, and the writer goes on."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from domain.values import Json
from journal.commit import Journal
from journal.datastore import JournalConnection
from journal.errors import EpochChanged, JournalContended, OutcomeUnknown, UnreadableStorage
from journal.opening import renew_epoch
from journal.registers import PartialWrite
from tests.journal.accounts import CALLER, command, deposit, execute, facts_in

Patch = pytest.MonkeyPatch


def broken(what: str) -> sqlite3.OperationalError:
    return sqlite3.OperationalError(what)


@contextlib.contextmanager
def failing_commits(patch: Patch, *, after_it_happened: bool) -> Iterator[None]:
    """Every COMMIT raises: instead of happening, or although it happened."""
    commit = JournalConnection.commit

    def fail(self: JournalConnection) -> None:
        if after_it_happened:
            commit(self)
        message = "disk I/O error"
        raise broken(message)

    with patch.context() as injected:
        injected.setattr(JournalConnection, "commit", fail)
        yield


@contextlib.contextmanager
def unreadable_tail(journal: Journal, patch: Patch) -> Iterator[None]:
    """Nobody can read where the journal ends."""

    def fail() -> Any:
        problem = "disk I/O error"
        raise UnreadableStorage(problem)

    with patch.context() as injected:
        injected.setattr(journal.store, "load_tail", fail)
        yield


async def test_an_append_that_fails_is_answered_as_unknown_and_changes_nothing(
    on_disk: Journal, monkeypatch: Patch
) -> None:
    await execute(on_disk, deposit(on_disk, "account-a", 1))

    with failing_commits(monkeypatch, after_it_happened=False), pytest.raises(OutcomeUnknown) as caught:
        await execute(on_disk, deposit(on_disk, "account-a", 5), locks=["a"], context=command("k"))

    assert ("outcome_unknown", 1, "k") == (
        caught.value.code,
        caught.value.retry_after_s,
        caught.value.fields()["command_id"],
    )
    assert (1, 1, None) == (on_disk.position, on_disk.streams.load("account-a").balance, on_disk.store.command("k"))
    assert 0 == len(on_disk._locks)


async def test_the_same_command_is_carried_out_once_when_it_is_sent_again_after_a_failure(
    on_disk: Journal, monkeypatch: Patch
) -> None:
    with failing_commits(monkeypatch, after_it_happened=False), pytest.raises(OutcomeUnknown):
        await execute(on_disk, deposit(on_disk, "account-a", 5), context=command("k"))

    done = await execute(on_disk, deposit(on_disk, "account-a", 5), context=command("k"))

    assert (5, 1, False) == (done.answer, done.position, done.repeated)
    assert on_disk.verify().ok


@pytest.mark.parametrize("context", [command("k"), CALLER], ids=["with an id", "without one"])
async def test_an_append_that_happened_although_it_raised_is_answered_as_done(
    on_disk: Journal, monkeypatch: Patch, context: Any
) -> None:
    heard: list[int] = []
    on_disk.listeners.append(lambda facts: heard.extend(fact.position for fact in facts))

    with failing_commits(monkeypatch, after_it_happened=True):
        done = await execute(on_disk, deposit(on_disk, "account-a", 5), context=context)

    assert (5, 1, [1], [(1, "account-a", 1)]) == (done.answer, done.position, heard, facts_in(on_disk))
    assert 2 == (await execute(on_disk, deposit(on_disk, "account-a", 1))).position


async def test_registers_that_were_written_although_it_raised_are_answered_as_done(
    on_disk: Journal, monkeypatch: Patch
) -> None:
    write = PartialWrite("r", 1, Json(b"1"))
    await execute(on_disk, deposit(on_disk, "account-a"))

    with failing_commits(monkeypatch, after_it_happened=True):
        done = await execute(on_disk, deposit(on_disk, "account-a", 5, [write]), context=command("k"))

    assert (6, 2, False) == (done.answer, done.position, done.repeated)
    assert 1 == getattr(on_disk.registers.partial("r"), "saved", 0)


async def test_what_was_told_before_its_own_turn_is_not_told_twice(on_disk: Journal) -> None:
    heard: list[int] = []
    on_disk.listeners.append(lambda facts: heard.extend(fact.position for fact in facts))
    on_disk._writer.landed = 1  # as after an append behind it that could not be told from a failed one

    done = await execute(on_disk, deposit(on_disk, "account-a", 5))

    assert (1, [1], [1]) == (done.position, [fact.position for fact in done.facts], heard)
    assert 5 == on_disk.streams.load("account-a").balance


async def test_what_landed_while_storage_could_not_tell_is_found_by_its_command_id(
    on_disk: Journal, monkeypatch: Patch
) -> None:
    heard: list[int] = []
    on_disk.listeners.append(lambda facts: heard.extend(fact.position for fact in facts))

    with failing_commits(monkeypatch, after_it_happened=True), unreadable_tail(on_disk, monkeypatch):
        done = await execute(on_disk, deposit(on_disk, "account-a", 5), context=command("k"))

    assert (5, 1, True, [1]) == (done.answer, done.position, done.repeated, heard)
    assert (6, 2) == ((await execute(on_disk, deposit(on_disk, "account-a", 1))).answer, on_disk.position)
    assert [1, 2] == heard


async def test_what_landed_without_a_command_id_is_found_by_its_bytes(on_disk: Journal, monkeypatch: Patch) -> None:
    with failing_commits(monkeypatch, after_it_happened=True), unreadable_tail(on_disk, monkeypatch):
        done = await execute(on_disk, deposit(on_disk, "account-a", 5))

    assert (5, 1, 1, 5) == (done.answer, done.position, len(done.facts), on_disk.streams.load("account-a").balance)


async def test_what_landed_and_could_not_be_found_is_told_before_anything_that_follows(
    on_disk: Journal, monkeypatch: Patch
) -> None:
    heard: list[tuple[int, str]] = []
    on_disk.listeners.append(lambda facts: heard.extend((fact.position, fact.stream) for fact in facts))

    with failing_commits(monkeypatch, after_it_happened=True), unreadable_tail(on_disk, monkeypatch):
        with monkeypatch.context() as injected:
            injected.setattr(on_disk.store, "command", lambda _: None)
            write = PartialWrite("r", 1, Json(b"1"))
            on_disk.registers.partial("r")
            with pytest.raises(OutcomeUnknown):
                await execute(on_disk, deposit(on_disk, "account-a", 5, [write]), context=command("k"))
        assert (0, []) == (on_disk.position, heard)
        with pytest.raises(UnreadableStorage):
            await execute(on_disk, deposit(on_disk, "account-b"))
    await execute(on_disk, deposit(on_disk, "account-c"))

    assert [(1, "account-a"), (2, "account-c")] == heard
    assert 1 == getattr(on_disk.registers.partial("r"), "saved", 0)
    again = await execute(on_disk, deposit(on_disk, "account-a", 5), context=command("k"))
    assert (5, True, 5) == (again.answer, again.repeated, on_disk.streams.load("account-a").balance)
    assert on_disk.verify().ok


async def test_one_guilty_decision_does_not_take_its_batch_with_it(on_disk: Journal, monkeypatch: Patch) -> None:
    refused: list[str] = []
    insert = on_disk.store._insert_events  # type: ignore[attr-defined]

    def contradict(c: Any, stored_events: Any, **kwargs: Any) -> Any:
        streams = {row[0] for pending in kwargs["batch"].accepted for row in pending.rows}
        if "account-3" in streams and len(refused) < 2:
            refused.append(f"{len(streams)} streams")
            message = "UNIQUE constraint failed"
            raise sqlite3.IntegrityError(message)
        return insert(c, stored_events, **kwargs)

    monkeypatch.setattr(on_disk.store, "_insert_events", contradict)

    results = await asyncio.gather(*(execute(on_disk, deposit(on_disk, f"account-{n}")) for n in range(6)))

    assert ["6 streams", "1 streams"] == refused
    assert [1] * 6 == [done.answer for done in results]
    assert [1, 2, 3, 4, 5, 6] == sorted(done.position or 0 for done in results)
    assert 6 == results[3].position
    assert on_disk.verify().ok


async def test_a_full_disk_lets_everybody_read_and_appends_go_on_once_there_is_space(on_disk: Journal) -> None:
    await execute(on_disk, deposit(on_disk, "account-a", 1))
    limit = page_limit(on_disk)
    limit(0)
    big = "x" * 100_000
    write = [PartialWrite("r", 1, Json(f'"{big}"'.encode()))]

    with pytest.raises(OutcomeUnknown, match="full"):
        await execute(on_disk, deposit(on_disk, "account-a", 1, write), locks=["a"])

    assert [(1, "account-a", 1)] == facts_in(on_disk)
    assert (1, None) == (on_disk.streams.load("account-a").balance, on_disk.registers.partial("r"))

    limit(1_000_000)
    done = await execute(on_disk, deposit(on_disk, "account-a", 1, write), locks=["a"])

    assert (2, 2, 1) == (done.answer, done.position, getattr(on_disk.registers.partial("r"), "saved", 0))
    assert on_disk.verify().ok


def page_limit(journal: Journal) -> Callable[[int], None]:
    """Sets how many pages the file may grow by; SQLite then says what it says on a full disk."""

    def limit(pages: int) -> None:
        datastore = journal.store.datastore  # type: ignore[attr-defined]
        with datastore.get_connection(commit=True) as connection:
            cursor = connection.cursor()
            cursor.execute("PRAGMA page_count")
            cursor.execute(f"PRAGMA max_page_count={cursor.fetchone()[0] + pages}")
            cursor.fetchall()

    return limit


async def test_decisions_queued_behind_a_failed_append_are_made_up_again(on_disk: Journal, monkeypatch: Patch) -> None:
    with failing_commits(monkeypatch, after_it_happened=False):
        results = await asyncio.gather(
            *(execute(on_disk, deposit(on_disk, f"account-{n % 7}")) for n in range(1_500)), return_exceptions=True
        )
    assert {OutcomeUnknown, JournalContended} == {type(result) for result in results}
    assert (0, 0, 0) == (on_disk.position, on_disk.queued, len(on_disk._locks))

    await asyncio.gather(*(execute(on_disk, deposit(on_disk, f"account-{n}")) for n in range(1_500)))

    assert (1_500, 0) == (on_disk.position, on_disk.queued)
    assert on_disk.verify().ok


async def test_a_journal_restored_under_a_running_service_is_not_appended_to(on_disk: Journal) -> None:
    await execute(on_disk, deposit(on_disk, "account-a"))
    renew_epoch(on_disk.application, lambda: "restored")  # type: ignore[arg-type]

    with pytest.raises(EpochChanged) as caught:
        await execute(on_disk, deposit(on_disk, "account-a"))

    assert ("epoch_changed", "restored") == (caught.value.code, caught.value.fields()["found"])
    assert [(1, "account-a", 1)] == facts_in(on_disk)
    assert (False, None) == (on_disk.verify().ok, on_disk.verify().first_bad_position)


async def test_a_guard_that_cannot_be_compared_with_storage_appends_nothing(
    on_disk: Journal, monkeypatch: Patch
) -> None:
    await execute(on_disk, deposit(on_disk, "account-a"))
    on_disk._writer._heads.clear()

    def fail(_: str) -> int:
        problem = "disk I/O error"
        raise UnreadableStorage(problem)

    with monkeypatch.context() as injected:
        injected.setattr(on_disk.store, "head", fail)
        with pytest.raises(UnreadableStorage):
            await execute(on_disk, deposit(on_disk, "account-a"))

    assert (1, 2) == (on_disk.position, (await execute(on_disk, deposit(on_disk, "account-a"))).position)


async def test_a_lost_answer_of_a_command_is_found_however_its_append_ended(
    on_disk: Journal, monkeypatch: Patch
) -> None:
    """Somebody else recorded the command between the look-up and the append, as after a lost acknowledgement."""
    first = await execute(on_disk, deposit(on_disk, "account-a", 5), context=command("k"))
    look_up = on_disk.store.command
    asked: list[str] = []

    def late(command_id: str) -> Any:
        asked.append(command_id)
        return None if len(asked) == 1 else look_up(command_id)

    monkeypatch.setattr(on_disk.store, "command", late)
    done = await execute(on_disk, deposit(on_disk, "account-a", 5), context=command("k"))

    assert (first.answer, first.position, True) == (done.answer, done.position, done.repeated)
    assert 5 == on_disk.streams.load("account-a").balance
