"""Closing: what becomes of a run when its holder, or its late holder, says how the attempt ended."""

import pytest

from domain import closing
from domain.closing import Close, becomes_of
from domain.effects import EffectsMadeAmbiguous
from domain.lease import FenceLost, FenceRequired, LeaseReleased, LeaseRevoked
from domain.run import Queued, Settled, WaitingVerdict
from domain.run_facts import PartialSalvaged, RunClosed, RunParked, RunSettled, State, VerdictRendered, Work
from domain.standing import Presented, Remains
from tests.domain.commands import cancel, claim, close, expire, park, pause, resume, verdict
from tests.domain.facts import (
    cancel_asked,
    closed,
    expired,
    granted,
    handed_back,
    intended,
    parked,
    pause_asked,
    submitted,
)
from tests.domain.facts import sliced as slice_ended
from tests.domain.ground_facts import placed
from tests.domain.kit import given, noon, run_citation, text

BY_LEADER = submitted(verdict_by="leader")


@pytest.mark.origin("B10", "A33", "A34", "K8")
def test_a_success_is_final_when_the_worker_gives_the_verdict() -> None:
    outcome = given(submitted(), granted()).when(close("succeeded", result=42), at=20)

    after = outcome.then(
        RunClosed(
            attempt=1, fence=1, outcome="succeeded", state="succeeded", result=text(42), error=text(None),
            failed_attempts=0, due_at=None, late=False, work=Work(), closed_at=noon(20),
        ),
        LeaseReleased(fence=1, worker="ada", cause="closed"),
    ).now_it_is("succeeded", fence=1)  # fmt: skip
    assert (Settled(state="succeeded", reason="closed", settled_at=noon(20)), text(42)) == (
        after.run.phase, after.run.result,
    )  # fmt: skip


@pytest.mark.origin("A34", "K8", "A21")
def test_a_success_is_only_an_outcome_when_the_leader_gives_the_verdict() -> None:
    after = given(BY_LEADER, granted()).when(close("succeeded", result=42), at=20).then(RunClosed, LeaseReleased)

    after.now_it_is("waiting_verdict", fence=1)
    assert WaitingVerdict(outcome="succeeded", since=noon(20)) == after.run.phase
    assert text(42) == after.run.result


@pytest.mark.origin("D24", "D32", "R26")
@pytest.mark.parametrize("by", ["worker", "leader"])
def test_a_failure_with_attempts_left_is_retried_after_a_backoff_whoever_judges(by: str) -> None:
    after = given(submitted(verdict_by=by), granted()).when(close("failed"), at=20).then(RunClosed, LeaseReleased)

    after.now_it_is("queued", fence=1)
    assert Queued(due_at=noon(30), reason="retry") == after.run.phase
    assert 1 == after.run.failed_attempts


def test_the_backoff_doubles_from_its_base_with_each_failed_attempt() -> None:
    failed_twice = given(
        submitted(max_attempts=9), granted(), closed("failed", "queued", failed=1),
        granted("bob", 2, at=40), closed("failed", "queued", fence=2, failed=2), granted("cyd", 3, at=60),
    )  # fmt: skip

    after = failed_twice.when(close("failed", fence=3), at=70).after
    assert Queued(due_at=noon(110), reason="retry") == after.run.phase


@pytest.mark.origin("B20", "B30")
@pytest.mark.parametrize(("by", "state"), [("worker", "failed"), ("leader", "waiting_verdict")])
def test_the_failure_that_spends_the_last_attempt_goes_the_verdict_givers_way(by: str, state: State) -> None:
    last = given(submitted(max_attempts=1, verdict_by=by), granted())

    last.when(close("failed"), at=20).then(RunClosed, LeaseReleased).now_it_is(state)


@pytest.mark.parametrize(("by", "state"), [("worker", "failed"), ("leader", "waiting_verdict")])
def test_a_failure_that_cannot_be_retried_is_not(by: str, state: State) -> None:
    after = given(submitted(verdict_by=by), granted()).when(close("failed", retryable=False), at=20).after

    after.now_it_is(state)
    assert 1 == after.run.failed_attempts


def test_the_result_of_an_attempt_that_is_retried_is_not_the_runs_result() -> None:
    retried = given(submitted(), granted()).when(close("failed", result="half"), at=20).after

    assert text(None) == retried.run.result


