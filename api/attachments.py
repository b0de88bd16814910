"""Attachments: the open streams of workers, what is pushed to them, and what their end is evidence of.

A worker may keep a stream open, or several. Over it go the heartbeat's messages, and what the service wants of a holder
is pushed at once, as one lease of a heartbeat's answer: told, not renewed, so ``ttl_s`` is what is left. A push that
cannot be delivered is no loss: every instruction is repeated with each renewal until it has been followed.

When the *last* stream of a worker is closed by its side without a goodbye, the worker is detached: that goes into the
journal, its leases get the reconnect window, and claims that still wait for it are given up, so that nothing is granted
to the dead. A stream that we close (stopping, a revoked key, silence) is evidence of nothing.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from commands.desk import Desk
from commands.instructing import destroy, instructions, parting, stop
from commands.looking import to_destroy_by
from domain.fencing import why_lost
from domain.lease import Held, Lease, LeaseExpired, LeaseRevoked, SliceEnded, Vacant, holder_of
from domain.run import Run, run_stream
from domain.run_facts import CancelRequested, InputProvided, PauseRequested
from domain.standing import lease_stream
from domain.turn_facts import TurnCut, TurnFailed
from domain.worker import Registered, WorkerDrained, worker_stream
from domain.workspace import Workspace
from domain.workspace_facts import WorkspaceLost, WorkspaceReaped, WorkspaceReleased
from journal.mapper import Recorded

PUSHES_MAX = 1_000
"""Pushes that wait for one stream; beyond it they are dropped, and come with the next renewal."""

WorkerKey = tuple[str, str]
Shown = dict[str, Any]
T = TypeVar("T")

_ASKS = (CancelRequested, PauseRequested, InputProvided, TurnCut)
_ENDS = (LeaseRevoked, LeaseExpired, SliceEnded)
_GROUNDS = (WorkspaceLost, WorkspaceReleased, WorkspaceReaped)


class Attachments:
    """The workers that keep a stream open, and the claims that wait for a worker."""

    def __init__(self) -> None:
        self._streams: dict[WorkerKey, list[asyncio.Queue[Shown]]] = {}
        self._claims: dict[WorkerKey, set[asyncio.Future[Any]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    @contextmanager
    def attached(self, worker: WorkerKey) -> Iterator[asyncio.Queue[Shown]]:
        """What is pushed to one more stream of this worker, for as long as it is open."""
        pushes: asyncio.Queue[Shown] = asyncio.Queue(PUSHES_MAX)
        self._streams.setdefault(worker, []).append(pushes)
        try:
            yield pushes
        finally:
            streams = self._streams[worker]
            streams.remove(pushes)
            if not streams:
                del self._streams[worker]

    def is_attached(self, worker: WorkerKey) -> bool:
        """Whether any stream of the worker is open."""
        return worker in self._streams

    async def claiming(self, worker: WorkerKey, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of a claim that may wait; None when its worker was detached meanwhile."""
        doing = asyncio.ensure_future(work)
        waiting = self._claims.setdefault(worker, set())
        waiting.add(doing)
        try:
            await asyncio.wait({doing})
        finally:
            waiting.discard(doing)
            if not waiting:
                self._claims.pop(worker, None)
            doing.cancel()
        return None if doing.cancelled() else doing.result()

    def give_up_claims(self, worker: WorkerKey) -> None:
        """The worker is detached: nothing is granted to claims that still wait for it."""
        for doing in self._claims.get(worker, ()):
            doing.cancel()

    def tell(self, desk: Desk, facts: Sequence[Recorded]) -> None:
        """Push what these facts mean to the workers that they concern, if those have a stream open; each run once."""
        if not self._streams:
            return
        concerned: dict[tuple[WorkerKey, str], None] = {}
        for recorded in facts:
            for worker, run_id in _concerns(desk, recorded):
                if worker in self._streams:
                    concerned[worker, run_id] = None
        for worker, run_id in concerned:
            self._push(worker, told(desk, run_id, worker[1]))

    def _push(self, worker: WorkerKey, lease: Shown | None) -> None:
        for pushes in self._streams.get(worker, ()):
            if lease is not None and not pushes.full():
                pushes.put_nowait({"leases": [lease]})


