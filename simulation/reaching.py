"""Which situations worlds have come into: the hard ones by name, each noticed by a small question about one decision.

A search that never comes near a situation proves nothing about it. So every situation that a law was written for, or a
fault was once found in, is listed here; worlds count how often they were in it, `make sim` prints the counts, and the
suite fails when the seeds that it plays leave one out. A situation that is no matter of facts (a kill while a link is
open) is noted by the world itself, under a name in ``NOTED``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from domain.effects import EffectCompleted, EffectReconciled, EffectsMadeAmbiguous
from domain.grounds import BUDGET_SPENT, pending_loss
from domain.lease import (
    FenceBumped,
    LeaseExpired,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
    SliceEnded,
)
from domain.presence import LeaderConnected, LeaderGone
from domain.run import Parked, Queued, Run, Running, WaitingVerdict
from domain.run_facts import (
    AttemptEnded,
    InputProvided,
    PartialSalvaged,
    RunClosed,
    RunParked,
    RunReassigned,
    RunResumed,
    RunSettled,
    StopReported,
    TimeoutAcknowledged,
    VerdictRendered,
    WorkerTimeout,
)
from domain.standing import Standing
from domain.turn_facts import TurnCompleted, TurnCut, TurnFailed, TurnMoved
from domain.values import Fact
from domain.worker import WorkerDetached, WorkerGone, WorkerQuarantined, WorkerReleased
from domain.workspace import Workspace
from domain.workspace_facts import (
    ContinuityRestored,
    ContinuityUnknown,
    HarnessRestarted,
    ProvisionFaulted,
    WorkspaceDestroyed,
    WorkspaceLost,
    WorkspaceReaped,
    WorkspaceReleased,
    WorkspaceWaiting,
)
from journal.mapper import Recorded
from projections.live.grounds import OBSERVERS_QUEUE

F = TypeVar("F", bound=Fact)


class Seen(NamedTuple):
    """One decision about one run: how it stood, and what was recorded."""

    before: Standing
    facts: Sequence[Fact]

    def one(self, kind: type[F], /, **like: object) -> F | None:
        """The fact of this kind with these values, if there is one."""
        for fact in self.facts:
            if isinstance(fact, kind) and all(getattr(fact, name) == value for name, value in like.items()):
                return fact
        return None

    @property
    def run(self) -> Run | None:
        """The run before; None before its submission."""
        return self.before.run if isinstance(self.before.run, Run) else None

    @property
    def policy(self) -> Any:
        """The run's policy."""
        return self.before.known.policy

    def in_phase(self, *kinds: type[Any]) -> bool:
        """Whether the run was in one of these phases."""
        return self.run is not None and isinstance(self.run.phase, kinds)

    def ground(self, **like: object) -> Workspace | None:
        """A workspace of the run, before, with these values."""
        found = (each for each in self.before.workspaces if all(getattr(each, k) == v for k, v in like.items()))
        return next(found, None)


def _lost(seen: Seen, policy: str) -> bool:
    now = seen.one(WorkspaceLost, pending=False) is not None and seen.in_phase(Running)
    return now and seen.policy.on_workspace_lost == policy and not seen.before.known.cancel


def _kept(seen: Seen) -> bool:
    return seen.in_phase(Parked) and seen.before.known.acting is not None


def _pending(seen: Seen) -> bool:
    return seen.run is not None and pending_loss(seen.before) is not None


def _asked(seen: Seen) -> bool:
    return seen.run is not None and seen.run.cancel is not None


Question = Callable[[Seen], object]

