"""Workers over HTTP: they register, claim, hold, write under a fence, and let go; a stale fence writes nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.api.service import Service, running

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("output", {"seq": 0, "data": "x"}),
    ("partial", {"partial": 1}),
    ("progress", {"message": "m"}),
    ("park", {"kind": "waiting_input", "question": 1}),
    ("hand-back", {}),
    ("close", {"outcome": "succeeded"}),
    ("effects/mail", {"payload": 1}),
    ("effects/mail/complete", {"outcome": 1}),
    ("effects/mail/fail", {"outcome": 1}),
]


def run(run_id: str, verb: str = "") -> str:
    return f"/v1/runs/{run_id}{f'/{verb}' if verb else ''}"


async def test_a_claim_hands_over_everything_that_came_before(service: Service) -> None:
    run_id = await service.held(payload={"n": 1})
    await service.ok("POST", run(run_id, "partial"), {"fence": 1, "partial": {"at": 7}})
    await service.ok("POST", run(run_id, "effects/mail"), {"fence": 1, "payload": "hi"})
    await service.ok("POST", run(run_id, "effects/mail/complete"), {"fence": 1, "outcome": "sent"})
    await service.ok("POST", run(run_id, "park"), {"fence": 1, "question": "how?"})
    await service.ok("POST", run(run_id, "answer"), {"answer": "so"})

    answer = await service.ok("POST", "/v1/claims", {"worker_id": "w1"})

    claim = answer["claims"][0]
    assert (run_id, 2, 2, {"n": 1}, {"at": 7}) == tuple(
        claim[name] for name in ("run_id", "fence", "attempt", "payload", "partial")
    )
    assert [{"key": "mail", "state": "completed", "outcome": "sent"}] == claim["effects"]
    assert ("how?", "so") == (claim["answers"][0]["question"], claim["answers"][0]["answer"])
    assert answer["position"] == service.node.desk.journal.position


async def test_a_claim_when_nothing_is_due_is_an_empty_list(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})

    assert [] == (await service.ok("POST", "/v1/claims", {"worker_id": "w1"}))["claims"]


async def test_claims_are_granted_up_to_the_slots(service: Service) -> None:
    await service.ok("POST", "/v1/runs/batch", {"runs": [{}] * 5})
    await service.ok("PUT", "/v1/workers/w1", {"slots": 3})

    assert 3 == len((await service.ok("POST", "/v1/claims", {"worker_id": "w1", "max": 10}))["claims"])
    assert [] == (await service.ok("POST", "/v1/claims", {"worker_id": "w1", "max": 10}))["claims"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"max": 0}, "max"),
        ({"max": 1001}, "max"),
        ({"wait_s": -1}, "wait_s"),
        ({"wait_s": 61}, "wait_s"),
        ({"queues": []}, "queues"),
        ({"queues": [1]}, "queues.0"),
    ],
)
async def test_a_claim_out_of_bounds_is_refused_with_the_field(service: Service, body: Any, field: str) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})

    assert field == (await service.refused("POST", "/v1/claims", {"worker_id": "w1", **body}))["field"]


async def test_a_claim_that_waits_gets_the_run_that_comes(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})
    waiting = asyncio.ensure_future(service.ok("POST", "/v1/claims", {"worker_id": "w1", "wait_s": 30}))
    while not len(service.node.desk.live.bells):
        await asyncio.sleep(0)

    run_id = await service.submitted()

    assert [run_id] == [claim["run_id"] for claim in (await waiting)["claims"]]


@pytest.mark.origin("B15")
async def test_a_live_lease_is_refused_by_id_with_its_holder_and_when_to_ask_again(service: Service) -> None:
    run_id = await service.held("w1")
    await service.ok("PUT", "/v1/workers/w2", {})

    answer = await service.ask("POST", run(run_id, "claim"), {"worker_id": "w2"})

    refusal = answer.json()
    assert (409, "lease_held", "w1", 1) == tuple(refusal[name] for name in ("status", "code", "holder", "fence"))
    assert 59 < refusal["retry_after_s"] <= 60
    assert "60" == answer.headers["retry-after"]


async def test_a_reservation_is_bound_by_its_token_and_only_then_writes(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})
    run_id = await service.submitted()

    reserved = await service.ask("POST", "/v1/reservations", {"worker_id": "w1", "queues": ["default"]})
    token = reserved.json()["token"]
    early = await service.refused("POST", run(run_id, "partial"), {"fence": 1, "partial": 1})
    bound = await service.ok("POST", f"/v1/reservations/{token}/bind", {"worker_id": "w1"})
    late = await service.refused("POST", f"/v1/reservations/{token}/bind", {})

    assert (201, run_id, 1) == (reserved.status_code, reserved.json()["run_id"], reserved.json()["fence"])
    assert ("fence_lost", "reservation_lost") == (early["code"], late["code"])
    assert (run_id, 1, 1) == (bound["run_id"], bound["fence"], bound["attempt"])


async def test_a_reservation_is_given_back_and_nothing_was_consumed(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})
    run_id = await service.submitted()
    token = (await service.ok("POST", "/v1/reservations", {"worker_id": "w1"}))["token"]

    assert 204 == (await service.ask("DELETE", f"/v1/reservations/{token}")).status_code

    shown = await service.ok("GET", run(run_id))
    assert ("queued", 0, 0) == (shown["state"], shown["attempt"], shown["failed_attempts"])
    assert "reservation_lost" == (await service.refused("DELETE", f"/v1/reservations/{token}"))["code"]


async def test_nothing_to_reserve_is_no_reservation(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {})

    assert 204 == (await service.ask("POST", "/v1/reservations", {"worker_id": "w1"})).status_code


async def test_one_heartbeat_renews_every_lease_that_it_lists(service: Service) -> None:
    runs = [await service.held() for _ in range(3)]
    leases = [{"run_id": run_id, "fence": 1} for run_id in runs] + [{"run_id": "nobody", "fence": 3}]

    answers = (await service.ok("POST", "/v1/workers/w1/heartbeat", {"leases": leases}))["leases"]

    assert ["renewed", "renewed", "renewed", "lost"] == [answer["outcome"] for answer in answers]
    assert [*runs, "nobody"] == [answer["run_id"] for answer in answers]
    assert ("run_unknown", 3) == (answers[3]["reason"], answers[3]["fence"])


@pytest.mark.origin("B4", "K11")
@pytest.mark.parametrize(("verb", "body"), WRITES)
async def test_a_write_under_a_fence_that_is_not_in_force_is_refused_and_counted(
    service: Service, verb: str, body: dict[str, Any]
) -> None:
    run_id = await service.held()

    for fence in (0, 2, 99):
        refusal = await service.refused("POST", run(run_id, verb), {"fence": fence, **body})
        assert (409, "fence_lost", fence, 1, "w1") == tuple(
            refusal[name] for name in ("status", "code", "presented", "current", "holder")
        )
    stale = (await service.ok("GET", "/healthz"))["refused_stale"]
    assert [3] == list(stale.values())
    assert next(iter(stale)).startswith("POST /v1/runs/{run_id}/")
    assert 3 == len((await service.ok("GET", run(run_id, "facts")))["facts"])


@pytest.mark.parametrize(("verb", "body"), WRITES)
async def test_a_write_by_a_principal_that_is_not_the_holder_is_refused(
    service: Service, verb: str, body: dict[str, Any]
) -> None:
    run_id = await service.held("w1")
    key = service.made_key("worker", worker_ids=["w2"])

    assert "fence_lost" == (await service.refused("POST", run(run_id, verb), {"fence": 1, **body}, key=key))["code"]


@pytest.mark.origin("B11")
@pytest.mark.parametrize(("verb", "body"), WRITES)
async def test_a_write_without_a_fence_is_an_error(service: Service, verb: str, body: dict[str, Any]) -> None:
    refusal = await service.refused("POST", run(await service.held(), verb), body)

    assert (428, "fence_required") == (refusal["status"], refusal["code"])


@pytest.mark.origin("B8", "H12")
@pytest.mark.parametrize("mode", ["off", "warn"])
async def test_while_fences_are_rolled_out_a_missing_one_acts_under_the_one_in_force_and_is_counted(
    data_dir: Path, mode: str
) -> None:
    async with running(data_dir, fence_required=mode) as service:
        run_id = await service.held()

        await service.ok("POST", run(run_id, "partial"), {"partial": 1})
        stale = await service.refused("POST", run(run_id, "partial"), {"fence": 2, "partial": 1})
        closed = await service.ok("POST", run(run_id, "close"), {"outcome": "succeeded"})

        assert ("fence_lost", "succeeded") == (stale["code"], closed["state"])
        assert {"partial": 1, "close": 1} == (await service.ok("GET", "/healthz"))["unfenced"]


async def test_a_tenant_holds_as_many_leases_as_the_service_is_set_to_and_why_names_the_limit(data_dir: Path) -> None:
    async with running(data_dir, tenant_max_leases=2) as service:
        first, _ = await service.held(), await service.held("w2", queue="other")
        third = await service.submitted()

        refusal = await service.refused("POST", f"/v1/runs/{third}/claim", {"worker_id": "w1"})
        why = await service.ok("GET", f"/v1/runs/{third}/why")

        assert (409, "limit_reached", "tenant_max_leases", 2, "default") == tuple(
            refusal[name] for name in ("status", "code", "limit", "value", "subject")
        )
        assert "tenant 'default' has reached its limit of 2 leases" in str(why)
        await service.ok("POST", run(first, "close"), {"fence": 1, "outcome": "succeeded"})
        assert 1 == (await service.ok("POST", f"/v1/runs/{third}/claim", {"worker_id": "w1"}))["fence"]


async def test_the_fence_may_travel_in_the_head(service: Service) -> None:
    run_id = await service.held()
    path = run(run_id, "partial")

    await service.ok("POST", path, {"partial": 1}, headers={"Jackline-Fence": "1"})
    await service.ok("POST", path, {"partial": 1, "fence": 1}, headers={"Jackline-Fence": "1"})
    stale = await service.refused("POST", path, {"partial": 1}, headers={"Jackline-Fence": "2"})
    torn = await service.refused("POST", path, {"partial": 1, "fence": 1}, headers={"Jackline-Fence": "2"})
    garbled = await service.refused("POST", path, {"partial": 1}, headers={"Jackline-Fence": "one"})

    assert ["fence_lost", "invalid", "invalid"] == [stale["code"], torn["code"], garbled["code"]]


async def test_a_repeated_piece_of_output_is_accepted_once(service: Service) -> None:
    run_id = await service.held()

    for data in ("first", "again"):
        answer = await service.ask("POST", run(run_id, "output"), {"fence": 1, "seq": 4, "data": data})
        assert 204 == answer.status_code

    page = await service.ok("GET", run(run_id, "output"), headers={"Accept": "application/json"})
    assert [{"fence": 1, "seq": 4, "stream": "stdout", "data": "first"}] == page["chunks"]


@pytest.mark.parametrize(("size", "status"), [(256 * 1024, 204), (256 * 1024 + 1, 413), (2 * 1024 * 1024, 413)])
async def test_a_piece_of_output_is_bounded(service: Service, size: int, status: int) -> None:
    run_id = await service.held()

    answer = await service.ask("POST", run(run_id, "output"), {"fence": 1, "seq": 0, "data": "x" * size})

    assert status == answer.status_code


async def test_output_is_paged_in_order(service: Service) -> None:
    run_id = await service.held()
    for seq in range(5):
        await service.ok("POST", run(run_id, "output"), {"fence": 1, "seq": seq, "data": str(seq)})
    head = {"Accept": "application/json"}

    first = await service.ok("GET", run(run_id, "output?limit=3"), headers=head)
    rest = await service.ok("GET", run(run_id, f"output?limit=3&after={first['next_after']}"), headers=head)

    assert ("1.2", None) == (first["next_after"], rest["next_after"])
    assert "01234" == "".join(chunk["data"] for chunk in first["chunks"] + rest["chunks"])


async def test_many_closes_each_get_their_answer_in_one_append(service: Service) -> None:
    good, failing, stale = await service.held(), await service.held(), await service.held()
    before = service.node.desk.journal.position

    answer = await service.ok(
        "POST",
        "/v1/closes",
        {
            "closes": [
                {"run_id": good, "fence": 1, "outcome": "succeeded", "result": [1]},
                {"run_id": stale, "fence": 9, "outcome": "succeeded"},
                {"run_id": "nobody", "fence": 1, "outcome": "succeeded"},
                {"run_id": failing, "fence": 1, "outcome": "failed", "error": "no", "retryable": False},
            ]
        },
    )

    assert [("succeeded", None), (None, "fence_lost"), (None, "run_unknown"), ("failed", None)] == [
        (close.get("state"), close.get("code")) for close in answer["closes"]
    ]
    assert [good, stale, "nobody", failing] == [close["run_id"] for close in answer["closes"]]
    assert before + 4 == answer["position"]
    assert {"POST /v1/closes": 1} == (await service.ok("GET", "/healthz"))["refused_stale"]


async def test_an_effect_is_claimed_once_and_its_outcome_is_given_to_the_next(service: Service) -> None:
    run_id = await service.held()
    path = run(run_id, "effects/mail%2F42%20%C3%A9")

    claimed = await service.ok("POST", path, {"fence": 1, "payload": {"to": "x", "n": 1}})
    again = await service.ok("POST", path, {"fence": 1, "payload": {"n": 1, "to": "x"}})
    other = await service.ok("POST", path, {"fence": 1, "payload": {"to": "y"}})
    await service.ok("POST", f"{path}/complete", {"fence": 1, "outcome": "sent"})
    known = await service.ok("POST", path, {"fence": 1, "payload": {"to": "x", "n": 1}})

    answers = [answer["answer"] for answer in (claimed, again, other, known)]
    assert ["claimed", "ambiguous", "mismatch", "existing"] == answers
    assert "sent" == known["outcome"]
    assert ["mail/42 é"] == [effect["key"] for effect in (await service.ok("GET", run(run_id, "effects")))["effects"]]


async def test_an_ambiguous_effect_is_reconciled_by_somebody_who_found_out(service: Service) -> None:
    run_id = await service.held()
    await service.ok("POST", run(run_id, "effects/mail"), {"fence": 1, "payload": 1})
    await service.ok("POST", run(run_id, "close"), {"fence": 1, "outcome": "succeeded"})

    told = await service.ok("POST", run(run_id, "effects/mail/reconcile"), {"resolution": "done", "outcome": "sent"})

    assert ("reconciled", "done") == (told["state"], told["resolution"])


async def test_a_worker_whose_lease_was_taken_reports_once(service: Service) -> None:
    run_id = await service.held(leader_id="lead", policy={"lease_ttl_s": 0.5, "max_attempts": 1})
    answer = await service.refused("POST", run(run_id, "stop-report"), {"report": "saved"})

    assert "fence_required" == answer["code"]


async def test_a_cancel_asks_the_holder_and_a_success_stands(service: Service) -> None:
    run_id = await service.held()

    asked = await service.ok("POST", run(run_id, "cancel"), {})
    heard = await service.ok("POST", "/v1/workers/w1/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]})
    closed = await service.ok("POST", run(run_id, "close"), {"fence": 1, "outcome": "succeeded"})

    assert ["cancel"] == [each["kind"] for each in heard["leases"][0]["instructions"]]
    assert ("running", "succeeded") == (asked["state"], closed["state"])
