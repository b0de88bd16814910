"""The end of the ground, and what the run's policy makes of it: evidence first, told once, decided in one append."""

from typing import Any

import pytest

from domain import settling
from domain.lease import (
    FenceBumped,
    FenceLost,
    LeaseExpired,
    LeaseReleased,
    LeaseRevoked,
)
from domain.run import Queued
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    PartialSalvaged,
    RunClosed,
    RunParked,
    RunSettled,
    WorkerTimeout,
)
from domain.settling import Cancel
from domain.values import Fact, of_json
from domain.workspace_facts import (
    ContinuityUnknown,
    Provider,
    ProvisionFaulted,
    WorkspaceDestroyed,
    WorkspaceLost,
    WorkspaceReleased,
)
from tests.domain.commands import (
    cancel,
    cancel_due,
    claim,
    close,
    expire,
    leader_gone,
    report_stop,
    reserve,
    verdict,
    write,
)
from tests.domain.facts import cancel_asked, closed, granted, parked, pause_asked, submitted
from tests.domain.ground_facts import (
    fault,
    faulted,
    ground,
    lose,
    observe,
    placed,
    provisioning,
    reap,
    release,
    time_out,
    unknown,
)
from tests.domain.kit import GROUND, Given, given, ground_citation, noon, on, run_citation, told


def standing(policy: str = "settle_lost", **more: Any) -> Given:
    """A run that ada acts for, on one directory, under this policy."""
    return given(submitted(on_workspace_lost=policy, **more), granted(), ground())


@pytest.mark.origin("C5", "C6", "C11", "K9")
def test_a_loss_settles_the_run_with_its_reason_its_last_partial_and_its_citations() -> None:
    outcome = standing().partial("half").when(lose("DirectoryDeleted"), at=20)

    after = outcome.then(
        WorkspaceLost, AttemptEnded, PartialSalvaged, RunSettled, LeaseRevoked
    ).now_it_is("lost", fence=2)  # fmt: skip
    settled = outcome.fact(RunSettled)
    assert ("workspace_lost", (ground_citation(3), run_citation(3))) == (settled.reason, settled.cites)
    error = {
        "code": "workspace_lost", "workspace_id": GROUND, "reason": "DirectoryDeleted", "message": None,
        "exit_code": None,
    }  # fmt: skip
    assert error == of_json(after.run.error)
    assert b'"half"' == bytes(after.run.result)


@pytest.mark.origin("C11")
@pytest.mark.parametrize("again", ["gone", "ended", "replaced"])
def test_a_loss_is_told_once_whatever_is_seen_afterwards(again: str) -> None:
    after = standing().when(lose("PodDeleted")).after

    after.when(observe(again)).then_nothing()  # type: ignore[arg-type]


@pytest.mark.origin("A22")
def test_the_worker_of_a_lost_ground_may_report_once_how_it_stopped_and_write_nothing() -> None:
    after = standing("retry_fresh").when(lose()).after

    assert "workspace_lost" == after.when(write()).then_refused(FenceLost).reason
    after.when(report_stop()).after.when(report_stop()).then_nothing()


def test_retry_fresh_counts_the_attempt_and_queues_the_run_at_once() -> None:
    outcome = standing("retry_fresh").when(lose(), at=20)

    after = outcome.then(WorkspaceLost, AttemptEnded, LeaseRevoked).now_it_is("queued", fence=1)
    assert (1, Queued(due_at=noon(20), reason="workspace_lost")) == (after.run.failed_attempts, after.run.phase)
    assert LeaseRevoked(fence=1, worker="ada", cause="workspace_lost") == outcome.fact(LeaseRevoked)


