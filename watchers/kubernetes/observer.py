"""One observer of one scope: at most one acts at a time, under a lease like any other work.

The right to observe a scope is a run in the queue `_observers`, whose concurrency key is the scope: whoever claims it
observes, the others wait in the same queue, and take over when it is given up or its holder dies. If there is no such
run that is not over, one is submitted. Every report carries the fence, so an observer that was suspended and woke up is
refused, and stops. Nothing is carried over: the next one lists everything anew, while what was attached is *unknown*.

A stop (SIGTERM) hands the run back. A fault of the observer's own ends its attempt as failed, with what it was.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from jackline._async.client import AsyncClient
from jackline.clock import Clock
from jackline.errors import FenceLost, JacklineError
from jackline.models import TERMINAL, LeaseRef, RunFilter
from jackline.worker.handlers import Worker
from jackline.worker.held import LeaseLost, Loss
from jackline.worker.heldrun import HeldRun
from jackline.worker.log import Sink
from watchers.kubernetes.reflector import Pace, Reflector, Selection
from watchers.kubernetes.reports import HttpReports, Reports
from watchers.kubernetes.server import NODES, PODS, SANDBOXES, ApiServer, Blind, Expired, Refused
from watchers.kubernetes.shapes import MANAGED_BY, OURS, SANDBOX_POD_LABEL, Pod
from watchers.kubernetes.teller import Teller
from watchers.kubernetes.view import Watched

log = logging.getLogger(__name__)

QUEUE: Final = "_observers"
LABEL: Final = "observes"
LEASE_TTL_S: Final = 15.0
ATTEMPTS_MAX: Final = 1_000
ENSURE_EVERY_S: Final = 30.0
SELECTOR: Final = f"{MANAGED_BY}={OURS}"
RUNS_LOOKED_AT: Final = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """What to observe, and how."""

    scope: str
    namespace: str | None = None
    selector: str = SELECTOR
    nodes: bool = True
    pace: Pace = field(default_factory=Pace)
    observer_id: str = "kubernetes"


Also = Callable[["Observing"], Coroutine[Any, Any, None]]


class Observing:
    """The observation of one scope, while the right to it lasts."""

    def __init__(self, server: ApiServer, plan: Plan, reports: Reports, clock: Clock) -> None:
        self.server = server
        self.plan = plan
        self.reports = reports
        self.clock = clock
        self.teller = Teller(reports, self, clock)
        self.view = self.teller.view
        self.reflectors: list[Reflector] = []
        pods = Watched(self.view, self.view.pod, self.view.pod_gone)
        self._pods = self._reflector(Selection(PODS, plan.namespace, plan.selector), pods)
        if plan.nodes:
            nodes = Watched(self.view, self.view.node, self.view.node_gone, needed=False)
            self._reflector(Selection(NODES), nodes)

    @property
    def listed_at(self) -> float:
        """When the oldest of the lists that make up the scope was asked for."""
        return min(one.listed_at for one in self.reflectors if one.selection.resource is not NODES)

    @property
    def counts(self) -> Counter[str]:
        """Everything that was counted."""
        return sum((one.counts for one in self.reflectors), self.teller.counts + self.view.counts)

    async def find(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name now."""
        found: Pod | None = await self.server.get(PODS, namespace, name)
        return found

    async def adopt(self, pod: Pod) -> None:
        """Look after a pod that no list shows."""
        await self._pods.adopt(pod)

    async def run(self, *also: Also) -> None:
        """Observe until cancelled, or until one part cannot go on."""
        await self.teller.introduce()
        await self.teller.learn()
        async with asyncio.TaskGroup() as group:
            for part in (self.teller.run(), self.teller.mind_the_service()):
                group.create_task(part)
            if await self._has_sandboxes():
                self._watch_sandboxes()
            for part in (*(one.run() for one in self.reflectors), *(one(self) for one in also)):
                group.create_task(part)

    def _reflector(self, selection: Selection, keeper: Watched) -> Reflector:
        reflector = Reflector(self.server, selection, keeper, self.clock, self.plan.pace)
        self.reflectors.append(reflector)
        return reflector

    def _watch_sandboxes(self) -> None:
        """Sandboxes, and their pods: one adopted from a warm pool carries no label of ours."""
        sandboxes = Watched(self.view, self.view.sandbox, self.view.sandbox_gone)
        self._reflector(Selection(SANDBOXES, self.plan.namespace, self.plan.selector), sandboxes)
        pods = Watched(self.view, self.view.pod, self.view.pod_gone)
        self._reflector(Selection(PODS, self.plan.namespace, f"{SANDBOX_POD_LABEL},{MANAGED_BY}!={OURS}"), pods)

    async def _has_sandboxes(self) -> bool:
        """Whether this cluster knows sandboxes; asked until it answers, and out of sight until then."""
        pauses, told = self.plan.pace.backoff.pauses(self.clock), False
        while True:
            try:
                await self.server.page(SANDBOXES, self.plan.namespace, {"limit": "1"})
            except Refused as refusal:
                log.info("no sandboxes are observed: %s", refusal)
                return False
            except (Blind, Expired) as error:
                if not told:
                    told = True
                    log.warning("the API server cannot be asked yet: %s", error)
                    self.teller.blind(str(error))
            else:
                return True
            await asyncio.sleep(next(pauses))


