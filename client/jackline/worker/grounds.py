"""The directories that the runs of one worker stand on, from their placing to their end.

A run's command starts in a directory that was placed as a workspace of its run: known by its identity, watched while
it is needed, asserted as long as the run is open. A later attempt here stands on the same directory, as long as it is
still the same; otherwise on a fresh one. One that another machine holds of this run is released, because the run goes
on here.

What becomes of a directory is the service's decision: it is told what is seen, and answers by the run's policy. A
directory is destroyed when the service says so (a cancelled run, a reaped or released workspace), never while a
command still stands in it, and never one that does not carry our mark. That of a run that has ended stays to be
looked at until it is reaped.

Failure: a directory that cannot be seen is reported as unknown, and no attempt is started on it. A worker that was
away looks at every directory again before it claims, and tells what it sees.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from jackline._async.client import AsyncClient
from jackline.errors import JacklineError, NotFound
from jackline.models import LeaseRef
from jackline.worker.log import Log
from jackline.worker.persist import until_answered
from jackline.worker.places import Home
from jackline.worker.reporting import Reports, assert_until_over, spread
from jackline.workspaces.contract import NotOurs, Observation, PlaceFailed, WorkspaceRef
from jackline.workspaces.directory import NAME, DirectoryProvider, Record
from jackline.workspaces.looking import Pin
from jackline.workspaces.models import Workspace
from jackline.workspaces.watching import DirectoryWatcher

SWEEP_S = 60.0  # between two questions for what is to be destroyed, and what the service takes for unknown
KEPT_ENDED = 1000  # directories of runs that have ended; older ones are not left to the service's reaping
KEPT_UNKNOWN = 100  # directories of which the service knows nothing (any more); what is beyond is removed
TOGETHER = 8  # directories that are looked after at the same time


class GroundLost(JacklineError):
    """The run's directory is not what it was: the service has been told, and decides."""


class GroundNotMade(JacklineError):
    """No directory could be made: the service has been told, and this worker had better not claim again at once."""


class GroundUnseen(JacklineError):
    """Whether the run's directory is still there cannot be seen: nothing is started on it."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a command is to start."""

    workspace_id: str
    path: Path


