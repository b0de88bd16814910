"""A worker whose runs are executed by Python functions.

    worker = jackline.Worker(jackline.AsyncClient(), "builder-1", slots=4)

    @worker.handles("builds")
    async def build(run: jackline.HeldRun) -> dict[str, str]:
        ...

    await worker.run()

What becomes of a run follows from how its handler ends. It returns: closed as succeeded, with the value as result. It
raises: closed as failed, with the exception's name as `code` (its attribute `retryable`, if it has one, says whether
trying again can help). It parks: nothing more is said. It is cancelled because its lease ended: nothing, the run is
somebody else's. Because it was asked to: `cancel` closes it as stopped, `pause` parks it, the end of its slice and
the worker's own stop (or cancellation) hand it back. A cancellation that nobody asked for is an exception like any
other. A handler that catches the cancellation may still save its partial, and return,
unless the lease is gone.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jackline._async.client import AsyncClient
from jackline.errors import JacklineError
from jackline.models import Claim
from jackline.worker.endings import Ending, Verb
from jackline.worker.engine import Engine, Execution, Setup
from jackline.worker.held import HeldLease, LeaseLost
from jackline.worker.heldrun import HeldRun, Parked
from jackline.worker.log import Log, Sink, to_logging
from jackline.worker.persist import Heard, until_heard
from jackline.worker.telling import close_or_write

Handler = Callable[[HeldRun], Awaitable[Any]]

INSTRUCTED = {"cancel": "cancel", "stop": "cancel", "pause": "pause", "slice_ended": "slice"}
WORKERS_GRACE_S = 0.0  # a cancelled coroutine needs no lead: it is told when the trust has run down


class Worker:
    """Claims runs of the queues that have a handler, and has them handled."""

    def __init__(
        self,
        client: AsyncClient,
        worker_id: str,
        *,
        slots: int = 1,
        labels: Mapping[str, str] | None = None,
        sink: Sink = to_logging,
    ) -> None:
        if not isinstance(client, AsyncClient):
            msg = f"a worker needs an AsyncClient, since its handlers are coroutines; this is a {type(client).__name__}"
            raise TypeError(msg)
        self.client = client
        self.worker_id = worker_id
        self.log = Log(sink)
        self._slots = slots
        self._labels = dict(labels or {})
        self._handlers: dict[str, Handler] = {}
        self._engine: Engine | None = None
        self._stopped = False

    def handles(self, queue: str) -> Callable[[Handler], Handler]:
        """Decorates the handler of one queue's runs."""

        def register(handler: Handler) -> Handler:
            self._handlers[queue] = handler
            return handler

        return register

    def stop(self) -> None:
        """Begin to stop; `run` returns when all runs have settled and the worker has left."""
        self._stopped = True
        if self._engine is not None:
            self._engine.stop()

    async def run(self) -> None:
        """Work until stopped."""
        if not self._handlers:
            msg = "the worker has no handler: decorate one with @worker.handles(queue)"
            raise ValueError(msg)
        setup = Setup(self.worker_id, list(self._handlers), self._slots, self._labels, WORKERS_GRACE_S)
        self._engine = Engine(self.client, setup, self._begin, self.log)
        if self._stopped:
            self._engine.stop()
        await self._engine.run()

    def _begin(self, claim: Claim, lease: HeldLease) -> Execution:
        return HandlerExecution(self, claim, lease)

    async def handler_of(self, claim: Claim) -> Handler:
        """The handler of the run's queue."""
        if len(self._handlers) == 1:
            return next(iter(self._handlers.values()))
        queue = claim.queue or (await self.client.run(claim.run_id)).queue
        return self._handlers[queue]


