"""What can become of a pod's labels and of its node while an observer looks."""

from tests.watchers.scenarios import scenario
from tests.watchers.scenarios.bodies import disrupted
from tests.watchers.world import World, container, exited, ready
from watchers.kubernetes.shapes import MANAGED_BY, OURS, WORKSPACE_LABEL


@scenario(watch_least_s=1, watch_most_s=1)
async def a_label_that_is_taken_away_is_not_a_deletion(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.hands.patch("pods", "a", {"metadata": {"labels": {MANAGED_BY: None}}})
    await world.until(lambda: world.count("astray") >= 1, "the pod is looked after")

    assert world.ground("a").phase == "running"


@scenario()
async def a_pod_without_its_label_that_is_deleted_is_lost_at_the_next_look(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.hands.patch("pods", "a", {"metadata": {"labels": {MANAGED_BY: None}}})
    await world.until(lambda: world.count("astray") >= 1, "the pod is looked after")
    await world.hands.delete("pods", "a", force=True)

    await world.lost("a", "PodDeleted")


@scenario()
async def a_label_that_comes_back_is_as_if_it_had_never_gone(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.hands.patch("pods", "a", {"metadata": {"labels": {MANAGED_BY: None}}})
    await world.until(lambda: world.count("astray") >= 1, "the pod is looked after")
    await world.hands.patch("pods", "a", {"metadata": {"labels": {MANAGED_BY: OURS}}})
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")


@scenario()
async def a_label_that_names_another_workspace_moves_nobody(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.hands.patch("pods", "a", {"metadata": {"labels": {WORKSPACE_LABEL: "w-b"}}})
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")


@scenario()
async def pods_that_are_not_ours_are_nobodys(world: World) -> None:
    await world.pod("b", standing=False, labels={"app": "theirs"})
    await world.pod("a")
    observing = await world.observe()

    assert ["w-a"] == [body.workspace_id for body in observing.view.bodies.values()]


@scenario()
async def a_silent_node_makes_its_pods_unknown_and_not_lost(world: World) -> None:
    await world.node()
    await world.pod("a")
    await world.observe()
    await world.node(ready_status="Unknown")
    await world.status("a", conditions=ready(False))

    await world.unknown("a")


@scenario()
async def a_node_that_is_heard_again_restores_its_pods(world: World) -> None:
    await world.node()
    await world.pod("a")
    await world.observe()
    await world.status("a", conditions=ready(False))
    await world.node(ready_status="Unknown")
    await world.unknown("a")
    await world.node()
    await world.status("a", conditions=ready())

    await world.known("a")


@scenario()
async def a_node_that_is_deleted_leaves_its_pods_unknown_until_they_are(world: World) -> None:
    await world.node()
    await world.pod("a")
    await world.observe()
    await world.status("a", conditions=ready(False))
    await world.node(ready_status="Unknown")
    await world.unknown("a")
    await world.hands.delete("nodes", "n1", force=True)
    await world.status("a", conditions=[*disrupted("DeletionByPodGC")[1:], *ready(False)])
    assert world.ground("a").unknown
    await world.hands.delete("pods", "a", force=True)

    await world.lost("a", "NodeLost")


@scenario()
async def a_pod_that_is_not_ready_on_a_good_node_is_present(world: World) -> None:
    await world.node()
    await world.pod("a")
    await world.observe()
    await world.status("a", conditions=ready(False), containerStatuses=container(1, last=exited(1)))
    await world.told("a", "harness_restarted")

    assert not world.ground("a").unknown
