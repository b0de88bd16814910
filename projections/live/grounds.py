"""The grounds that runs stand on: every workspace whose body may still be there, by run, by scope and by phase.

Three clocks are kept here, all on the monotonic scale, in seconds. *provisioning* starts when a body is being made,
stands still while nobody can see it (continuity unknown), and is none while the workspace waits for capacity. *idle*
starts at the last assertion; creation, a grant and the start of this node count as one, and ``needs`` says when it
stands still. *unknown* is only an age. A restart starts the first two anew: nobody could reach us before.

A workspace leaves the index once its body is destroyed. A run that is open keeps the ids of all that it ever stood on,
at most ``REMEMBERED_MAX`` of them, the latest; those of an ended run are read from the journal when they are asked for.
"""

from collections.abc import Iterable, Iterator, Set
from datetime import datetime
from typing import TypeVar, assert_never

import msgspec

from domain.values import Moment
from domain.workspace_facts import (
    ON_ITS_MACHINE,
    ContinuityRestored,
    ContinuityUnknown,
    HarnessRestarted,
    ProvisionFaulted,
    WorkspaceAttached,
    WorkspaceDestroyed,
    WorkspaceFact,
    WorkspaceLost,
    WorkspacePlaced,
    WorkspaceProvisioning,
    WorkspaceReaped,
    WorkspaceReleased,
    WorkspaceWaiting,
)
from evidence.grounds import GroundMarks, ScopeKey
from projections.live.cards import WorkerKey
from projections.live.deadlines import Deadlines, Graces, Kind, due
from projections.live.limits import Holding

OBSERVERS_QUEUE = "_observers"
"""Where runs of observers are: the concurrency key of such a run is the scope that its holder watches."""
REMEMBERED_MAX = 256
"""Workspaces of one open run whose ids are kept, destroyed ones included."""
LOCAL = frozenset({"directory", "process"})
"""Providers whose bodies are on the machine of one worker, which alone can see and assert them."""
GROUND_KINDS: tuple[Kind, ...] = ("provision", "idle")

K = TypeVar("K")


class GroundCard(msgspec.Struct):
    """One workspace whose body may still be there."""

    workspace_id: str
    run_id: str
    tenant: str
    worker: str
    """The worker that placed it."""
    provider: str
    scope: str | None
    order: int
    """The position of its first fact: the order of lists."""
    phase: str
    teardown: bool = False
    """Whether its body is to be destroyed; a lost workspace stays ``lost`` beside it."""
    kept: bool = False
    """Whether it was released with the wish to keep its body."""
    provisioning_from: float | None = None
    attached_from: float | None = None
    attached_position: int = 0
    """The position of the fact that it was attached to."""
    unknown_from: float | None = None
    unknown_since: datetime | None = None
    unknown_cause: str | None = None
    teardown_from: float | None = None
    undecided: bool = False
    """Whether it was lost with an exit, and its run's holder has yet to say what that means."""

    @property
    def scope_key(self) -> ScopeKey | None:
        """(tenant, scope) when somebody else than the holder may watch it."""
        return None if self.scope is None else (self.tenant, self.scope)

    @property
    def matters(self) -> bool:
        """Whether a decision about its run may be about it, too."""
        return self.teardown or self.undecided or not self.over

    @property
    def over(self) -> bool:
        """Whether nothing runs in it any more, as far as is known."""
        return self.teardown or self.phase in ("lost", "provision_failed")


