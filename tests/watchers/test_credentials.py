"""What is presented to the API server: the pod's own token, and whatever a kubeconfig says."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jackline.clock import Clock
from tests.watchers.cluster import kubeconfig
from tests.watchers.fake_apiserver import fake_apiserver
from tests.watchers.world import fake_world
from watchers.kubernetes.credentials import (
    REREAD_S,
    Access,
    NoAccess,
    TokenFile,
    find_access,
    from_kubeconfig,
    in_cluster,
)
from watchers.kubernetes.server import PODS, ApiServer, Blind

PLUGIN = """
import json, pathlib, sys
count = pathlib.Path(sys.argv[1])
asked = int(count.read_text() or "0") + 1 if count.exists() else 1
count.write_text(str(asked))
status = {"token": f"token-{asked}"}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


class Hour:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.now, chance=lambda: 0.5, new_id=lambda: "id")


def written(place: Path, user: Any, url: str = "http://127.0.0.1:1") -> str:
    path = place / "config"
    path.write_text(json.dumps(kubeconfig(url, user)))
    return str(path)


@pytest.mark.origin("C29")
async def test_a_token_file_is_read_again_when_it_is_old_and_not_before(tmp_path: Path) -> None:
    hour, path = Hour(), tmp_path / "token"
    path.write_text("first\n")
    token = TokenFile(path, hour.clock)
    assert {"Authorization": "Bearer first"} == await token.headers(renew=False)
    path.write_text("second")
    hour.now += REREAD_S - 0.001
    assert {"Authorization": "Bearer first"} == await token.headers(renew=False)
    hour.now += 0.001

    assert {"Authorization": "Bearer second"} == await token.headers(renew=False)


async def test_a_token_that_was_not_accepted_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    token = TokenFile(path, Hour().clock)
    await token.headers(renew=False)
    path.write_text("second")

    assert {"Authorization": "Bearer second"} == await token.headers(renew=True)


async def test_a_token_file_that_is_being_swapped_leaves_the_last_token_in_use(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    token = TokenFile(path, Hour().clock)
    await token.headers(renew=False)
    path.unlink()

    assert {"Authorization": "Bearer first"} == await token.headers(renew=True)


@pytest.mark.origin("C29")
async def test_a_rotated_token_costs_one_request_and_nobody_is_told(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    async with fake_world(TokenFile(path, Hour().clock)) as world:
        world.api.tokens = {"first"}
        await world.pod("a")
        await world.observe()
        path.write_text("second")
        world.api.tokens = {"second"}
        world.api.cut()
        await world.status("a", phase="Failed", reason="Evicted")
        await world.lost("a", "Evicted")

        assert not any(one.kind == "watch_dropped" for one in world.ground("a").seen)


def test_outside_of_a_cluster_there_is_no_access_of_a_pod(tmp_path: Path) -> None:
    assert in_cluster({}, Hour().clock, tmp_path) is None
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, Hour().clock, tmp_path) is None


def test_inside_a_cluster_everything_is_where_the_kubelet_puts_it(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("namespace", "agents"), ("ca.crt", _certificate())):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(environ, Hour().clock, tmp_path)

    assert access is not None
    assert ("https://[fd00::1]:443", "agents") == (access.server, access.namespace)


def test_a_certificate_that_is_none_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("not a certificate")
    environ = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(NoAccess, match=r"ca\.crt"):
        in_cluster(environ, Hour().clock, tmp_path)


async def test_a_kubeconfig_gives_address_namespace_and_token(tmp_path: Path) -> None:
    access = from_kubeconfig(written(tmp_path, {"token": "mine"}), None)

    assert ("http://127.0.0.1:1", "default") == (access.server, access.namespace)
    assert {"authorization": "Bearer mine"} == await access.headers(renew=False)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match="nowhere"):
        find_access(str(tmp_path / "nowhere"), None, Hour().clock)


def test_a_context_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match="elsewhere"):
        find_access(written(tmp_path, {"token": "mine"}), "elsewhere", Hour().clock)


async def test_an_exec_plugin_is_asked_again_after_its_token_was_not_accepted(tmp_path: Path) -> None:
    plugin, count = tmp_path / "plugin.py", tmp_path / "count"
    plugin.write_text(PLUGIN)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(plugin), str(count)],
    }
    async with fake_apiserver() as api:
        access: Access = from_kubeconfig(
            written(tmp_path, {"exec": {**run, "interactiveMode": "Never"}}, api.url), None
        )
        asked_before = int(count.read_text())
        api.tokens = {f"token-{asked_before + 1}"}
        server = ApiServer(access)
        assert await server.get(PODS, "default", "nobody") is None
        api.tokens = set()
        with pytest.raises(Blind, match="credentials"):
            await server.get(PODS, "default", "nobody")
        await server.close()

    assert asked_before + 2 == int(count.read_text())


def _certificate() -> str:
    """A certificate that some authority of this machine made."""
    import certifi

    text = Path(certifi.where()).read_text()
    return text[text.index("-----BEGIN") : text.index("-----END CERTIFICATE-----")] + "-----END CERTIFICATE-----\n"
