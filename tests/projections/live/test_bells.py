"""Bells: the first in line that can take what is ready is woken, and nobody else."""

from projections.live.bells import Bells, Waiter
from projections.live.cards import Labels, WorkerKey, labels_of

A, B = ("t", "a"), ("t", "b")


def waiter(bells: Bells, worker_id: str, *queues: tuple[str, str], **labels: str) -> Waiter:
    """A claim that waits in line under these queues."""
    one = Waiter(("t", worker_id), queues or (A,), labels_of(labels))
    bells.join(one)
    return one


def woken(*waiters: Waiter) -> list[bool]:
    """Who was woken."""
    return [one.woken.is_set() for one in waiters]


NONE: Labels = ()


async def test_one_bell_wakes_one_and_the_next_bell_the_next() -> None:
    bells = Bells()
    line = [waiter(bells, f"w{number}") for number in range(3)]
    bells.ring(A, NONE)
    assert [True, False, False] == woken(*line)
    bells.ring(A, NONE)
    assert [True, True, False] == woken(*line)


async def test_a_bell_is_for_those_who_have_the_labels() -> None:
    bells = Bells()
    plain, gpu = waiter(bells, "w1"), waiter(bells, "w2", gpu="yes", zone="x")
    bells.ring(A, (("gpu", "yes"),))

    assert [False, True] == woken(plain, gpu)


async def test_a_bell_is_for_those_who_wait_for_the_queue() -> None:
    bells = Bells()
    of_a, of_b, of_both = waiter(bells, "w1", A), waiter(bells, "w2", B), waiter(bells, "w3", A, B)
    bells.ring(B, NONE)

    assert [False, True, False] == woken(of_a, of_b, of_both)


async def test_one_whose_worker_has_no_room_is_passed_over() -> None:
    bells = Bells()
    full, free = waiter(bells, "full"), waiter(bells, "free")
    bells.may_take = _free
    bells.ring(A, NONE)

    assert [False, True] == woken(full, free)


def _free(worker: WorkerKey) -> bool:
    return worker[1] == "free"


async def test_a_worker_is_woken_with_all_its_claims_and_nobody_elses() -> None:
    bells = Bells()
    first, second, other = waiter(bells, "w1"), waiter(bells, "w1", B), waiter(bells, "w2")
    bells.ring_worker(("t", "w1"))

    assert [True, True, False] == woken(first, second, other)
    assert (True, False) == (bells.waits(("t", "w1")), bells.waits(("t", "w3")))


async def test_nothing_is_left_of_those_who_left_even_twice_in_one_queue() -> None:
    bells = Bells()
    one = waiter(bells, "w1", A, B, A)
    bells.leave(one)
    bells.leave(one)

    assert (0, {}, {}) == (len(bells), bells._lines, bells._workers)
    bells.ring(A, NONE)
    assert [False] == woken(one)


async def test_closing_wakes_everybody_and_whoever_comes_after() -> None:
    bells = Bells()
    line = [waiter(bells, "w1"), waiter(bells, "w2", B)]
    bells.close()
    line.append(waiter(bells, "w3"))

    assert [True, True, True] == woken(*line)
    assert 3 == len(bells)