class HandlerExecution:
    """One run in its handler's hands."""

    def __init__(self, worker: Worker, claim: Claim, lease: HeldLease) -> None:
        self._worker = worker
        self._claim = claim
        self._lease = lease
        self._asked: str | None = None
        self._handling: asyncio.Task[Any] | None = None
        self._run = HeldRun(worker.client, worker.worker_id, claim, lease, worker.log)

    def stop(self, reason: str) -> None:
        """Cancel the handler, for that reason."""
        if self._asked is None:
            self._asked = reason
            if self._handling is not None:
                self._handling.cancel(reason)

    async def run(self) -> None:
        """Handle the run and tell how it ended."""
        delivering = asyncio.create_task(self._run.deliver())
        listening = asyncio.create_task(self._listen())
        try:
            verb, body = await self._handle()
            if not self._is_lost():
                await self._run.heard()
            await self._tell(verb, body)
        finally:
            listening.cancel()
            delivering.cancel()
            await asyncio.gather(listening, delivering, return_exceptions=True)

    async def _handle(self) -> tuple[Verb | None, dict[str, Any]]:
        """What to tell about how the handler ended."""
        handler = await self._worker.handler_of(self._claim)
        self._handling = asyncio.ensure_future(_called(handler, self._run))
        if self._asked is not None:
            self._handling.cancel(self._asked)
        try:
            return "close", _succeeded(await self._handling)
        except asyncio.CancelledError as error:
            if not self._handling.cancelled():
                raise
            if self._asked is None and not _being_cut_off():  # it came from inside, like any other exception
                return "close", _failed(type(error).__name__, "the handler was cancelled from within", retryable=True)
            return self._unfinished()
        except Parked:
            return None, {}
        except LeaseLost:
            return self._unfinished()
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is the outcome of its attempt
            return "close", _failed(type(error).__name__, str(error), retryable=getattr(error, "retryable", True))

    def _unfinished(self) -> tuple[Verb | None, dict[str, Any]]:
        """What to tell about a handler that was cancelled."""
        if self._asked == "cancel":
            return "close", _failed("stopped", "the handler was cancelled", retryable=False)
        if self._asked == "pause":
            return "park", {"kind": "paused", "question": None, "keep_lease": False}
        return "hand-back", {}

    async def _listen(self) -> None:
        """Turn a loss and instructions into a cancellation of the handler."""
        while True:
            await self._lease.changed.wait()
            self._lease.changed.clear()
            for instruction in self._lease.take_instructions():
                if instruction.kind in INSTRUCTED:
                    self.stop(INSTRUCTED[instruction.kind])
                else:
                    self._run.hear(instruction)
            if self._lease.loss is not None:
                self.stop(self._lease.loss.kind)

    def _is_lost(self) -> bool:
        return self._lease.loss is not None and self._lease.loss.kind == "lost"

    async def _tell(self, verb: Verb | None, body: dict[str, Any]) -> None:
        client, lease, log = self._worker.client, self._lease, self._worker.log
        values = {"run_id": lease.ref.run_id, "fence": lease.ref.fence}
        if verb is None:
            log("run_put_aside", **values)
            return
        if self._is_lost():
            log("claim_lost_before_finish", **values, reason=lease.loss and lease.loss.reason)
            await self._report_stop()
            return
        key, last = f"{lease.ref.run_id}.{lease.ref.fence}.{verb}", Ending(verb, body)
        heard = await until_heard(
            verb, lambda: close_or_write(client, lease.ref, last, key), lease, client.transport.clock, log
        )
        if heard is Heard.FENCE_LOST:
            log("claim_lost_before_finish", **values, reason=lease.loss and lease.loss.reason)
        elif heard is Heard.DELIVERED:
            log("run_ended", **values, verb=verb, outcome=body.get("outcome"))

    async def _report_stop(self) -> None:
        with contextlib.suppress(JacklineError):
            await self._worker.client.stop_report(self._lease.ref, "saved")


def _being_cut_off() -> bool:
    """Whether the execution is being cancelled as a whole, because its worker ends."""
    me = asyncio.current_task()
    return me is not None and me.cancelling() > 0


async def _called(handler: Handler, run: HeldRun) -> Any:
    return await handler(run)


def _succeeded(result: Any) -> dict[str, Any]:
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return _failed("result_not_json", f"the handler's result is not JSON: {error}", retryable=False)
    return {"outcome": "succeeded", "result": result}


def _failed(code: str, message: str, *, retryable: bool) -> dict[str, Any]:
    return {"outcome": "failed", "error": {"code": code, "message": message}, "retryable": retryable}
