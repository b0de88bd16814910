"""A worker from its registration to its leave: it claims runs, has them executed, and stops in good order.

Each claimed run is confirmed by a first heartbeat before its execution starts; if nobody answers, the run is handed
back, the error is kept in the log, and the execution is never started. So is a run whose execution breaks for a reason
of ours: it is handed back until somebody hears it, renewed meanwhile. After that the worker is *ailing*: it makes sure
that it could execute something (`able`) before it claims again, and as long as it could not it is drained, so that
everybody sees that it takes no runs, and why nobody does. From then on the lease is renewed until the
execution has returned, which it does only when the run's end has been told to the service (or is nobody's business any
more); only then is its slot free.

A stop keeps ownership until the work has settled: no new claims (drain, and give back what a claim under way still
brought), ask every execution to end, go on renewing until all have, then leave, then say goodbye on the stream.

A claim whose answer was lost is asked again under its own idempotency key, so that what was granted is not forgotten.

Two processes under one id would be taken for one another, so each says which *instance* it is. One that the service
refuses because another is there (`WorkerInUse`) does not begin; one that was thought dead and finds its id taken over
stops as if it had been told to, and then raises that refusal.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jackline._async.client import AsyncClient
from jackline.clock import Clock
from jackline.errors import JacklineError, LeasesHeld, Problem, Unknown, WorkerInUse, WorkerUnknown
from jackline.models import Claim
from jackline.retrying import Retry
from jackline.worker.held import HeldLease
from jackline.worker.log import Log
from jackline.worker.persist import Heard, until_heard
from jackline.worker.staying import Staying
from jackline.worker.stream import WorkerStream

POLL_S = 20.0  # how long one claim waits for work; the service allows 60
AGAIN = Retry(first_s=0.2, cap_s=5.0)
AILING = Retry(first_s=1.0, cap_s=30.0)  # between claims of a worker that cannot execute what it is given
LEAVE_S = 5.0  # how long a stop waits for the service at each of its own steps
CLAIM_MAX = 1000
WHERE_MAX = 256  # characters


class Execution(Protocol):
    """One run being executed."""

    async def run(self) -> None:
        """Execute, tell the service how it ended, and return."""

    def stop(self, reason: str) -> None:
        """Ask the execution to end; `run` returns when it has."""


Begin = Callable[[Claim, HeldLease], Execution]


class _Unfit:
    """What takes the place of an execution that could not even begin: it breaks with the original error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def run(self) -> None:
        raise self._error

    def stop(self, reason: str) -> None:
        pass


async def _always_able() -> None:
    """Nothing is known that could keep this worker from executing runs."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What kind of worker this is."""

    worker_id: str
    queues: Sequence[str]
    slots: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 0.0
    stream: bool = True
    stop_within_s: float = 30.0
    instance: str | None = None
    where: str | None = None


@dataclass(slots=True)
class _Poll:
    """A claim that may have been granted: repeated as it was until it is answered."""

    key: str
    limit: int


