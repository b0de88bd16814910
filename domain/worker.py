"""A worker: a process that claims runs and acts for them; it has labels and slots.

    Unregistered --register--> Registered --left, gone--> Unregistered

A registered worker is granted runs unless it is *draining* (it asked for no more) or *quarantined* (what it reports
points at the worker rather than at the run). Quarantine ends by an operator or, once its cool-down has passed, by one
probing run: where a slot is free the worker may be granted one at a time, beside what it holds from before, and an end
that it brings it to without poison releases it: a close, a hand-back, a parking without the lease, a whole slice.

A worker is *gone* when it was unheard for ``gone_s`` and no lease of it is live; that never shortens a lease. When
the last stream of a worker is closed by its side without a goodbye, ``WorkerDetached`` is recorded, and its leases
get a short reconnect window instead of the rest of their ttl: a transfer at most, so a wrong guess is harmless.

Slots in use are not counted here: limits span streams and are kept where grants are decided. Durations in seconds.
"""

from datetime import datetime
from typing import Any, Literal, assert_never

import msgspec

from domain.instance import Instance, same_process
from domain.refusal import InvalidCommand, Refusal
from domain.submission import check_id, check_labels
from domain.values import Fact, Value, later

SLOTS_MAX = 10_000

POISON_CLASSES = ("ssh_timeout", "remote_home_lookup_failed", "workspace_prepare_failed", "workspace_hook_failed")
"""What a failed outcome begins with when the worker is to blame, not the run."""


class Quarantine(Value, frozen=True, kw_only=True):
    """Why the worker is granted nothing, and until when."""

    reason: str
    since: datetime
    until: datetime


class Unregistered(Value, frozen=True, kw_only=True):
    """Not known, or left, or gone; ``quarantine`` outlives a new registration."""

    version: int = 0
    quarantine: Quarantine | None = None


class Registered(Value, frozen=True, kw_only=True):
    """Known, with its labels and slots."""

    version: int
    worker_id: str
    labels: dict[str, str]
    slots: int
    draining: bool = False
    quarantine: Quarantine | None = None
    detached_at: datetime | None = None
    instance: Instance | None = None


Worker = Unregistered | Registered
UNREGISTERED = Unregistered()


class WorkerRegistered(Fact, frozen=True, kw_only=True):
    """The worker said what it is, how much it takes, and perhaps which process it is; ends a drain."""

    worker_id: str
    labels: dict[str, str]
    slots: int
    instance: Instance | None = None


class WorkerDetached(Fact, frozen=True, kw_only=True):
    """The worker's last stream was closed by its side without a goodbye."""

    worker_id: str
    detached_at: datetime
    window_s: float


class WorkerDrained(Fact, frozen=True, kw_only=True):
    """The worker takes no more runs."""

    worker_id: str
    by: str


class WorkerQuarantined(Fact, frozen=True, kw_only=True):
    """What the worker reports points at the worker; it is granted nothing until the cool-down has passed."""

    worker_id: str
    reason: str
    cites: tuple[str, ...]
    quarantined_at: datetime
    until: datetime


class WorkerReleased(Fact, frozen=True, kw_only=True):
    """The quarantine is over: an operator said so, or a probing run ended without poison."""

    worker_id: str
    cause: Literal["operator", "probe"]
    by: str


class WorkerGone(Fact, frozen=True, kw_only=True):
    """The worker was unheard for too long and no lease of it is live."""

    worker_id: str
    last_seen_at: datetime


class WorkerLeft(Fact, frozen=True, kw_only=True):
    """The worker said goodbye."""

    worker_id: str


WorkerFact = (
    WorkerRegistered | WorkerDetached | WorkerDrained | WorkerQuarantined | WorkerReleased | WorkerGone | WorkerLeft
)


class WorkerUnknown(Refusal):
    """No worker is registered under this id."""

    code = "worker_unknown"

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"no worker is registered as {worker_id!r}; register it first", worker_id=worker_id)


class WorkerDraining(Refusal):
    """The worker asked for no more runs."""

    code = "worker_draining"

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"worker {worker_id!r} is draining; register it again to end that", worker_id=worker_id)


class WorkerInQuarantine(Refusal):
    """The worker is granted nothing until its quarantine ends."""

    code = "worker_quarantined"

    def __init__(self, worker_id: str, quarantine: Quarantine, *, probing: bool = False) -> None:
        until = quarantine.until.isoformat()
        ends = "until its one probing run ends without blame" if probing else f"until {until}, then for one run"
        super().__init__(
            f"worker {worker_id!r} is quarantined for {quarantine.reason!r} {ends}, or until an operator releases it",
            worker_id=worker_id, reason=quarantine.reason, until=until,
        )  # fmt: skip


class LeasesHeld(Refusal):
    """The worker still holds leases; hand them back first."""

    code = "leases_held"

    def __init__(self, worker_id: str, run_ids: list[str]) -> None:
        super().__init__(
            f"worker {worker_id!r} holds {len(run_ids)} leases; close or hand back their runs first",
            worker_id=worker_id, run_ids=run_ids,
        )  # fmt: skip


def worker_stream(tenant: str, worker_id: str) -> str:
    """The worker's own stream."""
    return f"worker-{tenant}:{worker_id}"


