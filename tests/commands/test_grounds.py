"""What a run stands on, asked and told: placed, attached to, lost, and what its run's policy makes of that."""

import asyncio

import pytest

from commands import ending, steering, workspaces
from commands.desk import NotAllowed
from domain.handing import Park
from domain.lease import FenceLost
from domain.placing import Attach
from domain.refusal import SettledOtherwise
from domain.workspace_facts import LastSeen
from domain.workspace_refusals import (
    IdentityChanged,
    IncarnationBackwards,
    WorkspaceOver,
    WorkspaceUnknown,
    WrongPhase,
)
from tests.commands.absent import GRACE_S, dropped
from tests.commands.ground import attached, ground, placed, saw, see, shown, standing
from tests.commands.world import ADMIN, World, leader, worker_key


async def test_an_external_workspace_begins_in_the_making_and_is_attached_to_by_being_seen(each_world: World) -> None:
    run_id, fence = await each_world.held()
    workspace_id = await placed(each_world, run_id, fence, spec={"size": 2})

    before = shown(each_world, workspace_id)
    after = await see(each_world, workspace_id, saw("present", identity="uid-1", incarnation=2))

    assert ("provisioning", None, {"size": 2}, True) == tuple(
        before[name] for name in ("phase", "identity", "spec", "to_assert")
    )
    assert ("running", "uid-1", 2, run_id) == tuple(
        after[name] for name in ("phase", "identity", "incarnation", "run_id")
    )
    assert shown(each_world, workspace_id)["position"] == each_world.journal.position


@pytest.mark.origin("C1", "C4", "C5", "C6", "R13")
async def test_a_body_that_is_gone_settles_its_run_as_lost_with_the_last_words_seen(each_world: World) -> None:
    run_id, _, workspace_id = await standing(each_world)
    await see(each_world, workspace_id, saw("present", message="disk is nearly full"))

    lost = await see(each_world, workspace_id, saw("gone", reason="Evicted"))
    run = await each_world.show(run_id)

    assert ("lost", "Evicted", "disk is nearly full") == (
        lost["phase"], lost["lost"]["reason"], lost["lost"]["message"],
    )  # fmt: skip
    assert ("lost", "workspace_lost", workspace_id, "Evicted") == (
        run["state"], run["reason"], run["error"]["workspace_id"], run["error"]["reason"],
    )  # fmt: skip
    assert ["lost"] == [each["phase"] for each in run["workspaces"]]


@pytest.mark.origin("C11")
async def test_two_who_report_one_end_at_once_make_one_loss(each_world: World) -> None:
    run_id, _, workspace_id = await standing(each_world, on_workspace_lost="retry_fresh")

    await asyncio.gather(*(see(each_world, workspace_id, saw("gone")) for _ in range(8)))

    assert 1 == each_world.names(run_id).count("WorkspaceLost")
    assert 1 == (await each_world.show(run_id))["failed_attempts"]


async def test_a_loss_that_races_a_close_leaves_one_outcome(each_world: World) -> None:
    for seed in range(4):
        run_id, fence, workspace_id = await standing(each_world)
        acts = [each_world.close(run_id, fence), see(each_world, workspace_id, saw("gone"))]
        done = await asyncio.gather(*(acts if seed % 2 else reversed(acts)), return_exceptions=True)
        names = each_world.names(run_id)

        assert 1 == names.count("WorkspaceLost")
        assert 1 == names.count("RunClosed") + names.count("RunSettled")
        assert not [each for each in done if isinstance(each, Exception) and not isinstance(each, FenceLost)]


@pytest.mark.origin("C3", "R12")
async def test_retry_fresh_queues_the_run_at_once_and_its_next_attempt_starts_without_ground(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, on_workspace_lost="retry_fresh")

    await see(world, workspace_id, saw("replaced", reason="DirectoryReplaced"))
    queued = await world.show(run_id)
    again = await world.claimed("w1")
    fresh = await placed(world, run_id, again["fence"])

    assert ("queued", 1) == (queued["state"], queued["failed_attempts"])
    assert fence + 1 == again["fence"]
    assert ["lost", "provisioning"] == [each["phase"] for each in (await world.show(run_id))["workspaces"]]
    assert fresh != workspace_id


