"""What the service makes of reports, as little of it as the scenarios need: who stands on what, and how that ended.

It follows the rules of the domain: one identity for life, one loss, unknown that only `synced` with `present` ends, and
whoever is not named in a whole list is gone. The system tests hold the same reports against the real service.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from jackline.errors import Problem, Unknown
from jackline.workspaces.contract import LOSSES, Observation
from watchers.kubernetes.reports import Batch, Known, Taken

OVER = ("lost", "provision_failed", "destroyed")
BEFORE = ("placing", "provisioning", "attaching")


@dataclass
class Ground:
    """One workspace."""

    workspace_id: str
    phase: str = "placing"
    identity: str | None = None
    details: dict[str, str] = field(default_factory=dict)
    spec: Any = None
    incarnation: int = 0
    unknown: bool = False
    why: str | None = None
    loss: Observation | None = None
    losses: int = 0
    restarts: list[Observation] = field(default_factory=list)
    seen: list[Observation] = field(default_factory=list)
    teardown: bool = False
    waiting: str | None = None
    to_assert: bool = True
    asserted: int = 0


class Ledger:
    """The service, for observers and provisioners under test."""

    def __init__(self) -> None:
        self.grounds: dict[str, Ground] = {}
        self.batches: list[Batch] = []
        self.synced = 0
        self.unanswered = 0
        """So many of the next calls get no answer; those that write have taken effect all the same."""
        self.refusal: Problem | None = None
        self.life = "first"
        self.as_of: int | None = None
        self._parts: dict[str, list[tuple[str, Observation]]] = defaultdict(list)

    def place(self, workspace_id: str, spec: Any = None) -> Ground:
        """A workspace that has no body yet."""
        ground = self.grounds[workspace_id] = Ground(workspace_id, spec=spec)
        return ground

    def stand_on(self, workspace_id: str, identity: str, details: dict[str, str] | None = None) -> Ground:
        """A workspace that was attached to a body."""
        ground = self.grounds.setdefault(workspace_id, Ground(workspace_id))
        ground.phase, ground.identity, ground.details = "running", identity, details or {}
        return ground

    async def tell(self, batch: Batch) -> Taken:
        """Take a batch."""
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(batch)
        refused = self._take(list(batch.seen))
        if batch.part is not None:
            self._parts[batch.part.sync_id] += batch.seen
            if batch.part.last:
                self._sync(self._parts.pop(batch.part.sync_id))
        self._lose_the_answer()
        return Taken(len(batch.seen) - len(refused), 0, tuple(refused))

    async def workspaces(self, phase: str | None = None) -> list[Known]:
        """Those whose body may be there."""
        self._lose_the_answer()
        self.as_of = len(self.batches)
        return [
            Known(
                one.workspace_id, one.phase, one.identity, one.incarnation, dict(one.details), one.spec,
                teardown=one.teardown, to_assert=one.to_assert and one.phase not in OVER, waiting=one.waiting,
            )
            for one in self.grounds.values()
            if (one.phase not in OVER or one.teardown)
            and (phase in (None, one.phase) or (phase == "teardown" and one.teardown))
        ]  # fmt: skip

    async def boot(self) -> str:
        """Which life of the service this is."""
        self._lose_the_answer()
        return self.life

    async def move(self, workspace_id: str, body: dict[str, Any]) -> None:
        """How far the making has come."""
        ground = self.grounds[workspace_id]
        if body["phase"] == "waiting":
            ground.waiting = f"{body['on']}: {body['message']}"
        else:
            ground.phase, ground.waiting = body["phase"], None
            ground.identity = body.get("identity") or ground.identity
        self._lose_the_answer()

    async def attach(self, workspace_id: str, body: dict[str, Any]) -> None:
        """Stand on a body."""
        ground = self.grounds[workspace_id]
        assert ground.identity in (None, body["identity"]), "a workspace was given a second body"
        self.stand_on(workspace_id, body["identity"], body["details"]).incarnation = body["incarnation"]
        self._lose_the_answer()

    async def still_needed(self, workspace_id: str) -> None:
        """An assertion."""
        ground = self.grounds[workspace_id]
        if ground.phase in OVER:
            raise Problem(409, {"code": "workspace_over"})
        ground.asserted += 1
        self._lose_the_answer()

    def _lose_the_answer(self) -> None:
        if self.unanswered > 0:
            self.unanswered -= 1
            msg = "the answer was lost"
            raise Unknown(msg)

    def _take(self, seen: list[tuple[str, Observation]]) -> list[tuple[str, str]]:
        by_workspace: dict[str, list[Observation]] = defaultdict(list)
        for workspace_id, one in seen:
            by_workspace[workspace_id].append(one)
        refused = []
        for workspace_id, some in by_workspace.items():
            ground = self.grounds.get(workspace_id)
            code = self._observe(ground, some) if ground is not None else None
            refused += [(workspace_id, code)] if code is not None else []
        return refused

    def _observe(self, ground: Ground, some: list[Observation]) -> str | None:
        """What the observations of one workspace in one batch lead to; the code of a refusal."""
        ground.seen += some
        kinds = {one.kind for one in some}
        ends = [one for one in some if one.kind in LOSSES]
        there = [one for one in some if one.kind in ("present", "harness_restarted")]
        if ground.phase in OVER:
            ground.phase = "destroyed" if ground.teardown and ends else ground.phase
            return "workspace_over" if there else None
        if any(ground.identity not in (None, one.identity) for one in there):
            return "identity_changed"
        for one in there:
            self._there(ground, one)
        if ground.phase == "running" and "watch_dropped" in kinds:
            ground.unknown, ground.why = True, next(one.message for one in some if one.kind == "watch_dropped")
        elif {"present", "synced"} <= kinds:
            ground.unknown = False
        for one in ends:
            self._end(ground, one)
        return None

    def _there(self, ground: Ground, one: Observation) -> None:
        if ground.phase in BEFORE:
            ground.phase, ground.identity = "attaching", one.identity
        elif (one.incarnation or 0) > ground.incarnation:
            ground.incarnation = one.incarnation or 0
            ground.restarts.append(one)

    def _end(self, ground: Ground, one: Observation) -> None:
        about_another = one.kind != "replaced" and ground.identity not in (None, one.identity)
        if about_another or ground.phase in OVER:
            return
        ground.phase = "lost" if ground.phase == "running" else "provision_failed"
        ground.phase = "destroyed" if ground.teardown else ground.phase
        ground.loss, ground.unknown = one, False
        ground.losses += 1

    def _sync(self, named: list[tuple[str, Observation]]) -> None:
        self.synced += 1
        present = {workspace_id for workspace_id, one in named if one.kind == "present"}
        dropped = {workspace_id for workspace_id, one in named if one.kind == "watch_dropped"}
        for ground in self.grounds.values():
            if ground.phase == "running" and ground.workspace_id in present - dropped:
                ground.unknown = False
            elif ground.phase == "running" and ground.workspace_id not in present | dropped:
                self._end(ground, Observation("gone", ground.identity, reason="Deleted"))
