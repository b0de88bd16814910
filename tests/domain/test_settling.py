"""Settling: cancels, verdicts, aborts and what is said after the end; each follows from a fact that it cites."""

import pytest

from domain import settling
from domain.effects import EffectsMadeAmbiguous
from domain.lease import FenceLost, LeaseRevoked
from domain.run import Settled, SettledOtherwise, WrongState
from domain.run_facts import (
    AttemptEnded,
    CancelRequested,
    PartialSalvaged,
    RunClosed,
    RunSettled,
    StopReported,
    Terminal,
    VerdictRendered,
)
from domain.settling import Cancel, Settlement, end_into
from domain.standing import Remains, RunDraft, Standing
from domain.values import Moment
from tests.domain.commands import cancel, cancel_due, close, expire, report_stop, verdict, write
from tests.domain.facts import (
    LEADER,
    cancel_asked,
    closed,
    expired,
    granted,
    handed_back,
    intended,
    judged,
    parked,
    paused,
    reserved,
    settled,
    submitted,
)
from tests.domain.kit import Given, given, noon, run_citation, text

BY_LEADER = submitted(verdict_by="leader")
JUDGED = (BY_LEADER, granted(), closed("succeeded", "waiting_verdict"))


def _cancel_keeping(standing: Standing, remains: Remains, now: Moment) -> RunDraft:
    return settling.cancel(standing, Cancel(by=LEADER, keep_workspaces=True), remains, now)


@pytest.mark.origin("A46")
def test_a_cancel_asks_the_holder_first_and_says_until_when_it_may_save() -> None:
    asked = given(submitted(), granted()).when(cancel(grace_s=10), at=5)

    asked.then(CancelRequested(by=LEADER, keep_workspaces=False, requested_at=noon(5), settles_at=noon(15))).now_it_is(
        "running", fence=1
    ).when(write(), at=6).then_nothing()


@pytest.mark.origin("A21", "K8")
@pytest.mark.parametrize(
    "nobody",
    [
        given(submitted()),
        given(submitted(), reserved()),
        given(submitted(), granted(), expired()),
        given(submitted(), granted(), parked("waiting_input")),
        given(submitted(), paused()),
        given(*JUDGED),
    ],
    ids=["queued", "reserved", "expired", "parked", "paused", "waiting_verdict"],
)
def test_a_cancel_settles_a_run_that_nobody_holds_at_once(nobody: Given) -> None:
    fence = nobody.standing.lease.fence

    after = nobody.when(cancel(), at=70).then(CancelRequested, RunSettled, LeaseRevoked)
    after.now_it_is("cancelled", fence=fence + 1)


def test_a_cancel_at_the_very_deadline_of_a_lease_finds_nobody_to_ask() -> None:
    held = given(submitted(), granted())

    held.when(cancel(), at=59.999).then(CancelRequested)
    held.when(cancel(), at=60).then(CancelRequested, AttemptEnded, RunSettled, LeaseRevoked).now_it_is("cancelled")


@pytest.mark.origin("A22", "A35", "D27", "K10")
def test_a_cancel_whose_grace_is_over_revokes_the_lease_by_raising_its_fence() -> None:
    outcome = given(submitted(), granted(), cancel_asked()).when(cancel_due(), at=15)

    after = outcome.then(
        AttemptEnded, RunSettled, LeaseRevoked(fence=2, worker="ada", cause="cancelled")
    ).now_it_is("cancelled", fence=2)  # fmt: skip
    assert "revoked" == outcome.fact(AttemptEnded).outcome
    assert 0 == after.run.failed_attempts
    assert "cancelled" == after.when(write(), at=16).then_refused(FenceLost).reason


def test_a_cancel_cites_the_wish_and_the_end_of_the_attempt_that_it_cut_short() -> None:
    late = given(submitted(), granted(), cancel_asked()).when(cancel_due(), at=15).fact(RunSettled)
    at_once = given(submitted()).when(cancel(), at=5).fact(RunSettled)

    assert (run_citation(3), run_citation(4)) == late.cites
    assert (run_citation(2),) == at_once.cites


