"""What the live index keeps of one open run: enough to queue it, match it and limit it."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from domain.run_facts import RunClosed, RunFact, RunSettled, RunSubmitted, VerdictRendered

Labels = tuple[tuple[str, str], ...]
QueueKey = tuple[str, str]
"""(tenant, queue)."""
WorkerKey = tuple[str, str]
"""(tenant, worker id)."""
ConcurrencyKey = tuple[str, str, str]
"""(tenant, queue, key)."""


def labels_of(labels: dict[str, str]) -> Labels:
    """Labels in a form that can be compared and looked up."""
    return tuple(sorted(labels.items()))


class Card(msgspec.Struct):
    """One open run. ``stamp`` rises whenever it is queued or taken, so that older entries in heaps are void."""

    run_id: str
    queue: QueueKey
    labels: Labels
    priority: int
    key: ConcurrencyKey | None
    order: int
    leader: WorkerKey | None
    """(tenant, leader id) of who wants it."""
    due_at: datetime
    stamp: int = 0
    ready: bool = False
    max_attempts: int = 3
    failed_attempts: int = 0
    cancel_s: float | None = None
    """How long its holder has to save and close, once a cancel was asked for."""

    @property
    def rank(self) -> tuple[int, datetime, int]:
        """High priority first, then the due instant, then submission."""
        return (-self.priority, self.due_at, self.order)


class Grant(NamedTuple):
    """A held lease: its ttl, its fence, and when its slice ends on the monotonic clock, if it has one."""

    ttl_s: float
    fence: int
    slice_mono: float | None


def card_of(fact: RunSubmitted, position: int) -> Card:
    """The card of a run that was submitted at this position."""
    key = fact.concurrency_key
    return Card(
        run_id=fact.run_id,
        queue=(fact.tenant, fact.queue),
        labels=labels_of(fact.labels),
        priority=fact.priority,
        key=None if key is None else (fact.tenant, fact.queue, key),
        order=position,
        leader=None if fact.leader_id is None else (fact.tenant, fact.leader_id),
        due_at=fact.due_at,
        max_attempts=fact.policy.max_attempts,
    )


def ends(fact: RunFact) -> bool:
    """Whether the run is over with this fact: nothing of it is open any more."""
    if isinstance(fact, RunClosed):
        return fact.state in ("succeeded", "failed")
    return isinstance(fact, RunSettled | VerdictRendered)
