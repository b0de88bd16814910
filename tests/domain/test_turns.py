"""Turns: held to a mark, waiting without a deadline, ended once by whatever comes first."""

from typing import Any

import pytest

from domain.claiming import LimitReached
from domain.lease import FenceLost
from domain.refusal import InvalidCommand, WrongState
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnCut, TurnFailed, TurnMoved, TurnNoticed
from domain.turns import TURNS_OPEN_MAX, TurnOver, TurnUnknown
from domain.turns_state import TURNS_KEPT
from domain.workspace_facts import HarnessRestarted, LastSeen
from domain.workspace_refusals import MESSAGE_MAX_CHARS, REASON_MAX_CHARS, WorkspaceOver, WorkspaceUnknown, WrongPhase
from tests.domain.commands import claim, close, expire, park
from tests.domain.facts import granted, parked, submitted
from tests.domain.ground_facts import (
    admit,
    admitted,
    attach,
    complete,
    fail,
    give_up,
    ground,
    lose,
    lost,
    move,
    moved,
    notice,
    observe,
    placed,
    restarted,
    seen,
    turn_completed,
)
from tests.domain.kit import Given, given, ground_citation, noon, on


def standing(*facts: Any) -> Given:
    """A run that ada acts for, on one pod under incarnation 1."""
    return given(submitted(on_workspace_lost="retry_fresh"), granted(), ground("kubernetes"), *facts)


def restart(incarnation: int = 2, reason: str | None = "Error", exit_code: int | None = 1) -> Any:
    """The harness is seen to have been restarted."""
    return observe(seen("harness_restarted", incarnation=incarnation, reason=reason, exit_code=exit_code))


@pytest.mark.origin("C20", "C26", "C36", "R15")
def test_a_turn_is_admitted_with_the_mark_of_the_incarnation_that_is_known_then() -> None:
    outcome = standing(restarted(4)).when(admit(), at=20)

    outcome.then(TurnAdmitted(turn=1, fence=1, workspace_id="w1", incarnation=4, admitted_at=noon(20)))


@pytest.mark.origin("C34")
def test_turns_are_numbered_within_their_run_also_across_attempts() -> None:
    first = standing().when(admit()).after.when(admit()).after

    assert [1, 2] == list(first.run.turns.open)
    second = first.when(expire(), at=60).after.when(claim(), at=61).after
    assert {} == second.run.turns.open
    assert 3 == second.when(admit(fence=2)).fact(TurnAdmitted).turn


def test_only_the_holder_admits_and_only_onto_ground_that_it_stands_on() -> None:
    standing().when(admit(fence=2)).then_refused(FenceLost)
    standing(parked(kept=True)).when(admit()).then_refused(WrongState)
    standing().when(admit("w9")).then_refused(WorkspaceUnknown)
    standing(lost("PodFailed", pending=True)).when(admit()).then_refused(WorkspaceOver)
    standing(on("w2", placed(workspace_id="w2"))).when(admit("w2")).then_refused(WrongPhase)


def test_as_many_turns_are_open_as_the_bound_allows_and_no_more() -> None:
    near = standing(*(admitted(n) for n in range(1, TURNS_OPEN_MAX)))

    full = near.when(admit()).then(TurnAdmitted)
    refusal = full.when(admit()).then_refused(LimitReached)
    assert ("turns_open_max", TURNS_OPEN_MAX) == (refusal.limit, refusal.value)
    full.when(complete(7)).after.when(admit()).then(TurnAdmitted)


@pytest.mark.origin("C20", "C21")
def test_a_restart_fails_every_turn_that_waits_by_what_ended_the_last_life() -> None:
    outcome = standing(admitted(), moved(), admitted(2), moved(turn=2)).when(restart(), at=30)

    outcome.then(HarnessRestarted, TurnFailed, TurnFailed).now_it_is("running")
    failed = [fact for fact in outcome.facts if isinstance(fact, TurnFailed)]
    assert {("turn_lost", "Turn lost (Harness restarted: Error, exit 1)", "restart")} == {
        (fact.code, fact.message, fact.by) for fact in failed
    }
    assert {(ground_citation(3),)} == {fact.cites for fact in failed}


@pytest.mark.origin("C21", "C36")
def test_an_end_by_memory_is_named_as_such() -> None:
    failed = standing(admitted(), moved()).when(restart(reason="OOMKilled", exit_code=137)).fact(TurnFailed)

    assert ("memory_limit", "memory limit") == (failed.code, failed.message)


