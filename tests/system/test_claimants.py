"""Workers that race for runs over HTTP: every fence has one owner, and no limit is exceeded at any position.

Limits are judged on the journal and not on a clock: walking the facts in their order gives, at each position, who held
what. A barrier lets all claimants begin at once; whoever loses a race just asks again.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from journal.opening import open_readonly
from tests.system.calling import Answer, Caller
from tests.system.serving import Service, register, submit
from tests.waiting import BOUND_S

pytestmark = [pytest.mark.system, pytest.mark.origin("B3", "B9", "D59", "D61", "R7")]

RUNS = 60
QUEUE_LIMIT = 3
SLOTS = 2


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """What each of so many threads got, all having begun in the same instant."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> Any:
        barrier.wait(BOUND_S)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


@pytest.mark.parametrize("claimants", [2, 8])
def test_claimants_by_queue_never_share_a_fence(service: Service, claimants: int) -> None:
    caller = service.caller()
    body = {"runs": [{"queue": "raced"}] * RUNS}
    submitted = {run["run_id"] for run in caller.post("/v1/runs/batch", body).ok(201)["runs"]}
    workers = [register(caller, f"racer-{number}", slots=RUNS) for number in range(claimants)]

    def take_all(number: int) -> list[tuple[str, int]]:
        mine = service.caller()
        taken: list[tuple[str, int]] = []
        while True:
            asked = {"worker_id": workers[number], "queues": ["raced"], "max": 3}
            claims = mine.post("/v1/claims", asked).ok()["claims"]
            if not claims:
                return taken
            taken += [(claim["run_id"], claim["fence"]) for claim in claims]

    shares = together(claimants, take_all)

    granted = [grant for share in shares for grant in share]
    assert Counter((run_id, 1) for run_id in submitted) == Counter(granted)
    for number, share in enumerate(shares):
        held = {
            f["data"]["worker"] for run_id, _ in share for f in caller.facts(run_id) if "fence_bumped" in f["topic"]
        }
        assert {workers[number]} >= held


@pytest.mark.parametrize("claimants", [2, 8])
def test_of_claimants_of_one_run_by_its_id_one_wins_and_the_others_are_told_who(
    service: Service, claimants: int
) -> None:
    caller = service.caller()
    workers = [register(caller, f"racer-{number}") for number in range(claimants)]

    for _ in range(10):
        run_id = submit(caller)
        answers: list[Answer] = together(claimants, partial(_claim_by_id, service, run_id))

        won = [number for number, answer in enumerate(answers) if answer.status == 200]
        assert 1 == len(won)
        for number, answer in enumerate(answers):
            if number not in won:
                problem = answer.refused(409, "lease_held")
                assert (workers[won[0]], 1) == (problem["holder"], problem["fence"])
                assert 0 < problem["retry_after_s"] <= 60
        assert (1, workers[won[0]]) == (caller.get(f"/v1/runs/{run_id}").ok()["fence"], workers[won[0]])
        caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()


def _claim_by_id(service: Service, run_id: str, number: int) -> Answer:
    return service.caller().post(f"/v1/runs/{run_id}/claim", {"worker_id": f"racer-{number}"})


def test_no_limit_of_queue_key_or_slots_is_exceeded_at_any_position(service: Service) -> None:
    caller = service.caller()
    caller.put("/v1/queues/narrow", {"max_leases": QUEUE_LIMIT, "max_per_key": 1}).ok()
    wishes = [{"queue": "narrow", "concurrency_key": f"key-{number % 4}"} for number in range(RUNS)]
    caller.post("/v1/runs/batch", {"runs": wishes}).ok(201)
    for number in range(8):
        register(caller, f"racer-{number}", slots=SLOTS)

    closed = sum(together(8, lambda number: _drain(service.caller(), f"racer-{number}")))

    assert RUNS == closed
    held = list(_held_at_every_position(service))
    assert QUEUE_LIMIT == max(len(leases) for leases in held)
    assert 1 == max(max(Counter(key for key, _ in leases).values(), default=0) for leases in held)
    assert SLOTS >= max(max(Counter(worker for _, worker in leases).values(), default=0) for leases in held)


def _drain(caller: Caller, worker_id: str) -> int:
    """How many runs this worker closed until the queue was empty."""
    closed = 0
    while caller.get("/v1/queues/narrow").ok()["queued"]:
        asked = {"worker_id": worker_id, "queues": ["narrow"], "max": SLOTS, "wait_s": 0.2}
        for claim in caller.post("/v1/claims", asked).ok()["claims"]:
            ended = {"fence": claim["fence"], "outcome": "succeeded"}
            caller.post(f"/v1/runs/{claim['run_id']}/close", ended).ok()
            closed += 1
    return closed


def _held_at_every_position(service: Service) -> Iterator[list[tuple[str, str]]]:
    """Concurrency key and worker of every lease that was in force, fact after fact of the journal."""
    journal = open_readonly(service.data_dir)
    try:
        keys: dict[str, str] = {}
        held: dict[str, tuple[str, str]] = {}
        for recorded in journal.store.facts_after(0, 10_000):
            run_id = recorded.stream.partition("-")[2]
            if recorded.topic == "run.submitted.v1":
                keys[run_id] = str(getattr(recorded.fact, "concurrency_key", ""))
            elif recorded.topic == "lease.fence_bumped.v1":
                held[run_id] = (keys[run_id], str(getattr(recorded.fact, "worker", "")))
            elif recorded.topic in ("lease.released.v1", "lease.expired.v1", "lease.revoked.v1"):
                held.pop(run_id, None)
            yield list(held.values())
    finally:
        journal.close()
