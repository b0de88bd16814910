"""A wall clock that is set while the service runs: durations do not notice, calendar times follow, order stays.

The service's own process reads a wall clock that is an hour ahead, then two hours back, then right again. Its monotonic
clock is true, as it is on a machine whose wall clock is set.
"""

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disk import Faults
from tests.system.calling import Caller
from tests.system.conftest import Serving
from tests.system.kills import Ordeal, survive
from tests.system.serving import Service, claim_one, register, submit
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("D46")]

AHEAD_S, BEHIND_S = 3_600.0, -7_200.0
JUMPS = (AHEAD_S, BEHIND_S, 0.0)


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path / "faults")


@pytest.fixture
def jumping(make_quick_service: Serving, faults: Faults, tmp_path: Path) -> Service:
    """A running service whose wall clock is set by the test."""
    service = make_quick_service(retry_continuation_s=0)
    service.faults = tmp_path / "faults"
    return service.start()


def shown(caller: Caller, run_id: str) -> dict[str, Any]:
    return dict(caller.get(f"/v1/runs/{run_id}").ok())


def instants(facts: list[dict[str, Any]]) -> list[datetime]:
    return [datetime.fromisoformat(fact["recorded_at"]) for fact in facts]


def test_no_jump_of_the_wall_clock_ends_a_lease_a_presence_or_a_reservation(jumping: Service, faults: Faults) -> None:
    caller = jumping.caller()
    caller.put("/v1/leaders/ada/sessions/one", {"ttl_s": 600}).ok()
    run_id = submit(caller, leader_id="ada")
    fence = claim_one(caller, register(caller, "steady"))["fence"]
    held = submit(caller, queue="reserved")
    reserved = caller.post("/v1/reservations", {"worker_id": "steady", "queues": ["reserved"]}).ok(201)
    for jump_s in JUMPS:
        faults.wall_s = jump_s
        caller.post(f"/v1/runs/{run_id}/partial", {"fence": fence, "partial": jump_s}).ok(204)
        renewal = caller.post("/v1/workers/steady/heartbeat", {"leases": [{"run_id": run_id, "fence": fence}]}).ok()
        assert ["renewed"] == [lease["outcome"] for lease in renewal["leases"]]
        assert 1 == caller.get("/v1/leaders/ada").ok()["connections"]
        assert ("running", "reserved") == (shown(caller, run_id)["state"], shown(caller, held)["state"])

    assert reserved
    assert (
        "succeeded" == caller.post(f"/v1/runs/{run_id}/close", {"fence": fence, "outcome": "succeeded"}).ok()["state"]
    )


def test_a_lease_that_runs_out_does_so_after_its_own_time_whatever_the_wall_shows(
    jumping: Service, faults: Faults
) -> None:
    caller = jumping.caller()
    for jump_s in JUMPS:
        run_id = submit(caller, policy={"lease_ttl_s": 0.5})
        claim_one(caller, register(caller, "silent"))
        faults.wall_s = jump_s
        until(lambda: shown(caller, run_id)["state"] == "queued", what="the lease to run out")  # noqa: B023
        expired = next(fact for fact in caller.facts(run_id) if fact["topic"] == "lease.expired.v1")
        assert "silent" == expired["data"]["worker"]
        caller.post(f"/v1/runs/{run_id}/cancel").ok()


def test_a_run_for_later_is_due_when_the_calendar_says_so(jumping: Service, faults: Faults) -> None:
    caller = jumping.caller()
    worker = register(caller, "early")
    now = datetime.fromisoformat(shown(caller, submit(caller, queue="now"))["submitted_at"])
    run_id = submit(caller, queue="later", run_after=(now + timedelta(minutes=30)).isoformat())
    asked = {"worker_id": worker, "queues": ["later"]}
    assert [] == caller.post("/v1/claims", asked).ok()["claims"]
    faults.wall_s = AHEAD_S

    assert run_id == claim_one(caller, worker, wait_s=5, queue="later")["run_id"]


def test_facts_stay_in_order_while_their_instants_do_not(jumping: Service, faults: Faults) -> None:
    caller = jumping.caller()
    run_id = submit(caller, policy={"max_attempts": 100})
    worker = register(caller, "steady")
    for jump_s in JUMPS:
        faults.wall_s = jump_s
        fence = caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": worker}).ok()["fence"]
        caller.post(f"/v1/runs/{run_id}/hand-back", {"fence": fence}).ok()
    facts = caller.facts(run_id)

    assert all(before["position"] < after["position"] for before, after in pairwise(facts))
    assert sorted(instants(facts)) != instants(facts)
    jumping.restart()
    assert facts == jumping.caller().facts(run_id)
    assert (3, "queued") == (shown(jumping.caller(), run_id)["fence"], shown(jumping.caller(), run_id)["state"])


def test_kills_of_a_service_whose_clock_was_set_back_lose_nothing(jumping: Service, faults: Faults, seed: int) -> None:
    faults.wall_s = AHEAD_S
    submit(jumping.caller())
    faults.wall_s = BEHIND_S

    assert survive(jumping, Ordeal(kills=2, seed=seed)).promises
