"""The wire contract of workspaces, observers and turns, against a service that is killed in the middle of reports."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.system.calling import Caller, Unanswered
from tests.system.conftest import Serving
from tests.system.load import chances
from tests.system.serving import Service, claim_one, register, submit
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("C8", "C11", "C13", "C17", "C36", "H14", "R14")]

SCOPE = "cluster-1"


def standing(caller: Caller, count: int = 1, **wish: Any) -> tuple[str, list[str]]:
    """A new run held under fence 1, and the workspaces of the scope that it stands on."""
    run_id = submit(caller, queue="ground", **wish)
    claim_one(caller, register(caller, "holder", slots=1000), queue="ground")
    return run_id, [placed(caller, run_id) for _ in range(count)]


def placed(caller: Caller, run_id: str) -> str:
    """A workspace of the scope, attached to by being seen."""
    made = caller.post("/v1/workspaces", {"run_id": run_id, "fence": 1, "scope": SCOPE}).ok(201)
    assert {"workspace_id", "phase"} == made.keys()
    assert "provisioning" == made["phase"]
    workspace_id = str(made["workspace_id"])
    seen = {"observations": [{"kind": "present", "identity": f"uid of {workspace_id}"}]}
    shown = caller.post(f"/v1/workspaces/{workspace_id}/observations", seen).ok()
    assert "running" == shown["phase"]
    return workspace_id


def observing(caller: Caller, **wish: Any) -> tuple[str, int]:
    """The run of the scope's observer, and its fence."""
    run_id = submit(caller, queue="_observers", concurrency_key=SCOPE, **wish)
    register(caller, "observer")
    return run_id, int(claim_one(caller, "observer", queue="_observers")["fence"])


def batch(watch: tuple[str, int], *seen: dict[str, Any], synced: bool = False) -> dict[str, Any]:
    """A batch of this observer."""
    return {"run_id": watch[0], "fence": watch[1], "scope": SCOPE, "observations": list(seen), "synced": synced}


def told(caller: Caller, body: dict[str, Any], ok: Callable[[], object] = lambda: None) -> Any:
    """The answer to a batch, said again for as long as nobody answers."""

    def definite() -> Any:
        try:
            answer = caller.post("/v1/observers/observer/observations", body)
        except Unanswered:
            ok()
            return None
        return None if answer.status == 503 else answer.ok()

    return until(definite, what="an answer to a batch", within_s=30.0)


def test_what_was_reported_is_lost_once_however_often_the_service_is_killed(make_service: Serving, seed: int) -> None:
    service, chance = make_service().start(), chances(seed)
    caller = service.caller()
    runs = [standing(caller, 3, policy={"on_workspace_lost": "retry_fresh"}) for _ in range(12)]
    watch = observing(caller)
    doomed = [workspace_id for _, workspaces in runs for workspace_id in workspaces[:2]]
    gone = [{"workspace_id": each, "kind": "gone", "reason": "Evicted"} for each in doomed]
    for round_ in range(3):
        half = gone[round_ * 8 : round_ * 8 + 8]
        killer = threading.Timer(chance.random() * 0.02, service.kill)
        killer.start()
        try:
            caller.post("/v1/observers/observer/observations", batch(watch, *half))
        except Unanswered:
            pass
        killer.join()
        service.start()
        told(caller, batch(watch, *half))

    for run_id, workspaces in runs:
        topics = [fact["topic"] for fact in caller.facts(run_id)]
        phases = [caller.get(f"/v1/workspaces/{each}").ok()["phase"] for each in workspaces]
        run = caller.get(f"/v1/runs/{run_id}").ok()
        assert (2, ["lost", "lost", "running"], 1) == (
            topics.count("workspace.lost.v1"), phases, run["failed_attempts"],
        ), seed  # fmt: skip


