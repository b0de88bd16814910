"""Plays the scenarios on a real API server: `make test-kubernetes-real`, where etcd and kube-apiserver are on the path.

    python -m tests.watchers.real_apiserver [NAME ...]

It starts both on loopback in a directory of its own, installs a definition of Sandboxes, plays every scenario that
needs no faults of the server, one after another, and ends both. Exit code 1 when one failed, 2 when there is no server
to play on. It is not part of the suite, which needs nothing but Python: it is what keeps the fake server honest.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx

from tests.waiting import until
from tests.watchers.cluster import kubeconfig
from tests.watchers.scenarios import Scenario, collected
from tests.watchers.world import NAMESPACE, QUICK, Hands, World
from watchers.kubernetes.credentials import Access, from_kubeconfig
from watchers.kubernetes.observer import Plan

TOKEN = "scenarios"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
READY_S = 60.0
SANDBOXES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "sandboxes.agents.x-k8s.io",
        # The group is a protected one; whoever defines it says who approved that.
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "agents.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "sandboxes", "singular": "sandbox", "kind": "Sandbox", "listKind": "SandboxList"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            part: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            for part in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}


def main() -> int:
    """Play; 1 when a scenario failed."""
    parser = argparse.ArgumentParser(description="play the scenarios on a real API server")
    parser.add_argument("names", nargs="*", help="only these")
    wanted = parser.parse_args().names
    missing = [name for name in ("etcd", "kube-apiserver", "openssl") if shutil.which(name) is None]
    if missing:
        print(f"not on the path: {', '.join(missing)}; nothing was played", file=sys.stderr)
        return 2
    chosen = [one for one in collected() if not one.fake and (not wanted or one.name in wanted)]
    with tempfile.TemporaryDirectory() as place, servers(Path(place)) as url:
        access = _access(Path(place), url)
        failed = [one.name for one in chosen if not asyncio.run(played(one, access))]
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _access(place: Path, url: str) -> Access:
    """What a kubeconfig that names the server's certificate gives."""
    document = kubeconfig(url, {"token": TOKEN})
    document["clusters"][0]["cluster"]["certificate-authority"] = str(place / "apiserver.crt")
    (place / "kubeconfig").write_text(json.dumps(document))
    return from_kubeconfig(str(place / "kubeconfig"), None)


async def played(scenario: Scenario, access: Access) -> bool:
    """Whether the scenario held on that server."""
    hands = Hands(access.server, HEADERS)
    world = World(access, hands, Plan("test", NAMESPACE, pace=replace(QUICK, **scenario.pace)))
    world.bounds = replace(world.bounds, answer_s=10.0, slack_s=3.0)
    try:
        await scenario.play(world)
        await world.nothing_false()
    except Exception:  # noqa: BLE001 - whatever a scenario raises is its failure, and the next one is played all the same
        traceback.print_exc()
        print(f"FAILED  {scenario.name}", flush=True)
        return False
    else:
        print(f"passed  {scenario.name}", flush=True)
        return True
    finally:
        await world.kill()
        await clean(hands)
        await hands.close()


async def clean(hands: Hands) -> None:
    """Leave nothing to the next scenario."""
    for plural in ("pods", "sandboxes", "nodes"):
        for name in await hands.names(plural):
            await hands.delete(plural, name, force=True)


@contextlib.contextmanager
def servers(place: Path) -> Iterator[str]:
    """The url of a running API server."""
    etcd, peer, port = (_free_port() for _ in range(3))
    key = place / "key.pem"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    (place / "tokens.csv").write_text(f"{TOKEN},admin,1,system:masters\n")
    words = [
        ["etcd", f"--data-dir={place / 'etcd'}", f"--listen-client-urls=http://127.0.0.1:{etcd}",
         f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
         "--unsafe-no-fsync"],
        ["kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={port}",
         "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--cert-dir={place}",
         f"--token-auth-file={place / 'tokens.csv'}", "--authorization-mode=AlwaysAllow",
         "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", "--service-cluster-ip-range=10.0.0.0/24",
         "--service-account-issuer=https://test", f"--service-account-key-file={key}",
         f"--service-account-signing-key-file={key}", "--allow-privileged=true"],
    ]  # fmt: skip
    with (place / "log").open("ab") as log:
        running = [subprocess.Popen(each, stdout=log, stderr=log, env=dict(os.environ)) for each in words]
    url = f"https://127.0.0.1:{port}"
    try:
        until(lambda: _ready(url, running, place / "log"), what="the API server to be ready", within_s=READY_S)
        yield url
        assert all(one.poll() is None for one in running), (place / "log").read_text()[-9000:]
    finally:
        for one in reversed(running):
            one.terminate()
            one.wait()


def _ready(url: str, running: list[subprocess.Popen[bytes]], log: Path) -> bool:
    assert all(one.poll() is None for one in running), log.read_text()[-9000:]
    with httpx.Client(base_url=url, headers=HEADERS, verify=False, trust_env=False) as client:  # noqa: S501
        try:
            if not client.get("/readyz").is_success or not client.get(f"/api/v1/namespaces/{NAMESPACE}").is_success:
                return False
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            client.post(definitions, json=SANDBOXES)
            return client.get(f"/apis/agents.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/sandboxes").is_success
        except httpx.HTTPError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
