"""What a worker says about the ground under its runs: what was seen of it, and that it is still wanted.

An observation is reported until somebody has answered, in the order in which things were seen of a workspace; nothing
is dropped because the service is away. What a report leads to is the service's decision, and comes back as the end of
a lease or as an instruction.

An assertion is a write every few minutes for as long as the state lasts that needs the workspace: from its placing
until its run has ended or it has. It is spread by a fifth to both sides, so that many workers that lost the service
together do not come back together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from jackline._async.client import AsyncClient
from jackline.clock import Clock
from jackline.errors import JacklineError, NotFound, Problem, RunSettled, Unknown, WorkspaceOver
from jackline.worker.log import Log
from jackline.worker.persist import until_answered
from jackline.workspaces.contract import Observation
from jackline.workspaces.models import Workspace

ASSERT_EVERY_S = 300.0  # until the service has said how often it wants to hear
SPREAD = 0.2
TOGETHER = 8  # reports under way at the same time
ASSERT_AGAIN_S = 15.0  # after no answer


class Reports:
    """Observations on their way to the service."""

    def __init__(self, client: AsyncClient, log: Log) -> None:
        self._client = client
        self._log = log
        self._queue: asyncio.Queue[tuple[str, Sequence[Observation]]] = asyncio.Queue()

    def tell(self, workspace_id: str, observations: Sequence[Observation]) -> None:
        """Report this as soon as everything that was seen before has been heard."""
        for one in observations:
            values = {"reason": one.reason, "message": one.message}
            self._log(f"workspace_{one.kind}", workspace_id=workspace_id, **values)
        self._queue.put_nowait((workspace_id, observations))

    async def run(self) -> None:
        """Report until cancelled: what is waiting at the same time goes out together, in order for each workspace."""
        while True:
            waiting = [await self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            try:
                await self._report(waiting)
            finally:
                for _ in waiting:
                    self._queue.task_done()

    async def _report(self, waiting: Sequence[tuple[str, Sequence[Observation]]]) -> None:
        limit = asyncio.Semaphore(TOGETHER)

        async def about(workspace_id: str) -> None:
            async with limit:
                for name, observations in waiting:
                    if name == workspace_id:
                        await self.said(workspace_id, observations)

        await asyncio.gather(*map(about, dict.fromkeys(name for name, _ in waiting)))

    async def heard(self) -> None:
        """Wait until everything that was seen has been heard."""
        await self._queue.join()

    async def said(self, workspace_id: str, observations: Sequence[Observation]) -> Workspace | None:
        """The workspace after these observations; None when they were refused."""
        clock = self._client.transport.clock
        key = clock.new_id()
        try:
            return await until_answered(
                lambda: self._client.workspaces.observe(workspace_id, observations, key=key), clock
            )
        except JacklineError as refusal:
            self._log("observation_refused", workspace_id=workspace_id, error=str(refusal))
            return None


async def assert_until_over(
    client: AsyncClient, workspace_id: str, log: Log, then: Callable[[], Awaitable[object]] | None = None
) -> str:
    """Assert a workspace again and again; the code with which the service said that nobody needs it any more.

    `then` is awaited after every assertion but the first.
    """
    clock = client.transport.clock
    wait_s, times = spread(ASSERT_EVERY_S, clock), 0
    while True:
        try:
            asserted = await client.workspaces.assert_(workspace_id)  # noqa: PT009 - an operation of the service
            wait_s, times = spread(asserted.next_within_s, clock), times + 1
        except (RunSettled, WorkspaceOver, NotFound) as refusal:
            return refusal.code
        except (Problem, Unknown) as error:
            log("assertion_unheard", workspace_id=workspace_id, error=str(error))
            wait_s = min(wait_s, spread(ASSERT_AGAIN_S, clock))
        if then is not None and times > 1:
            await then()
        await asyncio.sleep(wait_s)


def spread(seconds: float, clock: Clock) -> float:
    """Somewhere within a fifth around that many seconds."""
    return seconds * (1.0 - SPREAD + 2.0 * SPREAD * clock.chance())