@pytest.mark.origin("B10", "R11")
def test_a_settling_close_without_a_result_promotes_the_partial_and_one_with_a_result_does_not() -> None:
    saved = given(submitted(), granted()).partial("half")

    salvaged = saved.when(close("succeeded"), at=20).then(
        PartialSalvaged(fence=1, partial=text("half")), RunClosed, LeaseReleased
    )  # fmt: skip
    whole = saved.when(close("succeeded", result="whole"), at=20).then(RunClosed, LeaseReleased)

    assert (text("half"), text("whole")) == (salvaged.run.result, whole.run.result)


@pytest.mark.origin("B19", "K9", "R11")
def test_a_close_after_which_another_attempt_or_a_verdict_follows_promotes_nothing() -> None:
    given(submitted(), granted()).partial("half").when(close("failed"), at=20).then(RunClosed, LeaseReleased)
    given(BY_LEADER, granted()).partial("half").when(close(), at=20).then(RunClosed, LeaseReleased)


@pytest.mark.origin("R11")
def test_a_partial_is_promoted_once_whether_by_the_close_or_by_the_verdict_after_it() -> None:
    waiting = given(BY_LEADER, granted()).partial("half").when(close(), at=20).after

    judged = waiting.when(verdict(), at=30).then(PartialSalvaged, VerdictRendered, LeaseRevoked).now_it_is("succeeded")
    assert text("half") == judged.run.result
    judged.when(verdict(), at=31).then_nothing()


def test_a_close_makes_the_effects_that_were_not_completed_before_it_ambiguous() -> None:
    begun = given(submitted(), granted(), intended("mail"))

    after = begun.when(close(), at=20).then(EffectsMadeAmbiguous, RunClosed, LeaseReleased)
    assert "ambiguous" == after.standing.effects.effects["mail"].state


def test_a_close_vouches_for_what_its_attempt_had_produced() -> None:
    work = Work(output_chunks=2, output_bytes=7, output_digest="ab")

    closing = given(submitted(), granted()).having(Remains(work=work)).when(close(), at=20)

    assert work == closing.fact(RunClosed).work


@pytest.mark.origin("B4", "B32", "R8", "R20", "D21", "D44", "D48")
def test_a_zombie_closes_nothing_and_is_told_who_holds_its_run() -> None:
    taken = given(submitted(), granted("ada"), expired(), granted("bob", 2, at=61))

    refusal = taken.when(close("succeeded", fence=1, by="ada"), at=62).then_refused(FenceLost)

    assert (1, 2, "bob", "lease_expired") == (
        refusal.presented, refusal.current, refusal.holder, refusal.reason,
    )  # fmt: skip


@pytest.mark.origin("H1", "K11")
def test_the_same_worker_under_an_earlier_fence_is_a_stranger() -> None:
    again = given(submitted(), granted("ada", 1), handed_back(), granted("ada", 2, at=20))

    again.when(close(fence=1, by="ada"), at=21).then_refused(FenceLost)
    again.when(close(fence=2, by="ada"), at=21).then(RunClosed, LeaseReleased)


def test_a_fence_that_was_never_granted_is_refused_as_well() -> None:
    refusal = given(submitted(), granted()).when(close(fence=2), at=5).then_refused(FenceLost)

    assert "never_granted" == refusal.reason


def test_a_principal_that_may_not_be_the_holder_closes_nothing_under_its_fence() -> None:
    refusal = given(submitted(), granted("ada")).when(close(fence=1, by="bob"), at=5).then_refused(FenceLost)

    assert ("ada", "other_holder") == (refusal.holder, refusal.reason)


@pytest.mark.origin("B8", "B11")
def test_a_close_without_a_fence_is_refused_where_required_and_acts_under_the_one_in_force_elsewhere() -> None:
    held = given(submitted(), granted("ada"))

    held.when(close(fence=None), at=5).then_refused(FenceRequired)
    lenient = Presented(fence=None, fence_required=False)
    after = held.when(lambda s, r, now: closing.close(s, lenient, Close(outcome="succeeded"), r, now), at=5).after
    after.now_it_is("succeeded")


@pytest.mark.origin("D38", "D48", "H6")
def test_an_identical_close_is_a_repeat_and_another_one_is_refused() -> None:
    done = given(submitted(), granted(), closed("succeeded", result=42))

    done.when(close("succeeded", result=42), at=30).then_nothing()
    done.when(close("succeeded", result=43), at=30).then_refused(FenceLost)
    done.when(close("failed", result=42), at=30).then_refused(FenceLost)
    done.when(close("succeeded", result=42, by="bob"), at=30).then_refused(FenceLost)


