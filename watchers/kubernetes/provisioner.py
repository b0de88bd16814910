"""Makes, attaches, asserts and destroys bodies, because the service's list says so.

It holds nothing that matters: every round asks the service which workspaces of the scope are placing, attaching or to
be torn down, now and then also for all others, and goes one idempotent step with each. Killed between any two steps,
the next one goes on.

    placing, attaching    place (once), then what the body waits for is told, then attach
    to_assert             stamp the body and tell the service, every 5 min give or take a fifth, from its making on
    teardown              destroy it, and tell that it is gone

A body's own changes, which the observer sees, wake it; else it looks every `ROUND_S`. After a start the first
assertions are spread over the whole interval, so that a thousand bodies are not stamped in one second.

Bounds: `AT_ONCE` workspaces are worked on at a time. Failure: one workspace's trouble is logged, counted, and tried
again in the next round; it never keeps the others. A lost fence, and a key that is not known any more, end it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from jackline.clock import Clock
from jackline.errors import FenceLost, JacklineError, Problem, Unauthorised
from jackline.workspaces.contract import Attached, NotOurs, NotYet, Observation, PlaceFailed, Provider, WorkspaceRef
from watchers.kubernetes.reports import Batch, Known, Reports
from watchers.kubernetes.server import Blind, Expired, Refused

log = logging.getLogger(__name__)

ROUND_S: Final = 2.0
LOOK_AGAIN_S: Final = 30.0
ALL_EVERY_S: Final = 30.0
ASSERT_EVERY_S: Final = 300.0
JITTER: Final = 0.2
AT_ONCE: Final = 8
BEFORE_ATTACHMENT: Final = ("placing", "provisioning", "attaching")
FATAL: Final = (FenceLost, Unauthorised)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often to look, and to assert."""

    round_s: float = ROUND_S
    look_again_s: float = LOOK_AGAIN_S
    assert_every_s: float = ASSERT_EVERY_S
    all_every_s: float = ALL_EVERY_S


@dataclass(slots=True)
class Memory:
    """What is remembered between rounds; losing it costs a request or two."""

    placed: set[str] = field(default_factory=set)
    looked_at: dict[str, float] = field(default_factory=dict)
    assert_at: dict[str, float] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)

    def forget_all_but(self, workspace_ids: set[str]) -> None:
        """Drop what is remembered of workspaces that are no more."""
        self.placed &= workspace_ids
        for book in (self.looked_at, self.assert_at, self.said):
            for gone in book.keys() - workspace_ids:
                del book[gone]


