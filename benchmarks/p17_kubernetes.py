"""P17: from a change in a cluster to what the service makes of it, durable.

A fake API server (that of the tests, in this process), the observer's own code against it, and the real service. So
many pods run, and a workspace stands on each. Measured:

- *change to verdict*: pods are evicted one after another at a steady rate, each from the moment at which the API server
  has the change to the answer of the service, when the loss is durable and its run decided;
- *frozen to unknown*: the API server stops saying anything, also to what is asked anew; from then until the answer of
  the service to the report that everything is out of sight, and by how much that exceeds what bounds it (the length of
  a watch and its slack, here 1 s and 0.3 s);
- *stated*: from the start of an observer until the whole scope is in sight and reconciled.

No loss may be told of a pod that runs, or the measurement fails. Client, server and service share the machine.

    python -m benchmarks.p17_kubernetes [--pods 500] [--evictions 300] [--rate 50] [--rounds 3]
"""

import argparse
import asyncio
import time
from functools import partial
from typing import Any

from benchmarks.lean import Client
from benchmarks.measuring import Figures, measure, quantiles
from benchmarks.serving import Serving
from jackline import AsyncClient
from jackline._async.transport import Ask
from jackline.clock import SYSTEM
from jackline.models import LeaseRef
from tests.watchers.fake_apiserver import FakeApiServer, fake_apiserver
from tests.watchers.fake_store import PODS, Object, Store
from tests.watchers.world import NAMESPACE, container, ready
from watchers.kubernetes.credentials import Access, Nobody
from watchers.kubernetes.observer import Observing, Plan
from watchers.kubernetes.reflector import Pace
from watchers.kubernetes.reports import Batch, HttpReports, Taken
from watchers.kubernetes.server import ApiServer, Bounds
from watchers.kubernetes.shapes import MANAGED_BY, OURS, WORKSPACE_LABEL

