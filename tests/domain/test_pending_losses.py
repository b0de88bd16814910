"""A loss that carries an exit: the holder is asked first, its close decides, and else the end of its lease does."""

from typing import Any

import pytest

from domain.lease import (
    FenceLost,
    LeaseExpired,
    LeaseHeld,
    LeaseReleased,
    LeaseRevoked,
)
from domain.run_facts import (
    AttemptEnded,
    RunClosed,
    RunParked,
    RunSettled,
    WorkerTimeout,
)
from domain.values import of_json
from domain.workspace_facts import (
    ProvisionFaulted,
    WorkspaceLost,
)
from tests.domain.commands import (
    answer,
    claim,
    close,
    expire,
    hand_back,
    leader_gone,
    park,
    resume,
    tell,
)
from tests.domain.facts import granted, parked, sliced, submitted
from tests.domain.ground_facts import (
    fault,
    ground,
    lose,
    lost,
    observe,
    placed,
    seen,
)
from tests.domain.kit import Given, given, ground_citation, noon, on


def standing(policy: str = "settle_lost", **more: Any) -> Given:
    """A run that ada acts for, on one directory, under this policy."""
    return given(submitted(on_workspace_lost=policy, **more), granted(), ground())


def asked(policy: str = "settle_lost", **more: Any) -> Given:
    """The same, its process having exited: the holder was told, and nothing is decided."""
    return given(submitted(on_workspace_lost=policy, **more), granted(), ground(), lost("ProcessExited", pending=True))


@pytest.mark.origin("C10")
def test_a_loss_with_an_exit_asks_the_holder_first_and_its_close_decides() -> None:
    told = standing().when(observe(seen("ended", reason="ProcessExited", exit_code=0)), at=20)
    after = told.then(WorkspaceLost).now_it_is("running")

    loss = told.fact(WorkspaceLost)
    assert (True, 1, 0) == (loss.pending, loss.fence, loss.exit.code if loss.exit else None)
    after.when(close(), at=25).then(RunClosed, LeaseReleased).now_it_is("succeeded")
    after.when(close("failed"), at=25).then(RunClosed, LeaseReleased).now_it_is("queued")