@pytest.mark.origin("C2")
@pytest.mark.parametrize("keep_lease", [False, True])
async def test_a_body_that_goes_while_its_run_is_parked_is_lost_all_the_same(world: World, *, keep_lease: bool) -> None:
    run_id, fence, workspace_id = await standing(world, ttl=3600)
    parked = Park(kind="waiting_input", keep_lease=keep_lease)
    await ending.park(world.desk, ADMIN, run_id, fence, parked)

    await see(world, workspace_id, saw("gone", reason="NodeLost"))

    assert ("lost", "workspace_lost") == (world.state(run_id), (await world.show(run_id))["reason"])


@pytest.mark.origin("C15")
async def test_the_workspaces_of_a_run_are_lost_independently_of_each_other(world: World) -> None:
    run_id, fence, first = await standing(world, on_workspace_lost="park")
    second = await placed(world, run_id, fence)
    await attached(world, second, "body-2")

    await see(world, first, saw("gone", reason="PodDeleted"))
    one = [each["phase"] for each in (await world.show(run_id))["workspaces"]]
    await see(world, second, saw("gone", reason="Evicted"))

    assert ["lost", "running"] == one
    assert ["PodDeleted", "Evicted"] == [each["lost"]["reason"] for each in (await world.show(run_id))["workspaces"]]
    assert 1 == world.names(run_id).count("RunParked")


@pytest.mark.origin("A24", "K16")
async def test_a_close_leaves_the_ground_where_it_is_to_be_looked_into(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)

    await world.close(run_id, fence)

    assert ("running", False) == (ground(world, workspace_id).phase, shown(world, workspace_id)["to_assert"])


async def test_park_has_the_run_wait_for_somebody_who_takes_it_over(world: World) -> None:
    run_id, _, workspace_id = await standing(world, on_workspace_lost="park")

    await see(world, workspace_id, saw("ended"))

    assert "waiting_takeover" == world.state(run_id)
    assert "Terminated" == ground(world, workspace_id).reason


async def test_a_loss_that_carries_an_exit_waits_for_the_holders_close(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)

    lost = await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=0))
    told = await world.beats("w1", run_id, fence)
    closed = await world.close(run_id, fence)

    assert lost["lost"]["pending"]
    assert [("workspace_lost", {"exit_code": 0, "message": None, "reason": "ProcessExited",
                                "workspace_id": workspace_id})] == [
        (each["kind"], each["data"]) for each in told["instructions"]
    ]  # fmt: skip
    assert "succeeded" == closed["state"]


async def test_a_pending_loss_is_decided_by_the_policy_when_the_lease_ends_without_a_close(world: World) -> None:
    run_id, _, workspace_id = await standing(world, ttl=10)
    await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=137))

    await world.later(10)

    assert ("lost", "workspace_lost") == ((await world.show(run_id))["state"], (await world.show(run_id))["reason"])


async def test_a_pending_loss_that_a_quiet_stretch_decides_is_blamed_on_no_worker(world: World) -> None:
    run_id, _, workspace_id = await standing(world, ttl=1000, on_quiet="fail_attempt", quiet_after_s=300)
    await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=137))

    await world.later(300)

    assert "lost" == (await world.show(run_id))["state"]
    assert {} == world.desk.live.fleet.quarantined


async def test_a_pending_loss_is_decided_though_its_body_was_destroyed_meanwhile(world: World) -> None:
    run_id, _, workspace_id = await standing(world, ttl=10)
    await see(world, workspace_id, saw("ended", reason="ProcessExited", exit_code=1))
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id)
    await see(world, workspace_id, saw("gone"))
    assert ground(world, workspace_id).destroyed_at is not None

    await world.later(10)

    assert "lost" == (await world.show(run_id))["state"]


async def test_leader_gone_goes_before_a_loss_that_is_reported_at_the_same_instant(world: World) -> None:
    await dropped(world)
    run_id, _, workspace_id = await standing(world, leader_id="ada")
    await dropped(world)
    world.go(GRACE_S)

    await see(world, workspace_id, saw("gone"))
    run = await world.show(run_id)

    assert ("cancelled", "leader_gone") == (run["state"], run["reason"])
    assert "lost" == ground(world, workspace_id).phase


