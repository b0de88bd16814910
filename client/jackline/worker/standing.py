"""What a handler's run stands on, for as long as a block of code needs it.

    async with run.workspace("process", {"command": ["redis-server"]}) as server:
        ...

Inside the block the workspace is asserted; a directory or a process is made, attached to and watched, and its end is
reported at once; a service that takes it for unknown, since it was started anew, is told that it is there. What follows
is the service's decision, by the run's policy: mostly the lease ends, and the handler is cancelled. An end that carries
an exit is the handler's to judge first: `workspace.over` is set, and `workspace.loss` says why. For an `external`
workspace the handler reports by itself what it sees (`observe`).

Leaving the block releases the workspace: what was made here is destroyed, unless it is to be kept.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jackline.errors import JacklineError
from jackline.models import Instruction
from jackline.worker.log import Log
from jackline.worker.persist import until_answered
from jackline.worker.reporting import Reports, assert_until_over, spread
from jackline.workspaces.contract import Attached, Observation, PlaceFailed, WorkspaceRef
from jackline.workspaces.directory import DirectoryProvider
from jackline.workspaces.looking import Pin
from jackline.workspaces.models import Workspace
from jackline.workspaces.process import ProcessProvider, ProcessWatcher
from jackline.workspaces.watching import DirectoryWatcher

if TYPE_CHECKING:
    from jackline.worker.heldrun import HeldRun

SIGHT_S = 60.0  # between two questions whether the service takes the body for unknown

Kind = Literal["external", "directory", "process"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a handler wants its run to stand on."""

    kind: Kind
    spec: Any = None
    scope: str | None = None
    root: Path | None = None
    keep: bool = False


class HeldWorkspace:
    """One workspace of the run, inside its block."""

    def __init__(self, run: "HeldRun", workspace_id: str, reports: Reports) -> None:
        self.client = run.client
        self.worker_id = run.worker_id
        self._reports = reports
        self.workspace_id = workspace_id
        self.identity: str | None = None
        self.path: Path | None = None
        self.loss: dict[str, Any] | None = None
        self.over = asyncio.Event()

    async def observe(self, observations: Sequence[Observation]) -> Workspace | None:
        """Report what was seen, and see what the workspace has become; None when it was refused (see the log)."""
        return await self._reports.said(self.workspace_id, observations)

    def hear(self, instruction: Instruction) -> None:
        """The service says that the workspace is lost."""
        self.loss = instruction.data if isinstance(instruction.data, dict) else {}
        self.over.set()


@asynccontextmanager
async def standing_on(run: "HeldRun", wish: Wish, log: Log) -> AsyncIterator[HeldWorkspace]:
    """A workspace for as long as the block lasts."""
    if wish.kind == "directory" and wish.root is None:
        msg = "a directory needs a root: the place below which it is made"
        raise ValueError(msg)
    options: dict[str, Any] = {"provider": wish.kind, "scope": wish.scope, "spec": wish.spec}
    placed = await run.say("workspace", lambda key: run.client.workspaces.place(run.ref, key=key, **options))
    reports = Reports(run.client, log)
    workspace = HeldWorkspace(run, placed.workspace_id, reports)
    run.grounds[workspace.workspace_id] = workspace
    asserting = assert_until_over(run.client, workspace.workspace_id, log)
    background: list[asyncio.Task[Any]] = [asyncio.create_task(reports.run()), asyncio.create_task(asserting)]
    try:
        async with _Body(workspace, wish, reports) as body:
            attached = await body.made()
            await until_answered(
                lambda: run.client.workspaces.attach(
                    workspace.workspace_id, attached.identity, details=attached.details
                ),
                run.client.transport.clock,
            )
            workspace.identity = attached.identity
            body.watch()
            background.append(asyncio.create_task(body.keep_in_sight()))
            with run.client.transport.telling(body.look_again):
                yield workspace
    finally:
        del run.grounds[workspace.workspace_id]
        for one in background:
            one.cancel()
        await asyncio.gather(*background, return_exceptions=True)