def _concerns(desk: Desk, recorded: Recorded) -> Iterator[tuple[WorkerKey, str]]:
    """The workers that one fact concerns, each with the run that it is told about."""
    fact, tenant = recorded.fact, recorded.meta.tenant or ""
    subject = recorded.stream.partition("-")[2]
    if isinstance(fact, _ASKS) or (isinstance(fact, TurnFailed) and fact.by != "holder"):
        yield from _holders(desk, subject, tenant)
    elif isinstance(fact, _GROUNDS) and recorded.meta.correlation_id is not None:
        yield from _standing_on(desk, subject, recorded.meta.correlation_id, tenant)
    elif isinstance(fact, _ENDS) and fact.worker is not None:
        yield (tenant, fact.worker), subject
    elif isinstance(fact, WorkerDrained):
        worker = (tenant, fact.worker_id)
        yield from ((worker, run_id) for run_id in desk.live.limits.held_by(worker))


def _holders(desk: Desk, run_id: str, tenant: str) -> Iterator[tuple[WorkerKey, str]]:
    worker = holder_of(desk.journal.streams.load(lease_stream(run_id)))
    if worker is not None:
        yield (tenant, worker), run_id


def _standing_on(desk: Desk, workspace_id: str, run_id: str, tenant: str) -> Iterator[tuple[WorkerKey, str]]:
    """The holder of the run, and whoever placed the workspace."""
    yield from _holders(desk, run_id, tenant)
    card = desk.live.grounds.cards.get(workspace_id)
    if card is not None:
        yield (tenant, card.worker), run_id


def pending(desk: Desk, worker: WorkerKey) -> list[Shown]:
    """What a worker that comes late is told at once: whatever it is asked to do about any run."""
    held = desk.live.limits.held_by(worker)
    left = {each.placed.run_id: None for each in to_destroy_by(desk, worker)}
    found = [told(desk, run_id, worker[1]) for run_id in dict.fromkeys([*held, *left])]
    return [each for each in found if each is not None and each["instructions"]]


def told(desk: Desk, run_id: str, worker_id: str) -> Shown | None:
    """What the worker's next heartbeat would be answered about this run, without renewing anything."""
    lease: Lease = desk.journal.streams.load(lease_stream(run_id))
    run = desk.journal.streams.load(run_stream(run_id))
    if not isinstance(run, Run):
        return None
    if isinstance(lease, Held) and lease.worker == worker_id:
        return _held(desk, run, lease)
    if isinstance(lease, Vacant) and lease.last is not None and lease.last.worker == worker_id:
        parted = parting(desk, run_id, worker_id, lease.last.fence)
        return _shown(
            run_id, lease.last.fence, outcome="lost", current=lease.fence, reason=lease.last.cause,
            instructions=[stop(lease.last.cause, desk.timers.kill_grace_s), *parted],
        )  # fmt: skip
    mine = [each for each in to_destroy_by(desk, (run.submission.tenant, worker_id)) if each.placed.run_id == run_id]
    return _left_behind(run_id, lease, mine) if mine else None


def _left_behind(run_id: str, lease: Lease, workspaces: Sequence[Workspace]) -> Shown:
    """Bodies that the worker placed under a fence of long ago, and that are to be destroyed."""
    fence = workspaces[-1].placed.fence
    return _shown(
        run_id, fence, outcome="lost", current=lease.fence, holder=holder_of(lease), reason=why_lost(lease, fence),
        instructions=[destroy(workspace) for workspace in workspaces],
    )  # fmt: skip


def _held(desk: Desk, run: Run, lease: Held) -> Shown:
    now, mark = desk.clock(), desk.evidence.leases.get(run.run_id)
    left_s = lease.ttl_s if mark is None else max(0.0, round(mark.deadline - now.mono, 3))
    worker = desk.journal.streams.load(worker_stream(run.submission.tenant, lease.worker))
    return _shown(
        run.run_id,
        lease.fence,
        outcome="slice_ended" if lease.sliced else "renewed",
        current=lease.fence,
        holder=lease.worker,
        reason="slice_ended" if lease.sliced else None,
        ttl_s=left_s,
        slice_ends_in_s=desk.live.slice_left_s(run.run_id, now),
        instructions=instructions(desk, run, lease, worker) if isinstance(worker, Registered) else [],
    )


def _shown(run_id: str, fence: int, **said: Any) -> Shown:
    empty: Shown = {"holder": None, "reason": None, "ttl_s": None, "slice_ends_in_s": None, "instructions": []}
    return {"run_id": run_id, "fence": fence, **empty, **said}