@pytest.mark.origin("D31", "R6", "A29")
def test_the_grace_of_a_cancel_finds_nothing_to_do_once_the_run_has_ended() -> None:
    given(submitted(), granted(), cancel_asked(), closed()).when(cancel_due(), at=15).then_nothing()
    waiting = given(BY_LEADER, granted(), cancel_asked()).when(close(), at=6).after
    waiting.when(cancel_due(), at=15).then_nothing()


def test_a_second_cancel_changes_nothing_and_neither_does_one_of_a_cancelled_run() -> None:
    given(submitted(), granted(), cancel_asked()).when(cancel(), at=7).then_nothing()
    given(submitted()).when(cancel()).after.when(cancel(), at=1).then_nothing()


def test_a_second_cancel_may_ask_to_keep_the_workspaces_and_the_grace_of_the_first_goes_on() -> None:
    asked = given(submitted(), granted()).when(cancel(grace_s=10), at=5).after

    kept = asked.when(_cancel_keeping, at=8).then(
        CancelRequested(by=LEADER, keep_workspaces=True, requested_at=noon(8), settles_at=noon(15))
    )
    kept.when(_cancel_keeping, at=9).then_nothing()
    kept.when(cancel(), at=9).then_nothing()
    settled = kept.when(cancel_due(), at=15).after.now_it_is("cancelled")
    settled.when(_cancel_keeping, at=16).then_nothing()


def test_it_is_too_late_to_keep_the_workspaces_of_a_run_that_was_cancelled_without_them() -> None:
    cancelled = given(submitted()).when(cancel(), at=5).after

    assert "cancelled" == cancelled.when(_cancel_keeping, at=6).then_refused(SettledOtherwise).state


@pytest.mark.origin("R6", "A32")
def test_a_cancel_of_a_run_that_ended_otherwise_is_refused_naming_its_state() -> None:
    refusal = given(submitted(), granted(), closed()).when(cancel(), at=30).then_refused(SettledOtherwise)

    assert "succeeded" == refusal.state


@pytest.mark.origin("B10", "K9", "R11")
def test_a_cancelled_runs_partial_becomes_its_result_before_the_settlement() -> None:
    after = (
        given(submitted(), granted(), cancel_asked())
        .partial("half")
        .when(cancel_due(), at=15)
        .then(AttemptEnded, PartialSalvaged(fence=1, partial=text("half")), RunSettled, LeaseRevoked)
    )

    assert text("half") == after.run.result


def test_a_settlement_of_a_run_that_has_a_result_promotes_nothing() -> None:
    waiting = given(BY_LEADER, granted(), closed("succeeded", "waiting_verdict", result="whole")).partial("half")

    after = waiting.when(cancel(), at=30).then(CancelRequested, RunSettled, LeaseRevoked)
    assert text("whole") == after.run.result


@pytest.mark.origin("B21")
def test_a_settlement_leaves_no_effect_merely_intended() -> None:
    outcome = given(submitted(), granted(), intended("mail"), cancel_asked()).when(cancel_due(), at=15)

    outcome.then(EffectsMadeAmbiguous, AttemptEnded, RunSettled, LeaseRevoked)


@pytest.mark.origin("A4", "A33", "A20")
def test_a_run_is_lost_only_by_citing_the_evidence_that_is_missing() -> None:
    evidence = Settlement(state="lost", reason="process_ended_unknown", cites=(run_citation(1),))

    def lose(standing: Standing, remains: Remains, now: Moment) -> RunDraft:
        draft = standing.draft()
        end_into(draft, evidence, remains, now)
        return draft

    after = given(submitted(), granted()).when(lose, at=5).then(AttemptEnded, RunSettled, LeaseRevoked)
    after.now_it_is("lost", fence=2)
    assert Settled(state="lost", reason="process_ended_unknown", settled_at=noon(5)) == after.run.phase


@pytest.mark.origin("A34")
def test_the_leaders_verdict_ends_the_run_as_it_says_and_raises_the_fence() -> None:
    for said in ("succeeded", "failed"):
        waiting = given(BY_LEADER, granted(), closed("succeeded", "waiting_verdict", result=1))

        after = waiting.when(verdict(said), at=30).then(VerdictRendered, LeaseRevoked).now_it_is(said, fence=2)
        assert text(1) == after.run.result


