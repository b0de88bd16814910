"""Which facts a start must fold: those that the live index still follows from, and no others.

Most of a journal is about runs that have ended, and of an ended run the live index keeps nothing. So a start need not
read everything: the facts that are kept here up to a position, and then every fact after it, lead to the same index as
the whole journal. What is kept has no shape of its own that could grow old; it is positions of facts, and they are
folded by the very code that folds them when they happen.

    a run         its run, lease and effects streams, from its submission until it has ended
    a worker      its last registration while it is registered; its last quarantine while that lasts
    a leader      the arrival of each connection that is counted, or the fact that its absence counts from
    a workspace   its own stream, from its placing until its body is destroyed and its run has ended
    a queue       its last configuration
    anything else every fact, for good: a kind of stream that nothing is said about here is never dropped

The rules follow ``projections.live.index`` and are proved against it: an index folded from what is kept equals one
folded from everything, in everything that it holds. Whoever changes what the index does with a fact raises ``RULES``;
a checkpoint that was written by other rules, or by a version that knew other facts, is not used.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from domain.presence import LeaderConnected, LeaderDisconnected, LeaderVanished, PresenceFact, PresenceReseeded
from domain.run_facts import RunSubmitted
from domain.worker import WorkerFact, WorkerGone, WorkerLeft, WorkerQuarantined, WorkerRegistered, WorkerReleased
from domain.workspace_facts import WorkspaceDestroyed, WorkspaceFact, WorkspacePlaced
from journal.mapper import Recorded
from journal.topics import TOPICS
from projections.live.cards import ends

RULES = 2
"""Raised whenever the live index comes to depend on a fact that was not kept before."""


def rules() -> str:
    """What a checkpoint says it was made by: these rules, and the facts that this version knows."""
    known = "\n".join(sorted(TOPICS))
    return hashlib.sha256(f"{RULES}\n{known}".encode()).hexdigest()[:16]


class _Worker(msgspec.Struct, gc=False):
    """Positions of the facts that a worker is kept for; 0 where there is none."""

    registered: int = 0
    quarantined: int = 0


class _Ground(msgspec.Struct, gc=False):
    """Positions of the facts of a workspace, and the run that stands on it."""

    run_id: str
    positions: "array[int]"
    destroyed: bool = False


class _Leader(msgspec.Struct):
    """Positions of the facts that a leader is kept for."""

    connected: dict[str, tuple[int, bool]] = msgspec.field(default_factory=dict)
    """By connection: its arrival, and whether it is a session."""
    absent: int = 0
    """The fact that the absence counts from; 0 while it does not count."""


class Kept:
    """The positions that matter at one position, folded fact by fact, in order."""

    def __init__(self) -> None:
        self.position = 0
        """The last fact that was folded."""
        self._runs: dict[str, array[int]] = {}
        self._workers: dict[str, _Worker] = {}
        self._leaders: dict[str, _Leader] = {}
        self._grounds: dict[str, _Ground] = {}
        self._destroyed: dict[str, list[str]] = {}
        """By open run: workspaces that are kept for its sake alone."""
        self._queues: dict[str, int] = {}
        self._others = array("q")
        self._folds: dict[str, Callable[[str, Any, int], None]] = {
            "run": self._run,
            "lease": self._of_run,
            "effects": self._of_run,
            "workspace": self._ground,
            "worker": self._worker,
            "presence": self._leader,
            "queue": self._queue,
        }

    def fold(self, facts: Iterable[Recorded]) -> None:
        """Take over facts, in order."""
        for recorded in facts:
            kind, _, name = recorded.stream.partition("-")
            self._folds.get(kind, self._other)(name, recorded.fact, recorded.position)
            self.position = recorded.position

    def positions(self) -> "array[int]":
        """The positions of every fact that is kept, ascending."""
        found = array("q", self._others)
        for kept in self._runs.values():
            found.extend(kept)
        for ground in self._grounds.values():
            found.extend(ground.positions)
        found.extend(self._queues.values())
        for worker in self._workers.values():
            found.extend(position for position in (worker.registered, worker.quarantined) if position)
        for leader in self._leaders.values():
            found.extend(position for position, _ in leader.connected.values())
            if leader.absent:
                found.append(leader.absent)
        return array("q", sorted(found))

    def _run(self, run_id: str, fact: Any, position: int) -> None:
        if isinstance(fact, RunSubmitted):
            self._runs[fact.run_id] = array("q", (position,))
        elif ends(fact):
            self._runs.pop(run_id, None)
            for workspace_id in self._destroyed.pop(run_id, ()):
                del self._grounds[workspace_id]
        else:
            self._of_run(run_id, fact, position)

    def _of_run(self, run_id: str, _: Any, position: int) -> None:
        kept = self._runs.get(run_id)
        if kept is not None:
            kept.append(position)

    def _ground(self, workspace_id: str, fact: WorkspaceFact, position: int) -> None:
        if isinstance(fact, WorkspacePlaced):
            self._grounds[workspace_id] = _Ground(fact.run_id, array("q", (position,)))
            return
        ground = self._grounds.get(workspace_id)
        if ground is None:
            return
        ground.positions.append(position)
        if isinstance(fact, WorkspaceDestroyed) and not ground.destroyed:
            ground.destroyed = True
            if ground.run_id in self._runs:
                self._destroyed.setdefault(ground.run_id, []).append(workspace_id)
            else:
                del self._grounds[workspace_id]

    def _worker(self, name: str, fact: WorkerFact, position: int) -> None:
        worker = self._workers.setdefault(name, _Worker())
        match fact:
            case WorkerRegistered():
                worker.registered = position
            case WorkerGone() | WorkerLeft():
                worker.registered = 0
            case WorkerQuarantined():
                worker.quarantined = position
            case WorkerReleased():
                worker.quarantined = 0
            case _:
                pass
        if not worker.registered and not worker.quarantined:
            del self._workers[name]

    def _leader(self, name: str, fact: PresenceFact, position: int) -> None:
        leader = self._leaders.setdefault(name, _Leader())
        match fact:
            case LeaderConnected():
                leader.connected[fact.connection_id] = (position, fact.kind == "session")
                leader.absent = 0
            case LeaderDisconnected():
                leader.connected.pop(fact.connection_id, None)
            case LeaderVanished():
                leader.absent = position
            case PresenceReseeded():
                leader.connected = {key: link for key, link in leader.connected.items() if link[1]}
                leader.absent = 0 if leader.connected else position
            case _:
                pass
        if not leader.connected and not leader.absent:
            del self._leaders[name]

    def _queue(self, name: str, _: Any, position: int) -> None:
        self._queues[name] = position

    def _other(self, _: str, __: Any, position: int) -> None:
        self._others.append(position)
