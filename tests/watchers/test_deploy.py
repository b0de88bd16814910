"""What is in deploy/ fits the code: the roles allow what is asked for and no more, and the manifests can be used."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from tests.architecture.sources import ROOT
from tests.watchers.fake_apiserver import Asked, fake_apiserver
from tests.watchers.kubelet import willing
from tests.watchers.scenarios.sandboxes import standing
from tests.watchers.test_provisioner import SPEC, Shop
from tests.watchers.world import fake_world
from watchers.cli import watch
from watchers.kubernetes.templates import manifest

DEPLOY = ROOT / "deploy"
Rights = set[tuple[str, str]]


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of one file."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def allowed(*names: str) -> Rights:
    """What the roles in these files allow: verb and resource."""
    roles = [one for name in names for one in documents(name) if one["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"]]
    return {(verb, resource) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def used(asked: list[Asked]) -> Rights:
    """What was asked of the server: verb and resource."""
    verbs = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
    return {
        ("watch" if one.watches else "list" if one.lists else verbs.get(one.method, "get"), one.plural) for one in asked
    }


async def test_watching_uses_the_rights_to_look_and_no_others() -> None:
    async with fake_world() as world:
        await world.node()
        await standing(world)
        await world.pod("b")
        await world.observe()
        await world.hands.delete("pods", "warm-1", force=True)
        await world.lost("a", "PodDeleted")
        asked = used(world.api.asked)

    assert asked <= allowed("rbac.yaml", "rbac-nodes.yaml")
    assert {"get", "list", "watch"} == {verb for verb, _ in allowed("rbac.yaml", "rbac-nodes.yaml")}
    assert {("get", "pods"), ("watch", "sandboxes"), ("watch", "nodes")} <= asked


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """A cluster that runs whatever it is given."""
    async with fake_apiserver() as api:
        api.after = willing
        shop = Shop(api)
        yield shop
        await shop.server.close()


async def test_provisioning_uses_the_rights_of_its_own_role_beside_those_to_look(shop: Shop) -> None:
    for name, spec in (("w1", SPEC), ("w2", {"kind": "Sandbox", **SPEC})):
        shop.ledger.place(name, spec)
    for _ in range(2):
        await shop.provisioner.round()
        shop.now += 400.0
    for ground in shop.ledger.grounds.values():
        ground.phase, ground.teardown = "teardown", True
    await shop.provisioner.round()
    asked = used(shop.api.asked)

    assert asked <= allowed("rbac.yaml", "rbac-provisioner.yaml")
    assert asked - allowed("rbac.yaml") == allowed("rbac-provisioner.yaml") - {("get", "persistentvolumeclaims")}


def test_the_deployment_starts_the_watch_with_options_that_there_are() -> None:
    (deployment,) = documents("watch.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command = typer.main.get_command(watch)
    verb = command.get_command(None, "kubernetes")  # type: ignore[attr-defined]
    known = {name for option in verb.params for name in (*option.opts, *option.secondary_opts)}

    assert ["jackline", "watch", "kubernetes"] == container["command"]
    assert {word.split("=")[0] for word in container["args"]} <= known


def test_the_example_of_a_template_makes_a_body() -> None:
    (template,) = documents("pod-template.yaml")
    made = manifest("w1", SPEC, template, "noon")

    assert "harness:1" == made["spec"]["containers"][0]["image"]
    assert not made["spec"]["automountServiceAccountToken"]


def test_every_file_is_explained_to_users() -> None:
    told = Path(ROOT / "docs" / "kubernetes.md").read_text()

    assert [] == [path.name for path in DEPLOY.iterdir() if f"deploy/{path.name}" not in told]
