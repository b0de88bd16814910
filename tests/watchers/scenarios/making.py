"""Bodies that are made, stamped and destroyed by the provider while an observer looks."""

from datetime import UTC, datetime

import pytest

from jackline.workspaces.contract import Attached, NotYet, PlaceFailed, WorkspaceRef
from tests.watchers.scenarios import scenario
from tests.watchers.world import NAMESPACE, World, container, ready
from watchers.kubernetes.provider import KubernetesProvider, Making
from watchers.kubernetes.shapes import ASSERTED_AT

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TEMPLATE = {"spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "harness"}]}}
NAME = "jackline-w-a"


def provider(world: World, hour: int = 12) -> KubernetesProvider:
    """A provider that was started at that hour."""
    return KubernetesProvider(world.server, Making(NAMESPACE, TEMPLATE), lambda: NOON.replace(hour=hour))


@scenario()
async def a_body_is_made_once_attached_stamped_and_destroyed(world: World) -> None:
    ground = world.ledger.place("w-a")
    await world.observe()
    await provider(world).place("w-a", None)
    await provider(world).place("w-a", None)
    waiting = await provider(world).attach(WorkspaceRef("w-a"))
    await world.told("a", "present")
    await world.status(NAME, phase="Running", conditions=ready(), containerStatuses=container())
    attached = await provider(world).attach(WorkspaceRef("w-a"))
    assert isinstance(waiting, NotYet)
    assert isinstance(attached, Attached)
    assert attached.identity == waiting.identity == ground.identity
    world.ledger.stand_on("w-a", attached.identity, dict(attached.details))
    ref = WorkspaceRef("w-a", attached.identity)
    await provider(world, hour=13).assert_(ref)  # noqa: PT009 - an operation of the contract
    found = await world.hands.find("pods", NAME)
    assert found is not None
    assert NOON.replace(hour=13).isoformat() == found["metadata"]["annotations"][ASSERTED_AT]
    assert "present" == (await provider(world).continuity(ref)).kind
    ground.phase, ground.teardown = "teardown", True
    assert not await provider(world).teardown(ref)
    await world.hands.delete("pods", NAME, force=True)
    await world.until(lambda: ground.phase == "destroyed", "the observer tells that it is gone")

    assert await provider(world).teardown(ref)


@scenario()
async def a_body_that_the_api_refuses_cannot_come_to_be(world: World) -> None:
    await world.observe()
    broken = KubernetesProvider(world.server, Making(NAMESPACE, {"spec": {"containers": [{}]}}), lambda: NOON)

    with pytest.raises(PlaceFailed, match="containers"):
        await broken.place("w-a", None)


@scenario()
async def a_body_under_the_name_of_a_recorded_one_is_neither_attached_nor_destroyed(world: World) -> None:
    await world.observe()
    await provider(world).place("w-a", None)
    first = await provider(world).attach(WorkspaceRef("w-a"))
    assert isinstance(first, NotYet)
    await world.hands.delete("pods", NAME, force=True)
    await provider(world).place("w-a", None)
    ref = WorkspaceRef("w-a", first.identity)
    with pytest.raises(PlaceFailed, match="another pod"):
        await provider(world).attach(ref)

    assert await provider(world).teardown(ref)
    assert await world.hands.find("pods", NAME) is not None


@scenario()
async def a_sandbox_is_made_with_our_marks_inside_and_out(world: World) -> None:
    await world.observe()
    await provider(world).place("w-a", {"kind": "Sandbox"})
    waiting = await provider(world).attach(WorkspaceRef("w-a", spec={"kind": "Sandbox"}))
    found = await world.hands.find("sandboxes", NAME)

    assert isinstance(waiting, NotYet)
    assert found is not None
    assert found["metadata"]["labels"] == found["spec"]["podTemplate"]["metadata"]["labels"]