class Grounds:
    """All workspaces of this journal whose bodies may still be there."""

    def __init__(self, marks: GroundMarks, deadlines: Deadlines, graces: Graces) -> None:
        self.cards: dict[str, GroundCard] = {}
        self._of_run: dict[str, dict[str, None]] = {}
        self._ever: dict[str, dict[str, None]] = {}
        self._undecided: dict[str, dict[str, None]] = {}
        self._of_scope: dict[ScopeKey, dict[str, None]] = {}
        self._placed_by: dict[WorkerKey, dict[str, None]] = {}
        self._to_destroy: dict[WorkerKey, dict[str, None]] = {}
        self._going: dict[str, None] = {}
        self._unknown: dict[str, None] = {}
        self._marks = marks
        self._deadlines = deadlines
        self._graces = graces

    def __len__(self) -> int:
        return len(self.cards)

    def of_run(self, run_id: str) -> tuple[str, ...]:
        """The workspaces of a run that matter to it, in the order in which they were placed.

        Those whose bodies may still be there, and those whose loss is yet to be decided by the end of the lease.
        """
        return tuple({**self._undecided.get(run_id, {}), **self._of_run.get(run_id, {})})

    def mattering(self, run_id: str) -> tuple[str, ...]:
        """Those of them that a decision about the run may be about: not over, to be destroyed, or to be decided on."""
        if run_id not in self._of_run and run_id not in self._undecided:
            return ()
        return tuple(each for each in self.of_run(run_id) if each not in self.cards or self.cards[each].matters)

    def undecided(self, run_id: str) -> bool:
        """Whether a loss of the run with an exit waits for its holder's close, or for the lease's whole time."""
        return run_id in self._undecided or any(self.cards[each].undecided for each in self._of_run.get(run_id, ()))

    def ever_of(self, run_id: str) -> tuple[str, ...]:
        """The workspaces that an open run stood on, the latest of them if there were many."""
        return tuple(self._ever.get(run_id, ()))

    def of_scope(self, scope: ScopeKey) -> list[GroundCard]:
        """The workspaces of a scope."""
        return [self.cards[workspace_id] for workspace_id in self._of_scope.get(scope, ())]

    def watched_by(self, run_id: str, holding: Holding | None) -> set[ScopeKey]:
        """The scopes that the holder of this lease watches: those that it reported on, and that of its run."""
        scopes = set(self._marks.watched_by(run_id))
        if holding is not None and holding.key is not None and holding.queue[1] == OBSERVERS_QUEUE:
            scopes.add((holding.queue[0], holding.key[2]))
        return scopes

    def seen_only_by(self, worker: WorkerKey, held: Iterable[str]) -> list[GroundCard]:
        """The attached workspaces of open runs that nobody sees but this worker, and that are not unknown.

        Those on its own machine, whoever holds their runs; others without a scope are seen by the holder.
        """
        its_own = [self.cards[each] for each in self._placed_by.get(worker, ())]
        of_holder = [self.cards[each] for run_id in held for each in self._of_run.get(run_id, ())]
        found = [card for card in its_own if card.provider in ON_ITS_MACHINE]
        found += [card for card in of_holder if card.provider not in ON_ITS_MACHINE]
        seen = [card for card in found if card.phase == "running" and card.unknown_from is None]
        return [card for card in seen if card.scope is None and card.run_id in self._ever]

    def to_destroy(self, worker: WorkerKey) -> list[GroundCard]:
        """The workspaces that a worker placed and whose bodies are to be destroyed."""
        return [self.cards[workspace_id] for workspace_id in self._to_destroy.get(worker, ())]

    def all_to_destroy(self) -> list[GroundCard]:
        """The workspaces whose bodies are to be destroyed, in the order in which they were placed."""
        found = [self.cards[workspace_id] for placed in self._to_destroy.values() for workspace_id in placed]
        return sorted(found, key=lambda card: card.order)

    def going(self) -> Iterator[GroundCard]:
        """The workspaces whose bodies are to be destroyed, those first that have been for longest."""
        return (self.cards[workspace_id] for workspace_id in self._going)

    def unknown(self) -> Iterator[GroundCard]:
        """The workspaces of open runs of which nobody knows whether they are there, the longest unknown first."""
        return (self.cards[workspace_id] for workspace_id in self._unknown)

    def provision_due(self, workspace_id: str) -> float | None:
        """When the making of this body has taken too long; None while its clock stands still or does not run."""
        card = self.cards.get(workspace_id)
        if card is None or card.provisioning_from is None or card.unknown_from is not None:
            return None
        return card.provisioning_from + self._graces.provisioning_s

    def idle_due(self, workspace_id: str) -> float | None:
        """When nobody has asserted this workspace for too long; None when that does not end it."""
        card, asserted = self.cards.get(workspace_id), self._marks.last_asserted(workspace_id)
        if card is None or asserted is None or card.teardown or card.kept:
            return None
        return asserted.mono + self._graces.idle_reap_s

    def placed(self, fact: WorkspacePlaced, position: int, at: Moment) -> None:
        """A new workspace."""
        external = fact.provider == "external"
        card = self.cards[fact.workspace_id] = GroundCard(
            workspace_id=fact.workspace_id,
            run_id=fact.run_id,
            tenant=fact.tenant,
            worker=fact.worker,
            provider=fact.provider,
            scope=fact.scope,
            order=position,
            phase="provisioning" if external else "placing",
        )
        self._of_run.setdefault(fact.run_id, {})[fact.workspace_id] = None
        ever = self._ever.setdefault(fact.run_id, {})
        ever[fact.workspace_id] = None
        if len(ever) > REMEMBERED_MAX:
            del ever[next(iter(ever))]
        self._placed_by.setdefault((card.tenant, card.worker), {})[fact.workspace_id] = None
        if card.scope_key is not None:
            self._of_scope.setdefault(card.scope_key, {})[fact.workspace_id] = None
        self.assert_now(card, at)
        if external:
            self._provision(card, at.mono)

    def fold(self, workspace_id: str, fact: WorkspaceFact, position: int, at: Moment) -> None:
        """Take over one fact of a workspace."""
        if isinstance(fact, WorkspacePlaced):
            self.placed(fact, position, at)
            return
        card = self.cards.get(workspace_id)
        if card is not None:
            if isinstance(fact, WorkspaceAttached):
                card.attached_position = position
            self._change(card, fact, at)

    def _change(self, card: GroundCard, fact: WorkspaceFact, at: Moment) -> None:  # noqa: C901  (one arm for each fact)
        match fact:
            case WorkspaceWaiting():
                self._stop_provisioning(card)
            case WorkspaceProvisioning(identity=identity):
                card.phase = "provisioning" if identity is None else "attaching"
                self._provision(card, at.mono)
            case WorkspaceAttached():
                card.phase, card.attached_from = "running", at.mono
                self._known(card)
                self._stop_provisioning(card)
            case ContinuityUnknown():
                self._unseen(card, fact, at)
            case ContinuityRestored():
                self._seen_again(card, at)
            case WorkspaceLost(pending=pending):
                card.undecided = pending
                self._over(card, "lost")
            case ProvisionFaulted():
                self._over(card, "provision_failed")
            case WorkspaceReleased(keep=True):
                card.kept = True
                self._deadlines.forget("idle", (card.workspace_id,))
            case WorkspaceReleased() | WorkspaceReaped():
                self._tear_down(card, at.mono)
            case WorkspaceDestroyed():
                self._forget(card)
            case WorkspacePlaced() | HarnessRestarted():
                pass
            case _:
                assert_never(fact)

    def _provision(self, card: GroundCard, mono: float) -> None:
        if card.provisioning_from is None:
            card.provisioning_from = mono
            self._remind("provision", mono + self._graces.provisioning_s, card)

    def _stop_provisioning(self, card: GroundCard) -> None:
        card.provisioning_from = None
        self._deadlines.forget("provision", (card.workspace_id,))

    def _unseen(self, card: GroundCard, fact: ContinuityUnknown, at: Moment) -> None:
        if card.unknown_from is None:
            card.unknown_from, card.unknown_since = at.mono, fact.since
            if card.run_id in self._ever:
                self._unknown[card.workspace_id] = None
        card.unknown_cause = fact.cause
        self._deadlines.forget("provision", (card.workspace_id,))

    def _seen_again(self, card: GroundCard, at: Moment) -> None:
        if card.unknown_from is not None and card.provisioning_from is not None:
            card.provisioning_from += at.mono - max(card.unknown_from, card.provisioning_from)
            self._remind("provision", card.provisioning_from + self._graces.provisioning_s, card)
        self._known(card)
        if card.provider in LOCAL and not (card.kept or card.teardown):
            self._needed(card, at)

    def _known(self, card: GroundCard) -> None:
        card.unknown_from = card.unknown_since = card.unknown_cause = None
        self._unknown.pop(card.workspace_id, None)

    def _over(self, card: GroundCard, phase: str) -> None:
        """Lost, or never made: it can be looked into until nobody asserts it any more."""
        card.phase = phase
        self._known(card)
        self._stop_provisioning(card)

    def _tear_down(self, card: GroundCard, mono: float) -> None:
        card.teardown, card.kept, card.teardown_from = True, False, mono
        self._going[card.workspace_id] = None
        if card.phase not in ("lost", "provision_failed"):
            card.phase = "teardown"
        self._known(card)
        self._stop_provisioning(card)
        self._deadlines.forget("idle", (card.workspace_id,))
        self._to_destroy.setdefault((card.tenant, card.worker), {})[card.workspace_id] = None

    def _forget(self, card: GroundCard) -> None:
        workspace_id = card.workspace_id
        self._known(card)
        self._deadlines.forget_each(GROUND_KINDS, (workspace_id,))
        del self.cards[workspace_id]
        self._going.pop(workspace_id, None)
        if card.undecided:
            self._undecided.setdefault(card.run_id, {})[workspace_id] = None
        _drop(self._of_run, card.run_id, workspace_id)
        _drop(self._placed_by, (card.tenant, card.worker), workspace_id)
        _drop(self._to_destroy, (card.tenant, card.worker), workspace_id)
        if card.scope_key is not None:
            _drop(self._of_scope, card.scope_key, workspace_id)
        self._marks.forget(workspace_id)

    def assert_now(self, card: GroundCard, now: Moment) -> None:
        """The workspace is needed, as of now."""
        self._marks.asserted(card.workspace_id, now)
        self._look_idle(card, now)

    def _look_idle(self, card: GroundCard, now: Moment) -> None:
        self._remind("idle", now.mono + self._graces.idle_reap_s, card)

    def _needed(self, card: GroundCard, now: Moment) -> None:
        """Its clock begins anew, whenever it was to run out."""
        self._deadlines.forget("idle", (card.workspace_id,))
        self.assert_now(card, now)

    def granted(self, run_id: str, at: Moment) -> None:
        """Somebody holds the run from now on, and has its whole time to say what it needs of the ground."""
        for workspace_id in self._of_run.get(run_id, ()):
            card = self.cards[workspace_id]
            if not (card.over or card.kept):
                self._needed(card, at)

    def lease_ended(self, run_id: str) -> None:
        """The lease is over: what a loss meant for the run is decided."""
        self._undecided.pop(run_id, None)
        for workspace_id in self._of_run.get(run_id, ()):
            self.cards[workspace_id].undecided = False

    def run_ended(self, run_id: str, at: Moment) -> None:
        """The run is over: until now it was needed by being open, where no silence could say that it was not."""
        self._ever.pop(run_id, None)
        for workspace_id in self._of_run.get(run_id, ()):
            card = self.cards[workspace_id]
            self._unknown.pop(workspace_id, None)
            due_at = self.idle_due(workspace_id)  # None for what is kept, or let go
            spared = card.provider in LOCAL or card.provider == "kubernetes"
            if due_at is not None and not card.over and (spared or due_at <= at.mono):
                self._needed(card, at)

    def rebase(self, now: Moment, late_s: float, open_runs: Set[str]) -> None:
        """The service has just started: its absence is charged to nobody, and what it counts starts anew.

        A start from a checkpoint reads what happened to bodies, and not how runs went that ended before it.
        """
        for run_id in (self._ever.keys() | self._undecided.keys() | self._of_run.keys()) - open_runs:
            self.lease_ended(run_id)
            self._ever.pop(run_id, None)
            for workspace_id in self._of_run.get(run_id, ()):
                self._unknown.pop(workspace_id, None)
        for card in self.cards.values():
            card.unknown_from = None if card.unknown_from is None else card.unknown_from + late_s
            card.attached_from = None if card.attached_from is None else card.attached_from + late_s
            card.teardown_from = None if card.teardown_from is None else card.teardown_from + late_s
            self._marks.starts_anew(card.workspace_id, now)
            if not card.teardown and not card.kept:
                self._deadlines.forget("idle", (card.workspace_id,))
                self._look_idle(card, now)
            if card.provisioning_from is not None:
                self._stop_provisioning(card)
                self._provision(card, now.mono)
                if card.unknown_from is not None:  # its clock stands still all the same
                    self._deadlines.forget("provision", (card.workspace_id,))

    def _remind(self, kind: Kind, mono: float, card: GroundCard) -> None:
        self._deadlines.add(due(mono, kind, (card.workspace_id,), ""))

    def sizes(self) -> dict[str, int]:
        """How much is kept."""
        return {
            "workspaces": len(self.cards),
            "runs": len(self._ever),
            "scopes": len(self._of_scope),
            "to_destroy": len(self._to_destroy),
            "unknown": len(self._unknown),
            "going": len(self._going),
            "undecided": len(self._undecided),
        }


def _drop(index: dict[K, dict[str, None]], key: K, workspace_id: str) -> None:
    members = index.get(key)
    if members is not None:
        members.pop(workspace_id, None)
        if not members:
            del index[key]
