"""What really happens to bodies, told from the first report to the last: each way to lose one, and each way not to.

Delete, drain, eviction, node loss, crash loop, a restart of the service, a body reaped while the service was down: in
each story the run hears the reason within the decision that saw it, and hears it once. When only the view is gone, it
says so and waits.
"""

from typing import Any

import pytest

from domain.lease import LeaseReleased, LeaseRevoked
from domain.run_facts import AttemptEnded, AttemptStarted, RunClosed, RunSettled
from domain.turn_facts import TurnAdmitted, TurnCut, TurnFailed
from domain.values import of_json
from domain.workspace_facts import (
    ContinuityRestored,
    ContinuityUnknown,
    HarnessRestarted,
    LastSeen,
    WorkspaceAttached,
    WorkspaceDestroyed,
    WorkspaceLost,
    WorkspacePlaced,
    WorkspaceProvisioning,
    WorkspaceReaped,
)
from tests.domain.commands import cancel, cancel_due, claim, close, expire, park
from tests.domain.facts import granted, submitted
from tests.domain.ground_facts import (
    admit,
    attach,
    give_up,
    lose,
    move,
    notice,
    observe,
    place,
    provision,
    reap,
    seen,
    unsee,
    wait_for,
)
from tests.domain.kit import Given, given

POD = "9f0c-pod-uid"


def on_a_pod(policy: str = "settle_lost", **more: Any) -> Given:
    """A run whose holder asked for a pod, waited for a node, and attached to what came."""
    held = given(submitted(on_workspace_lost=policy, **more), granted())
    placed = held.when(place(workspace_id="w1", provider="kubernetes", scope="cluster-a")).then(WorkspacePlaced)
    there = placed.when(wait_for(), at=1).after.when(provision(), at=2).after.when(provision(POD), at=3)
    return there.then(WorkspaceProvisioning).when(attach(POD, 0), at=4).then(WorkspaceAttached)


@pytest.mark.origin("C1", "C2", "C8", "C36")
def test_deleted_a_run_that_waits_for_an_answer_for_hours_is_told_when_its_pod_goes_not_when_it_next_runs() -> None:
    waiting = on_a_pod().when(park("waiting_input"), at=10).after

    outcome = waiting.when(observe(seen("gone", identity=POD, reason="PodDeleted")), at=20_000)
    outcome.then(WorkspaceLost, RunSettled, LeaseRevoked).now_it_is("lost")
    assert "PodDeleted" == of_json(outcome.after.run.error)["reason"]


