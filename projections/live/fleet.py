"""The fleet: the registered workers of a node, when to look for each again, and which of them are quarantined.

A worker that holds a lease, or whose claim waits, is busy and not gone, however long it was not heard. Of a quarantine
it is kept until when it lasts, which leases are older than it, and which run is the probing one: the run that was
granted since it began, one at a time, whatever the worker holds from before. A quarantine outlives the registration of
its worker, so a worker that comes back is still in it.
"""

import msgspec

from domain.lease import FenceBumped, LeaseReserved
from domain.values import Moment
from domain.worker import WorkerQuarantined, WorkerRegistered
from projections.live.bells import Bells
from projections.live.cards import WorkerKey
from projections.live.deadlines import Deadlines, due
from projections.live.limits import Holding, Limits


class Quarantined(msgspec.Struct):
    """A quarantine in force: until when, what is older, and the probing run that was granted since, with its fence."""

    until: str
    before: dict[str, Holding]
    probe: tuple[str, int] | None = None


class Fleet:
    """Registered workers, and those in quarantine."""

    def __init__(self, limits: Limits, bells: Bells, deadlines: Deadlines, gone_s: float) -> None:
        self.workers: dict[WorkerKey, WorkerRegistered] = {}
        self.quarantined: dict[WorkerKey, Quarantined] = {}
        self.cooled: set[WorkerKey] = set()
        """Quarantined workers whose cool-down has passed."""
        self.gone_s = gone_s
        self._limits = limits
        self._bells = bells
        self._deadlines = deadlines

    def register(self, worker: WorkerKey, fact: WorkerRegistered) -> None:
        """The worker is known, with these labels and slots."""
        self.workers[worker] = fact
        self._bells.ring_worker(worker)

    def sign_off(self, worker: WorkerKey) -> None:
        """The worker left, or is gone."""
        self.workers.pop(worker, None)
        self._deadlines.forget("worker", worker)
        self._bells.ring_worker(worker)

    def look_for(self, worker: WorkerKey, now: Moment) -> None:
        """Look for the worker again when it may be gone."""
        self._deadlines.restart(due(now.mono + self.gone_s, "worker", worker, ""))

    def quarantine(self, worker: WorkerKey, fact: WorkerQuarantined, at: Moment) -> None:
        """The worker is granted nothing for a while."""
        until = fact.until.isoformat()
        self.quarantined[worker] = Quarantined(until, self._limits.holdings(worker))
        self.cooled.discard(worker)
        self._deadlines.add(due(at.mono + (fact.until - at.wall).total_seconds(), "quarantine", worker, until))
        self._bells.ring_worker(worker)

    def cool(self, worker: WorkerKey, until: str) -> bool:
        """Let the worker be granted a probing run, if it is still in the quarantine that lasts until then."""
        quarantined = self.quarantined.get(worker)
        if quarantined is None or quarantined.until != until:
            return False
        self.cooled.add(worker)
        self._bells.ring_worker(worker)
        return True

    def release(self, worker: WorkerKey) -> None:
        """The quarantine is over."""
        self.quarantined.pop(worker, None)
        self.cooled.discard(worker)
        self._deadlines.forget("quarantine", worker)
        self._bells.ring_worker(worker)

    def note_grant(self, worker: WorkerKey, run_id: str, fact: FenceBumped | LeaseReserved) -> None:
        """A run was granted; to a quarantined worker it is its probing run."""
        quarantined = self.quarantined.get(worker)
        if quarantined is not None:
            quarantined.probe = (run_id, fact.fence)

    def forget_probe(self, run_id: str) -> None:
        """The run has ended, and proves nothing any more."""
        for quarantined in self.quarantined.values():
            if quarantined.probe is not None and quarantined.probe[0] == run_id:
                quarantined.probe = None

    def is_probe(self, worker: WorkerKey, run_id: str, fence: int) -> bool:
        """Whether this lease is the probing run of a quarantined worker."""
        quarantined = self.quarantined.get(worker)
        return quarantined is not None and quarantined.probe == (run_id, fence)

    def busy(self, worker: WorkerKey) -> bool:
        """Whether the worker has leases, or a claim of it waits: it is not gone."""
        return self._limits.count(worker) > 0 or self._bells.waits(worker)

    def probing(self, worker: WorkerKey) -> int:
        """How many runs the worker was granted, or is about to be, since its quarantine began; 0 when it is in none."""
        quarantined = self.quarantined.get(worker)
        if quarantined is None:
            return 0
        before, held = quarantined.before, self._limits.holdings(worker)
        since = sum(holding is not before.get(run_id) for run_id, holding in held.items())
        return since + self._limits.lent_to(worker)

    def room(self, worker: WorkerKey, slots: int) -> int:
        """How many more runs the worker may have in so many slots: in quarantine one, unless it has it."""
        free = slots - self._limits.count(worker)
        return min(free, 1 - self.probing(worker)) if worker in self.quarantined else free

    def has_room(self, worker: WorkerKey) -> bool:
        """Whether a slot of the worker is free; one that is not known may look for itself."""
        known = self.workers.get(worker)
        return known is None or self.room(worker, known.slots) > 0
