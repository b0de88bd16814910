"""The laws of the ground notice what they are there for: each is broken once, by hand, and says so."""

from collections.abc import Sequence

import msgspec
import pytest

from domain.turn_facts import TurnCompleted, TurnCut, TurnFailed
from domain.values import Fact
from simulation.broken import LawBroken
from simulation.ground_laws import GROUND as ONE_BODY
from simulation.ground_laws import L7, TURNS, check_ground
from tests.domain.facts import granted, settled, submitted
from tests.domain.ground_facts import admitted, attached, destroyed, ground, lost, moved, placed, released, restarted
from tests.domain.kit import GROUND, Given, On, given, noon, on, told

HELD = (submitted(), granted())


def broken(before: Given, *facts: Fact | On) -> str:
    """The law that a decision with these facts breaks."""
    entries: Sequence[tuple[str, Fact]] = [
        (f"workspace-{each.workspace_id}", each.fact) if isinstance(each, On) else ("run-r1", each) for each in facts
    ]
    with pytest.raises(LawBroken) as found:
        check_ground(before.standing, entries, told(before.standing, facts))
    return found.value.law


@pytest.mark.origin("C11")
def test_a_second_loss_and_one_before_attachment_break_the_law_of_one_loss() -> None:
    assert L7 == broken(given(*HELD, ground(), lost()), *on(GROUND, lost()))
    assert L7 == broken(given(*HELD, placed()), *on(GROUND, lost()))


def test_a_settlement_by_a_loss_that_nobody_recorded_breaks_it_too() -> None:
    run_lost = settled("lost", "workspace_lost")[0]

    assert L7 == broken(given(*HELD, ground()), run_lost)


@pytest.mark.origin("C6", "R12")
def test_another_identity_an_earlier_phase_and_a_fact_after_the_destruction_break_the_law_of_one_body() -> None:
    assert ONE_BODY == broken(given(*HELD, ground()), *on(GROUND, attached("body-2")))
    assert ONE_BODY == broken(given(*HELD, ground(), lost()), *on(GROUND, attached()))
    assert ONE_BODY == broken(given(*HELD, ground(), restarted(3)), *on(GROUND, restarted(2)))
    gone = given(*HELD, ground(), released(), destroyed())
    assert ONE_BODY == broken(gone, *on(GROUND, released()))


def test_a_workspace_that_begins_otherwise_than_by_being_placed_breaks_it() -> None:
    sound = given(*HELD, ground())
    nothing = msgspec.structs.replace(sound.standing, workspaces=())
    with pytest.raises(LawBroken) as found:
        check_ground(nothing, [("workspace-w1", attached())], sound.standing)

    assert ONE_BODY == found.value.law


@pytest.mark.origin("R17")
def test_a_turn_that_ends_twice_or_that_nobody_admitted_breaks_the_law_of_turns() -> None:
    waiting = given(*HELD, ground(), admitted(), moved())
    completed = TurnCompleted(turn=1, completed_at=noon(20))
    failed = TurnFailed(turn=1, code="x", message=None, by="holder", cites=(), failed_at=noon(20))

    assert TURNS == broken(waiting, completed, failed)
    assert TURNS == broken(given(*HELD, ground()), completed)


def test_a_turn_that_is_admitted_under_another_fence_or_cut_for_nothing_breaks_it() -> None:
    cut = TurnCut(turn=1, reason="", cites=(), cut_at=noon(20))

    assert TURNS == broken(given(*HELD, ground()), admitted(fence=2))
    assert TURNS == broken(given(*HELD, ground(), admitted(), moved("busy")), cut)


@pytest.mark.origin("C20", "R15")
def test_a_delivered_turn_that_outlives_its_mark_breaks_it() -> None:
    assert TURNS == broken(given(*HELD, ground(), admitted(), moved()), *on(GROUND, restarted(2)))
