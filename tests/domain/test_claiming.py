"""Claiming: who is granted a run, on which road, and what every grant does."""

import pytest

from domain.claiming import LabelsMissing, LimitReached, RunPaused, VerdictPending
from domain.effects import EffectsMadeAmbiguous
from domain.lease import (
    FenceBumped,
    FenceLost,
    Held,
    LeaseBound,
    LeaseExpired,
    LeaseHeld,
    LeaseReleased,
    LeaseReserved,
    LeaseRevoked,
    ReservationCancelled,
    ReservationLapsed,
    ReservationLost,
    Vacant,
)
from domain.run import SettledOtherwise, WrongState
from domain.run_facts import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    ParkKind,
    RunClosed,
    RunSettled,
    WorkerTimeout,
)
from domain.values import Fact, Moment
from tests.domain.commands import bind, cancel, cancel_reservation, claim, close, lapse, pause, reserve, resume, write
from tests.domain.facts import (
    bound,
    closed,
    expired,
    granted,
    handed_back,
    intended,
    lapsed,
    parked,
    paused,
    reserved,
    sliced,
    submitted,
    unreserved,
)
from tests.domain.kit import Decide, given, lease_citation, noon


@pytest.mark.origin("B9", "B31")
def test_the_first_fence_of_a_run_is_one_and_its_first_attempt_is_one() -> None:
    outcome = given(submitted()).when(claim("ada", "queue"))

    outcome.then(
        FenceBumped(fence=1, worker="ada", ttl_s=60.0, granted_at=noon(), slice_ends_at=None, cause="queue"),
        AttemptStarted(attempt=1, fence=1, worker="ada", started_at=noon()),
    ).now_it_is("running", fence=1)


@pytest.mark.origin("B3", "B31")
def test_every_grant_raises_the_fence_by_one() -> None:
    third = (
        given(submitted(), granted("ada", 1), handed_back(1), granted("bob", 2), handed_back(2))
        .when(claim("ada"), at=20)
        .then(FenceBumped, AttemptStarted)
    )

    third.now_it_is("running", fence=3)
    assert 3 == third.run.attempt


def test_a_grant_carries_the_ttl_and_the_end_of_the_slice_that_its_run_asks_for() -> None:
    outcome = given(submitted(lease_ttl_s=30.0, max_hold_s=90.0)).when(claim("ada", "queue"), at=5)

    assert FenceBumped(
        fence=1, worker="ada", ttl_s=30.0, granted_at=noon(5), slice_ends_at=noon(95), cause="queue"
    ) == outcome.fact(FenceBumped)


def test_a_queued_run_is_claimed_by_queue_at_the_very_instant_it_falls_due() -> None:
    later = given(submitted(due=60))

    refusal = later.when(claim("ada", "queue"), at=59.5).then_refused(LeaseHeld)
    later.when(claim("ada", "queue"), at=60).then(FenceBumped, AttemptStarted)

    assert 0.5 == refusal.retry_after_s


def test_a_claim_by_id_does_not_wait_until_the_run_is_due() -> None:
    given(submitted(due=3600)).when(claim("ada")).then(FenceBumped, AttemptStarted).now_it_is("running")


@pytest.mark.origin("B2", "B15", "R7", "D59")
def test_a_live_lease_is_refused_to_everybody_naming_its_holder_and_how_long_it_still_has() -> None:
    held = given(submitted(), granted("ada"))

    refusal = held.when(claim("bob"), at=59.5).then_refused(LeaseHeld)
    again = held.when(claim("ada"), at=1).then_refused(LeaseHeld)

    assert ("ada", 1, 0.5) == (refusal.holder, refusal.fence, refusal.retry_after_s)
    assert 59.0 == again.retry_after_s


@pytest.mark.origin("B2", "B18", "K3")
def test_a_lease_is_over_at_its_very_deadline_and_the_run_goes_on_under_the_next_fence() -> None:
    held = given(submitted(), granted("ada"))

    held.when(claim("bob"), at=59.999).then_refused(LeaseHeld)
    taken = held.when(claim("bob"), at=60).then(LeaseExpired, WorkerTimeout, AttemptEnded, FenceBumped, AttemptStarted)

    taken.now_it_is("running", fence=2)
    assert isinstance(taken.standing.lease, Held)
    assert "bob" == taken.standing.lease.worker
    assert (2, 1) == (taken.run.attempt, taken.run.failed_attempts)


def test_a_renewal_moves_the_deadline_to_a_full_ttl_after_it() -> None:
    renewed = given(submitted(), granted("ada")).renewed(at=50)

    renewed.when(claim("bob"), at=109.999).then_refused(LeaseHeld)
    renewed.when(claim("bob"), at=110).then(LeaseExpired, WorkerTimeout, AttemptEnded, FenceBumped, AttemptStarted)


