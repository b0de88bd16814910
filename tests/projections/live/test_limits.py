"""Limits: leases counted as a set, grants on their way included, and never one too many."""

import pytest

from domain.claiming import LimitReached
from tests.projections.live.parts import QUEUE, WORKER, Books, card

OTHER = ("t", "v")


def sizes(books: Books) -> tuple[int, int, int, int]:
    """What is counted: of the worker, of the other worker, of the queue, and in all."""
    limits = books.limits
    return limits.count(WORKER), limits.count(OTHER), limits.queue_count(QUEUE), limits.total()


def test_taking_twice_is_one_lease_and_giving_back_twice_is_one_less() -> None:
    books, run = Books(), card("r1", key="k")
    books.limits.take(run, WORKER)
    books.limits.take(run, WORKER)
    assert (1, 0, 1, 1) == sizes(books)
    assert books.limits.key_full(run.key)
    assert None is not books.limits.give("r1")
    assert None is books.limits.give("r1")

    assert (0, 0, 0, 0) == sizes(books)
    assert not books.limits.key_full(run.key)


def test_a_lease_that_changes_hands_counts_once() -> None:
    books, run = Books(), card("r1")
    books.limits.take(run, WORKER)
    books.limits.take(run, OTHER)

    assert (0, 1, 1, 1) == sizes(books)
    assert ["r1"] == books.limits.held_by(OTHER)


@pytest.mark.origin("D42")
def test_a_grant_on_its_way_counts_and_its_fact_takes_its_place_over() -> None:
    books, run = Books(), card("r1")
    holding = books.limits.earmark(run, WORKER)
    assert (1, 0, 1, 1) == sizes(books)
    books.limits.take(run, WORKER)

    assert holding is books.limits.holding("r1")
    assert (1, 0, 1, 1) == sizes(books)


def test_a_take_over_on_its_way_uses_a_slot_of_both_and_one_place_of_the_queue() -> None:
    books, run = Books(), card("r1")
    books.limits.take(run, WORKER)
    assert None is books.limits.earmark(run, OTHER)
    assert (1, 1, 1, 1) == sizes(books)
    assert ["r1"] == books.limits.held_by(OTHER)
    books.limits.unlend("r1", OTHER)

    assert (1, 0, 1, 1) == sizes(books)


def test_a_take_over_that_is_a_fact_counts_for_the_new_holder_only() -> None:
    books, run = Books(), card("r1")
    books.limits.take(run, WORKER)
    books.limits.earmark(run, OTHER)
    books.limits.give("r1")
    books.limits.take(run, OTHER)
    assert (0, 1, 1, 1) == sizes(books)
    books.limits.unlend("r1", OTHER)

    assert (0, 1, 1, 1) == sizes(books)


def test_a_slot_lent_twice_is_given_back_twice() -> None:
    books, run = Books(), card("r1")
    books.limits.take(run, WORKER)
    books.limits.earmark(run, OTHER)
    books.limits.earmark(run, OTHER)
    books.limits.unlend("r1", OTHER)
    assert 1 == books.limits.count(OTHER)
    books.limits.unlend("r1", OTHER)

    assert (0, {}) == (books.limits.count(OTHER), books.limits._lent)


@pytest.mark.parametrize(
    ("limit", "value"), [("slots", 2), ("max_leases", 1), ("max_per_key", 1), ("tenant_max_leases", 1)]
)
def test_one_more_is_refused_at_the_limit_itself_naming_it(limit: str, value: int) -> None:
    books = Books(tenant_max=1 if limit == "tenant_max_leases" else None)
    key = "k" if limit == "max_per_key" else None
    books.limit(1 if limit == "max_leases" else None, 1)
    slots = 2 if limit == "slots" else 9
    books.limits.take(card("r1", key=key), WORKER)
    if limit == "slots":
        books.limits.refuse_one_more(card("r2"), WORKER, slots)
        books.limits.take(card("r2"), WORKER)
    with pytest.raises(LimitReached) as refused:
        books.limits.refuse_one_more(card("r3", key=key), WORKER, slots)

    assert (limit, value) == (refused.value.limit, refused.value.value)


def test_a_lease_that_counts_already_is_not_one_more_but_needs_a_slot_of_its_new_holder() -> None:
    books, run = Books(tenant_max=1), card("r1", key="k")
    books.limit(1, 1)
    books.limits.take(run, WORKER)
    books.limits.refuse_one_more(run, OTHER, 1)
    books.limits.refuse_one_more(run, WORKER, 1)
    with pytest.raises(LimitReached):
        books.limits.refuse_one_more(run, OTHER, 0)


def test_lowering_a_limit_takes_nothing_away() -> None:
    books = Books()
    for number in range(3):
        books.limits.take(card(f"r{number}"), WORKER)
    books.limit(1, 1)

    assert (3, 0, 3, 3) == sizes(books)
    assert books.limits.queue_full(QUEUE)


def test_queues_are_named_that_have_limits_or_leases() -> None:
    books = Books()
    assert set() == set(books.limits.queues("t"))
    books.limits.take(card("r1"), WORKER)
    assert {"q"} == set(books.limits.queues("t"))
    books.limits.give("r1")
    books.limit(1, 1)

    assert {"q"} == set(books.limits.queues("t"))
    assert set() == set(books.limits.queues("u"))
