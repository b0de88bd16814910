"""The ready queue: which run is next, and what comes back when something was in its way."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.live.cards import Labels, labels_of
from projections.live.ready import SPARE
from tests.commands.clockwork import NOON
from tests.projections.live.parts import QUEUE, Books, card


def test_the_order_is_priority_then_due_instant_then_submission() -> None:
    books = Books()
    books.offer(card("r4"), card("r2"))
    books.offer(card("r1", priority=1), in_s=-1)
    books.offer(card("r3"), in_s=-5)

    assert ["r1", "r3", "r2", "r4", None] == [books.take() for _ in range(5)]


def test_a_run_is_in_its_lane_from_its_due_instant_on() -> None:
    books = Books()
    books.offer(card("r1"), in_s=10)

    assert NOON.after(10).wall == books.ready.next_due()
    assert [] == books.ready.promote(NOON.after(9.999).wall)
    assert ["r1"] == [back.run_id for back in books.ready.promote(NOON.after(10).wall)]
    assert None is books.ready.next_due()


def test_a_run_that_is_withdrawn_is_neither_picked_nor_promoted() -> None:
    books = Books()
    books.offer(card("r1"))
    books.offer(card("r2"), in_s=10)
    for run in list(books.cards.values()):
        books.ready.withdraw(run)

    assert None is books.take()
    assert [] == books.ready.promote(NOON.after(10).wall)
    assert None is books.ready.next_due()


def test_a_run_that_is_offered_anew_is_there_once_under_its_new_instant() -> None:
    books = Books()
    run = card("r1")
    books.offer(run, in_s=10)
    books.ready.withdraw(run)
    books.offer(run, in_s=20)

    assert [] == books.ready.promote(NOON.after(10).wall)
    assert 1 == len(books.ready.promote(NOON.after(20).wall))
    assert ["r1", None] == [books.take(), books.take()]


def test_a_card_that_is_gone_is_passed_over() -> None:
    books = Books()
    books.offer(card("r1"), card("r2"))
    del books.cards["r1"]

    assert "r2" == books.take()


def test_a_worker_sees_the_lanes_whose_labels_it_has() -> None:
    books = Books()
    books.offer(card("r1", labels={"a": "1", "b": "2"}), card("r2", labels={"b": "2"}))

    assert None is books.ready.pick([QUEUE], ())
    best = books.ready.pick([QUEUE], (("b", "2"), ("c", "3")))
    assert best is not None
    assert "r2" == best.run_id


def test_a_freed_key_brings_back_the_best_of_each_lane() -> None:
    books = Books()
    gpu = {"gpu": "yes"}
    books.offer(card("r1", key="k", priority=9))
    assert "r1" == books.take()
    books.offer(card("r2", key="k", labels=gpu, priority=5), card("r3", key="k", labels=gpu))
    books.offer(card("r4", key="k"), card("r5", key="k", priority=1))
    assert None is books.take()
    assert None is books.ready.pick([QUEUE], (("gpu", "yes"),))

    assert {"r2", "r5"} == set(books.free("r1"))
    assert "r5" == books.take()


def test_a_key_with_room_for_several_brings_back_as_many() -> None:
    books = Books()
    books.limit(None, 2)
    books.offer(*(card(f"r{number}", key="k") for number in range(1, 6)))
    assert ["r1", "r2", None] == [books.take() for _ in range(3)]

    assert ["r3"] == books.free("r1")
    assert ["r4"] == books.free("r2")
    assert ["r3", "r4", None] == [books.take() for _ in range(3)]


def test_a_key_that_is_still_full_brings_nothing_back() -> None:
    books = Books()
    books.limit(None, 3)
    books.offer(*(card(f"r{number}", key="k") for number in range(1, 6)))
    assert ["r1", "r2", "r3", None] == [books.take() for _ in range(4)]
    books.limit(None, 1)

    assert [] == books.free("r1") == books.free("r2")
    assert ["r4"] == books.free("r3")


def test_one_that_leaves_its_lane_without_taking_the_room_lets_the_next_follow() -> None:
    books = Books()
    books.offer(card("r1", key="k"))
    books.take()
    books.offer(*(card(f"r{number}", key="k") for number in (2, 3, 4)))
    assert None is books.take()
    books.free("r1")
    follower = books.ready.withdraw(books.cards.pop("r2"))
    assert follower is not None
    assert "r3" == follower.run_id
    books.ready.withdraw(books.cards.pop("r3"))

    assert "r4" == books.take()


def test_a_higher_limit_of_keys_brings_back_everybody() -> None:
    books = Books()
    books.offer(*(card(f"r{number}", key="k") for number in range(1, 5)))
    assert ["r1", None] == [books.take(), books.take()]
    books.limit(None, 9)

    assert {"r2", "r3", "r4"} == {back.run_id for back in books.ready.release_keys(QUEUE)}
    assert ["r2", "r3", "r4"] == [books.take() for _ in range(3)]


def test_depth_counts_queued_runs_whether_due_laid_aside_or_in_a_lane() -> None:
    books = Books()
    books.offer(card("r1", key="k"), card("r2", key="k"), card("r3"))
    books.offer(card("r4"), in_s=60)
    books.take()
    books.take()
    books.take()

    assert 2 == books.ready.depth(QUEUE)
    assert {"q"} == books.ready.queues("t")
    assert set() == books.ready.queues("u")


def test_void_entries_do_not_gather_without_bound() -> None:
    books = Books()
    books.offer(card("r1"))
    books.offer(card("r2"), in_s=60)
    for number in range(3, 1_000):
        for in_s in (0, 60):
            run = card(f"r{number}")
            books.offer(run, in_s=in_s)
            books.ready.withdraw(run)

    assert SPARE + 6 >= len(books.ready._lanes[QUEUE][()])
    assert SPARE + 6 >= len(books.ready._later)
    assert 2 == books.ready.depth(QUEUE)


@pytest.mark.parametrize("labels", [[{}], [{"n": str(number)} for number in range(50)]])
def test_what_is_void_and_laid_aside_with_a_key_does_not_gather_without_bound(labels: list[dict[str, str]]) -> None:
    books = Books()
    books.offer(card("r1", key="k"), card("r2"))
    assert "r1" == books.take()
    everybody = labels_of({name: value for each in labels for name, value in each.items()})
    for number in range(3, 1_000):
        run = card(f"r{number}", key="k", labels=labels[number % len(labels)], priority=1)
        books.offer(run)
        found = books.ready.pick([QUEUE], run.labels or everybody)
        assert found is not None
        assert "r2" == found.run_id
        books.ready.withdraw(run)
    aside = [lane for lanes in books.ready._by_key[QUEUE].values() for lane in lanes.values()]

    assert SPARE + 4 >= sum(map(len, aside))
    assert 1 == books.ready.depth(QUEUE)


def test_what_is_queued_and_laid_aside_comes_back_in_its_order_after_the_void_was_swept_out() -> None:
    books = Books()
    books.offer(card("r1", key="k"))
    books.take()
    waiting = [card(f"r{number}", key="k", priority=number % 7) for number in range(2, 2 + 4 * SPARE)]
    books.offer(*waiting)
    assert None is books.take()
    for gone in waiting[::2]:
        books.ready.withdraw(books.cards.pop(gone.run_id))
    more = [card(f"r{number}", key="k", priority=number % 5) for number in range(1_000, 1_000 + 4 * SPARE)]
    for run in more:
        books.offer(run)
        books.ready.pick([QUEUE], ())
    left = sorted([*waiting[1::2], *more], key=lambda run: run.rank)
    back = ["r1"]
    for _ in left:
        books.free(back[-1])
        back.append(str(books.take()))

    assert ["r1", *(run.run_id for run in left)] == back


def test_of_a_queue_without_runs_nothing_is_kept() -> None:
    books = Books()
    books.offer(card("r1", key="k"), card("r2", key="k"), card("r3", labels={"a": "b"}))
    books.offer(card("r4"), in_s=60)
    books.take()
    books.take()
    for run_id in ("r2", "r3", "r4"):
        books.ready.withdraw(books.cards.pop(run_id))

    assert ({}, {}, {}, []) == (books.ready._lanes, books.ready._by_key, books.ready._depth, books.ready._later)
    assert {} == books.ready._aside


@given(seed=st.integers(min_value=0, max_value=2**32))
def test_whatever_happens_the_next_run_is_the_best_that_the_limits_allow(seed: int) -> None:
    chance, books, held = random.Random(seed), Books(), list[str]()
    for number in range(60):
        act = chance.choice(["offer", "offer", "take", "take", "free", "cancel", "limit"])
        if act == "offer":
            key, labels = chance.choice([None, "k", "k", "l"]), chance.choice([{}, {"a": "1"}, {"a": "1", "b": "1"}])
            books.offer(card(f"r{number}", key=key, labels=labels, priority=chance.randrange(3)))
        elif act == "take":
            has = chance.choice([(), (("a", "1"),), (("a", "1"), ("b", "1"))])
            best = _best(books, has)
            taken = books.take(has)
            assert best == taken
            held += [] if taken is None else [taken]
        elif act == "free" and held:
            books.free(held.pop(chance.randrange(len(held))))
        elif act == "cancel":
            queued = [run for run in books.cards.values() if run.ready]
            if queued:
                books.ready.withdraw(books.cards.pop(chance.choice(queued).run_id))
        elif act == "limit":
            books.limit(chance.choice([None, 1, 3]), chance.choice([1, 2]))
            books.ready.release_keys(QUEUE)


def _best(books: Books, has: Labels) -> str | None:
    """The same answer by looking at every card."""
    if books.limits.queue_full(QUEUE):
        return None
    fitting = [run for run in books.cards.values() if run.ready and set(run.labels) <= set(has)]
    able = [run for run in fitting if not books.limits.key_full(run.key)]
    return min(able, key=lambda run: run.rank).run_id if able else None


@pytest.mark.parametrize(("before", "told"), [(2, 2), (3, 3), (4, 3)])
def test_no_more_runs_ahead_are_counted_than_were_asked_for(before: int, told: int) -> None:
    books = Books()
    books.offer(*(card(f"r{number}") for number in range(before + 1)))
    last = max(books.cards.values(), key=lambda one: one.rank)

    assert told == books.ready.ahead(last, 3)