def test_a_repeat_of_a_close_from_before_a_later_grant_is_not_mistaken_for_the_later_holders() -> None:
    retried = given(submitted(), granted("ada"), closed("failed", "queued", failed=1), granted("bob", 2, at=40))

    retried.when(close("failed", fence=1), at=41).then_refused(FenceLost)
    retried.when(expire(), at=100).after.when(close("failed", fence=1), at=101).then_refused(FenceLost)


@pytest.mark.origin("H6")
@pytest.mark.parametrize("detached", [False, True])
def test_a_late_close_is_welcome_as_long_as_nothing_was_granted_since(detached: bool) -> None:
    late = given(submitted(), granted("ada"), expired(detached=detached))

    after = late.when(close("succeeded", result="done", by="ada"), at=500).then(RunClosed, LeaseReleased)
    after.now_it_is("succeeded", fence=1)
    assert text("done") == after.run.result


def test_a_late_close_says_that_it_is_late() -> None:
    late = given(submitted(), granted("ada"), expired())

    assert late.when(close(), at=500).fact(RunClosed).late
    assert not given(submitted(), granted()).when(close(), at=70).fact(RunClosed).late


@pytest.mark.origin("K7")
def test_a_late_failure_replaces_the_expirys_outcome_and_is_not_counted_again() -> None:
    late = given(submitted(max_attempts=2), granted("ada"), expired(failed=1))

    after = late.when(close("failed"), at=70).then(RunClosed, LeaseReleased).now_it_is("queued")
    assert 1 == after.run.failed_attempts
    assert Queued(due_at=noon(80), reason="retry") == after.run.phase


def test_a_late_failure_is_counted_where_the_expiry_was_not() -> None:
    sliced = given(submitted(), granted(slice_ends=30), slice_ended())
    unanswered = sliced.when(expire(), at=60).after

    assert 1 == unanswered.when(close("failed"), at=70).after.run.failed_attempts


def test_a_late_close_is_refused_once_anything_was_granted_or_the_run_is_no_longer_queued() -> None:
    late = given(submitted(), granted("ada"), expired())

    for since in (claim("bob"), claim("bob", token="t1"), pause(), cancel()):
        late.when(since, at=61).after.when(close(fence=1, by="ada"), at=62).then_refused(FenceLost)


def test_a_late_close_is_refused_after_an_end_that_the_holder_chose_itself() -> None:
    given(submitted(), granted(), handed_back()).when(close(), at=20).then_refused(FenceLost)
    given(submitted(), granted(), parked()).when(close(), at=20).then_refused(FenceLost)


def test_a_late_close_is_for_the_worker_that_held_the_lease_and_for_no_other() -> None:
    given(submitted(), granted("ada"), expired()).when(close(by="bob"), at=61).then_refused(FenceLost)


def test_a_late_close_is_repeated_like_any_other() -> None:
    late = given(submitted(), granted("ada"), expired()).when(close("succeeded", result=1), at=61).after

    late.when(close("succeeded", result=1), at=62).then_nothing()


def test_a_paused_and_resumed_run_still_takes_the_late_close_of_its_last_holder() -> None:
    back = given(submitted(), granted("ada"), expired()).when(pause(), at=61).after.when(resume(), at=62).after

    back.when(close("succeeded", by="ada"), at=63).then(RunClosed, LeaseReleased).now_it_is("succeeded")


@pytest.mark.origin("R6")
def test_a_success_stands_though_a_cancel_is_pending_and_anything_else_settles_the_run_cancelled() -> None:
    asked = given(submitted(), granted(), cancel_asked())

    asked.when(close("succeeded"), at=6).then(RunClosed, LeaseReleased).now_it_is("succeeded", fence=1)
    for retryable in (True, False):
        asked.when(close("failed", retryable=retryable), at=6).then(
            RunClosed, LeaseReleased, RunSettled, LeaseRevoked
        ).now_it_is("cancelled", fence=2)


def test_a_success_under_a_pending_cancel_waits_for_the_leaders_verdict_where_the_leader_gives_it() -> None:
    after = given(BY_LEADER, granted(), cancel_asked()).when(close("succeeded"), at=6).after

    after.now_it_is("waiting_verdict")
    after.when(verdict("failed"), at=7).after.now_it_is("failed")
    after.when(cancel(), at=7).after.now_it_is("cancelled")


def test_a_run_settled_by_a_pending_cancel_cites_the_wish_and_the_close() -> None:
    settled = given(submitted(), granted(), cancel_asked()).when(close("failed"), at=6).fact(RunSettled)

    assert (run_citation(3), run_citation(4)) == settled.cites


