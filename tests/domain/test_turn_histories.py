"""Turns and restarts in any order: a turn ends once, by whatever came first, and none outlives its mark."""

from typing import Any

import pytest
from hypothesis import example, settings
from hypothesis import given as given_any
from hypothesis import strategies as st

from domain.observing import Observation
from domain.refusal import Refusal
from domain.turn_facts import TurnAdmitted, TurnCompleted, TurnCut, TurnFailed, TurnMoved
from domain.values import Fact
from tests.domain.facts import granted, submitted
from tests.domain.ground_facts import admit, complete, fail, give_up, ground, move, notice, observe
from tests.domain.kit import Decide, given

TURNS = st.integers(1, 3)
MARKS = st.sampled_from([None, 1, 2, 3, 4])
STATES: Any = st.sampled_from(["waiting", "waiting", "busy", "answer_unread"])
RESTARTS = st.builds(
    Observation, kind=st.just("harness_restarted"), incarnation=st.sampled_from([None, 1, 2, 3, 4]),
    reason=st.sampled_from([None, "Error", "OOMKilled"]), exit_code=st.sampled_from([None, 0, 137]),
)  # fmt: skip
ASKS: st.SearchStrategy[Decide] = st.one_of(
    st.sampled_from(["w1", "w1", None]).map(admit),
    st.builds(move, STATES, MARKS, TURNS),
    st.builds(move, STATES, MARKS, TURNS),
    TURNS.map(complete),
    TURNS.map(lambda turn: fail(turn=turn)),
    TURNS.map(give_up),
    TURNS.map(lambda turn: notice(turn=turn)),
    RESTARTS.map(observe),
)
HELD = (submitted(), granted(), ground("kubernetes"))
ENDS = (TurnCompleted, TurnFailed, TurnCut)


@pytest.mark.origin("C20", "C22", "C36", "R15", "R16", "R17")
@settings(max_examples=400, derandomize=True)
@given_any(asks=st.lists(ASKS, min_size=6, max_size=20))
@example(asks=[admit(), move(), observe(Observation(kind="harness_restarted")), complete()])
def test_a_turn_ends_once_after_it_was_admitted_and_before_nothing_else(asks: list[Decide]) -> None:
    now, recorded = given(*HELD), list[Fact]()
    for decide in [admit(), *asks]:
        outcome = now.when(decide, at=20)
        try:
            now = outcome.after
        except Refusal:
            continue
        recorded += outcome.facts

    story: dict[int, list[Any]] = {}
    for fact in recorded:
        if isinstance(fact, (TurnAdmitted, TurnMoved, *ENDS)):
            story.setdefault(fact.turn, []).append(fact)
    for number, facts in story.items():
        ends = [fact for fact in facts if isinstance(fact, ENDS)]
        assert isinstance(facts[0], TurnAdmitted)
        assert len(ends) <= 1
        assert not ends or facts[-1] is ends[0]
        assert (number in now.run.turns.open) == (not ends)
        delivered = any(isinstance(fact, TurnMoved) for fact in facts)
        assert delivered or not any(isinstance(fact, TurnCut) for fact in ends)


@settings(max_examples=150, derandomize=True)
@given_any(state=STATES, mark=MARKS, starts=st.integers(1, 4), reason=st.sampled_from([None, "OOMKilled"]))
def test_a_delivered_turn_ends_exactly_when_its_mark_is_passed(
    state: Any, mark: int | None, starts: int, reason: str | None
) -> None:
    delivered = given(*HELD).when(admit()).after.when(move(state, mark)).after
    report = Observation(kind="harness_restarted", incarnation=starts, reason=reason)
    after = delivered.when(observe(report)).after

    held_to = 1 if mark is None else mark
    assert (starts > held_to) == (1 not in after.run.turns.open)
    if starts > held_to:
        (over,) = after.run.turns.over
        cut = state in ("busy", "answer_unread")
        assert ("cut" if cut else "failed", "restart") == (over.ended, over.by)
        assert cut or over.code == ("memory_limit" if reason else "turn_lost")