SITUATIONS: Mapping[str, Question] = {
    "taken over while parked": lambda s: s.one(FenceBumped, cause="id") and s.in_phase(Parked),
    "taken over by id after an expiry": lambda s: s.one(FenceBumped, cause="id") and s.in_phase(Queued),
    "a kept lease expires while parked": lambda s: s.one(LeaseExpired) and s.in_phase(Parked),
    "answered to a holder that kept its lease": lambda s: s.one(InputProvided) and _kept(s),
    "resumed by its leader": lambda s: s.one(RunResumed),
    "due at an instant that its leader named": lambda s: (
        s.one(FenceBumped, cause="queue") and s.before.known.submission.due_at > s.before.known.submission.submitted_at
    ),
    "a worker is chosen for its labels": lambda s: s.one(FenceBumped) and s.before.known.submission.labels,
    "a reservation lapses": lambda s: s.one(ReservationLapsed),
    "a reservation is given back": lambda s: s.one(ReservationCancelled),
    "an ambiguous effect on giving up": lambda s: s.one(EffectsMadeAmbiguous) and s.one(RunSettled, state="aborted"),
    "an effect is reconciled": lambda s: s.one(EffectReconciled),
    "an effect is completed by a late holder": lambda s: s.one(EffectCompleted) and s.in_phase(Queued),
    "a late close after an expiry": lambda s: s.one(RunClosed, late=True),
    "a close that fails under a pending cancel": lambda s: s.one(RunClosed, outcome="failed") and _asked(s),
    "a success under a pending cancel": lambda s: s.one(RunClosed, outcome="succeeded") and _asked(s),
    "a pending cancel settles at an expiry": lambda s: s.one(LeaseExpired) and s.one(RunSettled, reason="cancelled"),
    "a pending pause becomes one": lambda s: s.one(RunParked, kind="paused") and s.one(LeaseExpired),
    "given up with its attempts spent": lambda s: s.one(LeaseExpired) and s.one(RunSettled, state="aborted"),
    "a detachment hands a run on": lambda s: s.one(LeaseExpired, detached=True),
    "a slice ends": lambda s: s.one(SliceEnded),
    "a slice ends unanswered": lambda s: s.one(AttemptEnded, outcome="slice_ended"),
    "judged by its leader": lambda s: s.one(VerdictRendered),
    "a partial is salvaged": lambda s: s.one(PartialSalvaged),
    "a stop is reported after a revocation": lambda s: s.one(StopReported),
    "quiet, and told": lambda s: s.one(WorkerTimeout, kind="inactivity"),
    "quiet, and failed by policy": lambda s: s.one(AttemptEnded, outcome="stalled"),
    "overlong, and extended": lambda s: s.one(TimeoutAcknowledged, answer="extend"),
    "overlong, and aborted": lambda s: s.one(TimeoutAcknowledged, answer="abort"),
    "reassigned": lambda s: s.one(RunReassigned),
    "leader gone, and cancelled": lambda s: s.one(RunSettled, reason="leader_gone"),
    "leader gone, and parked": lambda s: s.one(WorkerTimeout, kind="leader_gone") and s.one(RunParked),
    "leader gone, and kept": lambda s: (
        s.one(WorkerTimeout, kind="leader_gone") and s.policy.on_leader_gone == "keep"
    ),
    "lost with its ground": lambda s: _lost(s, "settle_lost"),
    "tried afresh after a loss": lambda s: _lost(s, "retry_fresh"),
    "parked by a loss": lambda s: _lost(s, "park"),
    "a loss while parked with a kept lease": lambda s: s.one(WorkspaceLost) and _kept(s),
    "a loss while queued": lambda s: s.one(WorkspaceLost) and s.in_phase(Queued),
    "a loss while waiting for a verdict": lambda s: s.one(WorkspaceLost) and s.in_phase(WaitingVerdict),
    "a loss under a pending cancel": lambda s: s.one(WorkspaceLost) and _asked(s),
    "a pending loss decided by a close": lambda s: s.one(RunClosed) and _pending(s),
    "a pending loss decided by an expiry": lambda s: s.one(LeaseExpired) and _pending(s),
    "a pending loss decided by a revocation": lambda s: s.one(LeaseRevoked) and _pending(s) and not s.one(LeaseExpired),
    "a body replaced": lambda s: s.one(WorkspaceLost, reason="DirectoryReplaced"),
    "a body that waits for room": lambda s: s.one(WorkspaceWaiting),
    "a body that used up its budget": lambda s: s.one(ProvisionFaulted, reason=BUDGET_SPENT),
    "a fault before attachment fails the attempt": lambda s: s.one(AttemptEnded, outcome="provision_failed"),
    "unseen since a boot": lambda s: s.one(ContinuityUnknown, cause="boot"),
    "unseen since the observer went": lambda s: s.one(ContinuityUnknown, cause="observer_gone"),
    "seen again": lambda s: s.one(ContinuityRestored),
    "lost after nobody saw it": lambda s: s.one(WorkspaceLost) and any(w.unknown_since for w in s.before.workspaces),
    "reaped": lambda s: s.one(WorkspaceReaped),
    "kept beyond a cancel": lambda s: s.one(WorkspaceReleased, keep=True),
    "destroyed": lambda s: s.one(WorkspaceDestroyed),
    "a restart fails a turn that waits": lambda s: s.one(HarnessRestarted) and s.one(TurnFailed, by="restart"),
    "a restart cuts a turn that is busy": lambda s: s.one(HarnessRestarted) and s.one(TurnCut),
    "a delivery under a mark that has passed": lambda s: s.one(TurnMoved) and s.one(TurnFailed, by="restart"),
    "a turn that could not be delivered": lambda s: s.one(TurnFailed, by="window"),
    "a turn is completed": lambda s: s.one(TurnCompleted),
    "an observer is taken over": lambda s: (
        s.one(FenceBumped) and s.before.known.submission.queue == OBSERVERS_QUEUE and s.before.lease.fence > 0
    ),
}  # fmt: skip
"""By name: what to ask of each decision about one run."""