@pytest.mark.origin("K9", "R11")
def test_under_a_pending_cancel_a_failed_closes_own_result_is_kept_and_only_its_absence_promotes_the_partial() -> None:
    asked = given(submitted(), granted(), cancel_asked()).partial("half")

    kept = asked.when(close("failed", result="whole"), at=6).then(RunClosed, LeaseReleased, RunSettled, LeaseRevoked)
    salvaged = asked.when(close("failed"), at=6).then(
        RunClosed, LeaseReleased, PartialSalvaged, RunSettled, LeaseRevoked
    )  # fmt: skip

    assert (text("whole"), text("half")) == (kept.run.result, salvaged.run.result)


def test_a_pending_pause_makes_a_retried_run_paused_instead_of_queued_and_counts_the_failure() -> None:
    after = given(submitted(), granted(), pause_asked()).when(close("failed"), at=6).then(
        RunClosed, LeaseReleased, RunParked
    )  # fmt: skip

    after.now_it_is("paused", fence=1)
    assert (1, False) == (after.run.failed_attempts, after.run.pause_asked)


def test_a_pending_pause_does_not_hold_up_an_end() -> None:
    asked = given(submitted(max_attempts=1), granted(), pause_asked())

    asked.when(close("succeeded"), at=6).after.now_it_is("succeeded")
    asked.when(close("failed"), at=6).after.now_it_is("failed")


def test_a_close_is_accepted_past_the_deadline_as_long_as_nobody_has_put_down_the_expiry() -> None:
    held = given(submitted(max_attempts=1), granted())

    held.when(close("succeeded"), at=3600).then(RunClosed, LeaseReleased).now_it_is("succeeded")
    held.when(expire(), at=3600).after.when(close("succeeded"), at=3601).then_refused(FenceLost)


def test_a_close_that_parks_first_is_no_longer_the_holders() -> None:
    waiting = given(submitted(), granted()).when(park(), at=5).after

    assert "parked" == waiting.when(close(), at=6).then_refused(FenceLost).reason


def test_what_a_close_makes_of_its_run_is_decided_in_one_place() -> None:
    run = given(submitted(max_attempts=2), granted()).run
    failed = Close(outcome="failed")

    assert "queued" == becomes_of(run, failed, 1)
    assert "failed" == becomes_of(run, failed, 2)
    assert "succeeded" == becomes_of(run, Close(outcome="succeeded"), 2)


UNKNOWN = {"code": "exit_unknown"}


@pytest.mark.origin("A4", "A33")
def test_a_process_that_ended_nobody_knows_how_loses_its_run_when_nobody_will_try_again() -> None:
    once = given(submitted(max_attempts=1), granted()).partial("half")

    ended = once.when(close("failed", error=UNKNOWN), at=20)

    ended.then(RunClosed, LeaseReleased, PartialSalvaged, RunSettled, LeaseRevoked).now_it_is("lost")
    settled = ended.fact(RunSettled)
    assert ("exit_unknown", (run_citation(3),)) == (settled.reason, settled.cites)


def test_a_process_that_ended_nobody_knows_how_is_tried_again_or_left_to_its_leader() -> None:
    given(submitted(), granted()).when(close("failed", error=UNKNOWN), at=20).after.now_it_is("queued")
    last = given(submitted(verdict_by="leader", max_attempts=1), granted())
    last.when(close("failed", error=UNKNOWN), at=20).after.now_it_is("waiting_verdict")


@pytest.mark.parametrize("error", ["exit_unknown?", {"code": "exit"}, None, 7, ["exit_unknown"]])
def test_only_the_very_name_of_a_missing_exit_loses_a_run(error: object) -> None:
    last = given(submitted(max_attempts=1), granted())

    last.when(close("failed", error=error), at=20).after.now_it_is("failed")


@pytest.mark.parametrize(("error", "code"), [("boom", "boom"), ({"code": "boom"}, "boom"), (5, ""), ({"code": 5}, "")])
def test_an_error_is_called_by_its_text_or_its_code_and_else_has_no_name(error: object, code: str) -> None:
    assert code == closing.code_of(text(error))


def test_a_late_close_of_an_attempt_that_was_counted_lets_go_of_no_workspace_while_attempts_are_left() -> None:
    expired_once = given(submitted(max_attempts=2), granted(), placed(), expired())

    expired_once.when(close("failed"), at=70).then(RunClosed, LeaseReleased).now_it_is("queued")


def test_a_close_is_repeated_by_the_worker_that_closed_and_by_no_other() -> None:
    after = given(submitted(), granted(), closed())

    after.when(close(by="ada"), at=30).then_nothing()
    after.when(close(by="bob"), at=30).then_refused(FenceLost)