@pytest.mark.origin("R18", "C8")
async def test_a_body_that_ends_before_it_was_attached_to_is_a_fault_and_fails_the_attempt(world: World) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, provider="kubernetes")
    await workspaces.move(world.desk, ADMIN, workspace_id, workspaces.Step(phase="attaching", identity="uid-1"))

    failed = await see(world, workspace_id, saw("gone", reason="PodDeleted", message="drained"))
    run = await world.show(run_id)

    assert ("provision_failed", "PodDeleted") == (failed["phase"], failed["fault"]["reason"])
    assert ("queued", 1) == (run["state"], run["failed_attempts"])
    assert "WorkspaceLost" not in world.names(run_id)


async def test_a_seen_kubernetes_body_is_not_attached_to_before_its_inside_answers(world: World) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, provider="kubernetes")

    seen = await see(world, workspace_id, saw("present", identity="uid-1"))
    running = await attached(world, workspace_id, "uid-1")

    assert ("attaching", "uid-1", "running") == (seen["phase"], seen["identity"], running["phase"])


@pytest.mark.origin("C6", "C7")
async def test_another_body_is_refused_and_an_incarnation_never_goes_backwards(each_world: World) -> None:
    run_id, _, workspace_id = await standing(each_world)
    await see(each_world, workspace_id, saw("present", incarnation=3))
    facts = each_world.names(run_id)

    with pytest.raises(IdentityChanged) as other:
        await see(each_world, workspace_id, saw("present", identity="body-2"))
    with pytest.raises(IncarnationBackwards) as behind:
        await see(each_world, workspace_id, saw("harness_restarted", incarnation=2))

    assert ("body-2", "body-1") == (other.value.presented, other.value.attached)
    assert (2, 3) == (behind.value.presented, behind.value.current)
    assert facts == each_world.names(run_id)


@pytest.mark.origin("C35")
async def test_what_is_over_takes_no_second_body_and_what_is_unknown_is_refused(world: World) -> None:
    _, _, workspace_id = await standing(world)
    await see(world, workspace_id, saw("gone"))

    with pytest.raises(WorkspaceOver) as over:
        await see(world, workspace_id, saw("present"))
    with pytest.raises(WorkspaceOver):
        await attached(world, workspace_id, "body-2")
    with pytest.raises(WorkspaceUnknown):
        await see(world, "nothing", saw("gone"))

    assert ("lost", "Deleted") == (over.value.phase, over.value.reason)
    assert "lost" == (await see(world, workspace_id, saw("gone")))["phase"]


async def test_a_destroyed_workspace_is_over_and_not_unknown(world: World) -> None:
    _, _, workspace_id = await standing(world)
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id)
    await see(world, workspace_id, saw("gone"))

    with pytest.raises(WorkspaceOver) as over:
        await attached(world, workspace_id)

    assert "destroyed" == over.value.phase


async def test_only_those_whose_business_it_is_may_report_assert_and_destroy(world: World) -> None:
    run_id, fence, workspace_id = await standing(world, leader_id="ada")
    mine, other = worker_key("w1"), worker_key("w2")

    await see(world, workspace_id, saw("present"), caller=mine)
    for stranger in (other, leader("ada")):
        with pytest.raises(NotAllowed):
            await see(world, workspace_id, saw("gone"), caller=stranger)
        with pytest.raises(NotAllowed):
            await workspaces.assert_needed(world.desk, stranger, workspace_id)
    for stranger in (other, leader("bob")):
        with pytest.raises(NotAllowed):
            await workspaces.release_workspace(world.desk, stranger, workspace_id)
    with pytest.raises(FenceLost):
        await placed(world, run_id, fence + 1)
    await workspaces.release_workspace(world.desk, leader("ada"), workspace_id)

    assert "teardown" == ground(world, workspace_id).phase


@pytest.mark.origin("C30", "C14", "D49", "C35")
async def test_a_body_waits_for_capacity_without_a_deadline(world: World) -> None:
    run_id, fence = await world.held(ttl=3600, total_after_s=0, quiet_after_s=0)
    workspace_id = await placed(world, run_id, fence, provider="kubernetes")
    waits = workspaces.Step(phase="waiting", on="node", message="0/3 nodes are available")
    await workspaces.move(world.desk, ADMIN, workspace_id, waits)

    await world.later(3000)
    waiting = shown(world, workspace_id)

    assert ("placing", "node", "0/3 nodes are available") == (
        waiting["phase"], waiting["waiting"]["on"], waiting["waiting"]["message"],
    )  # fmt: skip
    assert "running" == world.state(run_id)