@pytest.mark.parametrize(
    ("reason", "exit_code", "message"),
    [
        (None, None, "Turn lost (Harness restarted)"),
        ("Completed", None, "Turn lost (Harness restarted: Completed)"),
        (None, 0, "Turn lost (Harness restarted: exit 0)"),
    ],
)
def test_a_turn_is_lost_with_as_much_as_was_seen(reason: str | None, exit_code: int | None, message: str) -> None:
    assert message == standing(admitted(), moved()).when(restart(2, reason, exit_code)).fact(TurnFailed).message


@pytest.mark.origin("C22", "R16")
@pytest.mark.parametrize("state", ["busy", "answer_unread"])
def test_a_turn_that_is_busy_or_unread_is_cut_and_faults_nothing(state: Any) -> None:
    outcome = standing(admitted(), moved(state)).when(restart())

    after = outcome.then(HarnessRestarted, TurnCut)
    assert "Harness restarted: Error, exit 1" == outcome.fact(TurnCut).reason
    assert ("cut", "restart") == (after.run.turns.over[0].ended, after.run.turns.over[0].by)


@pytest.mark.origin("C23", "C26", "H15", "R15")
def test_a_turn_that_was_not_delivered_outlives_a_restart_and_may_be_delivered_under_the_new_mark() -> None:
    after = standing(admitted()).when(restart()).then(HarnessRestarted)

    delivered = after.when(move(incarnation=2)).then(TurnMoved)
    assert ("waiting", 2) == (delivered.run.turns.open[1].state, delivered.run.turns.open[1].mark)


@pytest.mark.origin("C20", "C36", "H15", "R15")
@pytest.mark.parametrize("mark", [None, 1])
def test_a_delivery_under_a_mark_that_was_passed_fails_at_once(mark: int | None) -> None:
    outcome = standing(admitted(), restarted(2, "OOMKilled", 137)).when(move(incarnation=mark))

    outcome.then(TurnMoved, TurnFailed)
    assert "memory_limit" == outcome.fact(TurnFailed).code
    standing(admitted(), restarted(2)).when(move("busy", incarnation=mark)).then(TurnMoved, TurnCut)


@pytest.mark.origin("C36")
def test_a_turn_keeps_the_mark_of_its_delivery_however_it_goes_on() -> None:
    after = standing(admitted(), moved()).when(move("busy", incarnation=9)).after

    assert 1 == after.run.turns.open[1].mark
    after.when(restart(2)).then(HarnessRestarted, TurnCut)


def test_a_mark_that_is_ahead_of_what_is_watched_waits_for_a_later_restart() -> None:
    ahead = standing(admitted()).when(move(incarnation=2)).then(TurnMoved)

    after = ahead.when(restart(2)).then(HarnessRestarted)
    after.when(restart(3)).then(HarnessRestarted, TurnFailed)


def test_a_restart_ends_only_the_turns_of_its_own_workspace() -> None:
    two = standing(on("w2", ground(workspace_id="w2")), admitted(workspace_id="w2"), moved(), admitted(2, None, None))

    two.when(restart()).then(HarnessRestarted)
    two.when(attach(incarnation=2, workspace_id="w2")).then(HarnessRestarted, TurnFailed)


@pytest.mark.origin("C36", "R17")
def test_of_a_settlement_and_a_restart_the_first_stands_and_is_told_to_the_second() -> None:
    settled = standing(admitted(), moved()).when(complete()).then(TurnCompleted)
    settled.when(restart()).then(HarnessRestarted)

    ended = standing(admitted(), moved()).when(restart()).after
    refusal = ended.when(complete()).then_refused(TurnOver)
    assert ("failed", "turn_lost") == (refusal.ended, refusal.reason)
    assert "Harness restarted" in refusal.told


@pytest.mark.origin("R17")
def test_a_turn_ends_once_and_a_repeat_that_says_the_same_is_success() -> None:
    standing(admitted(), moved(), turn_completed()).when(complete()).then_nothing()
    failed = standing(admitted(), moved()).when(fail()).then(TurnFailed)
    failed.when(fail()).then_nothing()
    failed.when(fail(message="else")).then_refused(TurnOver)
    failed.when(complete()).then_refused(TurnOver)
    failed.when(move("busy")).then_refused(TurnOver)


@pytest.mark.origin("R17")
def test_the_holder_may_repeat_what_it_was_told_of_a_restart() -> None:
    ended = standing(admitted(), moved()).when(restart(reason="OOMKilled")).after

    ended.when(fail("memory_limit", "memory limit")).then_nothing()


def test_a_turn_that_nobody_admitted_is_unknown() -> None:
    for ask in (complete(9), fail(turn=9), move(turn=9), notice(turn=9)):
        assert 9 == standing(admitted()).when(ask).then_refused(TurnUnknown).turn


