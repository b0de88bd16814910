"""The closed table of stored names: what a fact is called in the journal, for ever.

A name is chosen, stable and versioned: aggregate, what happened, version (``run.submitted.v1``). It says nothing about
modules or classes, so code may move. It never changes its meaning: another shape gets another name, and ``upcast.py``
turns the old into the new. A name that is not here is an error and never an import.

The first word of a stream's name (before the first hyphen) says which fold reads it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from domain import effects, lease, presence, queue, run, run_facts, turn_facts, worker, workspace, workspace_facts
from domain.values import Fact


class Fold(NamedTuple):
    """How the facts of a kind of stream become a state: where it starts, and the total step."""

    initial: Any
    evolve: Callable[[Any, Any], Any]


class Topics(Mapping[str, type[Fact]]):
    """A closed, one-to-one table of stored names and fact types.

    Raises:
        ValueError: two names for one type.
    """

    def __init__(self, table: Mapping[str, type[Fact]]) -> None:
        self._types = dict(table)
        self.names: dict[type[Fact], str] = {fact_type: topic for topic, fact_type in table.items()}
        if len(self.names) != len(self._types):
            doubled = sorted(t for t, fact_type in table.items() if self.names[fact_type] != t)
            message = f"these names share their fact type with another: {', '.join(doubled)}"
            raise ValueError(message)

    def __getitem__(self, topic: str) -> type[Fact]:
        return self._types[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


def aggregate_of(topic: str) -> str:
    """The aggregate that a stored name belongs to, for example ``run`` for ``run.submitted.v1``."""
    return topic.partition(".")[0]


def prefix_of(stream: str) -> str:
    """The kind of a stream, for example ``lease`` for ``lease-0190f0c0``."""
    return stream.partition("-")[0]


RUN_SCOPED = ("run", "lease", "effects")
"""Kinds of streams that are named after the run that their facts are about; such a fact is filed under that run."""


def own_run(stream: str) -> str | None:
    """The run that a stream is named after; None for a stream of another kind."""
    kind, _, name = stream.partition("-")
    return name if kind in RUN_SCOPED else None


TOPICS = Topics(
    {
        "run.submitted.v1": run_facts.RunSubmitted,
        "run.attempt_started.v1": run_facts.AttemptStarted,
        "run.attempt_ended.v1": run_facts.AttemptEnded,
        "run.closed.v1": run_facts.RunClosed,
        "run.parked.v1": run_facts.RunParked,
        "run.input_provided.v1": run_facts.InputProvided,
        "run.resumed.v1": run_facts.RunResumed,
        "run.pause_requested.v1": run_facts.PauseRequested,
        "run.cancel_requested.v1": run_facts.CancelRequested,
        "run.verdict_rendered.v1": run_facts.VerdictRendered,
        "run.settled.v1": run_facts.RunSettled,
        "run.partial_salvaged.v1": run_facts.PartialSalvaged,
        "run.worker_timeout.v1": run_facts.WorkerTimeout,
        "run.stop_reported.v1": run_facts.StopReported,
        "run.timeout_acknowledged.v1": run_facts.TimeoutAcknowledged,
        "run.reassigned.v1": run_facts.RunReassigned,
        "run.turn_admitted.v1": turn_facts.TurnAdmitted,
        "run.turn_moved.v1": turn_facts.TurnMoved,
        "run.turn_completed.v1": turn_facts.TurnCompleted,
        "run.turn_failed.v1": turn_facts.TurnFailed,
        "run.turn_cut.v1": turn_facts.TurnCut,
        "run.turn_noticed.v1": turn_facts.TurnNoticed,
        "lease.fence_bumped.v1": lease.FenceBumped,
        "lease.reserved.v1": lease.LeaseReserved,
        "lease.bound.v1": lease.LeaseBound,
        "lease.reservation_cancelled.v1": lease.ReservationCancelled,
        "lease.reservation_lapsed.v1": lease.ReservationLapsed,
        "lease.expired.v1": lease.LeaseExpired,
        "lease.released.v1": lease.LeaseReleased,
        "lease.revoked.v1": lease.LeaseRevoked,
        "lease.slice_ended.v1": lease.SliceEnded,
        "effect.intended.v1": effects.EffectIntended,
        "effect.completed.v1": effects.EffectCompleted,
        "effect.failed.v1": effects.EffectFailed,
        "effect.made_ambiguous.v1": effects.EffectsMadeAmbiguous,
        "effect.reconciled.v1": effects.EffectReconciled,
        "worker.registered.v1": worker.WorkerRegistered,
        "worker.detached.v1": worker.WorkerDetached,
        "worker.drained.v1": worker.WorkerDrained,
        "worker.quarantined.v1": worker.WorkerQuarantined,
        "worker.released.v1": worker.WorkerReleased,
        "worker.gone.v1": worker.WorkerGone,
        "worker.left.v1": worker.WorkerLeft,
        "queue.configured.v1": queue.QueueConfigured,
        "presence.leader_connected.v1": presence.LeaderConnected,
        "presence.leader_disconnected.v1": presence.LeaderDisconnected,
        "presence.leader_vanished.v1": presence.LeaderVanished,
        "presence.leader_returned.v1": presence.LeaderReturned,
        "presence.reseeded.v1": presence.PresenceReseeded,
        "presence.leader_gone.v1": presence.LeaderGone,
        "workspace.placed.v1": workspace_facts.WorkspacePlaced,
        "workspace.waiting.v1": workspace_facts.WorkspaceWaiting,
        "workspace.provisioning.v1": workspace_facts.WorkspaceProvisioning,
        "workspace.attached.v1": workspace_facts.WorkspaceAttached,
        "workspace.harness_restarted.v1": workspace_facts.HarnessRestarted,
        "workspace.continuity_unknown.v1": workspace_facts.ContinuityUnknown,
        "workspace.continuity_restored.v1": workspace_facts.ContinuityRestored,
        "workspace.lost.v1": workspace_facts.WorkspaceLost,
        "workspace.provision_faulted.v1": workspace_facts.ProvisionFaulted,
        "workspace.released.v1": workspace_facts.WorkspaceReleased,
        "workspace.reaped.v1": workspace_facts.WorkspaceReaped,
        "workspace.destroyed.v1": workspace_facts.WorkspaceDestroyed,
    }
)
"""Every name under which this version reads and writes facts."""

FOLDS: Mapping[str, Fold] = {
    "run": Fold(run.ABSENT, run.evolve),
    "lease": Fold(lease.VACANT, lease.evolve),
    "effects": Fold(effects.EMPTY, effects.evolve),
    "worker": Fold(worker.UNREGISTERED, worker.evolve),
    "queue": Fold(queue.UNCONFIGURED, queue.evolve),
    "presence": Fold(presence.NEVER_SEEN, presence.evolve),
    "workspace": Fold(workspace.UNPLACED, workspace.evolve),
}
"""By kind of stream: where its state starts, and how a fact moves it on."""


def topic_of(fact_type: type[Fact]) -> str:
    """The stored name of a fact type.

    Raises:
        KeyError: the type is not in the table.
    """
    return TOPICS.names[fact_type]
