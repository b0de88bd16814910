"""Which process goes by a worker's id: what is recorded of it, and who is another one."""

from datetime import UTC, datetime

import pytest

from domain.decider import fold
from domain.instance import WHERE_MAX_CHARS, Instance, is_other, named
from domain.refusal import InvalidCommand
from domain.worker import UNREGISTERED, Worker, WorkerDetached, WorkerLeft, WorkerRegistered, evolve, register

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 13, tzinfo=UTC)
HERE = Instance(id="a1", where="here", since=NOON)
AGAIN = Instance(id="a1", where="here", since=LATER)
RESTARTED = Instance(id="a1", where="here, another pid", since=LATER)
THERE = Instance(id="b2", where="there", since=LATER)
ID_MAX_CHARS = 128


def registered(*instances: Instance | None) -> Worker:
    facts = [WorkerRegistered(worker_id="ada", labels={}, slots=1, instance=each) for each in instances]
    initial: Worker = UNREGISTERED
    return fold(evolve, initial, facts)


@pytest.mark.parametrize(
    ("known", "says", "kept"),
    [
        ([None], HERE, [HERE]), ([HERE], AGAIN, []), ([HERE], RESTARTED, [RESTARTED]), ([HERE], THERE, [THERE]),
        ([HERE], None, []), ([None], None, []), ([], HERE, [HERE]), ([], None, [None]),
    ],
)  # fmt: skip
def test_a_registration_is_recorded_when_it_is_another_process(
    known: list[Instance | None], says: Instance | None, kept: list[Instance | None]
) -> None:
    facts = register(registered(*known), "ada", {}, 1, says)

    assert [WorkerRegistered(worker_id="ada", labels={}, slots=1, instance=each) for each in kept] == facts


def test_more_slots_said_by_nobody_in_particular_leave_the_instance_as_it_is() -> None:
    assert [WorkerRegistered(worker_id="ada", labels={}, slots=2, instance=HERE)] == register(
        registered(HERE), "ada", {}, 2
    )


def test_a_worker_that_left_is_no_process_any_more_and_a_detached_one_still_is() -> None:
    left = evolve(registered(HERE), WorkerLeft(worker_id="ada"))
    detached = evolve(registered(HERE), WorkerDetached(worker_id="ada", detached_at=LATER, window_s=1.0))

    assert (None, HERE) == (getattr(left, "instance", None), getattr(detached, "instance", None))


@pytest.mark.parametrize(
    ("known", "says", "other"),
    [(HERE, "a1", False), (HERE, "b2", True), (HERE, None, False), (None, "a1", False), (None, None, False)],
)
def test_only_who_says_that_it_is_another_process_is_one(known: Instance | None, says: str | None, other: bool) -> None:
    assert other is is_other(known, says)


@pytest.mark.parametrize("where", ["", "x" * WHERE_MAX_CHARS])
def test_a_place_is_kept_up_to_its_bound(where: str) -> None:
    assert Instance(id="a", where=where, since=NOON) == named("a", where, NOON)


@pytest.mark.parametrize(
    ("instance_id", "where", "field"),
    [("a", "x" * (WHERE_MAX_CHARS + 1), "where"), (None, "x" * (WHERE_MAX_CHARS + 1), "where"),
     ("a" * (ID_MAX_CHARS + 1), None, "instance"), ("", None, "instance"), ("a b", None, "instance")],
)  # fmt: skip
def test_beyond_its_bound_it_is_refused(instance_id: str | None, where: str | None, field: str) -> None:
    with pytest.raises(InvalidCommand) as refusal:
        named(instance_id, where, NOON)
    assert field == refusal.value.field


def test_a_place_beyond_its_bound_is_shown_with_the_bound() -> None:
    where = "x" * (WHERE_MAX_CHARS + 1)

    with pytest.raises(InvalidCommand) as refusal:
        named("a", where, NOON)

    assert (where, "at most 256 characters") == (refusal.value.value, refusal.value.limit)


def test_whoever_names_no_instance_is_none() -> None:
    assert named(None, "somewhere", NOON) is None
    assert named("a" * ID_MAX_CHARS, None, NOON) is not None
