"""Workers and queues over HTTP: registered, drained, put aside, signed off, and kept within limits."""

from typing import Any

import pytest

from tests.api.service import Service


def run(run_id: str, verb: str = "") -> str:
    return f"/v1/runs/{run_id}{f'/{verb}' if verb else ''}"


async def test_a_worker_is_shown_as_it_registered(service: Service) -> None:
    worker = await service.ok("PUT", "/v1/workers/w1", {"labels": {"arch": "arm"}, "slots": 3})

    assert ("w1", "active", {"arch": "arm"}, 3, 0) == tuple(
        worker[name] for name in ("worker_id", "state", "labels", "slots", "slots_used")
    )
    assert ["w1"] == [each["worker_id"] for each in (await service.ok("GET", "/v1/workers"))["items"]]


@pytest.mark.parametrize("slots", [0, 10_001, "3", 1.5, None])
async def test_slots_are_bounded_on_both_sides(service: Service, slots: Any) -> None:
    assert "slots" == (await service.refused("PUT", "/v1/workers/w1", {"slots": slots}))["field"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/claims", {"worker_id": "nobody"}),
        ("POST", "/v1/reservations", {"worker_id": "nobody"}),
        ("POST", "/v1/workers/nobody/heartbeat", {"leases": []}),
        ("GET", "/v1/workers/nobody", None),
        ("POST", "/v1/workers/nobody/drain", {}),
    ],
)
async def test_an_unregistered_worker_is_unknown(service: Service, method: str, path: str, body: Any) -> None:
    refusal = await service.refused(method, path, body)

    assert (404, "worker_unknown", "nobody") == (refusal["status"], refusal["code"], refusal["worker_id"])


async def test_a_worker_that_holds_leases_may_not_leave(service: Service) -> None:
    run_id = await service.held()

    refusal = await service.refused("DELETE", "/v1/workers/w1")
    await service.ok("POST", run(run_id, "hand-back"), {"fence": 1})
    left = await service.ask("DELETE", "/v1/workers/w1")

    assert (409, "leases_held", [run_id]) == (refusal["status"], refusal["code"], refusal["run_ids"])
    assert 204 == left.status_code


@pytest.mark.origin("D53")
async def test_a_draining_worker_is_granted_nothing_however_often_it_is_told(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})
    states = [(await service.ok("POST", "/v1/workers/w1/drain", {}))["state"] for _ in range(2)]

    refusal = await service.refused("POST", "/v1/claims", {"worker_id": "w1"})
    back = await service.ok("PUT", "/v1/workers/w1", {})

    assert (["draining", "draining"], "worker_draining", "active") == (states, refusal["code"], back["state"])


async def test_a_poisoned_worker_is_quarantined_until_it_is_released(service: Service) -> None:
    run_id = await service.held()
    error = {"code": "workspace_hook_failed", "more": 1}
    await service.ok("POST", run(run_id, "close"), {"fence": 1, "outcome": "failed", "error": error})

    quarantined = await service.ok("GET", "/v1/workers/w1")
    refusal = await service.refused("POST", "/v1/claims", {"worker_id": "w1"})
    released = await service.ok("POST", "/v1/workers/w1/release", {})

    assert ("quarantined", "workspace_hook_failed") == (quarantined["state"], quarantined["quarantine"]["reason"])
    assert ("worker_quarantined", "active") == (refusal["code"], released["state"])


async def test_the_limits_of_a_queue_are_kept_and_shown(service: Service) -> None:
    await service.ok("PUT", "/v1/queues/narrow", {"max_leases": 1})
    await service.ok("POST", "/v1/runs/batch", {"runs": [{"queue": "narrow"}] * 3})
    await service.ok("PUT", "/v1/workers/w1", {"slots": 10})

    claims = (await service.ok("POST", "/v1/claims", {"worker_id": "w1", "queues": ["narrow"], "max": 3}))["claims"]

    queue = await service.ok("GET", "/v1/queues/narrow")
    assert (1, 1, 1, 2, 1) == (
        len(claims),
        queue["max_leases"],
        queue["max_per_key"],
        queue["queued"],
        queue["leases"],
    )
    assert ["narrow"] == [each["queue"] for each in (await service.ok("GET", "/v1/queues"))["items"]]


async def test_a_worker_bound_to_its_ids_acts_for_no_other(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w2", {})
    run_id = await service.submitted()
    key = service.made_key("worker", "hand", worker_ids=["w1"])

    asked: list[tuple[str, str, Any]] = [
        ("PUT", "/v1/workers/w2", {}),
        ("POST", "/v1/claims", {"worker_id": "w2"}),
        ("POST", run(run_id, "claim"), {"worker_id": "w2"}),
        ("POST", "/v1/reservations", {"worker_id": "w2"}),
        ("POST", "/v1/workers/w2/heartbeat", {"leases": []}),
        ("POST", "/v1/workers/w2/drain", {}),
        ("DELETE", "/v1/workers/w2", None),
    ]

    codes = [(await service.refused(method, path, body, key=key))["code"] for method, path, body in asked]
    assert {"not_allowed"} == set(codes)


async def test_an_operator_puts_a_worker_aside_with_a_reason_until_it_is_released(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})

    aside = await service.ok("POST", "/v1/workers/w1/quarantine", {"reason": "its disk is full"})
    unknown = await service.refused("POST", "/v1/workers/nobody/quarantine", {"reason": "?"})
    released = await service.ok("POST", "/v1/workers/w1/release", {})

    assert ("quarantined", "its disk is full") == (aside["state"], aside["quarantine"]["reason"])
    assert "worker_unknown" == unknown["code"]
    assert "active" == released["state"]
