"""What was recorded, read by somebody who trusts nobody: the laws that only a longer history can break.

A history is told every decision that became durable, with its facts and register writes in order. It folds its own
states, holds each decision against the laws, and keeps the books that no single decision shows: who was granted which
fence, how each attempt ended, which command had which effect, who holds how many leases. It never asks the service
what is true; the service is asked to agree with it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from domain.lease import FenceBumped, Held, LeaseReleased, LeaseReserved, Reserved
from domain.presence import LeaderGone, presence_stream
from domain.queue import queue_stream
from domain.run import Queued, Run, Settled
from domain.run_facts import AttemptEnded, AttemptStarted, PartialSalvaged, RunClosed, RunSettled, RunSubmitted
from domain.standing import Standing, effects_stream, lease_stream
from domain.worker import Registered, WorkerQuarantined, WorkerReleased, worker_stream
from domain.workspace import Workspace, workspace_stream
from domain.workspace_facts import WorkspacePlaced
from journal.mapper import Recorded
from journal.registers import Write
from journal.topics import FOLDS
from simulation.ground_books import GroundBooks
from simulation.laws import DUE, L1, L2, L4, L6, L11, L13, L14, L15, ORDER, QUARANTINE, LawBroken, check_decision
from simulation.lease_books import LeaseBooks
from simulation.reaching import Reached
from simulation.truth import Truth

CLOCK_ENDS = frozenset({"expired", "detached", "slice_ended"})
"""Ends of an attempt by a clock: a late close may replace them."""

ROUNDING_S = 1e-6
"""Facts carry instants to the microsecond."""


class History:
    """The witness of one world, from its first fact; ``elapsed_s`` says how many seconds have passed at most.

    ``absent_s`` says how long a leader has really had no connection, ``truth`` what is otherwise really so.
    """

    def __init__(
        self, elapsed_s: Callable[[], float], absent_s: Callable[[str], float], truth: Truth | None = None
    ) -> None:
        self.states: dict[str, Any] = {}
        self.position = 0
        self.runs: list[str] = []
        self._elapsed_s = elapsed_s
        self._absent_s = absent_s
        self._granted: dict[tuple[str, int], str] = {}
        self._ends: dict[tuple[str, int], str] = {}
        self._salvaged: Counter[str] = Counter()
        self._commands: dict[str, int] = {}
        self._cool_at: dict[str, float] = {}
        self._before: dict[str, set[tuple[str, int]]] = {}
        """Leases that are older than the last quarantine of their worker, by the worker's stream."""
        self._grounds: dict[str, list[str]] = {}
        truth = truth or Truth()
        self._standings: dict[str, Standing] = {}
        self._open: set[str] = set()
        self.touched: set[str] = set()
        """Streams that were told of since somebody cleared this."""
        self.leases = LeaseBooks(truth)
        self.ground_books = GroundBooks(truth, elapsed_s, self.states)
        self.reached = Reached(self._wants)

    def state(self, stream: str) -> Any:
        """The folded state of a stream, as of the last durable append."""
        return self.states.get(stream, FOLDS[stream.partition("-")[0]].initial)

    def standing(self, run_id: str) -> Standing:
        """How a run stands."""
        found = self._standings.get(run_id)
        if found is None:
            found = self._standings[run_id] = Standing(
                run_id=run_id,
                run=self.state(f"run-{run_id}"),
                lease=self.state(lease_stream(run_id)),
                effects=self.state(effects_stream(run_id)),
                workspaces=tuple(self.state(workspace_stream(each)) for each in self._grounds.get(run_id, ())),
            )
        return found

    def ground(self, workspace_id: str) -> Workspace | None:
        """The workspace; None when there is none under this id."""
        found = self.states.get(workspace_stream(workspace_id))
        return found if isinstance(found, Workspace) else None

    def grounds(self) -> list[Workspace]:
        """Every workspace whose body may still be there, in the order of their runs."""
        found = (self.ground(each) for grounds in self._grounds.values() for each in grounds)
        return [each for each in found if each is not None and each.destroyed_at is None]

    def open_runs(self) -> list[str]:
        """The runs that have not settled, in the order of their submission."""
        return [run_id for run_id in self.runs if run_id in self._open]

    def worker_of(self, run_id: str, fence: int) -> str | None:
        """The worker that was granted the run under this fence."""
        return self._granted.get((run_id, fence))

    def _wants(self, leader_id: str) -> bool:
        """Whether an absence of this leader would settle or park a run."""
        known = (self.standing(run_id).known for run_id in self.open_runs())
        return any(
            run.leader_id == leader_id and run.policy.on_leader_gone != "keep" and run.state != "paused"
            for run in known
        )

    def witness(self, facts: Sequence[Recorded], writes: Sequence[Write]) -> None:
        """Take note of one decision that is durable now.

        Raises:
            LawBroken: it breaks a law.
        """
        for write in writes:
            self._guarded(write)
        by_run: dict[str | None, list[Recorded]] = defaultdict(list)
        for recorded in facts:
            by_run[recorded.meta.correlation_id].append(recorded)
        self._one_effect(facts)
        before = {run_id: self.standing(run_id) for run_id in by_run if run_id is not None}
        for recorded in facts:
            self._next(recorded)
        for run_id, standing in before.items():
            entries = [(recorded.stream, recorded.fact) for recorded in by_run[run_id]]
            check_decision(standing, entries, self.standing(run_id))
            _granted_when_due(standing, by_run[run_id])
        for recorded in facts:
            self._book(recorded)
            about = recorded.meta.correlation_id
            self.leases.book(recorded, about or "", None if about is None else before[about])
            if about is not None:
                self.ground_books.book(recorded, self.standing(about))
        self.reached.decided(before, facts)

    def replay(self, recorded: Recorded) -> None:
        """Fold one fact that was recorded before, without judging the decision that it belongs to."""
        self._next(recorded)

    def _next(self, recorded: Recorded) -> None:
        if recorded.position != self.position + 1:
            raise LawBroken(ORDER, f"position {recorded.position} follows {self.position}", [recorded])
        self.position = recorded.position
        state = self.state(recorded.stream)
        if recorded.version != state.version + 1:
            raise LawBroken(ORDER, f"version {recorded.version} follows {state.version}", [recorded])
        for cited in getattr(recorded.fact, "cites", ()):
            stream, _, version = cited.rpartition("@")
            if not 1 <= int(version) <= self.state(stream).version:
                raise LawBroken(L4, f"{cited!r} was not recorded before", [recorded])
        try:
            self.states[recorded.stream] = FOLDS[recorded.stream.partition("-")[0]].evolve(state, recorded.fact)
        except Exception as error:
            raise LawBroken(L11, f"evolve raised {error!r}", [recorded]) from error
        if isinstance(recorded.fact, WorkspacePlaced):
            self._grounds.setdefault(recorded.fact.run_id, []).append(recorded.fact.workspace_id)
        self._changed(recorded)

    def _changed(self, recorded: Recorded) -> None:
        """What was made of the fact's stream and its run is to be made anew."""
        kind, _, name = recorded.stream.partition("-")
        self.touched.add(recorded.stream)
        for run_id in (recorded.meta.correlation_id, name):
            self._standings.pop(run_id or "", None)
        if kind == "run":
            settled = isinstance(self.states[recorded.stream].phase, Settled)
            (self._open.discard if settled else self._open.add)(name)

    def _guarded(self, write: Write) -> None:
        lease = self.state(lease_stream(write.run_id))
        if not isinstance(lease, Held) or lease.fence != write.fence:
            raise LawBroken(L2, f"a register was written under fence {write.fence}", [write, lease])

    def _one_effect(self, facts: Sequence[Recorded]) -> None:
        commands = {recorded.meta.command_id for recorded in facts} - {None}
        for command_id in commands:
            assert command_id is not None
            if command_id in self._commands:
                raise LawBroken(L15, f"command {command_id!r} took effect twice", facts)
            self._commands[command_id] = facts[0].position

    def _book(self, recorded: Recorded) -> None:  # noqa: C901  (one arm for each fact)
        fact, run_id = recorded.fact, recorded.meta.correlation_id or ""
        match fact:
            case RunSubmitted():
                self.runs.append(fact.run_id)
            case FenceBumped() | LeaseReserved():
                self._grant(run_id, fact.fence, fact.worker, recorded)
            case AttemptStarted() | LeaseReleased():
                if self.worker_of(run_id, fact.fence) != fact.worker:
                    raise LawBroken(L1, f"{fact.worker!r} was not granted fence {fact.fence}", [recorded])
            case AttemptEnded():
                self._end(run_id, fact.fence, fact.outcome, recorded)
            case RunClosed():
                self._end(run_id, fact.fence, "late" if fact.late else "closed", recorded)
            case PartialSalvaged():
                self._salvaged[run_id] += 1
                if self._salvaged[run_id] > 1:
                    raise LawBroken(L14, "a partial was promoted twice", [recorded])
            case WorkerQuarantined():
                self._cool_at[recorded.stream] = self._elapsed_s() + (fact.until - fact.quarantined_at).total_seconds()
                self._before[recorded.stream] = {(run_id, self.standing(run_id).lease.fence) for run_id in self.runs}
            case WorkerReleased(cause="probe"):
                if self._elapsed_s() + ROUNDING_S < self._cool_at[recorded.stream]:
                    raise LawBroken(QUARANTINE, f"{fact.worker_id!r} was released before its cool-down", [recorded])
            case LeaderGone():
                self._gone(fact.leader_id, fact.grace_s, recorded)
            case RunSettled(reason="leader_gone"):
                gone = self.state(presence_stream("default", str(self.standing(run_id).known.leader_id)))
                if gone.connections or gone.gone_since is None:
                    raise LawBroken(L6, "settled by the absence of a leader that is there", [recorded, gone])
                self._gone(str(self.standing(run_id).known.leader_id), 0.0, recorded)
            case _:
                pass

    def _gone(self, leader_id: str, grace_s: float, recorded: Recorded) -> None:
        absent_s = self._absent_s(leader_id)
        if absent_s + ROUNDING_S < grace_s or absent_s == 0:
            raise LawBroken(L6, f"{leader_id!r} has been absent for {absent_s:g} s", [recorded])

    def _end(self, run_id: str, fence: int, outcome: str, recorded: Recorded) -> None:
        before = self._ends.get((run_id, fence))
        replaces = outcome == "late" and before in CLOCK_ENDS
        if before is not None and not replaces:
            raise LawBroken(L1, f"the attempt under fence {fence} ended {before!r} already", [recorded])
        self._ends[run_id, fence] = outcome

    def _grant(self, run_id: str, fence: int, worker: str, recorded: Recorded) -> None:
        if (run_id, fence) in self._granted:
            raise LawBroken(L1, f"fence {fence} was granted twice", [recorded])
        self._granted[run_id, fence] = worker
        over = self._over(self.standing(run_id).known, worker)
        if over is not None:
            raise LawBroken(L13, over, [recorded])

    def _over(self, run: Run, worker: str) -> str | None:
        """The limit in force that the leases exceed which are held, reserved or kept now."""
        wish = run.submission
        stream = worker_stream(wish.tenant, worker)
        known = self.state(stream)
        if not isinstance(known, Registered) or known.draining:
            return f"{worker!r} is {known!r} and was granted a run"
        if any(known.labels.get(name) != value for name, value in wish.labels.items()):
            return f"{worker!r} has {known.labels!r}, and the run asks for {wish.labels!r}"
        if known.quarantine is not None and (since := self._since_quarantine(wish.tenant, worker, stream)) > 1:
            return f"{worker!r} is quarantined and has {since} probing runs"
        if known.quarantine is not None and self._elapsed_s() + ROUNDING_S < self._cool_at[stream]:
            return f"{worker!r} is quarantined and was granted a run"
        held = self._held(wish.tenant)
        queue = self.state(queue_stream(wish.tenant, wish.queue))
        of_queue = [(holder, each) for holder, each in held if each.queue == wish.queue]
        of_key = [holder for holder, each in of_queue if each.concurrency_key == wish.concurrency_key is not None]
        for name, used, most in (
            ("slots", sum(holder == worker for holder, _ in held), known.slots),
            ("max_leases", len(of_queue), queue.max_leases),
            ("max_per_key", len(of_key), queue.max_per_key),
        ):
            if most is not None and used > most:
                return f"{name} is {most}, and {used} leases use it"
        return None

    def _since_quarantine(self, tenant: str, worker: str, stream: str) -> int:
        """How many leases of the worker were granted since its last quarantine began."""
        before = self._before.get(stream, set())
        standings = [self.standing(run_id) for run_id in self.open_runs()]
        return sum(
            (each.run_id, each.lease.fence) not in before
            for each in standings
            if isinstance(each.lease, Held | Reserved)
            and (each.lease.worker, each.known.submission.tenant) == (worker, tenant)
        )

    def _held(self, tenant: str) -> list[tuple[str, RunSubmitted]]:
        """The holder and the submission of each run of the tenant that is held, reserved or kept."""
        standings = [self.standing(run_id) for run_id in self.open_runs()]
        return [
            (standing.lease.worker, standing.known.submission)
            for standing in standings
            if isinstance(standing.lease, Held | Reserved) and standing.known.submission.tenant == tenant
        ]


def _granted_when_due(before: Standing, facts: Sequence[Recorded]) -> None:
    phase = before.run.phase if isinstance(before.run, Run) else None
    for recorded in facts:
        by_queue = isinstance(recorded.fact, FenceBumped) and recorded.fact.cause == "queue"
        if by_queue and isinstance(phase, Queued) and recorded.meta.recorded_at < phase.due_at:
            raise LawBroken(DUE, f"granted {phase.due_at - recorded.meta.recorded_at} too soon", [recorded])
