"""Folded states: read on a miss, moved on by durable facts, dropped whenever anything is doubtful."""

import pytest

from domain.values import NULL
from journal.mapper import Meta, Recorded
from journal.streams import Streams
from journal.topics import Fold
from tests.journal.accounts import FOLDS, NOON, Account, Deposited


class Source:
    """Streams as stored; counts how often one is read."""

    def __init__(self) -> None:
        self.facts: dict[str, list[Recorded]] = {}
        self.read: list[str] = []

    def stream(self, name: str) -> list[Recorded]:
        self.read.append(name)
        return list(self.facts.get(name, ()))

    def add(self, stream: str, amount: int = 1) -> Recorded:
        facts = self.facts.setdefault(stream, [])
        position = sum(map(len, self.facts.values())) + 1
        meta = Meta("f", NOON)
        facts.append(Recorded(position, stream, len(facts) + 1, "account.deposited.v1", Deposited(amount=amount), meta))
        return facts[-1]


def test_a_stream_is_read_once_and_then_remembered() -> None:
    source = Source()
    source.add("account-a", 5)
    streams = Streams(source, FOLDS)

    assert [5, 5] == [streams.load("account-a").balance for _ in range(2)]
    assert ["account-a"] == source.read


def test_a_stream_without_facts_has_its_kinds_initial_state() -> None:
    assert Account() == Streams(Source(), FOLDS).load("account-new")


def test_a_kind_of_stream_that_nobody_folds_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Streams(Source(), FOLDS).load("unicorn-a")


def test_a_remembered_state_moves_on_with_durable_facts() -> None:
    source = Source()
    streams = Streams(source, FOLDS)
    streams.load("account-a")

    streams.apply([source.add("account-a", 2), source.add("account-a", 3)])

    assert (5, ["account-a"]) == (streams.load("account-a").balance, source.read)


def test_a_new_stream_is_remembered_from_its_first_fact() -> None:
    source = Source()
    streams = Streams(source, FOLDS)

    streams.apply([source.add("account-a", 2)])

    assert (2, []) == (streams.load("account-a").balance, source.read)


def test_facts_of_a_stream_that_is_not_remembered_are_left_for_the_next_read() -> None:
    source = Source()
    source.add("account-a", 2)
    streams = Streams(source, FOLDS)

    streams.apply([source.add("account-a", 3)])

    assert (5, ["account-a"]) == (streams.load("account-a").balance, source.read)


def test_a_fact_that_was_already_read_is_not_folded_again() -> None:
    source = Source()
    fact = source.add("account-a", 2)
    streams = Streams(source, FOLDS)
    streams.load("account-a")

    streams.apply([fact])

    assert (2, ["account-a"]) == (streams.load("account-a").balance, source.read)


def test_a_fact_that_does_not_follow_makes_the_stream_be_read_again() -> None:
    source = Source()
    streams = Streams(source, FOLDS)
    streams.load("account-a")
    source.add("account-a", 2)

    streams.apply([source.add("account-a", 3)])

    assert 5 == streams.load("account-a").balance


def test_a_fold_that_fails_is_tried_again_on_the_next_read(caplog: pytest.LogCaptureFixture) -> None:
    failures = [True]

    def evolve(account: Account, fact: Deposited) -> Account:
        if failures and failures.pop():
            message = "broken"
            raise ValueError(message)
        return Account(version=account.version + 1, balance=account.balance + fact.amount)

    source = Source()
    streams = Streams(source, {"account": Fold(Account(), evolve)})
    streams.load("account-a")

    streams.apply([source.add("account-a", 2)])

    assert 2 == streams.load("account-a").balance
    assert "folding account-a@1 failed" in caplog.text


def test_an_evicted_state_is_read_again() -> None:
    source = Source()
    streams = Streams(source, FOLDS)
    streams.load("account-a")
    source.add("account-a", 2)

    streams.evict(["account-a", "account-unheard-of"])

    assert 2 == streams.load("account-a").balance


def test_the_longest_unused_state_is_dropped_at_the_bound() -> None:
    source = Source()
    streams = Streams(source, FOLDS, max_states=2)
    for name in ("account-a", "account-b", "account-a", "account-c"):
        streams.load(name)
    source.read.clear()

    for name in ("account-a", "account-c", "account-b"):
        streams.load(name)

    assert ["account-b"] == source.read


def test_new_streams_do_not_grow_the_cache_beyond_its_bound() -> None:
    source = Source()
    streams = Streams(source, FOLDS, max_states=2)

    streams.apply([source.add(f"account-{n}") for n in range(5)])
    streams.load("account-4")
    streams.load("account-0")

    assert ["account-0"] == source.read
    assert b"null" == bytes(NULL)