class _Body:
    """What is made for the workspace on this machine; nothing for an external one."""

    def __init__(self, workspace: HeldWorkspace, wish: Wish, reports: Reports) -> None:
        self._workspace = workspace
        self._wish = wish
        self._reports = reports
        self._provider: DirectoryProvider | ProcessProvider | None = None
        self._watching: asyncio.Task[None] | None = None
        self._watcher: DirectoryWatcher | None = None
        self._processes: ProcessWatcher | None = None
        self._looks = asyncio.Event()
        if wish.kind == "directory" and wish.root is not None:
            self._provider = DirectoryProvider(wish.root)
        elif wish.kind == "process":
            self._provider = ProcessProvider()

    async def __aenter__(self) -> "_Body":
        return self

    async def made(self) -> Attached:
        """The body's identity; a body that cannot be made is told to the service."""
        workspace_id = self._workspace.workspace_id
        if self._provider is None:
            return Attached(workspace_id)
        try:
            await self._provider.place(workspace_id, self._wish.spec)
            attached = await self._provider.attach(WorkspaceRef(workspace_id, spec=self._wish.spec))
        except PlaceFailed as error:
            await self._reports.said(workspace_id, [Observation("gone", message=str(error))])
            raise
        if isinstance(self._provider, DirectoryProvider):
            self._workspace.path = self._provider.path(workspace_id)
        return attached

    def watch(self) -> None:
        """Notice the body's end from now on."""
        ref = self._ref()
        if isinstance(self._provider, ProcessProvider):
            self._processes = ProcessWatcher(self._provider, self._reports.tell)
            self._processes.watch(ref)
        elif self._provider is not None:
            pinned = self._provider.pin(ref)
            if isinstance(pinned, Pin):
                self._watcher = DirectoryWatcher(self._reports.tell)
                self._watcher.watch(ref.workspace_id, pinned)
                self._watching = asyncio.create_task(self._watcher.run())
            else:
                self._reports.tell(ref.workspace_id, [pinned])

    def look_again(self) -> None:
        """The service is back, and may not see the body any more."""
        self._looks.set()

    async def keep_in_sight(self) -> None:
        """Say that the body is there whenever the service takes it for unknown, until cancelled."""
        clock = self._workspace.client.transport.clock
        while self._provider is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(spread(SIGHT_S, clock)):
                    await self._looks.wait()
            self._looks.clear()
            with contextlib.suppress(JacklineError):
                await self._say_if_unseen(self._provider)

    async def _say_if_unseen(self, provider: DirectoryProvider | ProcessProvider) -> None:
        workspaces, workspace_id = self._workspace.client.workspaces, self._workspace.workspace_id
        clock = self._workspace.client.transport.clock
        known = await until_answered(lambda: workspaces.show(workspace_id), clock)
        if known.unknown_since is None or known.over or known.teardown:
            return
        seen = await provider.continuity(self._ref())
        if seen.kind == "present":  # what is not there is told by whoever watches it
            self._reports.tell(workspace_id, [seen, Observation("synced")])

    async def __aexit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is not None and self._watcher is not None:
            # Whoever fails because the ground went does not decide over its loss: that is heard first.
            if not await self._watcher.looked(self._workspace.workspace_id):
                await self._reports.heard()
        if self._processes is not None:
            self._processes.forget(self._workspace.workspace_id)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if not self._wish.keep:
            await self._destroy()

    async def _destroy(self) -> None:
        """Destroy what was made, and say so; the service is told first, so that nobody takes it for a loss."""
        workspaces, gone = self._workspace.client.workspaces, self._provider is None
        with contextlib.suppress(JacklineError):
            await workspaces.release(self._workspace.workspace_id, worker_id=self._workspace.worker_id)
        if self._provider is not None:
            with contextlib.suppress(JacklineError, OSError):
                gone = await self._provider.teardown(self._ref())
        if gone:
            with contextlib.suppress(JacklineError):
                seen = Observation("gone", self._workspace.identity)
                await workspaces.observe(self._workspace.workspace_id, [seen])

    def _ref(self) -> WorkspaceRef:
        return WorkspaceRef(self._workspace.workspace_id, self._workspace.identity, self._wish.spec)
