"""The one sender: it tells the service what was seen, in an order that is always true.

    1. the scope went out of sight      watch_dropped, for every body that is known
    2. what was seen since              batches of at most `BATCH_MAX`
    3. the scope is in sight again      every body as it stands, `synced`, in parts

A batch that was not answered is sent again, as it was, before anything else. A scope that goes out of sight while 3 is
being sent is told so afterwards; parts of a list that never became whole mean nothing to the service.

Before 3 the service is asked what it knows of the scope. A body that it knows and that no list shows is asked for by
its name, since a label may have been taken away. There still: looked after from now on. Not there, or another under
its name: gone, with proof. Not to be asked for, because nobody wrote down its name: out of sight, for a list by label
proves nothing about what was never labelled.

Failure: `FenceLost`, and what the key may not do, are raised and end the observer. Another refusal of a whole batch is
logged, counted, and the batch dropped; what it said is in the next full list.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from jackline.clock import Clock
from jackline.errors import FenceLost, Forbidden, Garbled, NotFound, Problem, RateLimited, Unauthorised, Unknown
from jackline.retrying import Retry
from jackline.workspaces.contract import Observation
from watchers.kubernetes.outbox import Outbox
from watchers.kubernetes.reports import BATCH_MAX, Batch, Known, Part, Reports, Seen
from watchers.kubernetes.server import Blind, Expired, Refused
from watchers.kubernetes.shapes import Pod
from watchers.kubernetes.verdicts import identity_of, uid_of
from watchers.kubernetes.view import View

log = logging.getLogger(__name__)

RESTARTED_EVERY_S: Final = 5.0
"""How often it is asked whether the service was started anew."""
AGAIN: Final = Retry(first_s=0.1, cap_s=5.0)
FATAL: Final = (FenceLost, Forbidden, Unauthorised, NotFound)

STANDING: Final = frozenset({"placing", "provisioning", "attaching", "running"})

T = TypeVar("T")


class Bodies(Protocol):
    """How a single body is asked for, and looked after when no list shows it."""

    async def find(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name now."""

    async def adopt(self, pod: Pod) -> None:
        """Look after this pod."""

    @property
    def listed_at(self) -> float:
        """Since when everything that exists is known, on the client's clock."""


