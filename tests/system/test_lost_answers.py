"""Answers that get lost on the way: a command repeated under its key takes effect once, and is answered as at first."""

import pytest

from tests.system.calling import Caller, Unanswered
from tests.system.conftest import Serving
from tests.system.cutting import Cutting
from tests.system.kills import judge
from tests.system.load import Crowd
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("B27", "D38")]

COMMANDS = 600
LOST = 0.1


def test_one_answer_in_ten_is_lost_and_nothing_happens_twice(make_quick_service: Serving, seed: int) -> None:
    service = make_quick_service(retry_continuation_s=0).start()
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


def test_the_same_loss_doubles_what_is_repeated_without_a_key(make_quick_service: Serving, seed: int) -> None:
    service = make_quick_service().start()
    with Cutting(service.port, seed, LOST) as proxy:
        careless = Caller(proxy.port, service.key)
        for number in range(COMMANDS // 4):
            until(lambda: _asked(careless, number), what="an answer")  # noqa: B023
        careless.close()

    queued = service.caller().get("/v1/queues/careless").ok()["queued"]
    assert COMMANDS // 4 < queued <= COMMANDS // 4 + proxy.cuts


def _asked(caller: Caller, number: int) -> bool:
    try:
        return caller.post("/v1/runs", {"queue": "careless", "name": f"run-{number}"}).status == 201
    except Unanswered:
        return False
