"""A queue's own limits. A queue exists as soon as somebody names it; only its limits are facts.

``max_leases`` bounds the leases of the whole queue at a time (null: no bound), ``max_per_key`` those of one
concurrency key (one by default). Lowering a limit revokes nothing: it only stops grants.
"""

from typing import assert_never

from domain.refusal import InvalidCommand
from domain.submission import check_id
from domain.values import Fact, Value

LEASES_MAX = 1_000_000


class Queue(Value, frozen=True, kw_only=True):
    """The limits in force."""

    version: int = 0
    max_leases: int | None = None
    max_per_key: int = 1


UNCONFIGURED = Queue()


class QueueConfigured(Fact, frozen=True, kw_only=True):
    """The limits that hold from now on."""

    queue: str
    max_leases: int | None
    max_per_key: int


QueueFact = QueueConfigured


def queue_stream(tenant: str, queue: str) -> str:
    """The queue's own stream."""
    return f"queue-{tenant}:{queue}"


def evolve(queue: Queue, fact: QueueFact) -> Queue:
    """The limits after one more fact."""
    match fact:
        case QueueConfigured():
            return Queue(version=queue.version + 1, max_leases=fact.max_leases, max_per_key=fact.max_per_key)
        case _:
            assert_never(fact)


def configure(queue: Queue, name: str, max_leases: int | None, max_per_key: int) -> list[QueueFact]:
    """Facts that follow when an operator sets a queue's limits; none when nothing changed."""
    check_id("queue", name)
    if max_leases is not None and not 0 <= max_leases <= LEASES_MAX:
        raise InvalidCommand(field="max_leases", value=max_leases, limit=f"null, or between 0 and {LEASES_MAX}")
    if not 1 <= max_per_key <= LEASES_MAX:
        raise InvalidCommand(field="max_per_key", value=max_per_key, limit=f"between 1 and {LEASES_MAX}")
    if (queue.max_leases, queue.max_per_key) == (max_leases, max_per_key):
        return []
    return [QueueConfigured(queue=name, max_leases=max_leases, max_per_key=max_per_key)]
