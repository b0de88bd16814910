"""The shape of every aggregate: folding, and collecting the facts of one decision over several streams."""

import pytest

from domain.decider import Draft, fold
from domain.lease import VACANT, evolve
from tests.domain.facts import granted, lease_expired, pause_asked, submitted
from tests.domain.kit import given


def test_a_state_is_its_facts_one_after_the_other() -> None:
    facts = [granted()[0], lease_expired()]

    assert evolve(evolve(VACANT, facts[0]), facts[1]) == fold(evolve, VACANT, facts)  # type: ignore[arg-type]
    assert VACANT == fold(evolve, VACANT, [])  # type: ignore[arg-type]


def test_a_draft_cites_each_fact_by_the_version_that_it_will_have() -> None:
    draft = Draft({"run-r1": 2, "lease-r1": 0})

    cited = [
        draft.add("run-r1", pause_asked()),
        draft.add("lease-r1", lease_expired()),
        draft.add("run-r1", submitted()),
    ]

    assert ["run-r1@3", "lease-r1@1", "run-r1@4"] == cited
    assert ["run-r1", "lease-r1", "run-r1"] == [stream for stream, _ in draft.entries]


def test_a_draft_takes_no_fact_for_a_stream_that_was_not_read() -> None:
    with pytest.raises(KeyError):
        Draft({"run-r1": 2}).add("lease-r1", lease_expired())


def test_a_states_version_is_the_number_of_its_facts() -> None:
    standing = given(submitted(), granted(), pause_asked()).standing

    assert {"run-r1": 3, "lease-r1": 1, "effects-r1": 0} == standing.versions
