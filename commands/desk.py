"""The desk: everything a command needs, and the one way in which a command on a run is carried out.

A command loads the folded streams of its run, lets the domain decide on them, and commits the facts once, guarded by
every stream that was read. Decisions about one run follow one another (its id is the lock); others go side by side.
The answer is what the run will be once the facts are durable, and leaves the desk only then.

A run of another tenant does not exist; what a key sees within its tenant is bounded where it is shown. Who may steer or
act is checked here and not in the routes, so every road has the same rule: a leader steers the runs of its leader ids,
a worker acts for the workers that its key names, operators and administrators for anybody.
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec

from domain import effects as ledgers
from domain import lease as leases
from domain import run as runs
from domain import workspace as workspaces
from domain.decider import Draft
from domain.refusal import Refusal, RunUnknown
from domain.run import Absent, Run, run_stream
from domain.run_facts import RunFact, Work
from domain.standing import Presented, Remains, RunDraft, Standing, effects_stream, lease_stream
from domain.values import NULL, Clock, Fact, Moment, Value
from domain.values import digest as canonical_digest
from domain.worker import Worker, worker_stream
from domain.workspace import UNPLACED, Unplaced, Workspace, workspace_stream
from domain.workspace_facts import WorkspaceFact
from evidence.memory import Evidence
from journal.commit import Context, Decision, Done, Entry, Journal
from journal.registers import Write
from projections.live.deadlines import Graces
from projections.live.index import Live

Role = Literal["leader", "worker", "reader", "operator", "admin"]
FenceMode = Literal["off", "warn", "required"]

T = TypeVar("T")

ACTING: frozenset[Role] = frozenset({"worker", "operator", "admin"})
"""Roles that may act for a worker; a leader or a reader is none, whatever its key names."""

log = logging.getLogger(__name__)


class Timers(Value, frozen=True, kw_only=True):
    """How long the service waits, in seconds, before it does what the name says."""

    leader_grace_s: float = 60.0
    worker_gone_s: float = 60.0
    reconnect_s: float = 1.0
    cancel_grace_s: float = 10.0
    kill_grace_s: float = 10.0
    quarantine_s: float = 300.0
    provisioning_s: float = 120.0
    reservation_s: float = 120.0
    assert_every_s: float = 300.0
    idle_reap_s: float = 1800.0
    admission_s: float = 90.0
    retry_continuation_s: float = 1.0
    observer_alarm_s: float = 300.0

    def graces(self) -> Graces:
        """Those of them that the live index counts by."""
        return Graces(**{name: getattr(self, name) for name in Graces.__struct_fields__})


class Caller(Value, frozen=True, kw_only=True):
    """Who asks: a principal of a tenant, its role, and the leaders and workers that it may be (null: any)."""

    tenant: str = "default"
    principal: str
    role: Role
    leaders: frozenset[str] | None = None
    workers: frozenset[str] | None = None
    command_id: str | None = None
    request_digest: str | None = None
    traceparent: str | None = None
    causation_id: str | None = None

    def context(self) -> Context:
        """The metadata of the facts that follow."""
        return Context(
            self.tenant, self.principal, self.causation_id, self.traceparent, self.command_id, self.request_digest
        )


SYSTEM = "jackline"


def system_caller(tenant: str, causation_id: str | None = None) -> Caller:
    """The service itself, when a policy acts."""
    return Caller(tenant=tenant, principal=SYSTEM, role="admin", causation_id=causation_id)


class NotAllowed(Refusal):
    """The principal may not do this; ``allowed`` says who may."""

    code = "not_allowed"

    def __init__(self, *, principal: str, action: str, allowed: str) -> None:
        super().__init__(
            f"{principal!r} may not {action}; {allowed} may", principal=principal, action=action, allowed=allowed
        )


class Desk:
    """The service's state and the way to change it."""

    def __init__(self, journal: Journal, clock: Clock, mint: Callable[[], str], timers: Timers) -> None:
        self.journal = journal
        self.clock = clock
        self.mint = mint
        self.timers = timers
        self.evidence = Evidence()
        self.live = Live(self.evidence, timers.graces())
        self.boot_id = mint()
        self.fence_required: FenceMode = "required"
        self.unfenced: Counter[str] = Counter()
        """Accepted writes that presented no fence, by what they did."""
        self.unfinished: set[asyncio.Future[None]] = set()
        """What is still to be done for callers that went away."""
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """A number that no other command of this desk has."""
        return next(self._numbers)

    def afterwards(self, doing: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Do this though nobody waits for it."""
        going = asyncio.ensure_future(doing)
        self.unfinished.add(going)
        going.add_done_callback(self.unfinished.discard)
        return going

    def standing(self, caller: Caller, run_id: str) -> Standing:
        """How a run of the caller's tenant stands, as of the last durable append.

        Raises:
            RunUnknown: there is none under this id in the caller's tenant.
        """
        standing = self.standing_or_none(caller, run_id)
        if standing is None:
            raise RunUnknown(run_id)
        return standing

    def standing_or_none(self, caller: Caller, run_id: str) -> Standing | None:
        """How a run of the caller's tenant stands; None when there is none under this id."""
        load = self.journal.streams.load
        run: Run | Absent = load(run_stream(run_id))
        if isinstance(run, Absent) or run.submission.tenant != caller.tenant:
            return None
        return Standing(
            run_id=run_id,
            run=run,
            lease=load(lease_stream(run_id)),
            effects=load(effects_stream(run_id)),
            mark=self.evidence.leases.get(run_id),
            workspaces=tuple(load(workspace_stream(each)) for each in self.live.grounds.mattering(run_id)),
        )

    def expect_new(self, run_id: str) -> None:
        """Spare the first look-ups of a run that is only now submitted: it has no lease, effects or output."""
        self.journal.registers.fresh(run_id)
        self.journal.fresh(lease_stream(run_id))
        self.journal.fresh(effects_stream(run_id))

    def worker(self, caller: Caller, worker_id: str) -> Worker:
        """The folded stream of a worker of the caller's tenant."""
        worker: Worker = self.journal.streams.load(worker_stream(caller.tenant, worker_id))
        return worker

    def work(self, standing: Standing) -> Work:
        """What the attempt under the fence in force has produced so far."""
        mark = self.journal.registers.output_mark(standing.run_id, standing.lease.fence)
        partial = self.journal.registers.partial(standing.run_id)
        own = partial if partial is not None and partial.fence == standing.lease.fence else None
        return Work(
            output_chunks=mark.chunks,
            output_bytes=mark.bytes,
            output_digest=mark.digest or None,
            partials=own.saved if own else 0,
            partial_digest=canonical_digest(own.body) if own else None,
        )

    def remains(self, standing: Standing) -> Remains:
        """What the run would leave behind if its attempt ended now."""
        partial = self.journal.registers.partial(standing.run_id)
        return Remains(
            work=self.work(standing),
            partial=partial.body if partial else NULL,
            partial_fence=partial.fence if partial else 0,
        )

    def presented(self, caller: Caller, fence: int | None) -> Presented:
        """What the writer shows: its fence, and the workers that it may be."""
        workers = caller.workers if caller.role in ACTING else frozenset()
        return Presented(fence=fence, workers=workers, fence_required=self.fence_required == "required")

    def note_fence(self, fence: int | None, what: str) -> None:
        """Count an accepted write that presented no fence, by what it did."""
        if fence is None:
            self.unfenced[what] += 1
            if self.fence_required == "warn":
                log.warning("%s was accepted without a fence, which will be required", what)

    def after(self, standing: Standing, draft: Draft) -> Standing:
        """How the run will stand once these facts are durable."""
        run, lease, effects = standing.run, standing.lease, standing.effects
        grounds: dict[str, Workspace | Unplaced] = {each.workspace_id: each for each in standing.workspaces}
        for stream, fact in draft.entries:
            kind, _, name = stream.partition("-")
            if kind == "run":
                run = runs.evolve(run, cast(RunFact, fact))
            elif kind == "lease":
                lease = leases.evolve(lease, cast(leases.LeaseFact, fact))
            elif kind == "effects":
                effects = ledgers.evolve(effects, cast(ledgers.EffectFact, fact))
            elif kind == "workspace":
                grounds[name] = workspaces.evolve(grounds.get(name, UNPLACED), cast(WorkspaceFact, fact))
        left = tuple(each for each in grounds.values() if isinstance(each, Workspace))
        return msgspec.structs.replace(standing, run=run, lease=lease, effects=effects, workspaces=left)

    async def execute(
        self,
        caller: Caller,
        locks: Sequence[str],
        decide: Callable[[Moment], Decision[Any]],
    ) -> Done[Any]:
        """Carry out a decision once, remembering its answer under the caller's command id."""
        return await self.journal.execute(
            locks, decide, caller.context(), encode=msgspec.json.encode, decode=msgspec.json.decode
        )

    async def on_run(
        self,
        caller: Caller,
        run_id: str,
        decide: Callable[[Standing, Moment], RunDraft],
        answer: Callable[[Standing, Moment], Any],
    ) -> Done[Any]:
        """Carry out a decision about one run; ``answer`` is given how it stands afterwards."""

        def decision(now: Moment) -> Decision[Any]:
            standing = self.standing(caller, run_id)
            draft = decide(standing, now)
            return Decision(entries_of(draft.entries, run_id), draft.versions, answer(self.after(standing, draft), now))

        return await self.acting(caller, run_id, decision)

    async def acting(self, caller: Caller, run_id: str, decision: Callable[[Moment], Decision[T]]) -> Done[T]:
        """Carry out a decision about one run; that it was refused for its fence is remembered."""
        try:
            return await self.execute(caller, (run_id,), decision)
        except leases.FenceLost as lost:
            self.note_refused(caller, run_id, lost)
            raise

    async def write(self, caller: Caller, run_id: str, prepare: Callable[[Standing], Sequence[Write]]) -> Done[None]:
        """Carry out a write to the work registers of one run, under the guard of its lease."""

        def decision(_: Moment) -> Decision[None]:
            standing = self.standing(caller, run_id)
            lease = lease_stream(run_id)
            return Decision((), {lease: standing.versions[lease]}, None, prepare(standing))

        done = await self.acting(caller, run_id, decision)
        self.touch(run_id)
        return done

    def note_refused(self, caller: Caller, run_id: str, refusal: Refusal) -> None:
        """Remember, for whoever asks why, that a write of this caller was refused for its fence, if it was that."""
        if isinstance(refusal, leases.FenceLost):
            writer = (caller.principal, int(refusal.presented))
            self.evidence.refused.note(run_id, writer, str(refusal.reason), self.clock().wall)

    def touch(self, run_id: str) -> None:
        """An accepted write of the holder: activity, which also renews a lease that is live and not sliced."""
        if run_id not in self.live.cards:
            return
        now, mark = self.clock(), self.evidence.leases.get(run_id)
        self.live.clocks.active(run_id, now)
        lease = self.journal.streams.load(lease_stream(run_id))
        renewable = isinstance(lease, leases.Held) and not lease.sliced
        if renewable and mark is not None and mark.fence == lease.fence and mark.live(now):
            self.evidence.leases.renew(run_id, mark, lease.ttl_s, now)

    def require_leader(self, caller: Caller, run: Run, action: str) -> None:
        """Refuse steering by a principal that is neither the run's leader nor above it."""
        is_leader = caller.leaders is None or run.leader_id in caller.leaders
        if caller.role not in ("operator", "admin") and not (caller.role == "leader" and is_leader):
            allowed = "an operator" if run.leader_id is None else f"leader {run.leader_id!r} or an operator"
            raise NotAllowed(principal=caller.principal, action=action, allowed=allowed)

    def require_leader_id(self, caller: Caller, leader_id: str, action: str) -> None:
        """Refuse acting as a leader that the principal is not."""
        if caller.leaders is not None and leader_id not in caller.leaders:
            raise NotAllowed(principal=caller.principal, action=action, allowed=f"leader {leader_id!r}")

    def require_worker(self, caller: Caller, worker_id: str, action: str) -> None:
        """Refuse acting as a worker that the principal is not."""
        is_worker = caller.workers is None or worker_id in caller.workers
        if caller.role not in ACTING or not is_worker:
            raise NotAllowed(principal=caller.principal, action=action, allowed=f"worker {worker_id!r}")


def entries_of(entries: Sequence[tuple[str, Fact]], run_id: str | None) -> list[Entry]:
    """Facts of a draft as the journal takes them, filed under the run."""
    return [Entry(stream, fact, run_id) for stream, fact in entries]


def merged(guards: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The guards of several decisions together."""
    together: dict[str, int] = {}
    for each in guards:
        together.update(each)
    return together
