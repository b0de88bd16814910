"""Workers and queues over HTTP: registered, drained, put aside, signed off, and kept within limits."""

import asyncio
from typing import Any

import pytest

from tests.api.service import Service
from tests.waiting import eventually


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


async def test_another_process_under_a_workers_id_is_refused_by_name(service: Service) -> None:
    first, second = {"Jackline-Instance": "a1"}, {"Jackline-Instance": "b2"}
    shown = await service.ok("PUT", "/v1/workers/w1", {"where": "here"}, headers=first)

    refusal = await service.refused("PUT", "/v1/workers/w1", {"where": "there"}, headers=second)
    listed = (await service.ok("GET", "/v1/workers"))["items"]

    assert ("a1", "here") == (shown["instance"]["id"], shown["instance"]["where"])
    assert (409, "worker_in_use", "here") == (refusal["status"], refusal["code"], refusal["where"])
    assert shown["instance"]["since"] == refusal["since"].replace("+00:00", "Z")
    assert 0 < refusal["retry_after_s"] <= 30
    assert [shown["instance"]] == [each["instance"] for each in listed]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/workers/w1/heartbeat", {"leases": []}),
        ("POST", "/v1/claims", {"worker_id": "w1"}),
        ("POST", "/v1/runs/{run_id}/claim", {"worker_id": "w1"}),
        ("POST", "/v1/reservations", {"worker_id": "w1"}),
        ("POST", "/v1/workers/w1/drain", {}),
        ("DELETE", "/v1/workers/w1", None),
    ],
)
async def test_whatever_another_process_asks_as_the_worker_is_refused(
    service: Service, method: str, path: str, body: Any
) -> None:
    run_id = await service.submitted()
    await service.ok("PUT", "/v1/workers/w1", {}, headers={"Jackline-Instance": "a1"})

    refusal = await service.refused(method, path.format(run_id=run_id), body, headers={"Jackline-Instance": "b2"})

    assert "worker_in_use" == refusal["code"]


@pytest.mark.parametrize(("instance", "status"), [("a" * 128, 200), ("a" * 129, 422), ("", 422), ("a b", 422)])
async def test_the_name_of_an_instance_is_bounded(service: Service, instance: str, status: int) -> None:
    answer = await service.ask("PUT", "/v1/workers/w1", {}, headers={"Jackline-Instance": instance})

    assert status == answer.status_code


@pytest.mark.parametrize(("size", "status"), [(256, 200), (257, 422)])
async def test_where_an_instance_is_is_bounded(service: Service, size: int, status: int) -> None:
    assert status == (await service.ask("PUT", "/v1/workers/w1", {"where": "x" * size})).status_code


async def test_claims_that_wait_are_given_up_when_their_worker_starts_anew(service: Service) -> None:
    head = {"Jackline-Instance": "a1"}
    await service.ok("PUT", "/v1/workers/w1", {"where": "process 1"}, headers=head)
    asked = {"worker_id": "w1", "wait_s": 60}
    waiting = asyncio.ensure_future(service.ok("POST", "/v1/claims", asked, headers=head))

    async def waits() -> bool:
        return service.node.desk.live.bells.waits(("default", "w1"))

    await eventually(waits, what="the claim waits")
    await service.ok("PUT", "/v1/workers/w1", {"where": "process 2"}, headers=head)
    run_id = await service.submitted()

    assert [] == (await waiting)["claims"]
    assert "queued" == (await service.ok("GET", run(run_id)))["state"]
