"""How one run stands: its run, lease and effect ledger, and what it stands on, read together.

Every command on a run reads all these streams and is guarded by all of them. Here is what the decisions over them have
in common: the state in one word (a queued run whose lease is reserved is ``reserved``), who may write, and how an
attempt's end is put down: evidence first, intended effects made ambiguous, then the end itself.
"""

from datetime import datetime

from domain import effects as ledgers
from domain import lease as leases
from domain.decider import Draft
from domain.fencing import fence_lost, is_late
from domain.lease import FenceLost, FenceRequired, Held, Lease, LeaseMark, Reserved
from domain.refusal import RunUnknown
from domain.run import Absent, Queued, Run, Settled, SettledOtherwise, WrongState, run_stream
from domain.run_facts import AttemptEnded, EndOutcome, RunClosed, RunParked, State, Work
from domain.values import NULL, Fact, Json, Moment, Value, cite
from domain.workspace import Workspace, workspace_stream
from domain.workspace_refusals import WorkspaceUnknown

CONTINUATION_S = 1.0
"""Seconds until a run that was handed on without having failed may be claimed again."""


class Standing(Value, frozen=True, kw_only=True):
    """The streams of one run and of its workspaces, folded, and the evidence mark of its lease."""

    run_id: str
    run: Run | Absent
    lease: Lease
    effects: ledgers.EffectLedger
    mark: LeaseMark | None = None
    ends: float | None = None
    """When the reservation lapses, or the slice of the lease ends, on the monotonic scale; None when nothing does."""
    workspaces: tuple[Workspace, ...] = ()
    """What it stands on: all that are not over, all whose loss is pending or whose body is still to be destroyed, and
    the one that a command names."""
    continuation_s: float = CONTINUATION_S
    """Seconds after which a run that was handed on without a failure is due again."""

    @property
    def versions(self) -> dict[str, int]:
        """What a decision over this run is guarded by."""
        read = {
            run_stream(self.run_id): self.run.version,
            lease_stream(self.run_id): self.lease.version,
            effects_stream(self.run_id): self.effects.version,
        }
        for workspace in self.workspaces:
            read[workspace_stream(workspace.workspace_id)] = workspace.version
        return read

    def workspace(self, workspace_id: str) -> Workspace:
        """The workspace of this run that has the id, or the refusal that says there is none."""
        for workspace in self.workspaces:
            if workspace.workspace_id == workspace_id:
                return workspace
        raise WorkspaceUnknown(workspace_id)

    def draft(self) -> "RunDraft":
        """A decision about this run, still empty."""
        return RunDraft(self)

    @property
    def known(self) -> Run:
        """The run, or the refusal that says there is none."""
        if isinstance(self.run, Absent):
            raise RunUnknown(self.run_id)
        return self.run

    @property
    def state(self) -> State:
        """The run's state; a queued run whose lease is reserved is ``reserved``."""
        run = self.known
        return "reserved" if isinstance(run.phase, Queued) and isinstance(self.lease, Reserved) else run.state

    def live(self, now: Moment) -> bool:
        """Whether somebody holds a live lease. A mark that is missing is as good as new, never old."""
        lease, mark = self.lease, self.mark
        return isinstance(lease, Held) and (mark is None or mark.fence != lease.fence or mark.live(now))

    def ends_at(self, recorded: datetime, now: Moment) -> datetime:
        """When that is by the clock that runs on it, for people; as it was recorded where none does."""
        return recorded if self.ends is None else now.wall_at(self.ends)


class RunDraft(Draft):
    """The facts of a decision about one run."""

    def __init__(self, standing: Standing) -> None:
        super().__init__(standing.versions)
        self.standing = standing

    def on_run(self, fact: Fact) -> str:
        """Add a fact of the run; its citation."""
        return self.add(run_stream(self.standing.run_id), fact)

    def on_lease(self, fact: Fact) -> str:
        """Add a fact of the lease; its citation."""
        return self.add(lease_stream(self.standing.run_id), fact)

    def on_effects(self, fact: Fact) -> str:
        """Add a fact of the effect ledger; its citation."""
        return self.add(effects_stream(self.standing.run_id), fact)

    def on_workspace(self, workspace_id: str, fact: Fact) -> str:
        """Add a fact of one of the run's workspaces; its citation."""
        return self.add(workspace_stream(workspace_id), fact)

    @property
    def lease_given_back(self) -> bool:
        """Whether this decision has already ended the lease by its clock or by its holder."""
        return any(isinstance(fact, leases.LeaseExpired | leases.LeaseReleased) for _, fact in self.entries)

    @property
    def let_go(self) -> bool:
        """Whether the holder comes to an end here: it closes, gives its lease back, or has held it for its slice."""
        lease = self.standing.lease
        sliced = isinstance(lease, Held) and lease.sliced
        return any(
            isinstance(fact, RunClosed | leases.LeaseReleased) or (sliced and isinstance(fact, leases.LeaseExpired))
            for _, fact in self.entries
        )

    def last(self, kind: type[Fact]) -> str:
        """The citation of this decision's fact of that kind."""
        heads = dict(self.versions)
        citation = ""
        for stream, fact in self.entries:
            heads[stream] += 1
            if isinstance(fact, kind):
                citation = cite(stream, heads[stream])
        return citation

    def make_ambiguous(self) -> None:
        """Nobody will finish what the ending attempt had started: say so."""
        keys = self.standing.effects.intended
        if keys:
            self.on_effects(ledgers.EffectsMadeAmbiguous(keys=keys, fence=self.standing.lease.fence))