class Observer:
    """A process that observes one scope whenever it is its turn."""

    def __init__(self, client: AsyncClient, plan: Plan, serve: Callable[[], ApiServer], sink: Sink) -> None:
        self.client = client
        self.plan = plan
        self.also: list[Also] = []
        self.worker = Worker(client, plan.observer_id, labels={LABEL: plan.scope}, sink=sink)
        self.worker.handles(QUEUE)(self._observe)
        self._serve = serve
        self._log = self.worker.log

    def stop(self) -> None:
        """Begin to stop; `run` returns when the right was handed back."""
        self.worker.stop()

    async def run(self) -> None:
        """Wait for the right to observe, and observe, until stopped."""
        ensuring = asyncio.create_task(self._ensure())
        try:
            await self.worker.run()
        finally:
            ensuring.cancel()
            await asyncio.gather(ensuring, return_exceptions=True)

    async def _observe(self, run: HeldRun) -> None:
        reports = HttpReports(self.client.transport, self.plan.observer_id, run.ref, self.plan.scope)
        server = self._serve()
        observing = Observing(server, self.plan, reports, self.client.transport.clock)
        self._log("observing", scope=self.plan.scope, fence=run.ref.fence, server=server.access.server)
        try:
            await observing.run(*self.also)
        except BaseExceptionGroup as several:
            raise _first_of(several, run.ref) from several
        except FenceLost as lost:
            raise _lease_lost(lost, run.ref) from lost
        finally:
            self._log("observed", scope=self.plan.scope, fence=run.ref.fence, **observing.counts)
            await server.close()

    async def _ensure(self) -> None:
        """See to it that there is a run to claim."""
        clock, told = self.client.transport.clock, ""
        while True:
            try:
                await ensure_run(self.client, self.plan.scope)
            except JacklineError as error:
                if told != str(error):
                    told = str(error)
                    self._log("no_run", scope=self.plan.scope, error=told)
            else:
                told = ""
            await asyncio.sleep(clock.jitter(ENSURE_EVERY_S))


async def ensure_run(client: AsyncClient, scope: str) -> str:
    """The id of the scope's run that is not over; submitted when there is none."""
    wanted: RunFilter = {"queue": QUEUE, "tag": f"scope:{scope}", "limit": RUNS_LOOKED_AT}
    runs = [run for run in (await client.runs(**wanted)).items if run.tags.get("scope") == scope]
    for run in runs:
        if run.state not in TERMINAL:
            return run.run_id
    last = max((run.run_id for run in runs), default="")
    key = hashlib.sha256(f"{scope}\0{last}".encode()).hexdigest()
    submitted = await client.submit(
        {"scope": scope, "provider": "kubernetes"},
        queue=QUEUE,
        name=f"observe {scope}"[:200],
        tags={"scope": scope},
        labels={LABEL: scope},
        concurrency_key=scope,
        idempotency_key=key,
        policy={
            "max_attempts": ATTEMPTS_MAX,
            "lease_ttl_s": LEASE_TTL_S,
            "retry_base_s": 1.0,
            "retry_cap_s": 30.0,
            "quiet_after_s": 0,
            "total_after_s": 0,
        },
    )
    return submitted.run_id


def _first_of(several: BaseExceptionGroup, ref: LeaseRef) -> BaseException:
    """What ended an observation: the loss of the right to it, else the first fault."""
    faults: list[BaseException] = [several]
    while isinstance(faults[0], BaseExceptionGroup):
        faults = [*faults[0].exceptions, *faults[1:]]
    lost = next((one for one in faults if isinstance(one, FenceLost)), None)
    return _lease_lost(lost, ref) if lost is not None else faults[0]


def _lease_lost(lost: FenceLost, ref: LeaseRef) -> LeaseLost:
    return LeaseLost(ref, Loss("lost", lost.reason, lost.current, lost.holder))