class Engine:
    """Runs one worker."""

    def __init__(self, client: AsyncClient, setup: Setup, begin: Begin, log: Log) -> None:
        self.client = client
        self.setup = setup
        self.log = log
        self.clock: Clock = client.transport.clock
        self.instance = setup.instance or self.clock.new_id()
        self.staying = Staying(client, setup.worker_id, self.clock, log)
        self.staying.register, self.staying.on_replaced = self._register, self._replaced
        self.able: Callable[[], Awaitable[None]] = _always_able
        self._begin = begin
        self._executions: dict[asyncio.Task[None], Execution] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._slot_freed = asyncio.Event()
        self._poll: _Poll | None = None
        self._refused: str | None = None
        self._ailing: Iterator[float] | None = None
        self._taken_over: WorkerInUse | None = None
        self._unable = False

    def stop(self) -> None:
        """Begin to stop; `run` returns when that is done."""
        self._stopping.set()
        self._slot_freed.set()

    def press(self, reason: str) -> None:
        """Ask every execution again, with a reason that may mean more haste."""
        for execution in list(self._executions.values()):
            execution.stop(reason)

    async def run(self, before_claiming: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Work until stopped. `before_claiming` runs once, registered and renewing, before the first claim.

        Raises:
            WorkerInUse: another process goes by this worker's id.
        """
        await self._register_patiently()
        stopping = asyncio.create_task(self._stopping.wait())
        background = [stopping, asyncio.create_task(self.staying.run()), asyncio.create_task(self.staying.watch())]
        if self.setup.stream:
            address, worker_id = self.client.transport.address, self.setup.worker_id
            stream = WorkerStream(address, worker_id, self.clock, self.log, instance=self.instance)
            self.staying.attach(stream)
            background.append(asyncio.create_task(stream.run()))
        try:
            if before_claiming is not None:
                await self._unless_stopped(before_claiming())
            await self._claim_until_stopped(stopping)
            await self._settle()
        finally:
            # Nothing is left behind that acts under a lease which nobody renews any more.
            await self._cut_off(list(self._executions))
            for one in background:
                one.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        if self._taken_over is not None:
            raise self._taken_over

    def _replaced(self, refusal: WorkerInUse) -> None:
        """Another process goes by this worker's id: end here."""
        if self._taken_over is None and not self._stopping.is_set():
            self._taken_over = refusal
            self.log("taken_over", detail=refusal.detail)
            self.stop()

    async def _unless_stopped(self, preparing: Coroutine[Any, Any, None]) -> None:
        """See preparations through, or drop them when there is no use for them any more."""
        both = asyncio.create_task(preparing), asyncio.create_task(self._stopping.wait())
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        prepared, stopping = both
        stopping.cancel()
        if prepared.done():
            prepared.result()
        prepared.cancel()
        await asyncio.gather(*both, return_exceptions=True)

    def take_on(self, execution: Execution, lease: HeldLease) -> None:
        """Execute something whose lease is already renewed: a run that was found again after a restart."""
        carrying = asyncio.create_task(self._carry(execution, lease))
        self._executions[carrying] = execution
        self._busy[lease.ref.run_id] = carrying

    async def _register(self) -> None:
        setup = self.setup
        where = setup.where or f"{socket.gethostname()}, process {os.getpid()}"
        await self.client.register_worker(
            setup.worker_id, labels=setup.labels, slots=setup.slots, instance=self.instance, where=where[:WHERE_MAX]
        )

    async def _register_patiently(self) -> None:
        pauses = AGAIN.pauses(self.clock)
        while not self._stopping.is_set():
            try:
                await self._register()
            except Unknown as error:
                self.log("unanswered", error=str(error))
                await self._pause(next(pauses))
            else:
                self.log("registered", worker_id=self.setup.worker_id, slots=self.setup.slots)
                return

    async def _claim_until_stopped(self, stopping: asyncio.Task[Any]) -> None:
        pauses = AGAIN.pauses(self.clock)
        while not self._stopping.is_set():
            if self._free() <= 0:
                self._slot_freed.clear()
                await self._slot_freed.wait()
                continue
            if self._ailing is not None and not await self._recovers(self._ailing):
                continue
            claiming = asyncio.create_task(self._claim())
            try:
                await asyncio.wait((stopping, claiming), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                claiming.cancel()
                raise
            if not claiming.done():
                await self._last_claim(claiming)
                break
            if claiming.result():
                pauses = AGAIN.pauses(self.clock)
            else:
                await self._pause(next(pauses))

    async def _recovers(self, pauses: Iterator[float]) -> bool:
        """Whether it is worth while to claim again; after a pause."""
        if await self._pause(next(pauses)):
            return False
        try:
            await self.able()
        except Exception as error:  # noqa: BLE001 - whatever it is, runs had better go to somebody else
            if not self._unable:
                self._unable = True
                self.log("claims_no_more", why="it cannot start a command", error=str(error) or repr(error))
                with contextlib.suppress(JacklineError):
                    await self.client.drain_worker(self.setup.worker_id)
            return False
        if self._unable:
            with contextlib.suppress(JacklineError):
                await self._register()
                self._unable = False
                self.log("claims_again")
        return not self._unable

    def _free(self) -> int:
        return self.setup.slots - len(self._executions)

    async def _claim(self, wait_s: float = POLL_S) -> bool:
        """Claim once and begin what was granted; False when it is better to pause before the next time."""
        poll = self._poll = self._poll or _Poll(self.clock.new_id(), min(CLAIM_MAX, self._free()))
        try:
            claims = await self.client.claim(
                self.setup.worker_id, self.setup.queues, limit=poll.limit, wait_s=wait_s, key=poll.key
            )
        except Unknown:
            return False
        except WorkerUnknown:
            self._poll = None
            with contextlib.suppress(JacklineError):
                await self._register()
            return False
        except WorkerInUse as refusal:
            self._poll = None
            self._replaced(refusal)
            return False
        except Problem as refusal:
            self._poll = None
            if refusal.code != self._refused and not self._stopping.is_set():
                self._refused = refusal.code
                self.log("claim_refused", code=refusal.code, detail=refusal.detail)
            return False
        self._poll = self._refused = None
        await self._begin_all(claims)
        return True

    async def _last_claim(self, claiming: asyncio.Task[bool]) -> None:
        """Learn what the claim under way has granted, so that nothing is held unknowingly."""
        with contextlib.suppress(JacklineError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self.client.drain_worker(self.setup.worker_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await claiming

    async def _begin_all(self, claims: Sequence[Claim]) -> None:
        if not claims:
            return
        leases = [HeldLease.of(claim, self.clock, self.setup.grace_s) for claim in claims]
        try:
            if self._stopping.is_set():
                msg = "the worker is stopping"
                raise Unknown(msg)
            await self.staying.confirm(leases)
        except JacklineError as error:
            for lease in leases:
                self._refuse(lease, error)
            return
        for claim, lease in zip(claims, leases, strict=True):
            if lease.loss is None:
                self._start(claim, lease)
            else:
                self.log("claim_lost", run_id=claim.run_id, fence=claim.fence, reason=lease.loss.reason)
                self.staying.drop(lease)

    def _start(self, claim: Claim, lease: HeldLease) -> None:
        predecessor = self._busy.get(claim.run_id)
        try:
            execution = self._begin(claim, lease)
        except Exception as error:  # noqa: BLE001 - one run's trouble must not end the worker
            self._refuse(lease, error)
            return
        carrying = asyncio.create_task(self._carry(execution, lease, predecessor))
        self._executions[carrying] = execution
        self._busy[claim.run_id] = carrying

    def _refuse(self, lease: HeldLease, error: Exception) -> None:
        """Hand back what was granted and cannot be begun; it takes a slot until that was heard."""
        self._ailing = self._ailing or AILING.pauses(self.clock)
        self.take_on(_Unfit(error), lease)

    async def _carry(
        self, execution: Execution, lease: HeldLease, predecessor: asyncio.Task[None] | None = None
    ) -> None:
        try:
            if predecessor is not None:
                # The same run under an older fence is still being ended here: two must not share its directory.
                await asyncio.wait([predecessor])
            await execution.run()
            self._ailing = None
        except Exception as error:  # noqa: BLE001 - one run's trouble must not end the worker
            await self._give_back(lease, error)
        finally:
            self._carried(lease)

    def _carried(self, lease: HeldLease) -> None:
        self.staying.drop(lease)
        carrying = asyncio.current_task()
        if carrying is not None:
            self._executions.pop(carrying, None)
            if self._busy.get(lease.ref.run_id) is carrying:
                del self._busy[lease.ref.run_id]
        self._slot_freed.set()

    async def _give_back(self, lease: HeldLease, error: Exception) -> None:
        """What could not be executed for a reason of ours is somebody else's to try; the original error is kept.

        Nothing is counted against the run, so a worker in trouble must not be quick to claim it again. It is said
        until it is heard: a lease that merely ran out would be counted.
        """
        self._ailing = self._ailing or AILING.pauses(self.clock)
        ref, told = lease.ref, str(error) or repr(error)
        key = f"{ref.run_id}.{ref.fence}.give-back"
        heard = await until_heard("hand-back", lambda: self.client.hand_back(ref, key=key), lease, self.clock, self.log)
        happening = "handed_back" if heard is Heard.DELIVERED else "claim_lost"
        self.log(happening, run_id=ref.run_id, fence=ref.fence, error=told)

    async def _settle(self) -> None:
        """End every execution, then leave."""
        self.log("stopping", executions=len(self._executions))
        self.press("shutdown")
        if self._executions:
            _, pending = await asyncio.wait(list(self._executions), timeout=self.setup.stop_within_s)
            if pending:
                self.log("stop_unfinished", executions=len(pending))
                await self._cut_off(pending)
        if self._taken_over is not None:
            return
        try:
            async with asyncio.timeout(LEAVE_S):
                await self.client.leave(self.setup.worker_id)
        except LeasesHeld as refusal:
            self.log("leave_refused", detail=refusal.detail)
        except (JacklineError, TimeoutError) as error:
            self.log("leave_unanswered", error=str(error) or type(error).__name__)
        else:
            self.log("left", worker_id=self.setup.worker_id)

    async def _cut_off(self, left: Collection[asyncio.Task[None]]) -> None:
        """Cancel executions: once to end, once more to stop saying so. What is left even then loses its lease."""
        for _ in range(2):
            for carrying in left:
                carrying.cancel()
            if left:
                _, left = await asyncio.wait(left, timeout=LEAVE_S)
        if left:
            self.log("stop_abandoned", executions=len(left))
            self.staying.abandon()

    async def _pause(self, seconds: float) -> bool:
        """Wait so long, or until it is time to stop: then True."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()
