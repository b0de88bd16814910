"""Queues: their limits, at the bound and one past it."""

import pytest

from domain.decider import fold
from domain.queue import LEASES_MAX, UNCONFIGURED, Queue, QueueConfigured, configure, evolve, queue_stream
from domain.refusal import InvalidCommand


def test_a_queue_that_nobody_configured_has_no_bound_and_one_lease_for_each_key() -> None:
    assert (None, 1) == (UNCONFIGURED.max_leases, UNCONFIGURED.max_per_key)
    assert "queue-acme:builds" == queue_stream("acme", "builds")


@pytest.mark.parametrize(("leases", "per_key"), [(None, 1), (0, 1), (LEASES_MAX, LEASES_MAX)])
def test_limits_at_their_bounds_are_taken(leases: int | None, per_key: int) -> None:
    facts = configure(Queue(version=1, max_leases=7, max_per_key=7), "builds", leases, per_key)

    assert [QueueConfigured(queue="builds", max_leases=leases, max_per_key=per_key)] == facts


@pytest.mark.parametrize(
    ("leases", "per_key", "field"),
    [
        (-1, 1, "max_leases"),
        (LEASES_MAX + 1, 1, "max_leases"),
        (1, 0, "max_per_key"),
        (1, LEASES_MAX + 1, "max_per_key"),
    ],
)
def test_limits_past_their_bounds_are_refused_naming_the_one(leases: int, per_key: int, field: str) -> None:
    with pytest.raises(InvalidCommand) as refused:
        configure(UNCONFIGURED, "builds", leases, per_key)

    assert field == refused.value.field


def test_the_same_limits_again_are_nothing_new() -> None:
    assert [] == configure(UNCONFIGURED, "builds", None, 1)
    assert [] == configure(fold(evolve, UNCONFIGURED, configure(UNCONFIGURED, "builds", 5, 2)), "builds", 5, 2)


def test_the_last_limits_hold() -> None:
    facts = [*configure(UNCONFIGURED, "builds", 5, 2), *configure(UNCONFIGURED, "builds", 3, 4)]

    assert Queue(version=2, max_leases=3, max_per_key=4) == fold(evolve, UNCONFIGURED, facts)


def test_a_queues_name_is_an_id() -> None:
    with pytest.raises(InvalidCommand):
        configure(UNCONFIGURED, "no spaces", 1, 1)