def test_a_verdict_may_bring_a_result_of_its_own() -> None:
    waiting = given(*JUDGED).partial("half")

    after = waiting.when(verdict(result="mine"), at=30).then(VerdictRendered, LeaseRevoked)
    assert text("mine") == after.run.result


def test_a_verdict_is_repeated_freely_and_never_changed() -> None:
    done = given(*JUDGED, judged("succeeded", result=1))

    done.when(verdict("succeeded"), at=40).then_nothing()
    done.when(verdict("succeeded", result=1), at=40).then_nothing()
    done.when(verdict("succeeded", result=2), at=40).then_refused(SettledOtherwise)
    done.when(verdict("failed"), at=40).then_refused(SettledOtherwise)


def test_a_verdict_on_a_run_that_is_not_closed_is_refused_naming_what_it_is() -> None:
    refusal = given(BY_LEADER, granted()).when(verdict(), at=5).then_refused(WrongState)

    assert ("running", "waiting_verdict") == (refusal.state, refusal.wanted)


def test_a_run_settled_by_its_workers_own_close_takes_no_verdict() -> None:
    given(submitted(), granted(), closed()).when(verdict("succeeded"), at=30).then_refused(SettledOtherwise)


def test_a_cancel_while_the_verdict_is_awaited_is_cancelled_and_never_succeeded() -> None:
    given(*JUDGED).when(cancel(), at=30).after.now_it_is("cancelled")


@pytest.mark.origin("A47")
def test_a_worker_whose_lease_was_revoked_reports_once_and_moves_nothing() -> None:
    revoked = given(submitted(), granted("ada"), cancel_asked()).when(cancel_due(), at=15).after

    reported = revoked.when(report_stop("saved", fence=1, by="ada"), at=16).then(
        StopReported(fence=1, worker="ada", report="saved")
    )  # fmt: skip
    reported.now_it_is("cancelled", fence=2).when(report_stop("ignored", fence=1, by="ada"), at=17).then_nothing()
    assert revoked.run.phase == reported.run.phase


def test_a_stop_report_is_for_the_worker_that_was_stopped_under_the_fence_that_was_revoked() -> None:
    revoked = given(submitted(), granted("ada"), cancel_asked()).when(cancel_due(), at=15).after

    revoked.when(report_stop(fence=1, by="bob"), at=16).then_refused(FenceLost)
    revoked.when(report_stop(fence=2, by="ada"), at=16).then_refused(FenceLost)
    revoked.when(report_stop(fence=None), at=16).then_refused(FenceLost)


def test_nobody_reports_a_stop_after_an_end_that_was_not_a_revocation() -> None:
    for ended in (granted(), (granted(), closed()), (granted(), handed_back()), (granted(), expired()), reserved()):
        given(submitted(), ended).when(report_stop(fence=1), at=70).then_refused(FenceLost)


@pytest.mark.origin("A32")
@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "aborted", "lost"])
def test_a_terminal_run_takes_no_fact_that_would_change_it(state: Terminal) -> None:
    done = given(submitted(), settled(state, "whatever", fence=1))

    done.when(expire(), at=60).then_nothing()
    done.when(cancel_due(), at=60).then_nothing()
    done.when(close(fence=1), at=60).then_refused(FenceLost)


def test_the_late_holder_of_an_aborted_run_closes_nothing() -> None:
    aborted = given(submitted(max_attempts=1), granted("ada")).when(expire(), at=60).after.now_it_is("aborted")

    refusal = aborted.when(close("succeeded", by="ada"), at=61).then_refused(FenceLost)
    assert (1, 2, "lease_expired") == (refusal.presented, refusal.current, refusal.reason)


def test_an_end_without_a_close_never_counts_twice() -> None:
    late = given(submitted(max_attempts=2), granted(), expired(failed=1))

    assert 1 == late.when(close("failed", retryable=False), at=70).fact(RunClosed).failed_attempts
    assert 1 == late.when(cancel(), at=70).after.run.failed_attempts