def evolve(worker: Worker, fact: WorkerFact) -> Worker:
    """The worker after one more fact."""
    version = worker.version + 1
    match fact:
        case WorkerRegistered():
            return Registered(
                version=version,
                worker_id=fact.worker_id,
                labels=fact.labels,
                slots=fact.slots,
                quarantine=worker.quarantine,
                instance=fact.instance,
            )
        case WorkerGone() | WorkerLeft():
            return Unregistered(version=version, quarantine=worker.quarantine)
        case WorkerDetached():
            return _changed(worker, {"version": version, "detached_at": fact.detached_at})
        case WorkerDrained():
            return _changed(worker, {"version": version, "draining": True})
        case WorkerQuarantined():
            quarantine = Quarantine(reason=fact.reason, since=fact.quarantined_at, until=fact.until)
            return _changed(worker, {"version": version, "quarantine": quarantine})
        case WorkerReleased():
            return _changed(worker, {"version": version, "quarantine": None})
        case _:
            assert_never(fact)


def _changed(worker: Worker, changes: dict[str, Any]) -> Worker:
    known = worker.__struct_fields__
    return msgspec.structs.replace(worker, **{key: value for key, value in changes.items() if key in known})


def register(
    worker: Worker, worker_id: str, labels: dict[str, str], slots: int, instance: Instance | None = None
) -> list[WorkerFact]:
    """Facts that follow when a worker says what it is; none when nothing changed."""
    check_id("worker_id", worker_id)
    check_labels("labels", labels)
    if not 1 <= slots <= SLOTS_MAX:
        raise InvalidCommand(field="slots", value=slots, limit=f"between 1 and {SLOTS_MAX}")
    known = worker.instance if isinstance(worker, Registered) else None
    kept = known if instance is None or same_process(known, instance) else instance
    same = isinstance(worker, Registered) and (worker.labels, worker.slots, known) == (labels, slots, kept)
    if same and not worker.draining:  # type: ignore[union-attr]
        return []
    return [WorkerRegistered(worker_id=worker_id, labels=labels, slots=slots, instance=kept)]


def drain(worker: Worker, worker_id: str, by: str) -> list[WorkerFact]:
    """Facts that follow when a worker is to take no more runs."""
    if require(worker, worker_id).draining:
        return []
    return [WorkerDrained(worker_id=worker_id, by=by)]


def leave(worker: Worker, worker_id: str, holding: list[str]) -> list[WorkerFact]:
    """Facts that follow when a worker says goodbye; refused while it holds leases."""
    if isinstance(worker, Unregistered):
        return []
    if holding:
        raise LeasesHeld(worker_id, holding)
    return [WorkerLeft(worker_id=worker_id)]


def gone(worker: Worker, worker_id: str, last_seen_at: datetime) -> list[WorkerFact]:
    """Facts that follow when a worker was unheard for too long."""
    return [] if isinstance(worker, Unregistered) else [WorkerGone(worker_id=worker_id, last_seen_at=last_seen_at)]


def detach(worker: Worker, worker_id: str, now: datetime, window_s: float) -> list[WorkerFact]:
    """Facts that follow when a worker's last stream was closed by its side."""
    if isinstance(worker, Unregistered):
        return []
    return [WorkerDetached(worker_id=worker_id, detached_at=now, window_s=window_s)]


def quarantine(worker: Worker, blame: "Blame", now: datetime, cooldown_s: float) -> list[WorkerFact]:
    """Facts that follow when what a worker reports points at the worker rather than at the run."""
    if isinstance(worker, Unregistered):
        return []
    until = later(now, cooldown_s)
    return [
        WorkerQuarantined(
            worker_id=blame.worker_id, reason=blame.reason, cites=blame.cites, quarantined_at=now, until=until
        )
    ]


class Blame(Value, frozen=True, kw_only=True):
    """Which worker is to blame, for what, by which facts."""

    worker_id: str
    reason: str
    cites: tuple[str, ...]


def release(worker: Worker, worker_id: str, cause: Literal["operator", "probe"], by: str) -> list[WorkerFact]:
    """Facts that follow when a quarantine is over."""
    if worker.quarantine is None:
        return []
    return [WorkerReleased(worker_id=worker_id, cause=cause, by=by)]


def require(worker: Worker, worker_id: str) -> Registered:
    """The registered worker, or the refusal that says it is not."""
    if isinstance(worker, Unregistered):
        raise WorkerUnknown(worker_id)
    return worker


def may_be_granted(worker: Worker, worker_id: str, *, cooled: bool, probing: int) -> Registered:
    """The worker, if it may be granted one more run.

    Once a quarantine has ``cooled``, one run; ``probing`` is how many were granted since it began and have not ended.
    """
    registered = require(worker, worker_id)
    if registered.draining:
        raise WorkerDraining(worker_id)
    if registered.quarantine is not None and not (cooled and probing == 0):
        raise WorkerInQuarantine(worker_id, registered.quarantine, probing=cooled)
    return registered


def poison_class(text: str) -> str | None:
    """The class of blame that this error begins with, if it is one that quarantines the worker."""
    return next((poison for poison in POISON_CLASSES if text.startswith(poison)), None)
