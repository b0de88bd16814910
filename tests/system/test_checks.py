"""The checks themselves: each notices a promise that is broken, or the tests that rely on them prove nothing."""

from dataclasses import replace

import pytest

from tests.system.load import Diary, Promise, broken, disorder, duplicates, unvouched
from tests.system.serving import Service, claim_one, register, submit

pytestmark = pytest.mark.system

SUBMITTED = Promise("submitted", "run", 0, ("client-1",), 4)


def fact(topic: str, **data: object) -> dict[str, object]:
    """A fact as it is shown, as far as the checks look at it."""
    return {"topic": topic, "data": data}


def test_a_promise_that_the_service_does_not_keep_is_named(shared: Service) -> None:
    caller = shared.caller()
    run_id = submit(caller, queue="checked", name="checked-1")
    claim_one(caller, register(caller, "checker"), queue="checked")
    caller.post(f"/v1/runs/{run_id}/output", {"fence": 1, "seq": 0, "data": "said"}).ok(204)
    kept = [
        Promise("submitted", run_id, 0, ("checked-1",), 1),
        Promise("granted", run_id, 1, ("checker",), 2),
        Promise("output", run_id, 1, (0, "said"), None),
    ]

    assert [] == broken(caller, kept)
    for promise in (
        replace(kept[0], values=("another",)),
        replace(kept[1], fence=2),
        replace(kept[1], values=("somebody",)),
        replace(kept[2], values=(0, "unsaid")),
        replace(kept[2], values=(1, "said")),
        replace(kept[1], kind="succeed"),
    ):
        assert 1 == len(broken(caller, [promise])), promise


def test_a_clients_commands_out_of_order_or_at_one_position_are_named() -> None:
    in_order = [SUBMITTED, replace(SUBMITTED, kind="granted", position=5), replace(SUBMITTED, position=9)]

    assert [] == disorder(Diary("client", in_order))
    assert 1 == len(disorder(Diary("client", [*in_order, replace(SUBMITTED, position=8)])))
    assert 1 == len(disorder(Diary("client", [*in_order, replace(SUBMITTED, position=9)])))


@pytest.mark.parametrize(
    "twice",
    [
        fact("run.submitted.v1", name="client-1"),
        fact("lease.fence_bumped.v1", fence=2),
        fact("lease.fence_bumped.v1", fence=4),
        fact("run.closed.v1", fence=2),
        fact("effect.intended.v1", key="mail-1"),
    ],
    ids=lambda twice: f"{twice['topic']} {twice['data']}",
)
def test_what_is_in_the_journal_twice_or_under_no_next_fence_is_named(twice: dict[str, object]) -> None:
    once = [
        fact("run.submitted.v1", name="client-1"),
        fact("lease.fence_bumped.v1", fence=1),
        fact("effect.intended.v1", key="mail-1"),
        fact("run.attempt_ended.v1", fence=1),
        fact("lease.fence_bumped.v1", fence=2),
        fact("run.closed.v1", fence=2),
    ]

    assert [] == duplicates({"run": once})
    assert 1 == len(duplicates({"run": [*once, twice]}))


def test_output_that_the_end_of_its_attempt_does_not_vouch_for_is_named(shared: Service) -> None:
    caller = shared.caller()
    run_id = submit(caller, queue="vouched")
    claim_one(caller, register(caller, "checker"), queue="vouched")
    caller.post(f"/v1/runs/{run_id}/output", {"fence": 1, "seq": 0, "data": "said"}).ok(204)
    caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()
    facts = caller.facts(run_id)

    assert [] == unvouched(caller, run_id, facts)
    ended = next(one for one in facts if one["topic"] == "run.closed.v1")
    ended["data"]["work"]["output_chunks"] = 2
    assert 1 == len(unvouched(caller, run_id, facts))