class Presented(Value, frozen=True, kw_only=True):
    """What a writer shows: its fence, and the workers that its principal may be (null: any)."""

    fence: int | None
    workers: frozenset[str] | None = None
    fence_required: bool = True

    def may_be(self, worker: str) -> bool:
        """Whether the principal may speak for this worker."""
        return self.workers is None or worker in self.workers


class Remains(Value, frozen=True, kw_only=True):
    """What an attempt leaves behind: its registers' lengths and digests, and the run's last partial."""

    work: Work = Work()
    partial: Json = NULL
    partial_fence: int = 0


PAUSE_ASKED = "asked_by_principal"
"""Why a run is paused that somebody asked to pause, whoever put it down in the end."""


class Ending(Value, frozen=True, kw_only=True):
    """How an attempt ends without a close."""

    outcome: EndOutcome
    cites: tuple[str, ...] = ()
    counted: bool = False
    due_at: datetime | None = None


def pause_now(now: Moment) -> RunParked:
    """The run is paused, because its leader or an operator asked for it."""
    return RunParked(kind="paused", question=NULL, lease_kept=False, reason=PAUSE_ASKED, parked_at=now.wall)


def lease_stream(run_id: str) -> str:
    """The stream of the run's lease."""
    return f"lease-{run_id}"


def effects_stream(run_id: str) -> str:
    """The stream of the run's effect ledger."""
    return f"effects-{run_id}"


def holder(standing: Standing, presented: Presented) -> Held:
    """The lease under which the writer may write, or the refusal that says why not.

    Equality of the fence and the right to be its holder decide; the clock is not asked. Where fences are not yet
    required, a missing fence acts under the one in force.
    """
    lease = standing.lease
    _ = standing.known
    if presented.fence is None:
        if presented.fence_required:
            raise FenceRequired(standing.run_id)
        if isinstance(lease, Held) and presented.may_be(lease.worker):
            return lease
        raise FenceLost(presented=0, current=lease.fence, holder=leases.holder_of(lease), reason="no_fence_presented")
    if isinstance(lease, Held) and lease.fence == presented.fence and presented.may_be(lease.worker):
        return lease
    raise fence_lost(lease, presented.fence)


def late_holder(standing: Standing, presented: Presented) -> bool:
    """Whether the writer is the late holder: ended by a clock, nothing granted since, and the run still queued."""
    lease = standing.lease
    return (
        presented.fence is not None
        and is_late(lease, presented.fence)
        and lease.last is not None
        and presented.may_be(lease.last.worker)
        and isinstance(standing.known.phase, Queued)
    )


def end_attempt(draft: RunDraft, ending: Ending, work: Work, now: Moment) -> str:
    """Put down that the attempt ended, its unfinished effects made ambiguous before; the end's citation."""
    standing = draft.standing
    run = standing.known
    draft.make_ambiguous()
    return draft.on_run(
        AttemptEnded(
            attempt=run.attempt,
            fence=standing.lease.fence,
            outcome=ending.outcome,
            cites=ending.cites,
            failed_attempts=run.failed_attempts + (1 if ending.counted else 0),
            due_at=ending.due_at,
            work=work,
            ended_at=now.wall,
        )
    )


def refuse_settled(standing: Standing) -> None:
    """Refuse a command against a run that has ended."""
    run = standing.known
    if isinstance(run.phase, Settled):
        raise SettledOtherwise(run_id=run.run_id, state=run.state, reason=run.reason)


def refuse_unless(standing: Standing, wanted: str, *, met: bool) -> None:
    """Refuse a command that has no meaning in this state; a settled run has its own refusal."""
    refuse_settled(standing)
    if not met:
        raise WrongState(run_id=standing.run_id, state=standing.state, wanted=wanted)
