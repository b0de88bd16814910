"""The run: what each fact makes of it, and that every fact makes something of every run."""

from typing import get_args

import pytest

from domain.decider import fold
from domain.run import ABSENT, Absent, Queued, Running, Settled, WaitingVerdict, evolve, run_stream
from domain.run_facts import OPEN, TERMINAL, State, Terminal
from tests.domain.commands import cancel, cancel_due
from tests.domain.facts import (
    cancel_asked,
    closed,
    expired,
    granted,
    judged,
    parked,
    pause_asked,
    settled,
    submitted,
)
from tests.domain.kit import Told, given, noon, run_citation, text


def test_a_run_is_queued_from_its_submission_on() -> None:
    run = given(submitted(due=60)).run

    assert Queued(due_at=noon(60), reason="submitted") == run.phase
    assert (1, 1, 0, 0, None) == (run.version, run.revision, run.attempt, run.failed_attempts, run.acting)
    assert "run-r1" == run_stream(run.run_id)


@pytest.mark.origin("A31", "A32", "B12")
def test_the_states_are_the_open_ones_and_the_terminal_ones() -> None:
    assert set(get_args(State)) == OPEN | TERMINAL
    assert set(get_args(Terminal)) == TERMINAL
    assert not OPEN & TERMINAL


def test_a_fact_of_a_run_that_was_never_submitted_is_counted_and_nothing_else() -> None:
    assert Absent(version=2) == fold(evolve, ABSENT, [pause_asked(), cancel_asked()])  # type: ignore[arg-type]


def test_an_attempt_makes_the_run_running_and_says_who_acts() -> None:
    run = given(submitted(), granted("ada", at=5)).run

    assert isinstance(run.phase, Running)
    assert run.acting is not None
    assert ("ada", 1, noon(5)) == (run.acting.worker, run.acting.fence, run.acting.started_at)


@pytest.mark.parametrize(
    ("facts", "state", "reason"),
    [
        ((), "queued", "submitted"),
        ((granted(),), "running", None),
        ((granted(), expired()), "queued", "expired"),
        ((granted(), closed("failed", "queued")), "queued", "retry"),
        ((granted(), parked("waiting_input")), "waiting_input", "asked_by_worker"),
        ((granted(), closed("succeeded", "waiting_verdict")), "waiting_verdict", None),
        ((granted(), closed()), "succeeded", "closed"),
        ((settled("aborted", "attempts_exhausted"),), "aborted", "attempts_exhausted"),
    ],
    ids=["submitted", "running", "expired", "retried", "parked", "closed", "succeeded", "settled"],
)
def test_a_run_says_its_state_and_the_reason_for_it(facts: tuple[Told, ...], state: State, reason: str) -> None:
    run = given(submitted(), *facts).run

    assert (state, reason) == (run.state, run.reason)


def test_the_last_close_is_remembered_so_that_its_repeat_is_recognised() -> None:
    run = given(submitted(), granted(), closed("succeeded", result=1)).run

    assert run.closed is not None
    assert (1, "succeeded", text(1)) == (run.closed.fence, run.closed.outcome, run.closed.result)


def test_a_verdict_keeps_the_result_of_the_close_unless_it_brings_its_own() -> None:
    waiting = (submitted(verdict_by="leader"), granted(), closed("succeeded", "waiting_verdict", result=1))

    assert WaitingVerdict(outcome="succeeded", since=noon(20)) == given(*waiting).run.phase
    assert text(1) == given(*waiting, judged()).run.result
    assert text(2) == given(*waiting, judged(result=2)).run.result
    assert Settled(state="succeeded", reason="verdict", settled_at=noon(30)) == given(*waiting, judged()).run.phase


def test_a_wish_to_cancel_is_remembered_with_its_citation_and_forgotten_when_a_verdict_is_awaited() -> None:
    asked = given(submitted(verdict_by="leader"), granted(), cancel_asked(at=5))

    assert asked.run.cancel is not None
    assert (noon(5), noon(15), run_citation(3)) == (
        asked.run.cancel.asked_at, asked.run.cancel.settles_at, asked.run.cancel.citation,
    )  # fmt: skip
    waiting = given(submitted(verdict_by="leader"), granted(), cancel_asked(), closed("succeeded", "waiting_verdict"))
    assert waiting.run.cancel is None


def test_a_revocation_is_remembered_for_the_one_report_that_may_follow() -> None:
    revoked = given(submitted(), granted("ada"), cancel_asked()).when(cancel_due(), at=15).after

    assert {1: "ada"} == revoked.run.revoked
    assert {} == given(submitted()).when(cancel()).after.run.revoked
