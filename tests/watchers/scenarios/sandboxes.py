"""Sandboxes of agents.x-k8s.io: what keeps its name and its volumes while its pods come and go."""

from typing import Any

from tests.watchers.scenarios import scenario
from tests.watchers.world import NAMESPACE, World
from watchers.kubernetes.shapes import MANAGED_BY, OURS, SANDBOX_POD_LABEL, SANDBOX_POD_NAME, WORKSPACE_LABEL

WARM = {SANDBOX_POD_LABEL: "1a2b3c"}


OURS_LABELS = {MANAGED_BY: OURS, WORKSPACE_LABEL: "w-a"}


async def sandbox(
    world: World, name: str = "box", labels: dict[str, str] = OURS_LABELS, annotations: dict[str, str] | None = None
) -> str:
    """A sandbox for the workspace `w-a`; its UID."""
    document = {
        "apiVersion": "agents.x-k8s.io/v1beta1",
        "kind": "Sandbox",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations or {},
        },
        "spec": {"operatingMode": "Running", "podTemplate": {"spec": {"containers": []}}},
    }
    return str((await world.hands.make("sandboxes", document))["metadata"]["uid"])


async def warm_pod(world: World, name: str, sandbox_uid: str, sandbox_name: str = "box") -> str:
    """A pod that carries no label of ours, and that the sandbox controls; its UID."""
    owner: dict[str, Any] = {
        "apiVersion": "agents.x-k8s.io/v1beta1",
        "kind": "Sandbox",
        "name": sandbox_name,
        "uid": sandbox_uid,
        "controller": True,
    }
    return await world.pod(name, standing=False, labels=WARM, owners=[owner])


async def standing(world: World) -> tuple[str, str]:
    """A sandbox, its adopted pod, and the workspace that stands on it; the UIDs of both."""
    uid = await sandbox(world, annotations={SANDBOX_POD_NAME: "warm-1"})
    pod_uid = await warm_pod(world, "warm-1", uid)
    world.ledger.stand_on("w-a", f"pod:{pod_uid}", {"namespace": NAMESPACE, "pod": "warm-1", "sandbox_uid": uid})
    return uid, pod_uid


async def suspend(world: World, name: str = "box") -> None:
    """Somebody suspends the sandbox, and its controller takes the pod away."""
    await world.hands.patch("sandboxes", name, {"spec": {"operatingMode": "Suspended"}})
    conditions = [{"type": "Suspended", "status": "True", "reason": "PodTerminating"}]
    await world.hands.patch("sandboxes", name, {"conditions": conditions}, status=True)


@scenario()
async def a_pod_adopted_from_a_warm_pool_is_the_body_of_its_sandbox(world: World) -> None:
    _, pod_uid = await standing(world)
    observing = await world.observe()

    assert {pod_uid: "w-a"} == {uid: body.workspace_id for uid, body in observing.view.bodies.items()}


@scenario()
async def a_pod_that_is_adopted_while_we_look_becomes_the_body(world: World) -> None:
    world.ledger.place("w-a")
    await world.observe()
    uid = await sandbox(world)
    pod_uid = await warm_pod(world, "warm-1", uid)
    await world.told("a", "present")

    assert f"pod:{pod_uid}" == world.ground("a").identity


@scenario()
async def a_pod_that_is_seen_before_its_sandbox_waits_for_it(world: World) -> None:
    world.ledger.place("w-a")
    observing = await world.observe()
    uid = await sandbox(world, "other", {"app": "theirs"})
    pod_uid = await warm_pod(world, "warm-1", uid, "other")
    await world.until(lambda: pod_uid in observing.view.waiting, "the pod is seen")
    await world.hands.patch("sandboxes", "other", {"metadata": {"labels": OURS_LABELS}})
    await world.told("a", "present")

    assert f"pod:{pod_uid}" == world.ground("a").identity


@scenario()
async def the_pod_of_a_sandbox_that_is_evicted_is_a_loss(world: World) -> None:
    await standing(world)
    await world.observe()
    await world.status("warm-1", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")


@scenario()
async def a_suspended_sandbox_takes_its_body_away_and_says_so(world: World) -> None:
    await standing(world)
    await world.observe()
    await suspend(world)
    await world.hands.delete("pods", "warm-1")
    await world.told("a", "present", "Terminating")
    await world.hands.delete("pods", "warm-1", force=True)
    ground = await world.lost("a", "PodDeleted")

    assert ground.loss is not None
    assert "sandbox box was suspended" in str(ground.loss.message)


@scenario()
async def a_resumed_sandbox_gives_no_second_body(world: World) -> None:
    uid, _ = await standing(world)
    await world.observe()
    await suspend(world)
    await world.hands.delete("pods", "warm-1", force=True)
    await world.lost("a", "PodDeleted")
    await world.hands.patch("sandboxes", "box", {"spec": {"operatingMode": "Running"}})
    await warm_pod(world, "box", uid)
    await world.until(lambda: world.count("candidates") >= 1, "the second pod is counted")

    await world.lost("a", "PodDeleted")


@scenario()
async def a_deleted_pod_of_a_running_sandbox_is_a_plain_loss(world: World) -> None:
    await standing(world)
    await world.observe()
    await world.hands.delete("pods", "warm-1", force=True)
    ground = await world.lost("a", "PodDeleted")

    assert ground.loss is not None
    assert "suspended" not in str(ground.loss.message)


@scenario()
async def a_sandbox_that_is_deleted_is_no_loss_while_its_pod_runs(world: World) -> None:
    await standing(world)
    await world.observe()
    await world.hands.patch("pods", "warm-1", {"metadata": {"ownerReferences": None}})
    await world.hands.delete("sandboxes", "box", force=True)
    await world.status("warm-1", message="still here")
    await world.until(lambda: world.count("told") >= 2, "the pod is told again")

    assert world.ground("a").phase == "running"


@scenario(fake=True)
async def a_cluster_without_sandboxes_is_watched_all_the_same(world: World) -> None:
    world.api.sandboxes = False
    await world.pod("a")
    await world.observe()
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")