def test_every_settlement_needs_the_fence() -> None:
    for ask in (complete(fence=2), fail(fence=2), move(fence=2), notice(fence=2)):
        standing(admitted()).when(ask).then_refused(FenceLost)


def test_a_move_to_where_it_is_says_nothing() -> None:
    standing(admitted(), moved("busy")).when(move("busy")).then_nothing()


@pytest.mark.origin("C25")
def test_a_turn_without_a_workspace_is_outside_every_watch_and_its_worker_says_that_it_is_lost() -> None:
    outside = standing(admitted(1, None, None), moved(mark=None))

    outside.when(restart()).then(HarnessRestarted)
    failed = outside.when(fail("harness_restarted", None)).fact(TurnFailed)
    assert "Turn lost (Harness restarted)" == failed.message
    outside.when(fail("harness_restarted", None)).after.when(fail("harness_restarted", None)).then_nothing()


@pytest.mark.origin("C23", "C26")
def test_what_was_not_delivered_in_its_window_fails_with_the_last_that_was_heard_of_the_harness() -> None:
    crashing = standing(admitted(), restarted(3, "Error", 1))

    failed = crashing.when(give_up(last=LastSeen(reason="CrashLoopBackOff"))).fact(TurnFailed)
    assert ("admission_window", "window") == (failed.code, failed.by)
    assert "not delivered within the admission window (CrashLoopBackOff)" == failed.message
    assert "(Error)" in str(crashing.when(give_up()).fact(TurnFailed).message)
    assert "not delivered within the admission window" == standing(admitted()).when(give_up()).fact(TurnFailed).message


@pytest.mark.origin("C24")
def test_a_delivered_turn_has_no_deadline() -> None:
    standing(admitted(), moved()).when(give_up(), at=10_000_000).then_nothing()
    standing(admitted(), moved(), turn_completed()).when(give_up()).then_nothing()


@pytest.mark.origin("C23", "C27")
def test_a_notice_is_said_once_for_each_kind() -> None:
    said = standing(admitted(), moved()).when(notice()).then(TurnNoticed)

    said.when(notice()).then_nothing()
    said.when(notice("memory_limit")).then(TurnNoticed)
    said.when(complete()).after.when(notice()).then_nothing()


@pytest.mark.origin("C34")
def test_turns_end_silently_with_their_attempt() -> None:
    waiting = standing(admitted(), moved())
    for ends, at in ((close(), 20), (park(), 20), (expire(), 60), (lose(), 20)):
        after = waiting.when(ends, at).after

        assert ({}, (), 1) == (after.run.turns.open, after.run.turns.over, after.run.turns.last)
    assert {1} == waiting.when(park(keep=True), 20).after.run.turns.open.keys()


def test_the_last_ended_turns_are_remembered_and_no_more() -> None:
    many = [[admitted(n), turn_completed(n)] for n in range(1, TURNS_KEPT + 2)]
    after = standing(*many)

    assert TURNS_KEPT == len(after.run.turns.over)
    after.when(complete(2)).then_nothing()
    after.when(complete(1)).then_refused(TurnUnknown)


def test_the_words_of_a_failure_are_bounded() -> None:
    standing(admitted()).when(fail("x" * REASON_MAX_CHARS, "x" * MESSAGE_MAX_CHARS)).then(TurnFailed)
    standing(admitted()).when(fail("x" * (REASON_MAX_CHARS + 1))).then_refused(InvalidCommand)
    standing(admitted()).when(fail(message="x" * (MESSAGE_MAX_CHARS + 1))).then_refused(InvalidCommand)


def test_a_refused_turn_says_which_run_has_how_many_and_a_wrong_ground_in_which_phase_it_is() -> None:
    full = standing(*(admitted(n) for n in range(1, TURNS_OPEN_MAX + 1))).when(admit()).then_refused(LimitReached)
    wrong = standing(on("w2", placed(workspace_id="w2"))).when(admit("w2")).then_refused(WrongPhase)

    assert "r1" == full.subject
    assert {"workspace_id": "w2", "phase": "placing", "wanted": "running"} == wrong.fields()


def test_notices_are_forgotten_with_the_turn_that_they_were_said_of() -> None:
    first = standing(admitted()).when(notice(), at=20).after.when(complete(), at=21).after
    assert frozenset({(1, "conversation_new")}) == first.run.turns.notices

    later = first
    for number in range(2, TURNS_KEPT + 2):
        later = later.when(admit(), at=22).after.when(complete(number), at=23).after

    assert frozenset() == later.run.turns.notices


def test_a_turn_that_a_restart_ended_says_so_when_it_is_asked_about() -> None:
    ended = standing(admitted(), moved()).when(restart(), at=30).after

    assert ["restart"] == [over.by for over in ended.run.turns.over]
