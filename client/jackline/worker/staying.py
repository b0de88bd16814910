"""Staying the holder: every lease of this worker renewed by one call, at a third of the shortest ttl.

The instant of asking is read before the call, so that trust is never stretched by a slow answer. An answer is applied
lease by lease: renewed (trust, instructions), slice ended (trust, and the order to save and hand on), or lost. No
answer changes nothing: it is asked again soon, by the other road if the stream was at fault, and each lease ends by
its own clock when its trust has run down. An idle worker beats every ten seconds, so that the service knows that it
is there.

Failure: an unregistered worker is registered again (a service whose journal was restored may have forgotten it); one
whose id another process has taken over meanwhile has to stop; every other refusal of a heartbeat counts as no answer,
because it says nothing about the leases.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from jackline._async.client import AsyncClient
from jackline.clock import Clock
from jackline.errors import JacklineError, Problem, Unknown, WorkerInUse, WorkerUnknown
from jackline.models import Instruction, LeaseRef, Renewal
from jackline.retrying import Patience, Retry
from jackline.worker.held import HeldLease, Loss, loss_of
from jackline.worker.log import Log
from jackline.worker.stream import WorkerStream

IDLE_BEAT_S = 10.0
BEAT_TIMEOUT_MAX_S = 10.0
BEAT_TIMEOUT_MIN_S = 0.2
AGAIN_SHARE = 0.1  # of the shortest ttl: how soon to ask again after silence
AGAIN_MAX_S = 2.0
WATCH_MIN_S = 0.01


class Staying:
    """Renews the leases that it is given until they are over."""

    def __init__(self, client: AsyncClient, worker_id: str, clock: Clock, log: Log) -> None:
        self._client = client
        self._worker_id = worker_id
        self._clock = clock
        self._log = log
        self._leases: list[HeldLease] = []
        self._wake = asyncio.Event()
        self._silent = False
        self._beat_at = 0.0
        self.stream: WorkerStream | None = None
        self.register: Callable[[], Awaitable[None]] | None = None
        self.on_destroy: Callable[[], None] = lambda: None
        self.on_replaced: Callable[[WorkerInUse], None] = lambda refusal: None

    def attach(self, stream: WorkerStream) -> None:
        """Use this stream whenever it is open."""
        self.stream = stream
        stream.on_push = self.hear
        stream.on_change = lambda: self._stream_changed(stream)

    def _stream_changed(self, stream: WorkerStream) -> None:
        """Opened: say so at once. Broken: renew by the other road at once, since the service now counts faster."""
        self._beat_by(self._clock.now())
        if stream.open:
            self._client.transport.came_back()

    def drop(self, lease: HeldLease) -> None:
        """The lease needs no more renewals."""
        with contextlib.suppress(ValueError):
            self._leases.remove(lease)

    def abandon(self) -> None:
        """Nobody will renew any more: whoever still acts under one of the leases must hear that it is over."""
        for lease in self._leases:
            lease.lose(Loss("distrust", "the worker has ended"))

    async def confirm(self, leases: Sequence[HeldLease]) -> None:
        """The first heartbeat of new leases, which must succeed before any work starts.

        Afterwards each of them is trusted or lost. Raises the first error when nobody answered within a third of the
        shortest ttl.
        """
        shortest_s = min(lease.ttl_s for lease in leases)
        patience = Patience.start(Retry(patience_s=shortest_s / 3), self._clock)
        first_error: JacklineError | None = None
        while True:
            asked_at = self._clock.now()
            try:
                renewals = await self._ask([lease.ref for lease in leases], self._timeout_s(shortest_s))
            except JacklineError as error:
                first_error = first_error or error
                pause_s = patience.next_pause()
                if pause_s is None:
                    raise first_error from None
                await asyncio.sleep(pause_s)
            else:
                self._leases.extend(leases)
                self.hear(renewals, asked_at)
                # What is held now may need its next renewal sooner than an idle worker beats.
                self._beat_by(self._clock.now() + min(lease.renew_every_s for lease in leases))
                return

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            wait_s = await self._beat()
            self._beat_at = self._clock.now() + wait_s
            while (left_s := self._beat_at - self._clock.now()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._wake.wait()
                self._wake.clear()

    def _beat_by(self, instant: float) -> None:
        """Beat at that instant at the latest."""
        self._beat_at = min(self._beat_at, instant)
        self._wake.set()

    async def watch(self) -> None:
        """End leases whose trust has run down, until cancelled; independent of whether a beat is under way."""
        while True:
            now = self._clock.now()
            for lease in self._leases:
                lease.distrust_if_due()
            due = [lease.stop_at - now for lease in self._live() if lease.stop_at is not None]
            await asyncio.sleep(max(WATCH_MIN_S, min([*due, 1.0])))

    def hear(self, renewals: Sequence[Renewal], asked_at: float | None = None) -> None:
        """Apply the service's answers; a push confirms nothing, since nobody asked."""
        if any(one.kind == "destroy_workspace" for renewal in renewals for one in renewal.instructions):
            self.on_destroy()  # also for runs that are not held any more
        by_ref = {(lease.ref.run_id, lease.ref.fence): lease for lease in self._leases}
        for renewal in renewals:
            lease = by_ref.get((renewal.run_id, renewal.fence))
            if lease is not None:
                self._apply(lease, renewal, asked_at)

    def _apply(self, lease: HeldLease, renewal: Renewal, asked_at: float | None) -> None:
        for instruction in renewal.instructions:
            lease.instruct(instruction)
        if renewal.outcome == "lost":
            lease.lose(loss_of(renewal))
            return
        if renewal.outcome == "slice_ended":
            lease.instruct(Instruction("slice_ended", renewal.reason))
        if asked_at is not None:
            lease.renewed(asked_at, renewal)

    def _live(self) -> list[HeldLease]:
        return [lease for lease in self._leases if lease.loss is None]

    async def _beat(self) -> float:
        """Ask once about every live lease; seconds until the next time."""
        leases = self._live()
        shortest_s = min((lease.ttl_s for lease in leases), default=3 * IDLE_BEAT_S)
        asked_at = self._clock.now()
        try:
            renewals = await self._ask([lease.ref for lease in leases], self._timeout_s(shortest_s))
        except JacklineError as error:
            await self._unanswered(error)
            return self._clock.jitter(min(AGAIN_MAX_S, shortest_s * AGAIN_SHARE))
        if self._silent:
            self._silent = False
            self._log("reconnected", leases=len(leases))
            self._client.transport.came_back()
        self.hear(renewals, asked_at)
        return min(IDLE_BEAT_S, shortest_s / 3)

    async def _ask(self, refs: Sequence[LeaseRef], timeout_s: float) -> list[Renewal]:
        if self.stream is not None and self.stream.open:
            with contextlib.suppress(Unknown):
                return await self.stream.heartbeat(refs, timeout_s)
        return await self._client.heartbeat(self._worker_id, refs, timeout_s=timeout_s)

    async def _unanswered(self, error: JacklineError) -> None:
        if not self._silent:
            self._silent = True
            self._log("unanswered", error=str(error))
        if isinstance(error, WorkerUnknown) and self.register is not None:
            with contextlib.suppress(Problem, Unknown):
                await self.register()
        if isinstance(error, WorkerInUse):
            self.on_replaced(error)

    def _timeout_s(self, shortest_s: float) -> float:
        return min(BEAT_TIMEOUT_MAX_S, max(BEAT_TIMEOUT_MIN_S, shortest_s / 3))
