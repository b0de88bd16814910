"""What can become of a pod while an observer looks."""

from tests.watchers.scenarios import scenario
from tests.watchers.world import World, container, exited, ready


def disrupted(reason: str, message: str = "as asked") -> list[dict[str, object]]:
    """The conditions of a pod that somebody means to take away."""
    return [*ready(), {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]


@scenario()
async def a_running_pod_is_present_and_nothing_else(world: World) -> None:
    await world.pod("a")
    await world.observe()

    await world.told("a", "present")
    assert {"present"} == {one.kind for one in world.ground("a").seen}


@scenario()
async def a_pod_that_takes_its_grace_is_present_until_it_is_gone(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.hands.delete("pods", "a")
    await world.told("a", "present", "Terminating")
    assert world.ground("a").phase == "running"
    await world.hands.delete("pods", "a", force=True)

    await world.lost("a", "PodDeleted")


@scenario()
async def a_pod_deleted_by_force_is_gone_at_once(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.hands.delete("pods", "a", force=True)

    await world.lost("a", "PodDeleted")


@scenario()
async def a_pod_that_ends_while_it_is_being_deleted_was_deleted(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.hands.delete("pods", "a")
    await world.status("a", phase="Failed", containerStatuses=container(terminated=exited(143)))
    ground = await world.lost("a", "PodDeleted")

    assert ground.loss is not None
    assert "exit 143" in str(ground.loss.message)


@scenario()
async def an_eviction_leaves_the_pod_and_is_a_loss(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    ground = await world.lost("a", "Evicted")

    assert ground.loss is not None
    assert (ground.loss.kind, ground.loss.message) == ("ended", "The node was low on resource: memory.")


@scenario()
async def an_evicted_pod_that_is_deleted_later_was_lost_once(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", phase="Failed", reason="Evicted", message="low on memory")
    await world.lost("a", "Evicted")
    await world.hands.delete("pods", "a", force=True)
    await world.told("a", "gone")

    await world.lost("a", "Evicted")


@scenario()
async def a_failed_pod_is_a_loss_with_its_exit_code(world: World) -> None:
    await world.pod("a", spec={"restartPolicy": "Never"})
    await world.observe()
    await world.status("a", phase="Failed", containerStatuses=container(terminated=exited(7)))
    ground = await world.lost("a", "PodFailed")

    assert ground.loss is not None
    assert ground.loss.exit_code == 7


@scenario()
async def a_pod_that_succeeded_is_a_loss_with_exit_code_zero(world: World) -> None:
    await world.pod("a", spec={"restartPolicy": "Never"})
    await world.observe()
    await world.status("a", phase="Succeeded", containerStatuses=container(terminated=exited(0, "Completed")))
    ground = await world.lost("a", "PodSucceeded")

    assert ground.loss is not None
    assert ground.loss.exit_code == 0


@scenario()
async def running_out_of_memory_for_good_says_so(world: World) -> None:
    await world.pod("a", spec={"restartPolicy": "Never"})
    await world.observe()
    await world.status("a", phase="Failed", containerStatuses=container(terminated=exited(137, "OOMKilled")))
    ground = await world.lost("a", "PodFailed")

    assert ground.loss is not None
    assert "OOMKilled" in str(ground.loss.message)
    assert ground.loss.exit_code == 137


async def _ends_with(world: World, status: dict[str, object], reason: str) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", phase="Failed", **status)

    await world.lost("a", reason)


@scenario()
async def a_node_that_shuts_down_terminates_its_pods(world: World) -> None:
    await _ends_with(world, {"reason": "Terminated", "message": "imminent node shutdown"}, "Terminated")


@scenario()
async def an_older_node_that_shuts_down_terminates_its_pods(world: World) -> None:
    await _ends_with(world, {"reason": "Shutdown", "message": "node is shutting down"}, "Terminated")


@scenario()
async def a_kubelet_that_terminates_a_pod_is_told_by_the_condition(world: World) -> None:
    await _ends_with(world, {"conditions": disrupted("TerminationByKubelet")}, "Terminated")


@scenario()
async def a_pod_of_a_lost_node_that_ends_is_lost_with_the_node(world: World) -> None:
    await _ends_with(world, {"conditions": disrupted("DeletionByTaintManager")}, "NodeLost")


@scenario()
async def a_pod_whose_deadline_passed_failed_and_says_why(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", phase="Failed", reason="DeadlineExceeded", message="it was active too long")
    ground = await world.lost("a", "PodFailed")

    assert ground.loss is not None
    assert "DeadlineExceeded" in str(ground.loss.message)


async def _taken_away(world: World, cause: str, reason: str) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", conditions=disrupted(cause, f"because of {cause}"))
    await world.hands.delete("pods", "a")
    await world.hands.delete("pods", "a", force=True)
    ground = await world.lost("a", reason)

    assert ground.loss is not None
    assert cause in str(ground.loss.message)


@scenario()
async def a_drained_pod_was_evicted(world: World) -> None:
    await _taken_away(world, "EvictionByEvictionAPI", "Evicted")


@scenario()
async def a_preempted_pod_was_evicted(world: World) -> None:
    await _taken_away(world, "PreemptionByScheduler", "Evicted")


@scenario()
async def a_pod_deleted_because_its_node_is_tainted_was_lost_with_it(world: World) -> None:
    await _taken_away(world, "DeletionByTaintManager", "NodeLost")


@scenario()
async def a_pod_collected_after_its_node_vanished_was_lost_with_it(world: World) -> None:
    await _taken_away(world, "DeletionByPodGC", "NodeLost")


@scenario()
async def a_restart_of_the_harness_is_told_with_how_it_ended(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", containerStatuses=container(1, last=exited(137, "OOMKilled")))
    await world.told("a", "harness_restarted", "OOMKilled")

    ground = world.ground("a")
    assert (1, 137) == (ground.restarts[0].incarnation, ground.restarts[0].exit_code)
    assert ground.phase == "running"


@scenario()
async def several_restarts_between_two_looks_are_one_jump(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", containerStatuses=container(4, last=exited(1)))
    await world.told("a", "harness_restarted")

    assert [4] == [one.incarnation for one in world.ground("a").restarts]


@scenario()
async def another_container_under_an_old_count_is_a_restart(world: World) -> None:
    await world.pod("a")
    await world.observe()
    status = container()
    status[0]["containerID"] = "containerd://another"
    await world.status("a", containerStatuses=status)
    await world.told("a", "harness_restarted")

    assert 1 == world.ground("a").incarnation


@scenario()
async def a_kubelet_that_lost_count_never_takes_the_incarnation_back(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", containerStatuses=container(3, last=exited(1)))
    await world.told("a", "harness_restarted")
    status = container(0)
    status[0]["containerID"] = "containerd://after-the-reboot"
    await world.status("a", containerStatuses=status)
    await world.until(lambda: world.ground("a").incarnation == 4, "the fourth restart is told")

    assert [3, 4] == [one.incarnation for one in world.ground("a").restarts]


@scenario()
async def a_crash_loop_is_told_and_remembered_by_the_loss(world: World) -> None:
    await world.pod("a")
    await world.observe()
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
    await world.status("a", containerStatuses=container(5, last=exited(1), waiting=waiting))
    await world.told("a", "present", "CrashLoopBackOff")
    await world.hands.delete("pods", "a", force=True)
    ground = await world.lost("a", "PodDeleted")

    assert ground.loss is not None
    assert "exit 1" in str(ground.loss.message)


@scenario()
async def a_pod_under_the_name_of_another_is_never_its_body(world: World) -> None:
    first = await world.pod("a")
    await world.observe()
    await world.hands.delete("pods", "a", force=True)
    second = await world.pod("a", standing=False)
    ground = await world.lost("a", "PodDeleted")

    assert (f"pod:{first}", True) == (ground.identity, first != second)
    await world.until(lambda: world.count("candidates") == 1, "the second pod is counted")


@scenario()
async def two_workspaces_are_lost_independently(world: World) -> None:
    await world.pod("a")
    await world.pod("b")
    await world.observe()
    await world.hands.delete("pods", "a", force=True)
    await world.lost("a", "PodDeleted")
    await world.status("b", containerStatuses=container(1, last=exited(1)))
    await world.told("b", "harness_restarted")

    assert world.ground("b").phase == "running"


@scenario()
async def a_pod_without_a_node_is_not_there_yet(world: World) -> None:
    world.ledger.place("w-a")
    await world.pod("a", standing=False, spec={"nodeName": None}, phase="Pending", containerStatuses=[])
    await world.observe()

    assert ("placing", []) == (world.ground("a").phase, world.ground("a").seen)


@scenario()
async def a_pod_that_pulls_its_image_exists_and_says_what_it_waits_for(world: World) -> None:
    world.ledger.place("w-a")
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    uid = await world.pod(
        "a", standing=False, phase="Pending", conditions=ready(False), containerStatuses=container(waiting=waiting)
    )
    await world.observe()
    await world.told("a", "present", "ImagePullBackOff")

    assert ("attaching", f"pod:{uid}") == (world.ground("a").phase, world.ground("a").identity)


@scenario()
async def a_pod_that_fails_before_it_was_attached_to_is_no_loss(world: World) -> None:
    world.ledger.place("w-a")
    await world.pod("a", standing=False, phase="Pending", conditions=ready(False))
    await world.observe()
    await world.status("a", phase="Failed", containerStatuses=container(terminated=exited(1)))
    await world.told("a", "ended", "PodFailed")

    assert "provision_failed" == world.ground("a").phase


@scenario()
async def a_pod_deleted_before_it_was_attached_to_is_no_loss(world: World) -> None:
    world.ledger.place("w-a")
    await world.pod("a", standing=False, phase="Pending", conditions=ready(False))
    await world.observe()
    await world.hands.delete("pods", "a", force=True)
    await world.told("a", "gone", "PodDeleted")

    assert "provision_failed" == world.ground("a").phase


@scenario()
async def a_pod_that_somehow_runs_again_after_its_end_stays_lost_and_is_counted(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.status("a", phase="Failed", reason="Evicted")
    await world.lost("a", "Evicted")
    await world.status("a", phase="Running", reason=None)
    await world.until(lambda: world.count("impossible") >= 1, "the impossible is counted")

    await world.lost("a", "Evicted")
    await world.status("a", phase="Failed", reason="Evicted")