@pytest.mark.origin("H3", "K13")
def test_a_lease_whose_mark_is_missing_counts_as_renewed_now_and_never_as_old() -> None:
    given(submitted(), granted("ada")).unmarked().when(claim("bob"), at=3600).then_refused(LeaseHeld)


def test_a_mark_of_an_earlier_lease_says_nothing_about_the_one_in_force() -> None:
    old = given(submitted(), granted("ada", 1)).standing.mark
    again = given(submitted(), granted("ada", 1), handed_back(1), granted("bob", 2, at=90))

    again.marked(old).when(claim("cyd"), at=100).then_refused(LeaseHeld)


@pytest.mark.origin("B22", "K9", "B19")
def test_a_take_over_puts_the_expiry_down_first_and_promotes_no_partial() -> None:
    outcome = given(submitted(), granted("ada")).partial("half").when(claim("bob"), at=61)

    expiry = outcome.fact(LeaseExpired)
    ended = outcome.fact(AttemptEnded)
    assert (noon(), 0, False, noon(61)) == (
        expiry.last_renewed_at, expiry.renewals, expiry.detached, expiry.expired_at,
    )  # fmt: skip
    assert lease_citation(2) in ended.cites
    assert (1, noon(61)) == (ended.failed_attempts, ended.due_at)


def test_a_claim_never_writes_the_expiry_that_spends_the_last_attempt() -> None:
    refusal = given(submitted(max_attempts=1), granted("ada")).when(claim("bob"), at=60).then_refused(LeaseHeld)

    assert 0.0 == refusal.retry_after_s


def test_a_claim_of_a_detached_last_attempt_is_told_to_come_back_when_the_full_ttl_has_passed() -> None:
    detached = given(submitted(max_attempts=1), granted("ada")).detached(at=10)

    refusal = detached.when(claim("bob"), at=20).then_refused(LeaseHeld)

    assert 40.0 == refusal.retry_after_s


def test_an_unanswered_slice_costs_nothing_so_even_a_last_attempt_is_taken_over_from_it() -> None:
    taken = (
        given(submitted(max_attempts=1), granted("ada", slice_ends=30), sliced())
        .when(claim("bob"), at=60)
        .then(LeaseExpired, AttemptEnded, FenceBumped, AttemptStarted)
    )

    assert 0 == taken.run.failed_attempts


def test_where_deadline_and_slice_end_fall_on_one_instant_a_claim_leaves_the_slice_to_end_first() -> None:
    given(submitted(), granted("ada", slice_ends=60)).when(claim("bob"), at=60).then_refused(LeaseHeld)


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_whether_a_slice_is_over_is_no_question_to_the_wall_clock(ahead_s: float) -> None:
    def set_wall(decide: Decide) -> Decide:
        return lambda standing, remains, now: decide(standing, remains, Moment(now.after(ahead_s).wall, now.mono))

    together = given(submitted(), granted("ada", slice_ends=60))
    in_the_middle = given(submitted(), granted("ada", slice_ends=1800))

    together.when(set_wall(claim("bob")), at=60).then_refused(LeaseHeld)
    in_the_middle.when(set_wall(claim("bob")), at=60).then(
        LeaseExpired, WorkerTimeout, AttemptEnded, FenceBumped, AttemptStarted
    )


@pytest.mark.origin("K10", "R6")
@pytest.mark.parametrize("asked", ["cancel", "pause"])
def test_a_claim_does_not_overtake_a_cancel_or_a_pause_that_waits_for_the_attempts_end(asked: str) -> None:
    held = given(submitted(), granted("ada"))
    waiting = held.when(cancel(), at=1).after if asked == "cancel" else held.when(pause(), at=1).after

    refusal = waiting.when(claim("bob"), at=60).then_refused(LeaseHeld)

    assert 0.0 == refusal.retry_after_s


@pytest.mark.parametrize("kind", ["waiting_input", "waiting_peer", "waiting_takeover"])
def test_a_parked_run_is_claimed_by_id_and_by_nobody_from_its_queue(kind: ParkKind) -> None:
    waiting = given(submitted(), granted("ada"), parked(kind))

    waiting.when(claim("bob", "queue"), at=20).then_refused(WrongState)
    waiting.when(claim("bob", "id"), at=20).then(FenceBumped, AttemptStarted).now_it_is("running", fence=2)


def test_a_parked_run_with_a_kept_lease_is_claimed_only_after_that_lease_has_expired_and_nothing_is_counted() -> None:
    kept = given(submitted(), granted("ada"), parked("waiting_input", kept=True))

    kept.when(claim("bob"), at=59.5).then_refused(LeaseHeld)
    taken = kept.when(claim("bob"), at=60).then(LeaseExpired, AttemptEnded, FenceBumped, AttemptStarted)

    taken.now_it_is("running", fence=2)
    assert 0 == taken.run.failed_attempts


