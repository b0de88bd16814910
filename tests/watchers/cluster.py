"""A real service, real `jackline watch kubernetes` processes, and a fake cluster: what the system tests play in."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from jackline import AsyncClient
from jackline._async.transport import Ask
from tests.client.serving import Service, bare_environment
from tests.waiting import BOUND_S, eventually
from tests.watchers.fake_apiserver import FakeApiServer
from tests.watchers.world import NAMESPACE, Hands, container, ready
from watchers.kubernetes.shapes import MANAGED_BY, OURS, WORKSPACE_LABEL

SCOPE = "cluster-1"


class WatchProcess:
    """One `jackline watch kubernetes`."""

    def __init__(self, service: Service, kubeconfig: Path, name: str, *words: str, key: str | None = None) -> None:
        self.log = service.place / f"{name}.log"
        command = [str(service.script), "watch", "kubernetes", "--data-dir", str(service.data_dir), "--scope", SCOPE]
        command += ["--namespace", NAMESPACE, "--kubeconfig", str(kubeconfig), "--watch-s", "1", "--id", name, "--json"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *words, *(["--key", key] if key else [])], env=bare_environment(), stdout=log, stderr=log
            )

    def happened(self, name: str) -> list[dict[str, Any]]:
        """Every happening of that name."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["happening"] == name]

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it in good order; its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=BOUND_S)

    def close(self) -> None:
        """Whatever it takes."""
        if self.process.poll() is None:
            self.kill()


class Cluster:
    """A fake cluster, a service, and whoever watches the one for the other."""

    def __init__(self, api: FakeApiServer, service: Service) -> None:
        self.api = api
        self.service = service
        self.hands = Hands(api.url, {"Authorization": "Bearer hands"})
        self.client = AsyncClient(data_dir=service.data_dir)
        self.watching: list[WatchProcess] = []
        self.kubeconfig = service.place / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(kubeconfig(api.url)))

    async def close(self) -> None:
        """End every process, and let go."""
        for one in self.watching:
            one.close()
        await self.client.disconnect()
        await self.hands.close()

    async def watch(self, name: str, *words: str, key: str | None = None) -> WatchProcess:
        """A watch process; the caller waits for what it is to do."""
        process = await asyncio.to_thread(WatchProcess, self.service, self.kubeconfig, name, *words, key=key)
        self.watching.append(process)
        return process

    async def observing(self, process: WatchProcess) -> None:
        """Wait until it is this one's turn."""
        await self.until(lambda: process.happened("observing"), f"it observes; {process.log.read_text()}")

    async def ask(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """The service's answer."""
        return (await self.client.transport.ask(Ask(method, path, body, params))).body

    async def held(self, **wish: Any) -> tuple[str, int]:
        """A run that somebody holds, and the fence."""
        run_id = (await self.ask("POST", "/v1/runs", wish))["run_id"]
        await self.ask("PUT", "/v1/workers/holder", {"slots": 100})
        claim = await self.ask("POST", f"/v1/runs/{run_id}/claim", {"worker_id": "holder"})
        return run_id, int(claim["fence"])

    async def place(self, run_id: str, fence: int, spec: Any = None) -> str:
        """A workspace on this cluster."""
        wish = {"run_id": run_id, "fence": fence, "provider": "kubernetes", "scope": SCOPE, "spec": spec or {}}
        return str((await self.ask("POST", "/v1/workspaces", wish))["workspace_id"])

    async def stand(self, name: str, **wish: Any) -> tuple[str, str]:
        """A run, and the workspace that it stands on: a pod of that name."""
        run_id, fence = await self.held(**wish)
        workspace_id = await self.place(run_id, fence)
        uid = await self.pod(name, workspace_id)
        details = {"namespace": NAMESPACE, "pod": name, "uid": uid}
        await self.ask("POST", f"/v1/workspaces/{workspace_id}/attach", {"identity": f"pod:{uid}", "details": details})
        return run_id, workspace_id

    async def pod(self, name: str, workspace_id: str) -> str:
        """A pod that runs and answers; its UID."""
        document = {
            "metadata": {"name": name, "labels": {MANAGED_BY: OURS, WORKSPACE_LABEL: workspace_id}},
            "spec": {"containers": [{"name": "main", "image": "harness"}], "nodeName": "n1"},
        }
        made = await self.hands.make("pods", document)
        await self.run_pod(name)
        return str(made["metadata"]["uid"])

    async def run_pod(self, name: str) -> None:
        """A kubelet takes the pod, and it answers."""
        await self.hands.patch("pods", name, {"spec": {"nodeName": "n1"}})
        status = {"phase": "Running", "conditions": ready(), "containerStatuses": container()}
        await self.hands.patch("pods", name, status, status=True)

    async def workspace(self, workspace_id: str) -> dict[str, Any]:
        """The workspace as the service shows it."""
        found: dict[str, Any] = await self.ask("GET", f"/v1/workspaces/{workspace_id}")
        return found

    async def topics(self, run_id: str) -> list[str]:
        """Names of the run's facts, in order."""
        facts = (await self.ask("GET", f"/v1/runs/{run_id}/facts"))["facts"]
        return [fact["topic"] for fact in facts]

    async def fact(self, run_id: str, topic: str) -> dict[str, Any]:
        """The last fact of that name, waited for."""

        async def find() -> dict[str, Any] | None:
            facts = (await self.ask("GET", f"/v1/runs/{run_id}/facts"))["facts"]
            return next((fact["data"] for fact in reversed(facts) if fact["topic"] == topic), None)

        return await eventually(find, what=topic, within_s=20)

    async def until_workspace(self, workspace_id: str, **wanted: Any) -> dict[str, Any]:
        """The workspace once these fields are so; `known` and `unknown` are about `unknown_since`."""

        async def find() -> dict[str, Any] | None:
            shown = await self.workspace(workspace_id)
            shown["known"] = shown["unknown_since"] is None
            return shown if all(shown[name] == value for name, value in wanted.items()) else None

        return await eventually(find, what=f"{workspace_id} to be {wanted}", within_s=20)

    async def until(self, question: Any, what: str) -> None:
        """Wait until something holds."""

        async def ask() -> object:
            return question()

        await eventually(ask, what=what, within_s=20)


def kubeconfig(url: str, user: Any = None) -> dict[str, Any]:
    """A kubeconfig of one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "observer", "user": user or {"token": "observer"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "observer", "namespace": NAMESPACE}}],
        "current-context": "fake",
    }