@pytest.mark.origin("C4", "C6", "C10", "C36")
def test_evicted_the_pod_is_still_there_under_its_identity_and_the_run_is_told_why_it_ended() -> None:
    report = seen("ended", identity=POD, reason="Evicted", message="The node was low on resource: memory.")
    outcome = on_a_pod().when(observe(report), at=30)

    outcome.then(WorkspaceLost, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("lost")
    assert "The node was low on resource: memory." == of_json(outcome.after.run.error)["message"]


@pytest.mark.origin("C10", "C36")
def test_drained_a_node_gives_its_runs_to_fresh_pods_elsewhere() -> None:
    draining = LastSeen(reason="Evicted", message="draining node a")
    lost = on_a_pod("retry_fresh").when(observe(seen("gone", identity=POD), last=draining), at=30)

    assert ("Evicted", "draining node a") == (lost.fact(WorkspaceLost).reason, lost.fact(WorkspaceLost).message)
    again = lost.after.now_it_is("queued").when(claim("bob"), at=31).after
    fresh = again.when(place(2, "w2", provider="kubernetes"), at=32).after.when(attach("pod-2", 0, "w2"), at=40).after
    assert ("lost", "running") == (fresh.ground().phase, fresh.ground("w2").phase)
    fresh.when(close(fence=2), at=50).after.now_it_is("succeeded")


@pytest.mark.origin("C9", "C36", "R14")
def test_unreachable_a_node_is_unknown_first_and_lost_only_when_its_pod_is_deleted_for_it() -> None:
    unseen = on_a_pod().when(observe("watch_dropped"), at=30).then(ContinuityUnknown).now_it_is("running")

    later = unseen.when(observe("watch_dropped"), at=300).then_nothing()
    outcome = later.when(observe(seen("gone", identity=POD, reason="NodeLost")), at=400)
    assert "NodeLost" == outcome.fact(WorkspaceLost).reason


@pytest.mark.origin("C9", "C36", "R14")
def test_a_watch_that_drops_and_comes_back_costs_the_run_nothing() -> None:
    unseen = on_a_pod().when(observe("watch_dropped"), at=30).after

    back = unseen.when(observe(seen("present", identity=POD), "synced"), at=90).then(ContinuityRestored)
    back.when(close(), at=91).then(RunClosed, LeaseReleased).now_it_is("succeeded")


@pytest.mark.origin("C3", "C7", "C36", "R12")
def test_recreated_under_its_name_the_pod_is_another_and_the_run_does_not_stand_on_it() -> None:
    report = observe(seen("replaced", identity="another-uid"))

    outcome = on_a_pod().when(report, at=30)
    assert (POD, "Deleted") == (outcome.fact(WorkspaceLost).identity, outcome.fact(WorkspaceLost).reason)
    outcome.after.when(report, at=31).then_nothing()


@pytest.mark.origin("C4", "C20", "C21", "C22", "C36", "H14")
def test_crashing_a_harness_ends_its_turns_by_name_each_time_and_the_run_goes_on() -> None:
    first = on_a_pod().when(admit(), at=10).then(TurnAdmitted).when(move(), at=11).after

    crash = observe(seen("harness_restarted", incarnation=1, reason="OOMKilled", exit_code=137))
    second = first.when(crash, at=12).then(HarnessRestarted, TurnFailed).now_it_is("running")
    busy = second.when(admit(), at=13).after.when(move("busy", turn=2), at=14).after
    cut = busy.when(observe(seen("harness_restarted", incarnation=2)), at=15).then(HarnessRestarted, TurnCut)
    told = cut.when(admit(), at=16).after.when(notice(turn=3), at=17).after
    looping = told.when(give_up(3, LastSeen(reason="CrashLoopBackOff")), at=106)
    assert "CrashLoopBackOff" in str(looping.fact(TurnFailed).message)
    looping.after.now_it_is("running")


@pytest.mark.origin("C13", "C36")
def test_the_service_restarted_the_same_pod_is_unknown_since_the_boot_and_then_still_the_same() -> None:
    booted = on_a_pod().when(unsee("boot"), at=100).then(ContinuityUnknown)

    booted.when(attach(POD, 0), at=101).then_nothing()
    booted.when(observe(seen("present", identity=POD, incarnation=0), "synced"), at=102).then(ContinuityRestored)


@pytest.mark.origin("C36", "K5")
def test_reaped_while_the_service_was_down_the_pod_is_missing_in_the_first_list_and_nothing_is_made_anew() -> None:
    booted = on_a_pod().when(unsee("boot"), at=4_000).after

    outcome = booted.when(observe(seen("gone", reason="Deleted")), at=4_001)
    outcome.then(WorkspaceLost, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("lost")
    assert 1 == len(outcome.after.standing.workspaces)


@pytest.mark.origin("C19", "C36", "K16")
def test_a_cancelled_runs_pod_is_torn_down_and_its_end_is_then_no_loss() -> None:
    cancelled = on_a_pod().when(cancel(), at=20).after.when(cancel_due(), at=30).after.now_it_is("cancelled")

    gone = cancelled.when(observe(seen("gone", identity=POD)), at=35).then(WorkspaceDestroyed)
    assert ("destroyed", None) == (gone.ground().phase, gone.ground().lost)


@pytest.mark.origin("C17", "C19", "K16")
def test_the_pod_of_a_failed_run_stays_to_be_looked_at_until_nobody_asserted_it_for_the_idle_time() -> None:
    failed = on_a_pod(max_attempts=1).when(close("failed"), at=20).after.now_it_is("failed")

    assert "running" == failed.ground().phase
    failed.when(reap(), at=1_820).then(WorkspaceReaped).when(observe("gone"), at=1_830).then(WorkspaceDestroyed)


@pytest.mark.origin("K3", "K9", "C9")
def test_the_worker_dies_and_the_pod_does_not_the_next_worker_finds_it_as_it_was() -> None:
    handed_on = on_a_pod().when(expire(), at=60).after.now_it_is("queued")

    claimed = handed_on.when(claim("bob"), at=61)
    assert {"w1": 0} == claimed.fact(AttemptStarted).incarnations
    second = claimed.after
    second.when(attach(POD, 0), at=62).then_nothing()
    second.when(lose("PodFailed"), at=63).then(WorkspaceLost).when(close(fence=2), at=64).after.now_it_is("succeeded")
