"""Steering: submitting, answering, resuming, pausing and trying again; none of it consumes an attempt."""

from datetime import UTC, datetime

import pytest

from domain.lease import LeaseExpired, LeaseHeld, ReservationCancelled
from domain.run import Queued, SettledOtherwise, WrongState
from domain.run_facts import AttemptEnded, InputProvided, ParkKind, PauseRequested, RunParked, RunResumed
from domain.steering import again, submit
from domain.submission import Policy, Submit
from tests.domain.commands import answer, cancel, claim, expire, pause, resume, write
from tests.domain.facts import (
    LEADER,
    cancel_asked,
    closed,
    expired,
    granted,
    parked,
    pause_asked,
    paused,
    reserved,
    submitted,
)
from tests.domain.kit import NOON, RUN, Decide, given, noon, text


def test_a_submission_is_due_at_once_or_when_it_says() -> None:
    at_once = submit(RUN, "default", Submit(), NOON)
    later = submit(RUN, "default", Submit(run_after=noon(60)), NOON)
    past = submit(RUN, "default", Submit(run_after=datetime(2020, 1, 1, tzinfo=UTC)), NOON)

    assert (noon(), noon(60), noon()) == (at_once.due_at, later.due_at, past.due_at)


def test_a_submission_records_all_that_was_asked_for() -> None:
    command = Submit(
        queue="q", name="n", tags={"a": "b"}, payload=text(1), leader_id="lea", labels={"os": "linux"}, priority=7,
        concurrency_key="k", policy=Policy(max_attempts=5), retry_of="r0", body_digest="d",
    )  # fmt: skip

    fact = submit(RUN, "acme", command, NOON)

    assert ("acme", RUN, noon()) == (fact.tenant, fact.run_id, fact.submitted_at)
    for field in command.__struct_fields__:
        assert getattr(command, field) == getattr(fact, field)


@pytest.mark.origin("A38", "K6", "B24")
def test_a_retry_is_a_new_run_like_the_old_one_linked_to_it_and_due_at_once() -> None:
    old = given(submitted(due=3600, max_attempts=7)).run

    new = again(old)

    assert (RUN, None, None) == (new.retry_of, new.run_after, new.body_digest)
    assert (old.submission.payload, old.policy, old.submission.leader_id) == (new.payload, new.policy, new.leader_id)


@pytest.mark.origin("A36", "B14", "H11", "K7", "C33")
@pytest.mark.parametrize("kind", ["waiting_input", "waiting_peer"])
def test_an_answer_queues_the_run_in_front_due_since_its_submission_and_counts_nothing(kind: ParkKind) -> None:
    waiting = given(submitted(max_attempts=1), granted(), parked(kind))

    after = waiting.when(answer(), at=500).then(InputProvided).now_it_is("queued", fence=1)
    assert Queued(due_at=noon(), reason="answered") == after.run.phase
    assert 0 == after.run.failed_attempts


def test_an_answer_to_a_run_that_was_wanted_for_later_by_the_calendar_leaves_it_for_later() -> None:
    early = given(submitted(due=3600), granted(), parked())

    after = early.when(answer(), at=500).after.now_it_is("queued")
    assert Queued(due_at=noon(3600), reason="answered") == after.run.phase


def test_an_answer_queues_the_run_due_now_when_the_wall_was_set_back_before_its_submission() -> None:
    waiting = given(submitted(), granted(), parked())

    after = waiting.when(answer(), at=-100).after.now_it_is("queued")
    assert Queued(due_at=noon(-100), reason="answered") == after.run.phase


@pytest.mark.origin("A36")
def test_an_answer_to_a_holder_that_kept_its_live_lease_lets_it_go_on_under_the_same_fence() -> None:
    kept = given(submitted(), granted(), parked("waiting_input", kept=True))

    after = kept.when(answer("yes"), at=59.999).then(
        InputProvided(
            question=text("which one?"), answer=text("yes"), by=LEADER, fence=1, due_at=None, provided_at=noon(59.999)
        )
    )
    after.now_it_is("running", fence=1).when(write(), at=60).then_nothing()


def test_an_answer_at_the_very_deadline_of_a_kept_lease_puts_its_expiry_down_and_queues_the_run() -> None:
    kept = given(submitted(), granted(), parked("waiting_input", kept=True))

    after = kept.when(answer(), at=60).then(LeaseExpired, AttemptEnded, InputProvided).now_it_is("queued", fence=1)
    assert 0 == after.run.failed_attempts


def test_an_answer_is_kept_with_its_question_for_every_later_attempt() -> None:
    twice = given(submitted(), granted(), parked()).when(answer("a"), at=20).after
    claimed = twice.when(claim("bob"), at=21).after

    (kept,) = claimed.run.answers
    assert (text("which one?"), text("a"), LEADER, noon(20), None) == (
        kept.question, kept.answer, kept.principal, kept.at, kept.fence,
    )  # fmt: skip


def test_an_answer_under_a_pending_pause_is_kept_and_the_run_is_paused_instead_of_queued() -> None:
    waiting = given(submitted(), granted(), pause_asked(), parked("waiting_input"))

    after = waiting.when(answer(), at=20).then(InputProvided, RunParked).now_it_is("paused")
    assert 1 == len(after.run.answers)
    after.when(resume(), at=21).then(RunResumed).now_it_is("queued")