class Grounds:
    """The directories of one worker."""

    def __init__(self, client: AsyncClient, home: Home, log: Log) -> None:
        self.provider = DirectoryProvider(home.path / "workspaces")
        self.reports = Reports(client, log)
        self._client = client
        self._home = home
        self._log = log
        self._watcher = DirectoryWatcher(self.reports.tell, log)
        self._asserting: dict[str, asyncio.Task[None]] = {}
        self._swept = asyncio.Event()
        self._taken_up = False
        self._taking_up = asyncio.Lock()
        self._told_alone: set[str] = set()
        self._open: dict[str, list[str]] = {}
        self._standing: dict[str, str] = {}  # where each run's command was last given its ground
        self._ended: dict[str, str] = {}
        self._unknown: dict[str, None] = {}
        for record in self.provider.records():
            if not record.settled:
                self._open.setdefault(record.run_id, []).append(record.workspace_id)
            else:
                self._file(record.workspace_id, record.run_id, unknown=record.unknown)

    async def run(self) -> None:
        """Watch, report, assert and sweep until cancelled."""
        try:
            async with asyncio.TaskGroup() as together:
                together.create_task(self._watcher.run())
                together.create_task(self.reports.run())
                together.create_task(self._sweep_forever())
        finally:
            for asserting in self._asserting.values():
                asserting.cancel()
            # Whoever runs this again after a fault of ours begins by looking at everything.
            self.look_again()

    def sweep(self) -> None:
        """Ask soon what is to be destroyed, because something may be."""
        self._swept.set()

    def look_again(self) -> None:
        """The service is back: what it does not know any more is told, and what it wants meanwhile is done."""
        if self._taken_up:
            self._taken_up = False
            self.sweep()

    def left(self, run_id: str, *, ended: bool | None = None) -> None:
        """A command of the run has ended, and perhaps the run with it; None: nobody has said, the service is asked."""
        self._standing.pop(run_id, None)
        for workspace_id in list(self._open.get(run_id, ())):
            if ended:
                self._settle(workspace_id)
                self._log("workspace_no_longer_asserted", workspace_id=workspace_id, code="run_ended")
            elif ended is None:
                self._stop_asserting(workspace_id)
                self._assert_from_now(workspace_id)

    async def take_up(self) -> None:
        """Look at every directory, tell what the service does not know, and go on watching."""
        limit = asyncio.Semaphore(TOGETHER)

        async def one(record: Record) -> None:
            async with limit:
                with contextlib.suppress(JacklineError):
                    await self._take_up(record)

        async with self._taking_up:
            self._taken_up = True
            await asyncio.gather(*(one(record) for record in list(self._open_records())))
        self.sweep()

    async def stand(self, lease: LeaseRef) -> Ground:
        """The directory in which the run's command is to start. Raises `GroundLost` when the service must decide."""
        self._standing.pop(lease.run_id, None)
        ground = await self._ground(lease)
        self._standing[lease.run_id] = ground.workspace_id
        self.sweep()  # what the attempt before stood on may have been let go meanwhile
        return ground

    async def _ground(self, lease: LeaseRef) -> Ground:
        for record in list(self._open_records(lease.run_id)):
            if await self._take_up(record):
                return Ground(record.workspace_id, self.provider.path(record.workspace_id))
        if lease.fence > 1:
            await self._release_elsewhere(lease.run_id)
        return await self._fresh(lease)

    async def stands(self, run_id: str) -> bool:
        """Whether what the run's command was given is still there; an end of it has been heard by the service."""
        workspace_id = self._standing.get(run_id)
        if workspace_id is None:
            return True
        seen = await self._watcher.looked(workspace_id)
        if not seen:
            await self.reports.heard()
        return seen

    async def destroy(self, workspace_id: str) -> None:
        """Destroy a directory as the service asked, unless a command still stands in it: then once it has ended."""
        record = self.provider.record(workspace_id)
        if record is None or self._is_stood_on(record):
            return
        self._watcher.forget(workspace_id)
        ref = WorkspaceRef(workspace_id, record.identity)
        try:
            destroyed = await self.provider.teardown(ref)
        except (NotOurs, OSError) as error:
            destroyed = await self._left_alone(ref, str(error))
        if destroyed:
            self._stop_asserting(workspace_id)
            self._forget_open(record.run_id, workspace_id)
            self._ended.pop(workspace_id, None)
            self._log("workspace_destroyed", workspace_id=workspace_id, run_id=record.run_id)
            await self.reports.said(workspace_id, [Observation("gone", record.identity)])

    async def _fresh(self, lease: LeaseRef) -> Ground:
        clock, workspaces = self._client.transport.clock, self._client.workspaces
        spec, key = {"run_id": lease.run_id}, f"{lease.run_id}.{lease.fence}.place"
        placed = await until_answered(lambda: workspaces.place(lease, key=key, provider=NAME, spec=spec), clock)
        self._open.setdefault(lease.run_id, []).append(placed.workspace_id)
        await self._make(placed.workspace_id, lease.run_id)
        return Ground(placed.workspace_id, self.provider.path(placed.workspace_id))

    async def _make(self, workspace_id: str, run_id: str) -> None:
        """Make the directory and attach it; repeated after having been cut short it makes no second one."""
        try:
            await self.provider.place(workspace_id, {"run_id": run_id})
            attached = await self.provider.attach(WorkspaceRef(workspace_id))
        except PlaceFailed as error:
            self._log("workspace_not_placed", workspace_id=workspace_id, reason=error.reason, message=error.message)
            await self.reports.said(workspace_id, [Observation("gone", message=str(error))])
            msg = f"no directory could be made for the run: {error}"
            raise GroundNotMade(msg) from error
        await until_answered(
            lambda: self._client.workspaces.attach(workspace_id, attached.identity, details=attached.details),
            self._client.transport.clock,
        )
        await self._pin(workspace_id)

    async def _pin(self, workspace_id: str) -> Pin:
        """Hold the directory open and keep it under watch."""
        pinned = await asyncio.to_thread(self.provider.pin, WorkspaceRef(workspace_id))
        if isinstance(pinned, Observation):
            await self._lose(workspace_id, pinned)
        self._keep(workspace_id, pinned)
        return pinned

    async def _take_up(self, record: Record) -> bool:
        """Whether the directory of a record can be stood on; raises `GroundLost` when it was lost meanwhile."""
        workspace = await self._ask(record)
        if workspace is None:
            return False
        if workspace.phase in ("placing", "provisioning", "attaching"):
            await self._make(record.workspace_id, record.run_id)
        elif workspace.unknown_since is not None or not self._watcher.watching(record.workspace_id):
            pinned = await self._pin(record.workspace_id)
            if workspace.unknown_since is not None:
                seen = Observation("present", str(pinned.identity))
                self.reports.tell(record.workspace_id, [seen, Observation("synced")])
        return True

    async def _ask(self, record: Record) -> Workspace | None:
        """The workspace of a record as the service has it; None when it is of no use to anybody any more."""
        clock, workspaces = self._client.transport.clock, self._client.workspaces
        try:
            workspace = await until_answered(lambda: workspaces.show(record.workspace_id), clock)
        except NotFound:
            self._settle(record.workspace_id, unknown=True)
            return None
        if workspace.over or workspace.teardown:
            self._settle(record.workspace_id)
            return None
        return workspace

    async def _lose(self, workspace_id: str, seen: Observation) -> NoReturn:
        self.reports.tell(workspace_id, [seen])
        await self.reports.heard()
        message = seen.message or seen.kind
        raise GroundLost(message) if seen.is_loss else GroundUnseen(message)

    async def _release_elsewhere(self, run_id: str) -> None:
        """Release the run's directories on other machines: it goes on here, and nobody will come back to them."""
        with contextlib.suppress(JacklineError):
            async for workspace in self._client.workspaces.list(run_id=run_id, provider=NAME):
                here = self.provider.record(workspace.workspace_id) is not None
                if not here and not workspace.over and not workspace.teardown:
                    self._log("workspace_released", run_id=run_id, workspace_id=workspace.workspace_id)
                    await self._release(workspace.workspace_id)

    async def _release(self, workspace_id: str) -> None:
        await self._client.workspaces.release(workspace_id, worker_id=self._home.worker_id)

    def _keep(self, workspace_id: str, pin: Pin) -> None:
        """Watch and assert a directory from now on."""
        self._watcher.watch(workspace_id, pin)
        self._assert_from_now(workspace_id)

    def _assert_from_now(self, workspace_id: str) -> None:
        asserting = self._asserting.get(workspace_id)
        if asserting is None or asserting.done():
            self._asserting[workspace_id] = asyncio.get_running_loop().create_task(self._assert(workspace_id))

    async def _assert(self, workspace_id: str) -> None:
        code = await assert_until_over(self._client, workspace_id, self._log, lambda: self._look_after(workspace_id))
        self._asserting.pop(workspace_id, None)
        self._log("workspace_no_longer_asserted", workspace_id=workspace_id, code=code)
        self._settle(workspace_id, unknown=code == "workspace_unknown")
        self.sweep()

    async def _look_after(self, workspace_id: str) -> None:
        """See whether the service still knows what we know of the directory."""
        record = self.provider.record(workspace_id)
        if record is not None and not record.settled:
            with contextlib.suppress(JacklineError):
                await self._take_up(record)

    def _stop_asserting(self, workspace_id: str) -> None:
        asserting = self._asserting.pop(workspace_id, None)
        if asserting is not None:
            asserting.cancel()

    def _settle(self, workspace_id: str, *, unknown: bool = False) -> None:
        """Nobody stands on the directory any more; it stays until the service has it destroyed."""
        self._watcher.forget(workspace_id)
        self._stop_asserting(workspace_id)
        record = self.provider.record(workspace_id)
        if record is not None and not record.settled:
            self.provider.note(replace(record, settled=True, unknown=unknown))
        if record is not None:
            self._forget_open(record.run_id, workspace_id)
            self._file(workspace_id, record.run_id, unknown=unknown)

    def _file(self, workspace_id: str, run_id: str, *, unknown: bool) -> None:
        """Remember a directory that nobody stands on, in the order in which they came to be left."""
        if unknown:
            self._unknown[workspace_id] = None
        else:
            self._ended[workspace_id] = run_id

    def _forget_open(self, run_id: str, workspace_id: str) -> None:
        left = [one for one in self._open.pop(run_id, ()) if one != workspace_id]
        if left:
            self._open[run_id] = left

    async def _sweep_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(spread(SWEEP_S, self._client.transport.clock)):
                    await self._swept.wait()
            except TimeoutError:
                self._taken_up = False  # whatever the service was told wrongly or late is made up for now
            self._swept.clear()
            if not self._taken_up:
                await self.take_up()
            with contextlib.suppress(JacklineError):
                await self._sweep()

    async def _sweep(self) -> None:
        """Destroy what the service wants destroyed."""
        if self._open or self._ended:
            async for workspace in self._client.workspaces.list(phase="teardown", provider=NAME):
                if self.provider.record(workspace.workspace_id) is not None:
                    await self.destroy(workspace.workspace_id)
        await self._prune_ended()
        await self._prune()

    async def _prune_ended(self) -> None:
        """Release the oldest directories of ended runs; a cancelled run's goes by itself, or is kept on purpose."""
        for workspace_id, run_id in list(self._ended.items())[: max(0, len(self._ended) - KEPT_ENDED)]:
            del self._ended[workspace_id]
            with contextlib.suppress(JacklineError):
                if (await self._client.run(run_id)).state != "cancelled":
                    await self._release(workspace_id)
                    await self.destroy(workspace_id)

    async def _prune(self) -> None:
        """Remove the oldest directories of which the service knows nothing."""
        for workspace_id in list(self._unknown)[: max(0, len(self._unknown) - KEPT_UNKNOWN)]:
            del self._unknown[workspace_id]
            with contextlib.suppress(NotOurs, OSError):
                await self.provider.teardown(WorkspaceRef(workspace_id))

    async def _left_alone(self, ref: WorkspaceRef, why: str) -> bool:
        """Say once that something is left alone; True when what stands there is not the workspace's body at all."""
        if ref.workspace_id not in self._told_alone:
            self._told_alone.add(ref.workspace_id)
            self._log("workspace_left_alone", workspace_id=ref.workspace_id, why=why)
        if (await self.provider.continuity(ref)).is_loss:
            self.provider.forget(ref.workspace_id)
            return True
        return False

    def _open_records(self, run_id: str | None = None) -> Iterator[Record]:
        names = (
            self._open.get(run_id, []) if run_id is not None else [one for some in self._open.values() for one in some]
        )
        for workspace_id in list(names):
            record = self.provider.record(workspace_id)
            if record is not None and not record.settled:
                yield record

    def _is_stood_on(self, record: Record) -> bool:
        """Whether a command is, or may be, in the directory: its run has one, and not as known in another directory."""
        busy = {attempt.path.name.rpartition(".")[0] for attempt in self._home.attempts()}
        return record.run_id in busy and self._standing.get(record.run_id, record.workspace_id) == record.workspace_id
