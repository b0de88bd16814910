"""A cluster, an observer of it, and the hands that change it: what the scenarios play in.

The hands speak HTTP with the API server like anybody else, so the same scenario plays on the fake and on a real one.
The observer is the real one, with short timeouts; what it reports goes into a ledger. At the end of every scenario one
thing must hold, whatever else it was about: no workspace was told lost whose body is there and runs.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import httpx

from jackline.clock import SYSTEM
from jackline.retrying import Retry
from tests.waiting import eventually
from tests.watchers.fake_apiserver import FakeApiServer
from tests.watchers.ledger import Ground, Ledger
from watchers.kubernetes.credentials import Access, Nobody, Presented
from watchers.kubernetes.observer import Observing, Plan
from watchers.kubernetes.reflector import Pace
from watchers.kubernetes.server import ApiServer, Bounds
from watchers.kubernetes.shapes import MANAGED_BY, OURS, WORKSPACE_LABEL
from watchers.kubernetes.verdicts import identity_of

QUICK = Pace(watch_least_s=1, watch_most_s=1, backoff=Retry(first_s=0.01, cap_s=0.1), list_limit=3)
BOUNDS = Bounds(answer_s=1.0, slack_s=0.3)
NAMESPACE = "default"
MERGE = {"Content-Type": "application/merge-patch+json"}
Document = dict[str, Any]


def ready(is_ready: bool = True) -> list[Document]:
    """The conditions of a pod that answers, or not."""
    return [{"type": "Ready", "status": "True" if is_ready else "False"}]


def container(restarts: int = 0, *, last: Document | None = None, **state: Document) -> list[Document]:
    """The status of the main container: running unless its state is given."""
    status: Document = {
        "name": "main",
        "image": "harness",
        "imageID": "harness",
        "ready": not state,
        "restartCount": restarts,
        "containerID": f"containerd://{restarts}",
        "state": state or {"running": {"startedAt": "2030-01-01T00:00:00Z"}},
    }
    if last is not None:
        status["lastState"] = {"terminated": last}
    return [status]


def exited(code: int, reason: str = "Error", message: str | None = None) -> Document:
    """How a container ended."""
    return {"exitCode": code, "reason": reason} | ({"message": message} if message else {})


class Hands:
    """Whatever else changes the cluster: users, kubelets, controllers."""

    def __init__(self, url: str, headers: dict[str, str], core: str = "/api/v1") -> None:
        self._http = httpx.AsyncClient(base_url=url, headers=headers, verify=False, trust_env=False, timeout=10.0)  # noqa: S501
        self._core = core

    async def close(self) -> None:
        """Let go."""
        await self._http.aclose()

    def path(self, plural: str, name: str | None = None) -> str:
        """Where objects of this kind are."""
        if plural == "nodes":
            base = f"{self._core}/nodes"
        elif plural == "sandboxes":
            base = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/sandboxes"
        else:
            base = f"{self._core}/namespaces/{NAMESPACE}/{plural}"
        return base if name is None else f"{base}/{name}"

    async def make(self, plural: str, document: Document) -> Document:
        """Create an object."""
        return self._good(await self._http.post(self.path(plural), json=document))

    async def patch(self, plural: str, name: str, patch: Document, *, status: bool = False) -> Document:
        """Merge something into an object, or into its status."""
        path = self.path(plural, name) + ("/status" if status else "")
        body = {"status": patch} if status else patch
        return self._good(await self._http.patch(path, json=body, headers=MERGE))

    async def delete(self, plural: str, name: str, *, force: bool = False) -> None:
        """Delete an object; by force, at once."""
        options = {"gracePeriodSeconds": 0} if force else {}
        self._good(await self._http.request("DELETE", self.path(plural, name), json=options))

    async def find(self, plural: str, name: str) -> Document | None:
        """The object now."""
        answer = await self._http.get(self.path(plural, name))
        return None if answer.status_code == httpx.codes.NOT_FOUND else self._good(answer)

    async def names(self, plural: str) -> list[str]:
        """The names of all that there are."""
        items = self._good(await self._http.get(self.path(plural)))["items"]
        return [str(one["metadata"]["name"]) for one in items]

    async def uids(self) -> dict[str, str]:
        """The phase of every pod, by UID."""
        items = self._good(await self._http.get(self.path("pods")))["items"]
        return {one["metadata"]["uid"]: one["status"]["phase"] for one in items}

    @staticmethod
    def _good(answer: httpx.Response) -> Document:
        assert answer.is_success, answer.text
        found: Document = answer.json()
        return found


class World:
    """A cluster with an observer."""

    def __init__(self, access: Access, hands: Hands, plan: Plan) -> None:
        self.hands = hands
        self.ledger = Ledger()
        self.plan = plan
        self.bounds = BOUNDS
        self.restarted_every_s = 5.0
        self.observing: Observing | None = None
        self._access = access
        self._running: asyncio.Task[None] | None = None
        self._server: ApiServer | None = None

    @property
    def api(self) -> FakeApiServer:
        """The fake server, for scenarios about faults."""
        msg = "this scenario needs the fake server"
        raise AssertionError(msg)

    # The observer

    async def observe(self) -> Observing:
        """Start an observer, and wait until it has stated the whole scope once."""
        before = self.ledger.synced
        await self.begin()
        await self.until(lambda: self.ledger.synced > before, "the scope is stated")
        assert self.observing is not None
        return self.observing

    async def begin(self) -> None:
        """Start an observer, and wait for nothing."""
        self._server = ApiServer(self._access, self.bounds)
        self.observing = Observing(self._server, self.plan, self.ledger, SYSTEM)
        self.observing.teller.restarted_every_s = self.restarted_every_s
        self._running = asyncio.create_task(self.observing.run())

    @property
    def server(self) -> ApiServer:
        """What the observer asks, for whoever asks beside it."""
        assert self._server is not None
        return self._server

    async def kill(self) -> None:
        """End the observer without a word."""
        if self._running is not None and self._server is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            await self._server.close()
        self._running = None

    @property
    def ended(self) -> BaseException | None:
        """What the observer ended with; None while it lives."""
        return self._running.exception() if self._running is not None and self._running.done() else None

    def count(self, what: str) -> int:
        """How often something was counted."""
        return self.observing.counts[what] if self.observing is not None else 0

    # The cluster

    async def pod(self, name: str, *, standing: bool = True, **more: Any) -> str:
        """A pod that runs and answers, and a workspace that stands on it; the pod's UID."""
        labels = more.pop("labels", {MANAGED_BY: OURS, WORKSPACE_LABEL: f"w-{name}"})
        owners = {"ownerReferences": more.pop("owners")} if "owners" in more else {}
        spec = {"containers": [{"name": "main", "image": "harness"}], "nodeName": "n1", **more.pop("spec", {})}
        if spec["nodeName"] is None:
            del spec["nodeName"]
        document = {
            "apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {"name": name, "labels": labels, **owners},
        }  # fmt: skip
        made = await self.hands.make("pods", document)
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": ready(), "containerStatuses": container()}
        await self.status(name, **{**status, **more})
        uid = str(made["metadata"]["uid"])
        if standing:
            details = {"namespace": NAMESPACE, "pod": name, "uid": uid}
            self.ledger.stand_on(labels.get(WORKSPACE_LABEL, f"w-{name}"), identity_of(uid), details)
        return uid

    async def status(self, name: str, **status: Any) -> None:
        """What the kubelet says of a pod."""
        await self.hands.patch("pods", name, status, status=True)

    async def node(self, name: str = "n1", ready_status: str = "True") -> None:
        """A node, and whether anybody hears from it."""
        if await self.hands.find("nodes", name) is None:
            await self.hands.make("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        conditions = [{"type": "Ready", "status": ready_status}]
        await self.hands.patch("nodes", name, {"conditions": conditions}, status=True)

    # What must be

    def ground(self, name: str) -> Ground:
        """The workspace that stands on the pod of that name."""
        return self.ledger.grounds[f"w-{name}"]

    async def until(self, question: Callable[[], object], what: str, within_s: float = 10.0) -> None:
        """Wait until something holds."""

        async def ask() -> object:
            assert self.ended is None or what == "it ends", self.ended
            return question()

        await eventually(ask, what=what, within_s=within_s)

    async def lost(self, name: str, reason: str) -> Ground:
        """Wait until the workspace is lost, once, for that reason."""
        ground = self.ground(name)
        await self.until(lambda: ground.phase == "lost", f"{name} is lost")
        assert ground.loss is not None
        assert (reason, 1) == (ground.loss.reason, ground.losses), ground.loss
        return ground

    async def unknown(self, name: str) -> Ground:
        """Wait until nobody knows how the workspace is."""
        ground = self.ground(name)
        await self.until(lambda: ground.unknown, f"{name} is unknown")
        assert ground.loss is None
        return ground

    async def known(self, name: str) -> Ground:
        """Wait until the workspace is known to stand."""
        ground = self.ground(name)
        await self.until(lambda: not ground.unknown, f"{name} is known again")
        assert ground.phase == "running", ground.loss
        return ground

    async def told(self, name: str, kind: str, reason: str | None = None) -> None:
        """Wait until something was told of the workspace."""
        ground = self.ground(name)
        await self.until(
            lambda: any(one.kind == kind and reason in (None, one.reason) for one in ground.seen),
            f"{kind} {reason or ''} is told of {name}",
        )

    async def nothing_false(self) -> None:
        """Nobody was told lost whose body is there and runs."""
        phases = await self.hands.uids()
        for ground in self.ledger.grounds.values():
            phase = phases.get((ground.identity or "").removeprefix("pod:"))
            assert ground.phase not in ("lost", "provision_failed") or phase in (None, "Failed", "Succeeded"), ground
            assert ground.losses <= 1, ground


class FakeWorld(World):
    """A world on the fake server."""

    def __init__(self, api: FakeApiServer, presented: Presented, plan: Plan) -> None:
        hands = Hands(api.url, {"Authorization": "Bearer hands"})
        super().__init__(Access(api.url, False, presented), hands, plan)
        self._fake = api

    @property
    def api(self) -> FakeApiServer:
        """The fake server."""
        return self._fake


@asynccontextmanager
async def fake_world(presented: Presented | None = None, **pace: Any) -> AsyncIterator[FakeWorld]:
    """A world on a fake server of its own; `pace` replaces some of the observer's."""
    api = FakeApiServer()
    await api.start()
    plan = Plan("test", NAMESPACE, pace=replace(QUICK, **pace))
    world = FakeWorld(api, presented or Nobody(), plan)
    try:
        yield world
        api.frozen.set()
        with suppress(OSError):
            await api.restart()
        api.fault = lambda asked: None
        await world.nothing_false()
    finally:
        await world.kill()
        await world.hands.close()
        await api.stop()