@pytest.mark.origin("A32", "R6")
@pytest.mark.parametrize(
    ("kind", "ask"), [("waiting_input", answer()), ("waiting_takeover", resume())], ids=["answer", "resume"]
)
def test_an_answer_or_a_resume_that_comes_after_the_end_of_a_cancelled_runs_lease_revives_nothing(
    kind: ParkKind, ask: Decide
) -> None:
    dying = given(submitted(), granted(), parked(kind, kept=True), cancel_asked())

    dying.when(ask, at=60).then_refused(LeaseHeld)


def test_a_run_that_asks_nothing_takes_no_answer() -> None:
    for situation in (given(submitted()), given(submitted(), granted()), given(submitted(), paused())):
        situation.when(answer(), at=5).then_refused(WrongState)
    given(submitted(), granted(), closed()).when(answer(), at=30).then_refused(SettledOtherwise)


@pytest.mark.origin("C33", "H11")
def test_a_resume_brings_a_paused_run_back_due_since_its_submission() -> None:
    after = given(submitted(), paused()).when(resume(), at=500).then(
        RunResumed(by=LEADER, fence=None, due_at=noon())
    )  # fmt: skip

    after.now_it_is("queued")
    assert Queued(due_at=noon(), reason="resumed") == after.run.phase


def test_a_resume_lets_a_holder_that_kept_its_live_lease_go_on() -> None:
    kept = given(submitted(), granted(), parked("waiting_takeover", kept=True))

    kept.when(resume(), at=59.999).then(RunResumed).now_it_is("running", fence=1)
    kept.when(resume(), at=60).then(LeaseExpired, AttemptEnded, RunResumed).now_it_is("queued", fence=1)


def test_a_resume_of_a_run_that_was_just_resumed_changes_nothing() -> None:
    back = given(submitted(), paused()).when(resume(), at=6).after

    back.when(resume(), at=7).then_nothing()


def test_a_resume_under_a_pending_pause_ends_the_wait_in_the_pause() -> None:
    waiting = given(submitted(), granted(), pause_asked(), parked("waiting_takeover"))

    after = waiting.when(resume(), at=20).then(RunResumed, RunParked).now_it_is("paused")
    after.when(resume(), at=21).then(RunResumed).now_it_is("queued")


def test_only_a_run_that_waits_without_a_question_is_resumed() -> None:
    for situation in (given(submitted()), given(submitted(), granted()), given(submitted(), granted(), parked())):
        situation.when(resume(), at=20).then_refused(WrongState)


@pytest.mark.origin("C33", "D16")
def test_a_pause_stops_a_queued_run_at_once_and_takes_a_reservation_back() -> None:
    given(submitted()).when(pause(), at=5).then(PauseRequested, RunParked).now_it_is("paused", fence=0)
    given(submitted(), reserved()).when(pause(), at=5).then(PauseRequested, ReservationCancelled, RunParked).now_it_is(
        "paused", fence=1
    )


def test_a_pause_is_put_down_as_the_leaders_with_no_question_and_no_lease() -> None:
    assert RunParked(
        kind="paused", question=text(None), lease_kept=False, reason="asked_by_principal", parked_at=noon(5)
    ) == given(submitted()).when(pause(), at=5).fact(RunParked)


def test_a_pause_of_a_running_run_is_only_asked_for_and_asked_once() -> None:
    asked = given(submitted(), granted()).when(pause(), at=5).then(PauseRequested).now_it_is("running", fence=1)

    assert asked.run.pause_asked
    asked.when(pause(), at=6).then_nothing()
    asked.when(write(), at=6).then_nothing()


def test_a_pause_of_a_paused_run_changes_nothing() -> None:
    given(submitted(), paused()).when(pause(), at=6).then_nothing()


def test_a_run_that_waits_for_somebody_else_is_not_paused() -> None:
    refusal = given(submitted(), granted(), parked("waiting_peer")).when(pause(), at=20).then_refused(WrongState)

    assert "waiting_peer" == refusal.state


def test_a_pause_is_over_with_the_run_that_it_was_asked_for() -> None:
    ended = given(submitted(), granted(), pause_asked(), closed())
    judged = given(submitted(verdict_by="leader"), granted(), pause_asked(), closed("succeeded", "waiting_verdict"))

    ended.when(pause(), at=30).then_refused(SettledOtherwise)
    judged.when(pause(), at=30).then_refused(WrongState)


def test_a_paused_run_is_cancelled_at_once() -> None:
    given(submitted(), paused()).when(cancel(), at=6).after.now_it_is("cancelled")


def test_a_pause_waits_for_an_attempt_that_is_over_but_not_yet_put_down() -> None:
    asked = given(submitted(), granted()).when(pause(), at=61).then(PauseRequested)

    asked.when(expire(), at=61).after.now_it_is("paused")
    given(submitted(), granted(), expired()).when(pause(), at=61).then(PauseRequested, RunParked).now_it_is("paused")
