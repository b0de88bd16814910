"""The lease clock: anchored before the question, over at its very instant."""

import pytest

from jackline.lease import MARGIN_MAX_S, MARGIN_MIN_S, Trust

pytestmark = pytest.mark.origin("K4")


def test_trust_is_counted_from_the_question_and_not_from_the_answer() -> None:
    trust = Trust(asked_at=100.0, ttl_s=60.0)

    assert 100.0 + 60.0 - MARGIN_MAX_S == trust.trusted_until


def test_a_lease_is_not_trusted_any_more_at_the_very_instant_until_which_it_was() -> None:
    trust = Trust(asked_at=0.0, ttl_s=10.0)

    assert (True, False) == (trust.holds(8.999), trust.holds(9.0))


@pytest.mark.parametrize(("ttl_s", "margin_s"), [(0.5, MARGIN_MIN_S), (10.0, 1.0), (3600.0, MARGIN_MAX_S)])
def test_the_margin_is_a_tenth_of_the_ttl_within_bounds(ttl_s: float, margin_s: float) -> None:
    assert margin_s == Trust(0.0, ttl_s).margin_s


def test_an_answer_that_was_overtaken_does_not_shorten_the_trust() -> None:
    later, earlier = Trust(20.0, 60.0), Trust(10.0, 60.0)

    assert later is earlier.later(later)
    assert later is later.later(earlier)


@pytest.mark.parametrize(("grace_s", "lead_s"), [(10.0, 10.0), (30.0, 15.0), (0.0, 0.0)])
def test_ending_in_good_order_may_take_at_most_a_quarter_of_the_ttl(grace_s: float, lead_s: float) -> None:
    assert lead_s == Trust(0.0, 60.0).lead_s(grace_s)