class Teller:
    """Tells the service about one scope."""

    def __init__(self, reports: Reports, bodies: Bodies, clock: Clock, again: Retry = AGAIN) -> None:
        self.counts: Counter[str] = Counter()
        self.restarted_every_s = RESTARTED_EVERY_S
        self.view = View(self)
        self._reports = reports
        self._bodies = bodies
        self._clock = clock
        self._again = again
        self._outbox = Outbox()
        self._wake = asyncio.Event()
        self._dropped: str | None = None
        self._sync_due = False
        self._contested: set[tuple[str, str | None]] = set()

    # What the view tells

    def tell(self, workspace_id: str, *observations: Observation) -> None:
        """Something was seen of a workspace."""
        self._outbox.put(workspace_id, *observations)
        self._wake.set()

    def complete(self) -> None:
        """The scope is in sight: state it as a whole, soon."""
        self._sync_due = True
        self._wake.set()

    def blind(self, why: str) -> None:
        """The scope is out of sight."""
        self._dropped = why
        self._sync_due = False
        self._wake.set()

    # The sender

    async def run(self) -> None:
        """Tell, until cancelled or until there is no right to any more."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._tell_all()

    async def introduce(self) -> None:
        """Say under the fence who observes the scope: from then on its workspaces are this observer's business."""
        await self._send(Batch([]))

    async def mind_the_service(self) -> None:
        """State the scope anew after each restart of the service, to which everything is unknown since its boot."""
        boot = await self._patiently(self._reports.boot)
        while True:
            await asyncio.sleep(self._clock.jitter(self.restarted_every_s))
            before, boot = boot, await self._patiently(self._reports.boot)
            if boot != before:
                self.counts["service_restarts"] += 1
                self.complete()

    async def learn(self) -> list[Known]:
        """What the service knows of the scope, and which bodies it says are stood on."""
        workspaces = await self._patiently(self._reports.workspaces)
        for one in workspaces:
            uid = uid_of(one.identity or "")
            if uid is not None and one.phase in ("attaching", "running"):
                self.view.know(one.workspace_id, uid, one.incarnation)
        return workspaces

    async def _tell_all(self) -> None:
        if self._dropped is not None:
            why, self._dropped = self._dropped, None
            await self._tell_dropped(why)
        while seen := self._outbox.take(BATCH_MAX):
            await self._send(Batch(seen))
        if self._sync_due and self.view.in_sight:
            self._sync_due = False
            await self._sync()

    async def _tell_dropped(self, why: str) -> None:
        seen = [
            (workspace_id, Observation("watch_dropped", identity_of(uid), reason="WatchDropped", message=why[:4000]))
            for workspace_id, uid in self.view.standing.items()
            if uid not in self.view.bodies or not self.view.bodies[uid].over
        ]
        for start in range(0, len(seen), BATCH_MAX):
            await self._send(Batch(seen[start : start + BATCH_MAX]))

    async def _sync(self) -> None:
        """State the whole scope."""
        try:
            workspaces = await self.learn()
            as_of = self._reports.as_of
            lost_sight_of = await self._look_for_the_missing(workspaces)
        except (Blind, Expired, Refused) as error:
            log.warning("the scope cannot be stated as a whole: %s", error)
            await asyncio.sleep(self._clock.jitter(self._again.cap_s))
            self.complete()
            return
        self.view.forget_all_but({one.workspace_id for one in workspaces})
        while seen := self._outbox.take(BATCH_MAX):
            await self._send(Batch(seen))
        standing = {one.workspace_id for one in workspaces if one.phase in STANDING}
        await self._state([*self.view.statement(standing), *lost_sight_of], as_of)

    async def _state(self, seen: list[Seen], as_of: int | None) -> None:
        """State everything in parts; one that has to be told again later misses nobody who came meanwhile."""
        sync_id = self._clock.new_id()
        parts = [seen[start : start + BATCH_MAX] for start in range(0, len(seen), BATCH_MAX)] or [[]]
        for index, part in enumerate(parts):
            if not self.view.in_sight:
                return
            listed_s_ago = max(0.0, self._clock.now() - self._bodies.listed_at)
            batch = Batch(part, Part(sync_id, index, index == len(parts) - 1), listed_s_ago, as_of)
            if not await self._send(batch):
                await asyncio.sleep(self._clock.jitter(self._again.cap_s))
                self.complete()
                return
        self.counts["synced"] += 1

    async def _look_for_the_missing(self, workspaces: list[Known]) -> list[Seen]:
        """Ask for every body that the service knows and no list shows; those that cannot be asked for."""
        unseen: list[Seen] = []
        for one in workspaces:
            uid = uid_of(one.identity or "")
            if one.phase != "running" or (uid is not None and uid in self.view.bodies):
                continue
            if uid is None or not one.details.get("pod") or not one.details.get("namespace"):
                told = "no pod under our label is its body, and its name was not written down"
                unseen.append((one.workspace_id, Observation("watch_dropped", one.identity, None, "NotFound", told)))
                continue
            await self._look_for(one, uid)
        self.counts["unseen"] = len(unseen)
        return unseen

    async def _look_for(self, one: Known, uid: str) -> None:
        name = one.details["pod"]
        found = await self._bodies.find(one.details["namespace"], name)
        if found is None:
            told = Observation("gone", one.identity, None, "PodDeleted", f"there is no pod {name} any more")
        elif found.metadata.uid != uid:
            fresh = identity_of(found.metadata.uid)
            told = Observation("replaced", fresh, None, "PodDeleted", f"another pod bears the name {name} now")
        else:
            await self._bodies.adopt(found)
            return
        self.counts["found_missing"] += 1
        self.tell(one.workspace_id, told)

    async def _send(self, batch: Batch) -> bool:
        """One batch, until it is answered; whether it was taken."""
        try:
            taken = await self._patiently(lambda: self._reports.tell(batch))
        except FATAL:
            raise
        except Problem as refusal:
            self.counts["batches_refused"] += 1
            log.error("a batch of %d observations was refused: %s", len(batch.seen), refusal)
            return False
        self.counts["told"] += len(batch.seen)
        for workspace_id, code in taken.refused:
            self._refused(workspace_id, code)
        return True

    def _refused(self, workspace_id: str, code: str) -> None:
        """One observation was not acceptable; another body than ours may be the one that is stood on."""
        self.counts[f"refused_{code}"] += 1
        contest = (workspace_id, self.view.standing.get(workspace_id))
        if code == "identity_changed" and contest not in self._contested:
            self._contested.add(contest)
            self.complete()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        pauses = self._again.pauses(self._clock)
        while True:
            try:
                return await ask()
            except (Unknown, Garbled, RateLimited) as error:
                self.counts["unanswered"] += 1
                at_least_s = getattr(error, "retry_after_s", None) or 0.0
            await asyncio.sleep(max(at_least_s, next(pauses)))