def test_a_restart_makes_what_stands_unknown_and_one_full_list_ends_that(make_service: Serving) -> None:
    service = make_service(observer_alarm_s=0.2).start()
    caller = service.caller()
    run_id, (stays, goes) = standing(caller, 2, policy={"on_workspace_lost": "park"})
    watch = observing(caller)
    told(caller, batch(watch, *({"workspace_id": each, "kind": "present"} for each in (stays, goes)), synced=True))

    service.kill()
    caller = service.start().caller()
    shown = caller.get(f"/v1/runs/{run_id}").ok()
    until(lambda: caller.get("/healthz").ok()["status"] == "degraded", what="the alarm")
    health = caller.get("/healthz").ok()
    answer = told(caller, batch(watch, {"workspace_id": stays, "kind": "present"}, synced=True))

    assert shown["evidence"]["unknown_since"] is not None
    assert {stays, goes} == {each["workspace_id"] for each in health["unknowns"]}
    assert (1, 1) == (answer["applied"], answer["absent"])
    assert None is caller.get(f"/v1/workspaces/{stays}").ok()["unknown_since"]
    assert "lost" == caller.get(f"/v1/workspaces/{goes}").ok()["phase"]
    assert ("ok", "waiting_takeover") == (
        caller.get("/healthz").ok()["status"], caller.get(f"/v1/runs/{run_id}").ok()["state"],
    )  # fmt: skip


def test_an_observer_that_dies_leaves_its_scope_unknown_and_its_runs_alone(make_service: Serving) -> None:
    service = make_service().start()
    caller = service.caller()
    run_id, (workspace_id,) = standing(caller)
    watch = observing(caller, policy={"lease_ttl_s": 0.5})
    told(caller, batch(watch, {"workspace_id": workspace_id, "kind": "present"}, synced=True))

    unknown = until(
        lambda: caller.get(f"/v1/workspaces/{workspace_id}").ok()["unknown_since"], what="the scope to be unknown"
    )
    late = caller.post("/v1/observers/observer/observations", batch(watch, synced=True))

    assert unknown is not None
    assert watch[1] == late.refused(409, "fence_lost")["presented"]
    assert "running" == caller.get(f"/v1/runs/{run_id}").ok()["state"]


def test_budgets_windows_and_idle_times_are_settings(make_service: Serving) -> None:
    service = make_service(provisioning_s=0.2, idle_reap_s=1.0, admission_s=0.2).start()
    caller = service.caller()
    run_id, (idle,) = standing(caller)
    turn = caller.post(f"/v1/runs/{run_id}/turns", {"fence": 1, "workspace_id": idle}).ok(201)
    failed = until(lambda: _failed_turn(caller, run_id), what="the turn to fail")
    torn = until(lambda: caller.get("/v1/workspaces?phase=teardown").ok()["items"], what="the reap")
    making = caller.post("/v1/workspaces", {"run_id": run_id, "fence": 1}).ok(201)["workspace_id"]
    until(
        lambda: caller.get(f"/v1/workspaces/{making}").ok()["phase"] == "provision_failed",
        what="the budget to be spent",
    )
    run = caller.get(f"/v1/runs/{run_id}").ok()
    kinds = [fact["data"]["kind"] for fact in caller.facts(run_id) if fact["topic"] == "run.worker_timeout.v1"]

    assert {"turn": 1, "incarnation": 0} == turn
    assert ("admission_window", [idle]) == (failed["code"], [each["workspace_id"] for each in torn])
    assert ("queued", 1, ["provision"]) == (run["state"], run["failed_attempts"], kinds)


def _failed_turn(caller: Caller, run_id: str) -> Any:
    """What the holder is told of a turn that failed, with its next renewal."""
    beat = caller.post("/v1/workers/holder/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]}).ok()
    asked = beat["leases"][0]["instructions"]
    return next((each["data"] for each in asked if each["kind"] == "turn_failed"), None)


def test_two_who_report_the_same_end_over_two_connections_make_one_loss(make_service: Serving) -> None:
    service = make_service().start()
    runs = [standing(service.caller(), policy={"on_workspace_lost": "settle_lost"}) for _ in range(10)]

    def report(to: Service) -> None:
        caller = to.caller()
        for _, (workspace_id,) in runs:
            caller.post(f"/v1/workspaces/{workspace_id}/observations", {"observations": [{"kind": "gone"}]}).ok()

    both = [threading.Thread(target=report, args=(service,)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(30)

    caller = service.caller()
    for run_id, _ in runs:
        topics = [fact["topic"] for fact in caller.facts(run_id)]
        assert (1, 1) == (topics.count("workspace.lost.v1"), topics.count("run.settled.v1"))
