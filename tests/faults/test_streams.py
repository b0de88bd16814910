"""Streams that are cut in the middle of a frame and whose service is killed: every fact exactly once, in order."""

import pytest

from tests.faults.following import follow_across, missed, repeated
from tests.system.conftest import Serving

pytestmark = [pytest.mark.system, pytest.mark.origin("D46")]

CUTS = 20


def test_every_fact_and_every_piece_of_output_is_read_once_and_in_order_across_cuts_and_kills(
    make_quick_service: Serving, seed: int
) -> None:
    assert follow_across(make_quick_service(retry_continuation_s=0).start(), seed, CUTS) > CUTS


def test_what_is_read_twice_out_of_order_or_not_at_all_is_named() -> None:
    assert ([], []) == (repeated([1, 2, 5]), missed([1, 2, 5], [1, 2, 5]))
    assert [(2, 2)] == repeated([1, 2, 2, 3])
    assert [(5, 4)] == repeated([1, 5, 4])
    assert [2] == missed([1, 3], [1, 2, 3])