def test_a_paused_run_is_brought_back_by_a_resume_and_by_no_claim() -> None:
    waiting = given(submitted(), paused())

    refusal = waiting.when(claim("ada")).then_refused(RunPaused)
    assert ("run 'r1' is paused; resume it first", {"run_id": "r1"}) == (str(refusal), refusal.fields())
    resumed = waiting.when(resume(), at=10).after
    resumed.when(claim("ada"), at=11).then(FenceBumped, AttemptStarted)


def test_a_run_that_waits_for_its_verdict_is_granted_to_nobody() -> None:
    judged = given(submitted(verdict_by="leader"), granted("ada"), closed("succeeded", "waiting_verdict"))

    refusal = judged.when(claim("bob"), at=30).then_refused(VerdictPending)

    assert "run 'r1' waits for its leader's verdict, not for a worker" == str(refusal)
    assert {"run_id": "r1"} == refusal.fields()


def test_a_settled_run_is_granted_to_nobody_and_the_refusal_names_its_state() -> None:
    refusal = given(submitted(), granted("ada"), closed()).when(claim("bob"), at=30).then_refused(SettledOtherwise)

    assert ("succeeded", "closed") == (refusal.state, refusal.reason)


@pytest.mark.origin("B21", "B26", "R9")
def test_a_grant_leaves_no_effect_of_the_attempt_before_as_merely_intended() -> None:
    outcome = given(submitted(), granted("ada"), intended("mail")).when(claim("bob"), at=60)

    taken = outcome.then(LeaseExpired, WorkerTimeout, EffectsMadeAmbiguous, AttemptEnded, FenceBumped, AttemptStarted)
    assert "ambiguous" == taken.standing.effects.effects["mail"].state


def test_a_grant_a_reservation_and_a_cancel_leave_nothing_intended_however_it_came_to_be() -> None:
    unfinished = given(submitted(), intended("mail"))

    unfinished.when(claim("ada")).then(EffectsMadeAmbiguous, FenceBumped, AttemptStarted)
    unfinished.when(reserve("ada")).then(EffectsMadeAmbiguous, LeaseReserved)
    unfinished.when(cancel()).then(CancelRequested, EffectsMadeAmbiguous, RunSettled, LeaseRevoked)


def test_a_limit_or_a_label_that_stands_in_the_way_is_named() -> None:
    limit = LimitReached(limit="slots", value=2, subject="ada")
    labels = LabelsMissing(worker_id="ada", missing={"os": "linux"})

    assert ("slots of 'ada' is 2 and is used up", 2) == (str(limit), limit.value)
    assert "worker 'ada' lacks the labels {'os': 'linux'}" == str(labels)
    assert {"worker_id": "ada", "missing": {"os": "linux"}} == labels.fields()


@pytest.mark.origin("D42", "K15", "D14")
def test_a_reservation_raises_the_fence_starts_no_attempt_and_gives_no_right_to_write() -> None:
    waiting = (
        given(submitted())
        .when(reserve("ada", "t1", "queue"), at=5)
        .then(LeaseReserved(fence=1, token="t1", worker="ada", lapses_at=noon(125)))
        .now_it_is("reserved", fence=1)
    )

    assert 0 == waiting.run.attempt
    waiting.when(write(fence=1, by="ada")).then_refused(FenceLost)


@pytest.mark.origin("D42")
def test_a_reserved_run_is_refused_to_others_with_the_time_until_the_reservation_lapses() -> None:
    refusal = given(submitted(), reserved("ada", lapses=120)).when(claim("bob"), at=90).then_refused(LeaseHeld)

    assert ("ada", 30.0) == (refusal.holder, refusal.retry_after_s)


@pytest.mark.parametrize("at", [120, 500])
def test_a_reservation_that_should_have_lapsed_by_now_may_do_so_at_any_moment(at: float) -> None:
    refusal = given(submitted(), reserved("ada", lapses=120)).when(claim("bob"), at=at).then_refused(LeaseHeld)

    assert 0.0 == refusal.retry_after_s


def test_where_no_clock_runs_on_a_reservation_or_a_slice_neither_is_over() -> None:
    reserve_of_ada = given(submitted(), reserved("ada", lapses=120)).clockless()

    assert 0.0 == reserve_of_ada.when(claim("bob"), at=30).then_refused(LeaseHeld).retry_after_s
    reserve_of_ada.when(bind("t1"), at=500).then(LeaseBound, AttemptStarted)
    given(submitted(), granted("ada", slice_ends=60)).clockless().when(claim("bob"), at=60).then(
        LeaseExpired, WorkerTimeout, AttemptEnded, FenceBumped, AttemptStarted
    )


