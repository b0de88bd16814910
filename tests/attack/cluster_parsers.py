"""Everything that the watcher of a cluster reads, as functions of bytes: an API server's answers, and the ways in."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from jackline.clock import SYSTEM
from tests.attack.client_parsers import LOOP
from tests.attack.places import own_place
from watchers.kubernetes.credentials import Access, Nobody, TokenFile, from_kubeconfig, in_cluster
from watchers.kubernetes.server import NODES, PODS, SANDBOXES, ApiServer, read
from watchers.kubernetes.shapes import Pod
from watchers.kubernetes.verdicts import Around, changed, deleted, ended, present, seen
from watchers.kubernetes.view import View

SHAPES = (PODS, NODES, SANDBOXES)


def pod_verdict(data: bytes) -> None:
    """Two states of one pod, with a line between them, and what is made of them."""
    first, _, second = data.partition(b"\n")
    before: Pod = read(PODS, first)
    judged = seen("w1", before, Around())
    after: Pod = read(PODS, second or first)
    judged = changed(judged.body, after, Around(unreachable=True))
    present(judged.body)
    ended(judged.body)
    deleted(judged.body, after, Around(), None)


class _Nowhere:
    """Where everything goes that a view tells."""

    def tell(self, workspace_id: str, *observations: object) -> None: ...

    def complete(self) -> None: ...

    def blind(self, why: str) -> None: ...


def view(data: bytes) -> None:
    """Objects of each kind, one in a line, taken into the view of a cluster."""
    looking = View(_Nowhere())
    looking.know("w1", "u1", 0)
    for number, line in enumerate(data.splitlines()):
        resource = SHAPES[number % len(SHAPES)]
        found = read(resource, line)
        (looking.pod, looking.node, looking.sandbox)[number % len(SHAPES)](found)
        if resource is PODS and number % 2:
            looking.pod_gone(found, found.metadata.resource_version)
    looking.is_complete()


def watch(data: bytes) -> None:
    """What a watch says, line by line."""
    LOOP.run_until_complete(_watch(data))


async def _watch(data: bytes) -> None:
    async with _server(200, data) as server, server.watch(PODS, None, {}, 1) as changes:
        async for change in changes:
            read(PODS, change.object)


def page(data: bytes) -> None:
    """A page of a list, under a status that the first byte says."""
    status = (200, 400, 401, 404, 409, 410, 422, 429, 500, 503)[data[0] % 10] if data else 200
    LOOP.run_until_complete(_page(status, data[1:]))


async def _page(status: int, body: bytes) -> None:
    async with _server(status, body) as server:
        for item in (await server.page(PODS, None, {})).items or ():
            read(PODS, item)


class _Said(httpx.AsyncByteStream):
    """A body that comes in two pieces."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        half = len(self.body) // 2
        yield self.body[:half]
        yield self.body[half:]


@contextlib.asynccontextmanager
async def _server(status: int, body: bytes) -> AsyncIterator[ApiServer]:
    server = ApiServer(Access("http://server", False, Nobody(), None))
    answered = httpx.MockTransport(lambda _: httpx.Response(status, stream=_Said(body), headers={"Retry-After": "1"}))
    await server._http.aclose()
    server._http = httpx.AsyncClient(transport=answered, base_url="http://server")
    try:
        yield server
    finally:
        await server.close()


def kubeconfig(data: bytes) -> None:
    """The file that says how a cluster is reached."""
    with own_place() as place:
        (place / "config").write_bytes(data)
        access = from_kubeconfig(str(place / "config"), None)
        httpx.Request("GET", access.server, headers=LOOP.run_until_complete(access.presented.headers(renew=False)))


def service_account(data: bytes) -> None:
    """What a pod is given: its token, its namespace, or the certificate of its cluster."""
    with own_place() as place:
        for name in ("token", "namespace", "ca.crt"):
            (place / name).write_bytes(data)
        LOOP.run_until_complete(TokenFile(place / "token", SYSTEM).headers(renew=False))
        in_cluster({"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"}, SYSTEM, place)


PARSERS = {parser.__name__: parser for parser in (pod_verdict, view, watch, page, kubeconfig, service_account)}
POD: dict[str, Any] = {
    "metadata": {"uid": "u1", "name": "p", "namespace": "n", "resourceVersion": "1", "deletionTimestamp": "x",
                 "labels": {"jackline.dev/workspace": "w1"}, "annotations": {"jackline.dev/container": "c"},
                 "ownerReferences": [{"kind": "Sandbox", "name": "s", "uid": "u2", "controller": True}]},
    "spec": {"nodeName": "node", "containers": [{"name": "c"}]},
    "status": {"phase": "Running", "reason": "Evicted", "conditions": [{"type": "Ready", "status": "False"}],
               "containerStatuses": [{"name": "c", "restartCount": 1, "ready": False, "state": {"running": {}},
                                      "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
}  # fmt: skip
_ENDED = {**POD, "status": {**POD["status"], "phase": "Failed"}}
_POD, _OVER = (json.dumps(one).encode() for one in (POD, _ENDED))
DEEP = b"[" * 5_000
ODD = (b"{}", b"null", b"[]", DEEP, b'{"metadata": {"uid": "u1"}}', b'{"metadata": null}', b"\xff")
SEEDS: dict[str, list[bytes]] = {
    "pod_verdict": [_POD, _POD + b"\n" + _OVER, _OVER, *ODD],
    "view": [_POD, b"\n".join([_POD, b'{"metadata": {"uid": "u2"}}', b'{"metadata": {"uid": "u3"}}', _OVER]), *ODD],
    "watch": [
        b'{"type": "MODIFIED", "object": %s}\n' % _POD, b'{"type": "ERROR", "object": {"code": 410}}\n',
        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}\n', *(odd + b"\n" for odd in ODD),
        b'{"type": "ERROR", "object": {"code": "x"}}\n', b"cut",
    ],
    "page": [bytes([n]) + odd for n in range(10) for odd in (*ODD, b'{"items": [%s]}' % _POD, b'{"items": [1]}')],
    "kubeconfig": [
        b"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u, "
        b"namespace: n}}]\nclusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        b"users: [{name: u, user: {token: t}}]\n", b"contexts: 1\n", b"current-context: c\ncontexts: [1]\n", b"\xff",
        b"", b"{", b"&a [*a]", b"current-context: c\ncontexts: [{name: c}]\nclusters: []\nusers: []\n",
        b"!!python/object:x y",
    ],
    "service_account": [b"token", b"\xff", b"", b"a\nb", b"-----BEGIN CERTIFICATE-----\nx\n"],
}  # fmt: skip
