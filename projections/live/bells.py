"""Bells: a claim that waits is woken when there is something for it, and nobody else is.

A waiting claim stands in line under its tenant's queues with the labels of its worker. When a run becomes ready, the
first in line whose labels suffice and whose worker has a free slot is woken; it looks again, and whoever leaves the
line with the bell, or with something else than the bell was rung for, rings it on. Being woken promises nothing, so a
claim that finds nothing simply waits on.

A waiting claim is no sign of life: a frozen process keeps its connection. So when a lease of a worker expires, its
waiting claims are sent away with nothing; whoever lives asks again at once, and only then is granted more.
"""

import asyncio
from collections.abc import Callable

from projections.live.cards import Labels, QueueKey, WorkerKey


class Waiter:
    """One waiting claim; ``woken`` is set when there may be something for it."""

    __slots__ = ("has", "queues", "sent_away", "woken", "worker")

    def __init__(self, worker: WorkerKey, queues: tuple[QueueKey, ...], labels: Labels) -> None:
        self.worker = worker
        self.queues = queues
        self.has = frozenset(labels)
        self.woken = asyncio.Event()
        self.sent_away = False
        """Set when its worker let a lease expire: it is granted nothing before it asks anew."""


class Bells:
    """Waiting claims, first come first served."""

    def __init__(self) -> None:
        self._lines: dict[QueueKey, dict[Waiter, None]] = {}
        self._workers: dict[WorkerKey, dict[Waiter, None]] = {}
        self.may_take: Callable[[WorkerKey], bool] = lambda worker: True
        """Whether a worker could take one more run; one that could not is passed over."""
        self.closed = False

    def join(self, waiter: Waiter) -> None:
        """Stand in line."""
        for queue in waiter.queues:
            self._lines.setdefault(queue, {})[waiter] = None
        self._workers.setdefault(waiter.worker, {})[waiter] = None
        if self.closed:
            waiter.woken.set()

    def leave(self, waiter: Waiter) -> None:
        """Leave the line; nothing is left behind."""
        for queue in waiter.queues:
            _drop(self._lines, queue, waiter)
        _drop(self._workers, waiter.worker, waiter)

    def send_away(self, worker: WorkerKey) -> None:
        """A lease of this worker expired: its waiting claims end with nothing, and no bell is rung for them."""
        for waiter in list(self._workers.get(worker, ())):
            self.leave(waiter)
            waiter.sent_away = True
            waiter.woken.set()

    def ring(self, queue: QueueKey, labels: Labels) -> None:
        """A run that asks for these labels is ready: wake the first that has them."""
        for waiter in self._lines.get(queue, ()):
            if not waiter.woken.is_set() and waiter.has.issuperset(labels) and self.may_take(waiter.worker):
                waiter.woken.set()
                return

    def ring_worker(self, worker: WorkerKey) -> None:
        """A slot of this worker is free again, or it changed: wake its claims."""
        for waiter in self._workers.get(worker, ()):
            waiter.woken.set()

    def asked(self, queue: QueueKey, labels: Labels) -> bool:
        """Whether somebody waits for this queue who could take a run that asks for these labels."""
        return any(waiter.has.issuperset(labels) for waiter in self._lines.get(queue, ()))

    def waits(self, worker: WorkerKey) -> bool:
        """Whether a claim of this worker waits."""
        return worker in self._workers

    def close(self) -> None:
        """No more grants: wake everybody, for good."""
        self.closed = True
        for line in self._workers.values():
            for waiter in line:
                waiter.woken.set()

    def __len__(self) -> int:
        return sum(len(line) for line in self._workers.values())


def _drop(lines: dict[tuple[str, str], dict[Waiter, None]], key: tuple[str, str], waiter: Waiter) -> None:
    line = lines.get(key)
    if line is not None:
        line.pop(waiter, None)
        if not line:
            del lines[key]