WATCH_S = 1
SLACK_S = 0.3
LIMIT_S = 60.0
AT_ONCE = 32
EVICTED: Object = {"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}}


class Timed(HttpReports):
    """Reports that remember when each workspace's was answered."""

    def __init__(self, client: AsyncClient, lease: LeaseRef, scope: str) -> None:
        super().__init__(client.transport, "bench", lease, scope)
        self.ended: dict[str, float] = {}
        self.dropped_at: float | None = None
        self.stated_at: float | None = None

    async def tell(self, batch: Batch) -> Taken:
        """Hand on a batch, and note the moment of its answer."""
        taken = await super().tell(batch)
        now = time.perf_counter()
        for workspace_id, seen in batch.seen:
            if seen.kind == "ended":
                self.ended.setdefault(workspace_id, now)
            if seen.kind == "watch_dropped" and self.dropped_at is None:
                self.dropped_at = now
        if batch.part is not None and batch.part.last:
            self.stated_at = self.stated_at or now
        return taken


class Stage:
    """Runs of one round with their workspaces, and the pods that they stand on."""

    def __init__(self, client: AsyncClient, api: FakeApiServer, scope: str) -> None:
        self.client = client
        self.api = api
        self.scope = scope
        self.standing: list[tuple[str, str]] = []
        """Workspace and pod."""

    async def ask(self, method: str, path: str, body: Any) -> Any:
        """The service's answer."""
        return (await self.client.transport.ask(Ask(method, path, body))).body

    async def claim(self, queue: str, count: int) -> list[LeaseRef]:
        """So many fresh runs of a queue, held."""
        worker = f"w-{queue}"
        await self.client.register_worker(worker, slots=count)
        await self.ask("POST", "/v1/runs/batch", {"runs": [{"queue": queue}] * count})
        held: list[LeaseRef] = []
        while len(held) < count:
            claims = await self.client.claim(worker, [queue], limit=count - len(held), wait_s=1)
            held += [LeaseRef(one.run_id, one.fence) for one in claims]
        return held

    async def stand(self, number: int, lease: LeaseRef) -> None:
        """One workspace on one pod."""
        wish = {"run_id": lease.run_id, "fence": lease.fence, "provider": "kubernetes", "scope": self.scope}
        workspace_id = str((await self.ask("POST", "/v1/workspaces", wish))["workspace_id"])
        name = f"p{number}"
        pod = {
            "metadata": {"name": name, "labels": {MANAGED_BY: OURS, WORKSPACE_LABEL: workspace_id}},
            "spec": {"containers": [{"name": "main"}], "nodeName": "n1"},
            "status": {"phase": "Running", "conditions": ready(), "containerStatuses": container()},
        }
        made = await self.api.write(lambda store: store.create(PODS, NAMESPACE, pod))
        body = {"identity": f"pod:{made['metadata']['uid']}", "details": {"namespace": NAMESPACE, "pod": name}}
        await self.ask("POST", f"/v1/workspaces/{workspace_id}/attach", body)
        self.standing.append((workspace_id, name))

    async def set(self, pods: int) -> LeaseRef:
        """Everything in its place; the observer's own lease."""
        leases = await self.claim(f"q-{self.scope}", pods)
        for start in range(0, pods, AT_ONCE):
            some = enumerate(leases[start : start + AT_ONCE], start)
            await asyncio.gather(*(self.stand(number, lease) for number, lease in some))
        return (await self.claim(f"o-{self.scope}", 1))[0]


async def one_round(client: Client, service: Serving, number: int, options: argparse.Namespace) -> Figures:
    """One cluster, watched, struck and frozen."""
    async with AsyncClient(data_dir=service.data_dir) as asking, fake_apiserver(window=100_000) as api:
        stage = Stage(asking, api, f"cluster-{number}")
        reports = Timed(asking, await stage.set(options.pods), stage.scope)
        server = ApiServer(Access(api.url, False, Nobody()), Bounds(answer_s=WATCH_S, slack_s=SLACK_S))
        pace = Pace(watch_least_s=WATCH_S, watch_most_s=WATCH_S)
        observing = Observing(server, Plan(stage.scope, NAMESPACE, nodes=False, pace=pace), reports, SYSTEM)
        began = time.perf_counter()
        running = asyncio.create_task(observing.run())
        try:
            await _until(lambda: reports.stated_at is not None)
            stated_s = (reports.stated_at or began) - began
            struck = await _strike(stage, reports, options)
            frozen = await _freeze(api, reports)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.close()
        evicted = {workspace_id for workspace_id, _ in stage.standing[: options.evictions]}
        lost = await _lost(asking, stage.scope)
        assert lost == evicted, f"lost and running: {lost - evicted}; evicted and not lost: {evicted - lost}"
        return {"change_to_verdict": struck, "frozen_to_unknown": frozen, "stated_s": round(stated_s, 3)}


async def _lost(client: AsyncClient, scope: str) -> set[str]:
    """The workspaces of the scope that were told lost."""
    found = client.workspaces.list(scope=scope)
    return {one.workspace_id async for one in found if one.lost is not None}


async def _strike(stage: Stage, reports: Timed, options: argparse.Namespace) -> dict[str, float]:
    """Evict at a steady rate; how long each took."""
    began, at = time.perf_counter(), {}
    for count, (workspace_id, name) in enumerate(stage.standing[: options.evictions]):
        await asyncio.sleep(max(0.0, began + count / options.rate - time.perf_counter()))
        at[workspace_id] = time.perf_counter()
        await stage.api.write(partial(Store.patch, key=(PODS, NAMESPACE, name), patch=EVICTED))
    await _until(lambda: len(reports.ended) == len(at))
    return quantiles([reports.ended[one] - then for one, then in at.items()])


async def _freeze(api: FakeApiServer, reports: Timed) -> dict[str, float]:
    """Freeze the server; how long until everything is unknown."""
    began = time.perf_counter()
    api.frozen.clear()
    await _until(lambda: reports.dropped_at is not None)
    api.frozen.set()
    took_s = (reports.dropped_at or began) - began
    return {"s": round(took_s, 3), "beyond_the_bound_s": round(took_s - WATCH_S - SLACK_S, 3)}


async def _until(question: Any) -> None:
    over = time.perf_counter() + LIMIT_S
    while not question():
        assert time.perf_counter() < over, "it took too long"
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    measure("P17", __doc__.splitlines()[0], one_round, pods=500, evictions=300, rate=50)
