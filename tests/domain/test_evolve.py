"""Evolving is total: every fact is accepted in every state, whatever was recorded before it, and counted.

Deciding refuses, evolving never does: a journal that was once acknowledged can always be read again. The facts here
are drawn from their types, so most of these histories could never be decided; a real one is among them.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import effects, lease, queue, run, worker, workspace, workspace_facts
from domain.decider import fold
from domain.run import Absent, Run
from domain.run_facts import RunFact, RunSubmitted
from tests.domain.any_facts import any_fact, any_struct

AGGREGATES: dict[str, tuple[Any, Any, Any]] = {
    "run": (run.evolve, run.ABSENT, RunFact),
    "lease": (lease.evolve, lease.VACANT, lease.LeaseFact),
    "effects": (effects.evolve, effects.EMPTY, effects.EffectFact),
    "worker": (worker.evolve, worker.UNREGISTERED, worker.WorkerFact),
    "queue": (queue.evolve, queue.UNCONFIGURED, queue.QueueFact),
    "workspace": (workspace.evolve, workspace.UNPLACED, workspace_facts.WorkspaceFact),
}


@pytest.mark.origin("A38")
@pytest.mark.parametrize("aggregate", AGGREGATES)
@settings(max_examples=150, derandomize=True)
@given(data=st.data())
def test_every_fact_is_accepted_after_any_others_and_counted(aggregate: str, data: st.DataObject) -> None:
    evolve, initial, union = AGGREGATES[aggregate]
    facts = data.draw(st.lists(any_fact(union), max_size=8))
    if aggregate == "run":
        facts = [data.draw(any_struct(RunSubmitted)), *facts]
    elif aggregate == "workspace":
        facts = [data.draw(any_struct(workspace_facts.WorkspacePlaced)), *facts]

    state = fold(evolve, initial, facts)

    assert len(facts) == state.version


@settings(max_examples=150, derandomize=True)
@given(facts=st.lists(any_fact(RunFact), max_size=8), submission=any_struct(RunSubmitted))
def test_a_run_can_be_described_after_any_history(facts: list[Any], submission: RunSubmitted) -> None:
    state: Run | Absent = fold(run.evolve, run.ABSENT, [submission, *facts])  # type: ignore[arg-type]

    assert isinstance(state, Run)
    assert state.state
    assert state.reason is None or isinstance(state.reason, str)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@settings(max_examples=60, derandomize=True)
@given(data=st.data())
def test_a_state_that_is_held_does_not_change_when_more_facts_follow(aggregate: str, data: st.DataObject) -> None:
    evolve, initial, union = AGGREGATES[aggregate]
    held = fold(evolve, initial, data.draw(st.lists(any_fact(union), max_size=5)))
    before = msgspec.structs.asdict(held) | {"copy": repr(held)}

    fold(evolve, held, data.draw(st.lists(any_fact(union), min_size=1, max_size=3)))

    assert before == msgspec.structs.asdict(held) | {"copy": repr(held)}
