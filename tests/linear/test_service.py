"""What concurrent clients of a real service are told of a run, its lease and its effects has an order that explains it.

Answers are cut on the way and the service is killed with -9 meanwhile; nothing of it may show in what anybody is told.
"""

from dataclasses import replace

import pytest

from tests.linear.checker import linearizable
from tests.linear.judging import Plan, collected, counted, unexplained
from tests.linear.models import RunModel
from tests.system.conftest import Serving
from tests.system.serving import Service

pytestmark = [pytest.mark.system, pytest.mark.origin("B33")]

EVERY_KIND = {
    "claim ok", "claim refused", "get ok", "partial ok", "partial refused", "hand_back ok", "hand_back refused",
    "effect_claim ok", "effect_claim refused", "effect_fail ok", "effect_fail refused",
}  # fmt: skip


@pytest.fixture
def service(make_quick_service: Serving) -> Service:
    return make_quick_service(retry_continuation_s=0).start()


def test_one_order_explains_what_clients_were_told_while_answers_are_lost(service: Service, seed: int) -> None:
    groups = collected(service, Plan(seed, runs=20, operations=40, cut=0.03))

    assert [] == unexplained(groups, may_expire=False), seed
    assert counted(groups).keys() >= EVERY_KIND
    assert sum(count for kind, count in counted(groups).items() if kind.endswith("unknown")) > 0


def test_one_order_explains_what_clients_were_told_across_kills_of_the_service(service: Service, seed: int) -> None:
    def kill() -> None:
        for _ in range(3):
            service.kill()
            service.start()

    groups = collected(service, Plan(seed, runs=6, operations=80), kill)

    assert [] == unexplained(groups, may_expire=False), seed


def test_one_order_explains_what_clients_were_told_while_leases_run_out(service: Service, seed: int) -> None:
    groups = collected(service, Plan(seed, runs=3, operations=50, quiet=True))

    assert [] == unexplained(groups, may_expire=True), seed
    assert any(fence > 2 for group in groups for fence in group.fences.values()), "no lease ran out"


def test_a_real_history_in_which_one_answer_is_altered_is_not_explained(service: Service, seed: int) -> None:
    groups = collected(service, Plan(seed, runs=4, operations=30))
    explained = []
    for group in groups:
        for run_id, history in group.histories.items():
            place = next(n for n, one in enumerate(history) if one.asked == ("claim",) and one.told[0] == "ok")
            told = history[place].told
            history[place] = replace(history[place], told=(told[0], told[1] + 1, *told[2:]))
            if linearizable(history, RunModel(may_expire=True)):
                explained.append(run_id)

    assert [] == explained
