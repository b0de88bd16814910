"""An auditor: keeps its own books from the facts alone, and objects to a grant that a limit in force forbids."""

from collections.abc import Sequence

from domain.lease import (
    FenceBumped,
    LeaseExpired,
    LeaseReleased,
    LeaseReserved,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
)
from domain.queue import QueueConfigured
from domain.run_facts import RunSubmitted
from domain.worker import WorkerRegistered
from journal.mapper import Recorded

ENDS = (LeaseExpired, LeaseReleased, LeaseRevoked, ReservationCancelled, ReservationLapsed)


class Auditor:
    """Who holds what, by the facts so far."""

    def __init__(self) -> None:
        self.objections: list[str] = []
        self._wishes: dict[str, RunSubmitted] = {}
        self._holders: dict[str, str] = {}
        self._fences: dict[str, int] = {}
        self._slots: dict[str, int] = {}
        self._limits: dict[str, tuple[int | None, int]] = {}

    def hear(self, facts: Sequence[Recorded]) -> None:
        """Take note of facts, in order."""
        for recorded in facts:
            run_id, fact = recorded.stream.partition("-")[2], recorded.fact
            match fact:
                case RunSubmitted():
                    self._wishes[fact.run_id] = fact
                case WorkerRegistered():
                    self._slots[fact.worker_id] = fact.slots
                case QueueConfigured():
                    self._limits[fact.queue] = (fact.max_leases, fact.max_per_key)
                case FenceBumped() | LeaseReserved():
                    self._granted(run_id, fact)
                case _:
                    self._ended(run_id, fact)

    def _ended(self, run_id: str, fact: object) -> None:
        if isinstance(fact, ENDS):
            self._holders.pop(run_id, None)

    def _granted(self, run_id: str, fact: FenceBumped | LeaseReserved) -> None:
        if fact.fence != self._fences.get(run_id, 0) + 1 and fact.fence <= self._fences.get(run_id, 0):
            self.objections.append(f"fence {fact.fence} of {run_id} was granted twice")
        if run_id in self._holders:
            self.objections.append(f"{run_id} was granted while {self._holders[run_id]} had it")
        self._fences[run_id] = fact.fence
        self._holders[run_id] = fact.worker
        wish = self._wishes[run_id]
        most, per_key = self._limits.get(wish.queue, (None, 1))
        held = [self._wishes[other] for other in self._holders]
        of_queue = [other for other in held if other.queue == wish.queue]
        of_key = [other for other in of_queue if other.concurrency_key == wish.concurrency_key]
        of_worker = [holder for holder in self._holders.values() if holder == fact.worker]
        self._object(f"slots of {fact.worker}", len(of_worker), self._slots[fact.worker])
        self._object(f"leases of queue {wish.queue}", len(of_queue), most)
        self._object(f"leases of key {wish.concurrency_key}", len(of_key), per_key if wish.concurrency_key else None)

    def _object(self, what: str, count: int, most: int | None) -> None:
        if most is not None and count > most:
            self.objections.append(f"{count} {what}, and {most} are allowed")