async def test_a_workspace_that_is_let_go_takes_no_body_any_more(world: World) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence)
    await workspaces.release_workspace(world.desk, ADMIN, workspace_id)

    with pytest.raises(WrongPhase) as refused:
        await attached(world, workspace_id)

    assert "teardown" == refused.value.phase


@pytest.mark.origin("C19", "C33", "K16")
async def test_a_cancel_has_what_its_run_stood_on_destroyed_unless_it_says_keep(world: World) -> None:
    freed, _, torn = await standing(world)
    kept_run, _, kept = await standing(world)
    unplaced_run, fence = await world.held()
    unplaced = await placed(world, unplaced_run, fence, provider="directory")
    for run_id in (freed, kept_run, unplaced_run):
        await steering.cancel(world.desk, ADMIN, run_id, keep_workspaces=run_id == kept_run)

    await world.later(10)

    assert "teardown" == ground(world, torn).phase
    assert ("running", True) == (ground(world, kept).phase, ground(world, kept).kept)
    assert ("destroyed", "destroyed") == (
        ground(world, unplaced).phase, (await world.show(unplaced_run))["workspaces"][0]["phase"],
    )  # fmt: skip


async def test_an_assertion_is_refused_once_the_run_has_ended_or_the_workspace_is_over(world: World) -> None:
    run_id, fence, workspace_id = await standing(world)
    other_run, _, other = await standing(world, on_workspace_lost="retry_fresh")
    await see(world, other, saw("gone"))

    answer = await workspaces.assert_needed(world.desk, ADMIN, workspace_id)
    await world.close(run_id, fence)

    assert {"workspace_id": workspace_id, "idle_reap_s": 1800.0, "next_within_s": 300.0} == answer
    with pytest.raises(SettledOtherwise):
        await workspaces.assert_needed(world.desk, ADMIN, workspace_id)
    with pytest.raises(WorkspaceOver):
        await workspaces.assert_needed(world.desk, ADMIN, other)
    assert "queued" == world.state(other_run)


async def test_attaching_twice_is_once(world: World) -> None:
    run_id, _, workspace_id = await standing(world)

    done = await workspaces.attach(world.desk, ADMIN, workspace_id, Attach(identity="body-1"))

    assert done.position is None
    assert 1 == world.names(run_id).count("WorkspaceAttached")


@pytest.mark.origin("C6")
async def test_a_loss_tells_nothing_that_was_said_of_another_body(each_world: World) -> None:
    run_id, _, workspace_id = await standing(each_world)
    foreign = {"identity": "body-2", "reason": "Evicted", "message": "pressure elsewhere"}
    await see(each_world, workspace_id, saw("gone", **foreign))
    with pytest.raises(IdentityChanged):
        await see(each_world, workspace_id, saw("present", **foreign))
    lost = await see(each_world, workspace_id, saw("gone", identity="body-1"))

    assert ("lost", "Deleted", None) == (lost["phase"], lost["lost"]["reason"], lost["lost"]["message"])
    assert "elsewhere" not in str(await each_world.show(run_id))


async def test_a_loss_tells_what_was_accepted_of_its_body_and_nothing_from_before_it_was_attached(
    world: World,
) -> None:
    run_id, fence = await world.held()
    workspace_id = await placed(world, run_id, fence, provider="kubernetes")
    await workspaces.move(
        world.desk, ADMIN, workspace_id, workspaces.Step(phase="waiting", on="node", message="no room")
    )
    await attached(world, workspace_id)
    silent = world.desk.evidence.grounds.words(workspace_id)
    await see(world, workspace_id, saw("present", reason="Evicted", message="node pressure"))
    lost = await see(world, workspace_id, saw("gone"))

    assert LastSeen() == silent
    assert ("Evicted", "node pressure") == (lost["lost"]["reason"], lost["lost"]["message"])