@pytest.mark.parametrize("reason", ["ProcessExited", "PodSucceeded", "PodFailed"])
def test_a_loss_with_an_exit_is_decided_at_once_when_nobody_is_there_to_ask(reason: str) -> None:
    kept = given(submitted(), granted(), ground()).when(lose(reason), at=60)  # type: ignore[arg-type]

    kept.then(WorkspaceLost, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("lost")
    assert not kept.fact(WorkspaceLost).pending


def test_a_second_loss_without_an_exit_waits_for_nobody() -> None:
    two = given(submitted(), granted(), ground(), on("w2", ground(workspace_id="w2")), lost("PodFailed", pending=True))

    two.when(lose(workspace_id="w2")).then(WorkspaceLost, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("lost")


@pytest.mark.origin("K3", "C9")
def test_the_end_of_the_lease_decides_a_pending_loss_and_cites_it() -> None:
    outcome = asked().when(expire(), at=60)

    outcome.then(LeaseExpired, WorkerTimeout, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("lost")
    assert ground_citation(3) in outcome.fact(RunSettled).cites
    assert "workspace_lost" == outcome.fact(AttemptEnded).outcome


def test_an_expiry_with_a_pending_loss_stays_an_expiry_under_retry_fresh_so_its_holder_may_close_late() -> None:
    outcome = asked("retry_fresh").when(expire(), at=60)

    after = outcome.then(LeaseExpired, WorkerTimeout, AttemptEnded).now_it_is("queued")
    ended = outcome.fact(AttemptEnded)
    assert ("expired", 1, noon(60)) == (ended.outcome, ended.failed_attempts, ended.due_at)
    assert ground_citation(3) in ended.cites
    after.when(close(), at=70).then(RunClosed, LeaseReleased).now_it_is("succeeded")


def test_a_run_that_its_loss_parked_at_an_expiry_leaves_no_right_to_close_late() -> None:
    outcome = asked("park").when(expire(), at=60)
    resumed = (
        outcome.then(LeaseExpired, WorkerTimeout, AttemptEnded, LeaseRevoked, RunParked)
        .now_it_is("waiting_takeover")
        .when(resume(), at=70)
        .after
    )

    resumed.when(close(), at=80).then_refused(FenceLost)


@pytest.mark.parametrize(
    ("policy", "state"), [("settle_lost", "lost"), ("retry_fresh", "queued"), ("park", "waiting_takeover")]
)
def test_a_hand_back_decides_a_pending_loss_by_policy(policy: str, state: str) -> None:
    after = asked(policy).when(hand_back(), at=20).after

    assert state == after.standing.state
    assert (policy == "retry_fresh") == (after.run.failed_attempts == 1)


@pytest.mark.parametrize(
    ("policy", "state"), [("settle_lost", "lost"), ("retry_fresh", "waiting_input"), ("park", "waiting_takeover")]
)
def test_parking_without_the_lease_decides_a_pending_loss_and_loses_no_question(policy: str, state: str) -> None:
    after = asked(policy).when(park(), at=20).after

    assert (state, 0) == (after.standing.state, after.run.failed_attempts)
    if state != "lost":
        assert "which one?" == of_json(after.run.phase.question)  # type: ignore[union-attr]


def test_parking_with_the_lease_kept_leaves_a_loss_pending() -> None:
    kept = asked().when(park(keep=True), at=20).then(RunParked).now_it_is("waiting_input")

    kept.when(expire(), at=60).then(LeaseExpired, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("lost")


@pytest.mark.parametrize(("policy", "state"), [("settle_lost", "lost"), ("park", "waiting_takeover")])
def test_the_unanswered_end_of_a_slice_decides_a_pending_loss(policy: str, state: str) -> None:
    facts = (granted(slice_ends=30), sliced(), ground(), lost("ProcessExited", pending=True))
    held = given(submitted(max_hold_s=30, on_workspace_lost=policy), *facts)

    assert state == held.when(expire(), at=60).after.standing.state


def test_a_slice_that_ends_unanswered_is_a_continuation_under_retry_fresh_and_cites_the_loss() -> None:
    facts = (granted(slice_ends=30), sliced(), ground(), lost("ProcessExited", pending=True))
    outcome = given(submitted(max_hold_s=30, on_workspace_lost="retry_fresh"), *facts).when(expire(), at=60)

    outcome.then(LeaseExpired, AttemptEnded).now_it_is("queued")
    assert (0, "slice_ended") == (outcome.fact(AttemptEnded).failed_attempts, outcome.fact(AttemptEnded).outcome)
    assert ground_citation(3) in outcome.fact(AttemptEnded).cites


def test_a_stall_decides_a_pending_loss() -> None:
    quiet = asked("settle_lost", on_quiet="fail_attempt").when(tell(), at=30)

    quiet.then(WorkerTimeout, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("lost")
    retried = asked("retry_fresh", on_quiet="fail_attempt").when(tell(), at=30)
    assert ("workspace_lost", noon(30)) == (
        retried.fact(AttemptEnded).outcome, retried.fact(AttemptEnded).due_at,
    )  # fmt: skip


@pytest.mark.origin("R8", "K3")
def test_a_detachment_decides_no_pending_loss_before_the_full_ttl_has_passed() -> None:
    away = asked().detached(at=10)

    away.when(expire(), at=11).then_nothing()
    away.when(claim(), at=11).then_refused(LeaseHeld)
    away.when(expire(), at=60).then(LeaseExpired, WorkerTimeout, AttemptEnded, RunSettled, LeaseRevoked)


def test_a_loss_goes_before_a_take_over_which_is_told_to_come_back() -> None:
    refusal = asked().when(claim(), at=60).then_refused(LeaseHeld)

    assert (0.0, 1) == (refusal.retry_after_s, refusal.fence)


@pytest.mark.parametrize(("kind", "ask"), [("waiting_input", "answer"), ("waiting_takeover", "resume")])
def test_an_answer_waits_for_the_decision_about_a_loss_under_a_kept_lease_that_ran_out(kind: str, ask: str) -> None:
    facts = (granted(), ground(), lost("ProcessExited", pending=True), parked(kind, kept=True))  # type: ignore[arg-type]
    kept = given(submitted(on_workspace_lost="park"), *facts)
    asks = answer() if ask == "answer" else resume()

    assert 0.0 == kept.when(asks, at=60).then_refused(LeaseHeld).retry_after_s
    kept.when(expire(), at=60).after.now_it_is("waiting_takeover").when(resume(), at=61).after.now_it_is("queued")
    kept.when(asks, at=59).after.now_it_is("running")


def test_a_leader_that_is_gone_goes_before_a_loss() -> None:
    outcome = asked().when(leader_gone(), at=20)

    outcome.then(WorkerTimeout, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("cancelled")
    assert "leader_gone" == outcome.fact(RunSettled).reason


def test_a_claim_that_comes_before_a_pending_loss_is_decided_is_told_to_the_millisecond_when_to_come_back() -> None:
    refusal = asked().detached(5).when(claim(), at=10.12345).then_refused(LeaseHeld)

    assert (49.877, "ada", 1) == (refusal.retry_after_s, refusal.holder, refusal.fence)


@pytest.mark.parametrize(("first", "second", "cited"), [(6, 7, "w1"), (7, 6, "w2"), (6, 6, "w1")])
def test_of_two_pending_losses_the_earlier_one_decides_and_of_two_at_once_the_one_with_the_smaller_name(
    first: float, second: float, cited: str
) -> None:
    two = given(
        submitted(), granted(), ground(), on("w2", ground(workspace_id="w2")),
        on("w2", lost("PodFailed", at=second, pending=True)), lost("ProcessExited", at=first, pending=True),
    )  # fmt: skip

    ended = two.when(expire(), at=60).fact(AttemptEnded)

    assert ground_citation(3, cited) == ended.cites[-1]


def test_the_message_of_a_pending_loss_is_in_what_is_settled_by_it() -> None:
    told = standing().when(observe(seen("ended", reason="PodFailed", message="out of disk", exit_code=3)), at=20).after

    settled = told.when(expire(), at=60).fact(RunSettled)

    assert ("out of disk", 3) == (of_json(settled.error)["message"], of_json(settled.error)["exit_code"])


def test_a_loss_that_was_pending_under_a_lease_that_is_gone_decides_nothing_more() -> None:
    queued = asked("retry_fresh").when(expire(), at=60).after

    queued.when(tell(), at=70).then_nothing()
    queued.when(claim("bob"), at=70).after.now_it_is("running").when(hand_back(2), at=80).then(
        LeaseReleased, AttemptEnded
    )


@pytest.mark.parametrize(
    ("policy", "state"), [("settle_lost", "lost"), ("retry_fresh", "queued"), ("park", "waiting_takeover")]
)
def test_a_body_that_does_not_come_to_be_decides_a_loss_that_was_pending_beside_it(policy: str, state: str) -> None:
    facts = (granted(), ground(), on("w2", placed(workspace_id="w2")), lost("ProcessExited", pending=True))
    two = given(submitted(on_workspace_lost=policy), *facts).partial("half")

    outcome = two.when(fault(workspace_id="w2"), at=20)

    assert ProvisionFaulted is type(outcome.facts[0])
    assert (state, policy == "settle_lost") == (outcome.after.standing.state, outcome.after.run.salvaged)
    ended = outcome.fact(AttemptEnded)
    assert ("workspace_lost", noon(20)) == (ended.outcome, ended.ended_at)
    assert (ground_citation(2, "w2"), ground_citation(3)) == ended.cites
