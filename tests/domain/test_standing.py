"""How one run stands: its three streams read together, and who may write."""

import pytest

from domain.lease import FenceLost, FenceRequired, Held
from domain.refusal import RunUnknown
from domain.run_facts import AttemptEnded
from domain.standing import Presented, holder, late_holder, refuse_settled
from domain.values import Moment
from tests.domain.commands import claim, presented, write
from tests.domain.facts import expired, granted, parked, paused, reserved, settled, submitted
from tests.domain.kit import NOON, RUN, given, noon, run_citation


def test_a_queued_run_whose_lease_is_reserved_is_reserved() -> None:
    given(submitted()).now_it_is("queued")
    given(submitted(), reserved()).now_it_is("reserved")


def test_a_run_that_was_never_submitted_has_no_state() -> None:
    with pytest.raises(RunUnknown):
        _ = given().standing.state


def test_every_decision_is_guarded_by_all_three_streams_of_its_run() -> None:
    assert {"run-r1", "lease-r1", "effects-r1"} == set(given(submitted()).standing.versions)


@pytest.mark.origin("B4", "B5", "K11", "D43")
def test_the_holder_is_whoever_holds_under_exactly_that_fence_whatever_the_clock_says() -> None:
    held = given(submitted(), granted("ada"))

    assert "ada" == holder(held.standing, presented(1, "ada")).worker
    held.when(write(1, "ada"), at=86_400).then_nothing()
    for fence, by in ((0, None), (2, None), (1, "bob")):
        held.when(write(fence, by)).then_refused(FenceLost)


@pytest.mark.origin("B8", "B11", "H12")
def test_where_fences_are_not_required_a_missing_one_acts_under_the_one_in_force_and_a_stale_one_never() -> None:
    held = given(submitted(), granted("ada"), expired(), granted("bob", 2, at=61))

    held.when(write(None, required=True)).then_refused(FenceRequired)
    held.when(write(None, "bob", required=False)).then_nothing()
    held.when(write(None, "ada", required=False)).then_refused(FenceLost)
    held.when(write(1, required=False)).then_refused(FenceLost)


def test_a_missing_fence_acts_for_nobody_when_nobody_holds() -> None:
    for nobody in (given(submitted()), given(submitted(), reserved()), given(submitted(), granted(), parked())):
        assert "no_fence_presented" == nobody.when(write(None, required=False)).then_refused(FenceLost).reason


def test_a_principal_may_be_the_workers_that_it_names_or_any() -> None:
    assert Presented(fence=1).may_be("ada")
    assert Presented(fence=1, workers=frozenset({"ada"})).may_be("ada")
    assert not Presented(fence=1, workers=frozenset({"ada"})).may_be("bob")
    assert not Presented(fence=1, workers=frozenset()).may_be("ada")


@pytest.mark.origin("H6")
def test_the_late_holder_is_the_last_one_while_its_run_is_still_queued() -> None:
    late = given(submitted(), granted("ada"), expired())

    assert late_holder(late.standing, presented(1, "ada"))
    assert not late_holder(late.standing, presented(1, "bob"))
    assert not late_holder(late.standing, presented(2, "ada"))
    assert not late_holder(late.standing, presented(None))
    assert not late_holder(given(submitted(), granted(), expired(), paused()).standing, presented(1))
    assert not late_holder(late.when(claim("bob"), at=61).after.standing, presented(1, "ada"))


def test_a_lease_is_live_while_its_own_mark_says_so() -> None:
    held = given(submitted(), granted("ada"))

    assert held.standing.live(NOON.after(59.999))
    assert not held.standing.live(NOON.after(60))
    assert held.unmarked().standing.live(NOON.after(86_400))
    assert not given(submitted()).standing.live(NOON)
    assert not given(submitted(), reserved()).standing.live(NOON)


def test_a_settled_run_is_refused_by_name() -> None:
    refuse_settled(given(submitted()).standing)
    with pytest.raises(Exception, match="is cancelled"):
        refuse_settled(given(submitted(), settled("cancelled", "cancelled")).standing)


def test_a_draft_finds_the_citation_of_its_own_last_fact_of_a_kind() -> None:
    draft = given(submitted(), granted("ada")).standing.draft()
    assert isinstance(draft.standing.lease, Held)

    cited = draft.on_run(expired()[2])

    assert run_citation(3) == cited == draft.last(AttemptEnded)
    assert RUN == draft.standing.run_id
    assert "" == draft.last(type(submitted()))


def test_an_end_is_told_by_the_clock_that_runs_on_it_and_as_recorded_where_none_does() -> None:
    ahead = given(submitted(), reserved(lapses=120))
    set_back = Moment(noon(-3590), NOON.mono + 10)

    assert noon(-3480) == ahead.standing.ends_at(noon(120), set_back)
    assert noon(120) == ahead.clockless().standing.ends_at(noon(120), set_back)