class Provisioner:
    """Works on the workspaces of one scope."""

    def __init__(self, provider: Provider, reports: Reports, clock: Clock, rhythm: Rhythm | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._provider = provider
        self._reports = reports
        self._clock = clock
        self._rhythm = rhythm or Rhythm()
        self._memory = Memory()
        self._changed: set[str] = set()
        self._wake = asyncio.Event()
        self._first_round = True
        self._all_at = 0.0

    def wake(self, workspace_id: str) -> None:
        """Something about this workspace's body has changed."""
        self._changed.add(workspace_id)
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                await self.round()
            except FATAL:
                raise
            except JacklineError as error:
                self.counts["rounds_failed"] += 1
                log.warning("the service cannot be asked what to make: %s", error)
            await self._pause()

    async def round(self) -> None:
        """One step with every workspace that needs one."""
        changed, self._changed = self._changed, set()
        workspaces = await self._due_now()
        await self._each(self._tear_down, [one for one in workspaces if one.teardown])
        making = [one for one in workspaces if one.phase in BEFORE_ATTACHMENT and not one.teardown]
        await self._each(self._make, [one for one in making if self._is_due(one, changed)])
        await self._each(self._assert, [one for one in workspaces if one.to_assert and self._assertion_is_due(one)])
        self._first_round = False

    async def _due_now(self) -> list[Known]:
        """Workspaces that may need a step; now and then all of them, since a standing body needs assertions only."""
        if self._clock.now() >= self._all_at:
            workspaces = await self._reports.workspaces()
            self._memory.forget_all_but({one.workspace_id for one in workspaces})
            self._all_at = self._clock.now() + self._rhythm.all_every_s
            return workspaces
        found: dict[str, Known] = {}
        for phase in (*BEFORE_ATTACHMENT, "teardown"):
            found |= {one.workspace_id: one for one in await self._reports.workspaces(phase)}
        return list(found.values())

    async def _pause(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(self._clock.jitter(self._rhythm.round_s)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _each(self, step: Callable[[Known], Awaitable[None]], workspaces: list[Known]) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(known: Known) -> None:
            async with room:
                await self._guarded(step, known)

        for outcome in await asyncio.gather(*(one(each) for each in workspaces), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _guarded(self, step: Callable[[Known], Awaitable[None]], known: Known) -> None:
        try:
            await step(known)
        except FATAL:
            raise
        except PlaceFailed as failed:
            self.counts["failed"] += 1
            await self._tell(known, Observation("ended", known.identity, None, failed.reason, failed.message))
        except NotOurs as error:
            self.counts["not_ours"] += 1
            if self._memory.said.get(known.workspace_id) != str(error):
                self._memory.said[known.workspace_id] = str(error)
                log.error("workspace %s: %s", known.workspace_id, error)
        except (Blind, Expired, Refused, JacklineError) as error:
            self.counts["steps_failed"] += 1
            self._memory.looked_at.pop(known.workspace_id, None)
            log.warning("workspace %s: %s", known.workspace_id, error)

    def _is_due(self, known: Known, changed: set[str]) -> bool:
        looked_at = self._memory.looked_at.get(known.workspace_id)
        if looked_at is None or known.workspace_id in changed:
            return True
        return self._clock.now() - looked_at >= self._rhythm.look_again_s

    async def _make(self, known: Known) -> None:
        ref = WorkspaceRef(known.workspace_id, known.identity, known.spec)
        if known.phase == "placing" and known.identity is None and known.workspace_id not in self._memory.placed:
            await self._provider.place(known.workspace_id, known.spec)
            self._memory.placed.add(known.workspace_id)
            self.counts["placed"] += 1
        self._memory.looked_at[known.workspace_id] = self._clock.now()
        found = await self._provider.attach(ref)
        if isinstance(found, Attached):
            details = dict(found.details)
            body = {"identity": found.identity, "incarnation": found.incarnation, "details": details}
            await self._reports.attach(known.workspace_id, body)
            self.counts["attached"] += 1
        else:
            await self._wait(known, found)

    async def _wait(self, known: Known, found: NotYet) -> None:
        """Tell what the body waits for, if that is news."""
        if found.phase == "waiting":
            body = {"phase": "waiting", "on": found.on, "message": found.message}
            is_news = found.on is not None and known.waiting != f"{found.on}: {found.message}"
        else:
            body = {"phase": found.phase}
            if found.phase == "attaching":
                body["identity"] = found.identity
            is_news = known.phase != found.phase
        if is_news and self._memory.said.get(known.workspace_id) != body:
            await self._reports.move(known.workspace_id, body)
            self._memory.said[known.workspace_id] = body

    def _assertion_is_due(self, known: Known) -> bool:
        now, every_s = self._clock.now(), self._rhythm.assert_every_s
        due_at = self._memory.assert_at.get(known.workspace_id)
        if due_at is None:
            # A body found at the start was asserted by somebody lately; a new one carries its stamp from its making.
            spread = self._clock.chance() if self._first_round else 0.0
            due_at = self._memory.assert_at[known.workspace_id] = now + spread * every_s
        return now >= due_at

    async def _assert(self, known: Known) -> None:
        every_s = self._rhythm.assert_every_s * (1 - JITTER + 2 * JITTER * self._clock.chance())
        self._memory.assert_at[known.workspace_id] = self._clock.now() + every_s
        try:
            await self._reports.still_needed(known.workspace_id)
        except FATAL:
            raise
        except Problem as refusal:
            log.info("workspace %s is not asserted any more: %s", known.workspace_id, refusal.code)
            return
        if known.phase != "placing":
            await self._provider.assert_(WorkspaceRef(known.workspace_id, known.identity, known.spec))
        self.counts["asserted"] += 1

    async def _tear_down(self, known: Known) -> None:
        ref = WorkspaceRef(known.workspace_id, known.identity, known.spec)
        if await self._provider.teardown(ref):
            self.counts["destroyed"] += 1
            message = "destroyed by its provider"
            await self._tell(known, Observation("gone", known.identity, None, "PodDeleted", message))

    async def _tell(self, known: Known, seen: Observation) -> None:
        await self._reports.tell(Batch([(known.workspace_id, seen)]))
