"""Answers that get lost on the way: a command repeated under its key takes effect once, and is answered as at first."""

import pytest

from tests.system.conftest import Serving
from tests.system.cutting import Cutting
from tests.system.kills import judge
from tests.system.load import Crowd
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("B27", "D38")]

COMMANDS = 600
LOST = 0.1


def test_one_answer_in_ten_is_lost_and_nothing_happens_twice(make_service: Serving, seed: int) -> None:
    service = make_service(retry_continuation_s=0).start()
    with Cutting(service.port, seed, LOST) as proxy:
        crowd = Crowd(proxy.port, service.key, 4, seed)
        crowd.start()
        try:
            until(lambda: crowd.promised >= COMMANDS, what=f"{COMMANDS} acknowledged commands", within_s=60)
        except BaseException:
            crowd.abandon()
            raise
        crowd.stop()

    judge(service, crowd, seed)
    assert proxy.cuts > COMMANDS * LOST / 2