RECONNECTED = "a leader returns between two settlements"
GONE, QUARANTINED, PROBED = "a worker is given up", "a worker is quarantined", "a probing run releases a worker"
WINDOW = timedelta(seconds=2)
SLICED_AWAY = "a slice ends during a detachment"
DROP_LOST = "killed with a link open: its drop is not recorded"
KILLED_LANDED, KILLED_LOST = "killed while an append lands", "killed before an append lands"
STALE_OBSERVER = "a stale observer is refused"
REPEATED = "a repeated command is answered again"
REPEATED_AFTER = "a repeat tells what an unknown append did"
ZOMBIE = "a write under a fence that is over is refused"
OTHER_BODY = "another body is named and refused"
FROM_CHECKPOINT = "started from a checkpoint"
OLD_CHECKPOINT = "started from a checkpoint that is older than the tail"
CHECKPOINT_OF_ANOTHER = "started from a checkpoint that another node wrote"
HANDED_OVER = "a node takes the journal over from another"
MODEL_OF_ANOTHER = "read models that another node wrote are gone on with"
REPEATED_ELSEWHERE = "a command is repeated to another node"
START_REFUSED = "a start beside the service is refused by the lock"
FROZEN_REFUSED = "a start beside a service that is frozen is refused"
OLD_WRITER = "a service whose lock was lost is refused to append"
READ_BESIDE = "another process reads while the service writes"
REBUILT_BESIDE = "another process rebuilds while the service writes"
SLOW_LOST = "a worker whose clock is slow loses a lease that it trusts"
FAST_GAVE_UP = "a worker whose clock is fast lets a lease go that it still has"
SESSION_SLOW = "a session ends because its leader's clock is slow"
NOTED = (
    RECONNECTED, SLICED_AWAY, GONE, QUARANTINED, PROBED, DROP_LOST, KILLED_LANDED, KILLED_LOST, STALE_OBSERVER,
    REPEATED, REPEATED_AFTER, ZOMBIE, OTHER_BODY, FROM_CHECKPOINT, OLD_CHECKPOINT, CHECKPOINT_OF_ANOTHER, HANDED_OVER,
    MODEL_OF_ANOTHER, REPEATED_ELSEWHERE, START_REFUSED, FROZEN_REFUSED, OLD_WRITER, READ_BESIDE, REBUILT_BESIDE,
    SLOW_LOST, FAST_GAVE_UP, SESSION_SLOW,
)  # fmt: skip
"""Situations that one decision about a run does not show."""
ALL = (*SITUATIONS, *NOTED)

_OF_WORKERS: Mapping[type[Any], str] = {WorkerGone: GONE, WorkerQuarantined: QUARANTINED}


class Reached:
    """How often each situation was come into in one world."""

    def __init__(self, wants: Callable[[str], bool] = lambda leader_id: False) -> None:
        self.counts: Counter[str] = Counter()
        self._wants = wants
        """Whether a leader has a run that its absence would still settle."""
        self._settling: set[str] = set()
        self._detached: dict[str, datetime] = {}

    def note(self, situation: str) -> None:
        """The world was in this one."""
        self.counts[situation] += 1

    def decided(self, before: Mapping[str, Standing], facts: Sequence[Recorded]) -> None:
        """Look at one decision, with the runs that it is about as they were before."""
        for run_id, standing in before.items():
            seen = Seen(standing, [each.fact for each in facts if each.meta.correlation_id == run_id])
            for name, question in SITUATIONS.items():
                if question(seen):
                    self.counts[name] += 1
        for recorded in facts:
            self._other(recorded.fact, before)

    def _other(self, fact: Fact, before: Mapping[str, Standing]) -> None:  # noqa: C901  (one arm for each fact)
        match fact:
            case WorkerGone() | WorkerQuarantined():
                self.note(_OF_WORKERS[type(fact)])
            case WorkerDetached():
                self._detached[fact.worker_id] = fact.detached_at
            case LeaseExpired():
                sliced = any(getattr(standing.lease, "sliced", False) for standing in before.values())
                since = self._detached.get(fact.worker)
                if sliced and since is not None and fact.expired_at - since <= WINDOW:
                    self.note(SLICED_AWAY)
            case WorkerReleased(cause="probe"):
                self.note(PROBED)
            case LeaderGone():
                self._settling.discard(fact.leader_id)
            case RunSettled(reason="leader_gone"):
                self._settling |= {str(standing.known.leader_id) for standing in before.values()}
            case LeaderConnected():
                if fact.leader_id in self._settling and self._wants(fact.leader_id):
                    self.note(RECONNECTED)
                self._settling.discard(fact.leader_id)
            case _:
                pass


def table(counts: Mapping[str, int]) -> list[str]:
    """One line for each situation: how often worlds were in it."""
    return [f"{counts.get(name, 0):8,}  {name}" for name in ALL]
