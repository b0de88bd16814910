"""Read, decide, append: what `execute` promises to whoever asks, on every backend."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from domain.refusal import Refusal
from domain.values import Moment
from journal.commit import Context, Decision, Entry, Journal
from journal.errors import IdempotencyMismatch, JournalClosed, JournalContended
from journal.mapper import Meta, Recorded
from journal.registers import ChunkWrite
from tests.journal.accounts import NOON, AccountOpened, Deposited, command, deposit, execute, facts_in


async def test_a_decision_is_answered_with_its_facts_in_their_places(journal: Journal) -> None:
    done = await execute(journal, deposit(journal, "account-a", 5))

    assert (5, 1, False) == (done.answer, done.position, done.repeated)
    assert [(1, "account-a", 1, Deposited(amount=5))] == [
        (fact.position, fact.stream, fact.version, fact.fact) for fact in done.facts
    ]
    assert list(done.facts) == journal.store.facts_after(0, 10)
    assert (1, 5) == (journal.position, journal.streams.load("account-a").balance)


async def test_every_fact_says_who_recorded_it_when_and_because_of_what(journal: Journal) -> None:
    def decide(_: Moment) -> Decision[int]:
        entries = [
            Entry("account-a", AccountOpened(owner="ada"), "x"),
            Entry("account-b", AccountOpened(owner="bob"), "y"),
            Entry("account-a", Deposited(amount=1), "x"),
            Entry("account-b", Deposited(amount=2), "y"),
        ]
        return Decision(entries, {"account-a": 0, "account-b": 0}, 0)

    context = Context("acme", "leader:ada", "cause", "00-trace", "k", "digest")
    facts = (await execute(journal, decide, context=context)).facts

    assert ["cause", "cause", facts[0].meta.fact_id, facts[1].meta.fact_id] == [f.meta.causation_id for f in facts]
    assert [1, 1, 2, 2] == [fact.version for fact in facts]
    assert {("acme", "leader:ada", "00-trace", "k")} == {
        (f.meta.tenant, f.meta.principal, f.meta.traceparent, f.meta.command_id) for f in facts
    }
    assert 4 == len({fact.meta.fact_id for fact in facts})


async def test_a_command_without_a_cause_is_the_cause_of_its_first_fact(journal: Journal) -> None:
    done = await execute(journal, deposit(journal, "account-a"), context=command("k"))

    assert "k" == done.facts[0].meta.causation_id


@pytest.mark.origin("D38")
async def test_a_decision_that_comes_to_nothing_appends_and_remembers_nothing(journal: Journal) -> None:
    done = await execute(journal, lambda _: Decision((), {"account-a": 0}, 7), context=command("k"))

    assert (7, None, ()) == (done.answer, done.position, done.facts)
    assert (None, 0) == (journal.store.command("k"), journal.position)


async def test_a_refusal_reaches_the_caller_and_is_not_remembered(journal: Journal) -> None:
    def refuse(_: Moment) -> Decision[int]:
        message = "the account is closed"
        raise Refusal(message, account="account-a")

    with pytest.raises(Refusal):
        await execute(journal, refuse, locks=["a"], context=command("k"))
    done = await execute(journal, deposit(journal, "account-a"), locks=["a"], context=command("k"))

    assert (False, 1) == (done.repeated, journal.position)


@pytest.mark.origin("B27")
async def test_a_repeated_command_gets_the_first_answer_and_does_nothing(journal: Journal) -> None:
    first = await execute(journal, deposit(journal, "account-a", 5), context=command("k"))
    await execute(journal, deposit(journal, "account-a", 1))
    again = await execute(journal, deposit(journal, "account-a", 5), context=command("k"))

    assert (5, 1, True, ()) == (again.answer, again.position, again.repeated, again.facts)
    assert first.position == again.position
    assert 6 == journal.streams.load("account-a").balance


@pytest.mark.origin("B27")
async def test_a_repeated_command_gets_its_answer_even_if_it_would_be_refused_by_now(journal: Journal) -> None:
    await execute(journal, deposit(journal, "account-a", 5), context=command("k"))

    def refuse(_: Moment) -> Decision[int]:
        message = "the account is closed"
        raise Refusal(message, account="account-a")

    assert 5 == (await execute(journal, refuse, context=command("k"))).answer


async def test_what_a_tool_wrote_through_the_library_is_told_and_decided_upon(journal: Journal) -> None:
    heard: list[int] = []
    journal.listeners.append(lambda facts: heard.extend(fact.position for fact in facts))
    await execute(journal, deposit(journal, "account-a", 1))
    written = Recorded(0, "account-a", 2, "account.deposited.v1", Deposited(amount=10), Meta("f", NOON))
    journal.application.events.put([written])

    done = await execute(journal, deposit(journal, "account-a", 100))

    assert (111, 3, [1, 2, 3]) == (done.answer, done.position, heard)


async def test_a_command_repeated_while_the_first_is_under_way_waits_for_its_answer(journal: Journal) -> None:
    results = await asyncio.gather(
        *(execute(journal, deposit(journal, "account-a", 5), context=command("k")) for _ in range(10))
    )

    assert {5} == {done.answer for done in results}
    assert [False] + [True] * 9 == sorted(done.repeated for done in results)
    assert 1 == journal.position


@pytest.mark.origin("B27")
async def test_a_command_id_is_refused_to_another_request(journal: Journal) -> None:
    await execute(journal, deposit(journal, "account-a"), context=command("k", "one"))

    with pytest.raises(IdempotencyMismatch) as caught:
        await execute(journal, deposit(journal, "account-a"), context=command("k", "two"))

    assert ("idempotency_mismatch", {"command_id": "k"}) == (caught.value.code, caught.value.fields())
    assert 1 == journal.position


@pytest.mark.origin("D34b")
async def test_decisions_that_race_for_one_stream_are_all_made_on_what_was_true(journal: Journal) -> None:
    results = await asyncio.gather(*(execute(journal, deposit(journal, "account-a")) for _ in range(8)))

    assert list(range(1, 9)) == sorted(done.answer for done in results)
    assert [(n, "account-a", n) for n in range(1, 9)] == facts_in(journal)


@pytest.mark.origin("D34b")
async def test_a_decision_is_made_again_when_a_stream_that_it_only_read_has_moved(journal: Journal) -> None:
    seen: list[int] = []

    def decide(_: Moment) -> Decision[int]:
        source = journal.streams.load("account-a")
        target = journal.streams.load("account-b")
        seen.append(source.balance)
        guards = {"account-a": source.version, "account-b": target.version}
        return Decision([Entry("account-b", Deposited(amount=source.balance))], guards, source.balance)

    both = await asyncio.gather(execute(journal, deposit(journal, "account-a", 9)), execute(journal, decide))

    assert ([0, 9], [9, 9]) == (seen, [done.answer for done in both])


async def test_a_decision_that_always_loses_is_given_up_after_a_bounded_number_of_attempts(journal: Journal) -> None:
    made = 0

    def stale(_: Moment) -> Decision[int]:
        nonlocal made
        made += 1
        return Decision([Entry("account-a", Deposited(amount=1))], {"account-a": 3}, 0)

    with pytest.raises(JournalContended) as caught:
        await execute(journal, stale)

    assert (8, "journal_contended", 1) == (made, caught.value.code, caught.value.retry_after_s)
    assert ("account-a", 0) == (caught.value.fields()["stream"], journal.position)


async def test_a_decision_that_writes_what_it_did_not_read_is_a_bug_and_appends_nothing(journal: Journal) -> None:
    with pytest.raises(KeyError):
        await execute(journal, lambda _: Decision([Entry("account-a", Deposited(amount=1))], {}, 0), locks=["a"])

    assert 0 == journal.position
    assert 1 == (await execute(journal, deposit(journal, "account-a"), locks=["a"])).position


async def test_decisions_with_a_lock_in_common_are_made_one_after_another(journal: Journal) -> None:
    made: list[str] = []

    async def one(name: str, locks: Sequence[str]) -> None:
        def decide(_: Moment) -> Decision[int]:
            made.append(name)
            return deposit(journal, f"account-{name}")(_)  # type: ignore[no-any-return]

        await execute(journal, decide, locks=locks)
        made.append(f"{name} done")

    await asyncio.gather(one("a", ["x", "y"]), one("b", ["y", "x"]), one("c", ["z"]))

    assert made.index("a done") < made.index("b")
    assert made.index("c") < made.index("a done")


async def test_no_lock_is_left_behind(journal: Journal) -> None:
    await asyncio.gather(
        *(
            execute(journal, deposit(journal, f"account-{n}"), locks=["x", str(n)], context=command(f"k{n % 3}"))
            for n in range(20)
        ),
        return_exceptions=True,
    )

    assert 0 == len(journal._locks)


async def test_listeners_hear_of_facts_in_order_and_before_anybody_is_answered(journal: Journal) -> None:
    heard: list[int] = []
    journal.listeners.append(lambda facts: heard.extend(fact.position for fact in facts))

    async def one(number: int) -> bool:
        done = await execute(journal, deposit(journal, f"account-{number}"))
        return done.position in heard

    answered_after = await asyncio.gather(*(one(number) for number in range(50)))

    assert all(answered_after)
    assert list(range(1, 51)) == heard


@pytest.mark.origin("A43")
async def test_a_listener_that_fails_is_noted_and_stops_nobody(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def fail(_: Sequence[Recorded]) -> None:
        message = "broken"
        raise ValueError(message)

    journal.listeners.extend([fail, lambda facts: heard.append(facts[-1].position)])

    done = await execute(journal, deposit(journal, "account-a"))

    assert (1, [1]) == (done.position, heard)
    assert "listener failed at position 1: ValueError('broken')" == journal.fault
    assert "a listener failed" in caplog.text


async def test_registers_are_written_with_the_facts_and_seen_after_them(journal: Journal) -> None:
    assert 0 == journal.registers.output_mark("r", 1).chunks

    chunk = ChunkWrite("r", 1, 0, "stdout", "hello", "digest")
    done = await execute(journal, deposit(journal, "account-a", 1, [chunk]))
    only = await execute(journal, lambda _: Decision((), {}, 0, [ChunkWrite("r", 1, 1, "stdout", "!", "next")]))

    assert (1, None) == (done.position, only.position)
    assert (2, 6, "next") == (
        journal.registers.output_mark("r", 1).chunks,
        journal.registers.output_mark("r", 1).bytes,
        journal.registers.output_mark("r", 1).digest,
    )


async def test_a_large_decision_is_one_append(journal: Journal) -> None:
    def decide(_: Moment) -> Decision[int]:
        entries = [Entry(f"account-{n}", Deposited(amount=n)) for n in range(3_000)]
        return Decision(entries, {entry.stream: 0 for entry in entries}, 0)

    done = await execute(journal, decide)

    assert (3_000, 3_000) == (done.position, len(journal.store.facts_after(0, 5_000)))
    assert journal.verify().ok


async def test_what_is_asked_while_the_journal_closes_is_refused_and_what_was_asked_before_is_finished(
    journal: Journal,
) -> None:
    before = asyncio.create_task(execute(journal, deposit(journal, "account-a")))
    await asyncio.sleep(0)
    closing = asyncio.create_task(journal._writer.close())
    await asyncio.sleep(0)

    with pytest.raises(JournalClosed):
        await execute(journal, deposit(journal, "account-b"))
    await closing

    assert 1 == (await before).position


async def test_draining_waits_for_what_is_under_way(journal: Journal) -> None:
    running: list[asyncio.Task[Any]] = [
        asyncio.create_task(execute(journal, deposit(journal, f"account-{n}"))) for n in range(20)
    ]
    await asyncio.sleep(0)
    await journal.drain()

    assert (20, 0) == (journal.position, journal.queued)
    await asyncio.gather(*running)


async def test_the_last_append_is_dated_by_the_decision(journal: Journal) -> None:
    assert journal.last_append_at is None
    done = await execute(journal, deposit(journal, "account-a"))

    assert done.facts[0].meta.recorded_at == journal.last_append_at


async def test_one_can_wait_until_nobody_decides_about_a_run(journal: Journal) -> None:
    running = asyncio.create_task(execute(journal, deposit(journal, "account-a"), locks=["a"]))
    await asyncio.sleep(0)
    await journal.quiet("a")

    assert 1 == journal.position
    await running
    await journal.quiet("a")
    assert 0 == len(journal._locks)