def test_retry_fresh_spends_the_last_attempt_like_any_other_failure() -> None:
    outcome = standing("retry_fresh", max_attempts=1).when(lose())

    outcome.then(WorkspaceLost, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("aborted", fence=2)
    assert "attempts_exhausted" == outcome.fact(RunSettled).reason


def test_the_next_attempt_starts_without_the_lost_ground_and_notes_the_marks_of_what_is_left() -> None:
    two = given(submitted(on_workspace_lost="retry_fresh"), granted(), ground(), on("w2", ground(workspace_id="w2")))
    outcome = two.when(lose()).after.when(claim())

    outcome.then(FenceBumped, AttemptStarted)
    assert {"w2": 1} == outcome.fact(AttemptStarted).incarnations


@pytest.mark.origin("C15")
def test_each_workspace_is_lost_on_its_own() -> None:
    two = given(submitted(on_workspace_lost="retry_fresh"), granted(), ground(), on("w2", ground(workspace_id="w2")))
    after = two.when(lose(workspace_id="w2")).after

    assert ("running", "lost") == (after.ground().phase, after.ground("w2").phase)
    after.when(lose()).then(WorkspaceLost).now_it_is("queued")


def test_a_reservation_outlives_a_loss_that_is_retried_fresh() -> None:
    waiting = given(submitted(on_workspace_lost="retry_fresh"), ground()).when(reserve()).after

    waiting.when(lose()).then(WorkspaceLost).now_it_is("reserved")


def test_a_paused_run_stays_paused_and_a_question_is_kept_when_the_loss_parks_the_run() -> None:
    parks = submitted(on_workspace_lost="park")
    asks = given(parks, granted(), parked("waiting_input"), ground())

    after = asks.when(lose()).then(WorkspaceLost, RunParked).now_it_is("waiting_takeover")
    assert "which one?" == of_json(after.run.phase.question)  # type: ignore[union-attr]
    given(parks, granted(), pause_asked(), parked("paused"), ground()).when(lose()).then(WorkspaceLost)


def test_a_pending_cancel_settles_a_run_that_lost_its_ground_as_cancelled() -> None:
    cancelling = given(submitted(), granted(), ground(), cancel_asked())

    cancelling.when(lose(), at=7).then(
        WorkspaceLost, AttemptEnded, RunSettled, LeaseRevoked, WorkspaceReleased
    ).now_it_is("cancelled")  # fmt: skip


def test_a_loss_is_only_a_fact_for_a_run_that_waits_for_its_verdict() -> None:
    judged = given(submitted(verdict_by="leader"), granted(), ground(), closed("succeeded", "waiting_verdict"))

    judged.when(lose()).then(WorkspaceLost).now_it_is("waiting_verdict").when(verdict()).after.now_it_is("succeeded")


@pytest.mark.origin("C8", "R18")
def test_a_body_that_never_was_fails_its_attempt_after_a_backoff_and_is_no_loss() -> None:
    outcome = given(submitted(), granted(), placed()).when(fault("ImagePullBackOff", "no such image"), at=20)

    after = outcome.then(ProvisionFaulted, AttemptEnded, LeaseRevoked).now_it_is("queued", fence=1)
    assert ("provision_failed", 1, noon(30)) == (
        outcome.fact(AttemptEnded).outcome, after.run.failed_attempts, outcome.fact(AttemptEnded).due_at,
    )  # fmt: skip
    assert (ground_citation(2),) == outcome.fact(AttemptEnded).cites
    assert (None, "provision_failed") == (after.ground().lost, after.ground().phase)


def test_a_fault_fails_no_attempt_that_did_not_place_the_body() -> None:
    given(submitted(), granted(), placed(fence=0)).when(fault()).then(ProvisionFaulted).now_it_is("running")
    given(submitted(), granted(), placed(), parked(kept=True)).when(fault()).then(ProvisionFaulted)


def test_a_fault_that_spends_the_last_attempt_leaves_the_body_to_be_looked_at() -> None:
    after = given(submitted(max_attempts=1), granted(), placed()).when(fault()).after

    after.now_it_is("aborted")
    assert ("provision_failed", False) == (after.ground().phase, after.ground().teardown)


@pytest.mark.origin("C30")
def test_a_spent_budget_is_told_to_the_run_first_and_cited_by_the_fault() -> None:
    outcome = given(submitted(), granted(), placed("kubernetes"), provisioning()).when(time_out(), at=123)

    outcome.then(WorkerTimeout, ProvisionFaulted, AttemptEnded, LeaseRevoked).now_it_is("queued")
    told = outcome.fact(WorkerTimeout)
    assert ("provision", 120, GROUND) == (told.kind, told.marks["budget_s"], told.marks["workspace_id"])
    assert (run_citation(3),) == outcome.fact(ProvisionFaulted).cites


@pytest.mark.origin("C30")
def test_waiting_for_capacity_has_no_budget_and_the_clock_stands_still_while_nobody_looks() -> None:
    given(submitted(), granted(), placed("kubernetes")).when(time_out(), at=9_999).then_nothing()
    unseen = given(submitted(), granted(), placed("kubernetes"), provisioning(), unknown())
    unseen.when(time_out(), at=9_999).then_nothing()


def test_a_budget_that_runs_out_after_the_run_has_ended_changes_nothing_of_the_run() -> None:
    over = given(submitted(), granted(), placed("kubernetes"), provisioning(), closed())

    over.when(time_out(), at=123).then(ProvisionFaulted).now_it_is("succeeded")


@pytest.mark.origin("C19", "K16")
@pytest.mark.parametrize("ends", ["cancel", "leader gone", "verdict", "last attempt"])
def test_what_was_never_placed_is_destroyed_with_its_run_whatever_ends_it(ends: str) -> None:
    wish = submitted(max_attempts=1, verdict_by="leader" if ends == "verdict" else "worker")
    judged = closed("succeeded", "waiting_verdict") if ends == "verdict" else []
    ways = {"cancel": cancel_due(), "leader gone": leader_gone(), "verdict": verdict(), "last attempt": expire()}
    asked_for: list[Fact] = [cancel_asked()] if ends == "cancel" else []

    after = given(wish, granted(), placed("kubernetes"), asked_for, judged).when(ways[ends], at=60).after

    assert ("destroyed", None) == (after.ground().phase, after.ground().lost)


@pytest.mark.origin("C19", "K16")
def test_a_cancel_destroys_the_grounds_of_its_run_and_a_kept_one_stays() -> None:
    queued = given(submitted(), ground(), on("w2", placed("kubernetes", workspace_id="w2")))
    outcome = queued.when(cancel())

    after = outcome.after
    assert ("teardown", "destroyed") == (after.ground().phase, after.ground("w2").phase)
    kept = given(submitted(), granted(), ground(), cancel_asked())
    assert kept.when(cancel_due(), at=15).after.ground().awaits_teardown


@pytest.mark.origin("C19", "K16")
def test_a_cancel_destroys_also_the_lost_and_faulted_bodies_that_were_left_to_be_looked_at() -> None:
    earlier = on("w2", placed("kubernetes", workspace_id="w2", fence=0), faulted())
    after = standing("retry_fresh").when(lose("Evicted")).after
    queued = Given(told(after.standing, earlier))

    cancelled = queued.when(cancel()).after.now_it_is("cancelled")
    assert [("lost", True), ("provision_failed", True)] == [
        (each.phase, each.awaits_teardown) for each in cancelled.standing.workspaces
    ]


@pytest.mark.origin("K16")
def test_a_cancel_that_keeps_pins_the_ground_until_somebody_releases_it() -> None:
    queued = given(submitted(), ground(), on("w2", placed("kubernetes", workspace_id="w2")))
    command = Cancel(by="lea", keep_workspaces=True)
    after = queued.when(lambda run, remains, now: settling.cancel(run, command, remains, now)).after

    assert ("running", True) == (after.ground().phase, after.ground().kept)
    assert "destroyed" == after.ground("w2").phase
    after.when(reap()).then_nothing()
    assert after.when(release()).after.ground().awaits_teardown


@pytest.mark.origin("C19", "K16")
def test_any_other_end_leaves_the_ground_to_be_looked_at_until_it_is_reaped() -> None:
    after = given(submitted(), granted(), ground()).when(close()).then(RunClosed, LeaseReleased)

    assert "running" == after.ground().phase
    assert "teardown" == after.when(reap(), at=1820).after.ground().phase


@pytest.mark.origin("C19")
def test_a_close_destroys_what_was_never_placed() -> None:
    held = given(submitted(), granted(), placed("kubernetes"))

    held.when(close()).then(RunClosed, LeaseReleased, WorkspaceReleased, WorkspaceDestroyed)


def test_the_ground_that_only_its_holder_watched_is_unknown_when_the_holder_fell_silent() -> None:
    watched = on("w2", ground(workspace_id="w2", scope="cluster"))
    outcome = given(submitted(), granted(), ground(), watched).renewed(at=20).when(expire(), at=80)

    after = outcome.then(LeaseExpired, ContinuityUnknown, WorkerTimeout, AttemptEnded)
    assert (noon(20), "holder_gone") == (after.ground().unknown_since, after.ground().unknown_cause)
    assert after.ground("w2").unknown_since is None


@pytest.mark.parametrize(
    ("provider", "unseen"), [("directory", False), ("process", False), ("external", True), ("kubernetes", True)]
)
def test_a_silent_holder_leaves_a_ground_in_doubt_that_it_could_see_and_none_on_another_machine(
    provider: Provider, unseen: bool
) -> None:
    of_ada = given(submitted(), granted("ada"), ground(provider), parked())
    held_by_bob = of_ada.when(claim("bob"), at=20).after.now_it_is("running", fence=2)

    assert unseen == (held_by_bob.when(expire(), at=80).after.ground().unknown_since is not None)


def test_a_decision_about_the_ground_is_guarded_by_the_run_its_lease_and_every_ground() -> None:
    versions = standing().when(lose()).versions

    assert {"run-r1": 2, "lease-r1": 1, "effects-r1": 0, "workspace-w1": 2} == versions
