"""What can happen while no observer looks, and what the next one makes of it; and what the service may not answer."""

from jackline.errors import FenceLost, Problem
from tests.watchers.scenarios import scenario
from tests.watchers.world import NAMESPACE, World, container, exited
from watchers.kubernetes.shapes import MANAGED_BY, OURS, WORKSPACE_LABEL


@scenario()
async def a_pod_deleted_while_nobody_looked_is_found_missing(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.kill()
    await world.hands.delete("pods", "a", force=True)
    await world.observe()

    await world.lost("a", "PodDeleted")


@scenario()
async def a_pod_evicted_while_nobody_looked_is_found_evicted(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.kill()
    await world.status("a", phase="Failed", reason="Evicted", message="low on disk")
    await world.observe()
    ground = await world.lost("a", "Evicted")

    assert ground.loss is not None
    assert ground.loss.message == "low on disk"


@scenario()
async def a_pod_replaced_while_nobody_looked_is_found_replaced(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.kill()
    await world.hands.delete("pods", "a", force=True)
    second = await world.pod("a", standing=False)
    await world.observe()
    ground = await world.lost("a", "PodDeleted")

    assert ground.loss is not None
    assert ("replaced", f"pod:{second}") == (ground.loss.kind, ground.loss.identity)


@scenario()
async def restarts_while_nobody_looked_are_told_with_how_the_last_ended(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.kill()
    await world.status("a", containerStatuses=container(2, last=exited(137, "OOMKilled")))
    await world.observe()
    await world.told("a", "harness_restarted", "OOMKilled")

    assert 2 == world.ground("a").incarnation


@scenario()
async def an_incarnation_that_the_service_knows_is_never_taken_back(world: World) -> None:
    await world.pod("a")
    world.ground("a").incarnation = 7
    await world.observe()
    await world.status("a", containerStatuses=container(1, last=exited(1)))
    await world.told("a", "harness_restarted")

    assert 8 == world.ground("a").incarnation


@scenario()
async def a_label_taken_away_while_nobody_looked_is_not_a_deletion(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.kill()
    await world.hands.patch("pods", "a", {"metadata": {"labels": {MANAGED_BY: None, WORKSPACE_LABEL: None}}})
    await world.observe()
    assert world.ground("a").phase == "running"
    await world.hands.delete("pods", "a", force=True)

    await world.lost("a", "PodDeleted")


@scenario()
async def a_body_that_nobody_labelled_or_named_is_unknown_and_never_lost(world: World) -> None:
    await world.pod("a", standing=False, labels={"app": "theirs"})
    ground = world.ledger.stand_on("w-a", "pod:11111111-2222-3333-4444-555555555555")
    await world.observe()

    assert ("running", True) == (ground.phase, ground.unknown)


@scenario()
async def a_body_that_was_attached_under_another_label_is_the_one_that_counts(world: World) -> None:
    """Two pods carry the workspace's label; the service knows which of them it is."""
    await world.pod("a0", standing=False, labels={MANAGED_BY: OURS, WORKSPACE_LABEL: "w-a"})
    second = await world.pod("a1", standing=False, labels={MANAGED_BY: OURS, WORKSPACE_LABEL: "w-a"})
    world.ledger.stand_on("w-a", f"pod:{second}", {"namespace": NAMESPACE, "pod": "a1"})
    await world.observe()
    await world.hands.delete("pods", "a0", force=True)
    await world.hands.delete("pods", "a1", force=True)

    await world.lost("a", "PodDeleted")


@scenario()
async def a_body_attached_after_another_was_seen_is_the_one_that_counts(world: World) -> None:
    await world.observe()
    await world.pod("a0", standing=False, labels={MANAGED_BY: OURS, WORKSPACE_LABEL: "w-a"})
    await world.until(lambda: world.count("told") >= 1, "the first pod is told")
    second = await world.pod("a1", standing=False, labels={MANAGED_BY: OURS, WORKSPACE_LABEL: "w-a"})
    await world.until(lambda: world.count("candidates") >= 1, "the second pod is a candidate")
    world.ledger.stand_on("w-a", f"pod:{second}", {"namespace": NAMESPACE, "pod": "a1"})
    synced = world.ledger.synced
    await world.status("a0", message="news of the wrong one")
    await world.until(lambda: world.ledger.synced > synced, "the service is asked again")
    await world.hands.delete("pods", "a1", force=True)

    await world.lost("a", "PodDeleted")


@scenario()
async def many_pods_come_in_pages_and_are_all_there(world: World) -> None:
    names = [f"p{number}" for number in range(10)]
    for name in names:
        await world.pod(name)
    observing = await world.observe()

    assert {f"w-{name}" for name in names} == {body.workspace_id for body in observing.view.bodies.values()}


@scenario()
async def an_observer_that_comes_back_restores_what_was_unknown(world: World) -> None:
    await world.pod("a")
    await world.observe()
    await world.kill()
    world.ground("a").unknown = True
    await world.observe()

    await world.known("a")


@scenario(relist_s=0.5)
async def everything_is_listed_again_from_time_to_time(world: World) -> None:
    await world.pod("a")
    await world.observe()

    await world.until(lambda: world.ledger.synced >= 3, "the scope is stated for the third time")


@scenario()
async def reports_that_are_not_answered_are_repeated_and_taken_once(world: World) -> None:
    await world.pod("a")
    await world.observe()
    world.ledger.unanswered = 3
    await world.status("a", phase="Failed", reason="Evicted")
    await world.lost("a", "Evicted")
    await world.until(lambda: world.ledger.unanswered == 0, "the report is repeated")

    assert world.count("unanswered") >= 3


@scenario()
async def a_lost_fence_ends_the_observer_at_once(world: World) -> None:
    await world.pod("a")
    await world.observe()
    world.ledger.refusal = FenceLost(409, {"code": "fence_lost", "presented": 1, "current": 2})
    await world.status("a", message="news")
    await world.until(lambda: world.ended is not None, "it ends")

    assert isinstance(world.ended, BaseExceptionGroup)
    assert world.ended.subgroup(FenceLost) is not None


@scenario()
async def a_refused_batch_is_dropped_and_the_next_is_told(world: World) -> None:
    await world.pod("a")
    await world.observe()
    world.ledger.refusal = Problem(422, {"code": "invalid_command"})
    await world.status("a", message="news")
    await world.until(lambda: world.count("batches_refused") == 1, "the batch is refused")
    world.ledger.refusal = None
    await world.status("a", phase="Failed", reason="Evicted")

    await world.lost("a", "Evicted")


@scenario()
async def a_service_that_was_started_anew_is_told_the_whole_scope_again(world: World) -> None:
    await world.pod("a")
    world.restarted_every_s = 0.05
    await world.observe()
    world.ground("a").unknown, world.ledger.life = True, "second"

    await world.known("a")
    assert 1 == world.count("service_restarts")