def test_a_reservation_is_bound_until_its_deadline_and_over_at_the_deadline_itself() -> None:
    ahead = given(submitted(), reserved("ada", lapses=120))

    ahead.when(bind("t1"), at=119.999).then(LeaseBound, AttemptStarted)
    for late in (120, 120.001):
        ahead.when(bind("t1"), at=late).then_refused(ReservationLost)
    ahead.when(lapse(), at=120).then(ReservationLapsed).now_it_is("queued", fence=1)


@pytest.mark.origin("D14", "D35")
def test_binding_keeps_the_fence_and_starts_the_attempt_with_a_full_ttl() -> None:
    outcome = given(submitted(), reserved("ada")).when(bind("t1"), at=100)

    outcome.then(
        LeaseBound(fence=1, worker="ada", ttl_s=60.0, granted_at=noon(100), slice_ends_at=None),
        AttemptStarted(attempt=1, fence=1, worker="ada", started_at=noon(100)),
    ).when(write(fence=1, by="ada"), at=100).then_nothing()


@pytest.mark.origin("D18", "R21", "D61")
def test_a_token_binds_once_and_never_after_its_reservation_was_cancelled_lapsed_or_made_anew() -> None:
    dead = [
        given(submitted(), reserved(token="t1"), bound()),
        given(submitted(), reserved(token="t1"), unreserved()),
        given(submitted(), reserved(token="t1"), lapsed()),
        given(submitted(), reserved(token="t1"), unreserved(), reserved(fence=2, token="t2")),
    ]

    for situation in dead:
        situation.when(bind("t1"), at=10).then_refused(ReservationLost)
        situation.when(cancel_reservation("t1"), at=10).then_refused(ReservationLost)


@pytest.mark.origin("H4", "R21")
def test_the_timer_of_a_reservation_that_was_made_anew_lapses_nothing() -> None:
    anew = given(submitted(), reserved(token="t1"), unreserved(), reserved(fence=2, token="t2"))

    anew.when(lapse("t1"), at=120).then_nothing().now_it_is("reserved", fence=2)


@pytest.mark.origin("D15", "D16", "D42", "D45", "K7")
@pytest.mark.parametrize(
    ("ending", "kind"),
    [(cancel_reservation(), ReservationCancelled), (lapse(), ReservationLapsed)],
    ids=["cancelled", "lapsed"],
)
def test_a_reservation_that_ends_unbound_puts_the_retrys_schedule_back_and_counts_nothing(
    ending: Decide, kind: type[Fact]
) -> None:
    retried = given(submitted(), granted("ada"), closed("failed", "queued", failed=1))
    waiting = retried.when(reserve("bob", token="t1"), at=25).after

    back = waiting.when(ending, at=26).then(kind).now_it_is("queued", fence=2)

    assert retried.run.phase == back.run.phase
    assert (1, 1) == (back.run.attempt, back.run.failed_attempts)


def test_a_reservation_ends_the_late_holders_rights_and_makes_its_effects_ambiguous() -> None:
    late = given(submitted(), granted("ada"), expired())

    late.when(close(fence=1, by="ada"), at=61).then(RunClosed, LeaseReleased)
    waiting = late.when(reserve("bob"), at=61).then(LeaseReserved)
    waiting.when(close(fence=1, by="ada"), at=62).then_refused(FenceLost)
    back = waiting.when(cancel_reservation(), at=63).then(ReservationCancelled)
    back.when(close(fence=1, by="ada"), at=64).then_refused(FenceLost)


def test_only_a_queued_run_is_reserved() -> None:
    given(submitted(), granted("ada"), parked("waiting_input")).when(reserve(), at=20).then_refused(WrongState)
    given(submitted(), granted("ada")).when(reserve(), at=60).then_refused(WrongState)


def test_cancelling_a_reserved_run_settles_it_at_once_and_its_token_is_void() -> None:
    settled = given(submitted(), reserved("ada", token="t1")).when(cancel(), at=5).after

    settled.now_it_is("cancelled", fence=2)
    assert isinstance(settled.standing.lease, Vacant)
    settled.when(bind("t1"), at=6).then_refused(ReservationLost)


def test_a_refusal_says_to_the_millisecond_when_to_come_back() -> None:
    held = given(submitted(), granted()).when(claim(), at=10.12345).then_refused(LeaseHeld)
    last = given(submitted(max_attempts=1), granted()).detached(5).when(claim(), at=10.12345).then_refused(LeaseHeld)
    ahead = given(submitted(), reserved()).when(claim(), at=10.12345).then_refused(LeaseHeld)

    assert (49.877, 49.877, 109.877) == (held.retry_after_s, last.retry_after_s, ahead.retry_after_s)
