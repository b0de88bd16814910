"""Runs over HTTP: submitted once, shown at once, listed, waited for, steered, hidden from whom they do not concern."""

import asyncio
from typing import Any

import pytest

from tests.api.service import Service

SUBMIT = "/v1/runs"


async def test_a_submission_is_acknowledged_with_its_position_in_body_and_head(service: Service) -> None:
    answer = await service.ask("POST", SUBMIT, {"payload": {"n": 1}})

    receipt = answer.json()
    assert (201, "queued", None) == (answer.status_code, receipt["state"], receipt["leader"])
    assert str(receipt["position"]) == answer.headers["jackline-position"]


async def test_everything_may_be_left_out_also_the_body(service: Service) -> None:
    assert "queued" == (await service.ok("POST", SUBMIT))["state"]
    assert "queued" == (await service.ok("POST", SUBMIT, {}))["state"]


async def test_a_run_is_shown_with_what_was_submitted_the_moment_it_is_acknowledged(service: Service) -> None:
    wish: dict[str, Any] = {
        "queue": "builds",
        "name": "nightly",
        "tags": {"team": "core"},
        "labels": {"arch": "arm"},
        "priority": 7,
        "run_after": "2030-01-01T00:00:00Z",
        "concurrency_key": "db",
        "payload": {"a": [1, 2.5, None, "é"]},
        "policy": {"max_attempts": 5, "lease_ttl_s": 0.5},
    }
    run_id = await service.submitted(**wish)

    run = await service.ok("GET", f"{SUBMIT}/{run_id}")

    shown = {name: run[name] for name in wish if name != "policy"}
    assert shown == {name: value for name, value in wish.items() if name != "policy"}
    assert (5, 0.5, 300.0) == tuple(run["policy"][name] for name in ("max_attempts", "lease_ttl_s", "retry_cap_s"))
    assert ("queued", 0, 0, None) == (run["state"], run["fence"], run["attempt"], run["owner"])


async def test_the_callers_json_comes_back_byte_for_byte(service: Service) -> None:
    payload = b'{"price":1.10,"id":123456789012345678901234567890,"_type_":"x","_data_":"y"}'
    run_id = (await service.ok("POST", SUBMIT, b'{"payload":' + payload + b"}"))["run_id"]

    answer = await service.ask("GET", f"{SUBMIT}/{run_id}")

    assert payload in answer.content


async def test_a_repeat_under_the_same_key_in_the_body_repeats_status_and_body(service: Service) -> None:
    wish = {"idempotency_key": "once", "payload": 1}

    first, again = await service.ask("POST", SUBMIT, wish), await service.ask("POST", SUBMIT, wish)

    assert (201, first.json()) == (again.status_code, again.json())


async def test_another_body_under_the_same_key_in_the_body_is_refused(service: Service) -> None:
    await service.ok("POST", SUBMIT, {"idempotency_key": "once", "payload": 1})

    refusal = await service.refused("POST", SUBMIT, {"idempotency_key": "once", "payload": 2})

    assert (422, "idempotency_mismatch") == (refusal["status"], refusal["code"])


async def test_the_same_body_says_the_same_however_its_keys_are_ordered(service: Service) -> None:
    first = await service.ok("POST", SUBMIT, b'{"idempotency_key":"k","payload":{"a":1,"b":2},"queue":"q"}')
    again = await service.ok("POST", SUBMIT, b'{ "queue":"q", "payload":{"b":2,"a":1}, "idempotency_key":"k"}')

    assert first == again


@pytest.mark.origin("D58")
async def test_a_command_repeated_under_its_idempotency_key_has_one_effect_and_one_answer(service: Service) -> None:
    head = {"Idempotency-Key": "a-key"}

    first = await service.ask("POST", SUBMIT, {"payload": 1}, headers=head)
    again = await service.ask("POST", SUBMIT, b'{ "payload" : 1 }', headers=head)

    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert first.headers["jackline-position"] == again.headers["jackline-position"]
    assert 1 == service.node.desk.journal.position


async def test_another_body_under_the_same_idempotency_key_is_refused(service: Service) -> None:
    head = {"Idempotency-Key": "a-key"}
    await service.ok("POST", SUBMIT, {"payload": 1}, headers=head)

    refusal = await service.refused("POST", SUBMIT, {"payload": 2}, headers=head)

    assert (422, "idempotency_mismatch") == (refusal["status"], refusal["code"])


async def test_an_idempotency_key_belongs_to_its_principal_and_its_path(service: Service) -> None:
    head = {"Idempotency-Key": "a-key"}
    mine = await service.ok("POST", SUBMIT, {}, headers=head)
    other = await service.ok("POST", SUBMIT, {}, headers=head, key=service.made_key("leader", "somebody-else"))

    assert mine["run_id"] != other["run_id"]
    for run_id in (mine["run_id"], other["run_id"]):
        assert run_id == (await service.ok("POST", f"{SUBMIT}/{run_id}/cancel", {}, headers=head))["run_id"]


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_an_idempotency_key_outside_its_bounds_is_refused(service: Service, key: str) -> None:
    refusal = await service.refused("POST", SUBMIT, {}, headers={"Idempotency-Key": key})

    assert ("invalid", "Idempotency-Key") == (refusal["code"], refusal["field"])


async def test_a_batch_is_one_append_in_order(service: Service) -> None:
    answer = await service.ok("POST", f"{SUBMIT}/batch", {"runs": [{"name": f"n{number}"} for number in range(3)]})

    names = [(await service.ok("GET", f"{SUBMIT}/{run['run_id']}"))["name"] for run in answer["runs"]]
    assert (["n0", "n1", "n2"], 3) == (names, answer["position"])


async def test_a_batch_with_one_run_out_of_bounds_submits_none(service: Service) -> None:
    refusal = await service.refused("POST", f"{SUBMIT}/batch", {"runs": [{}, {"policy": {"lease_ttl_s": 0.4}}]})

    assert "invalid" == refusal["code"]
    assert 0 == service.node.desk.journal.position


@pytest.mark.parametrize(("runs", "status"), [(1000, 201), (1001, 422), (0, 422)])
async def test_a_batch_is_bounded(service: Service, runs: int, status: int) -> None:
    answer = await service.ask("POST", f"{SUBMIT}/batch", {"runs": [{}] * runs})

    assert status == answer.status_code


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"policy": {"lease_ttl_s": 0.49}}, "policy.lease_ttl_s"),
        ({"policy": {"lease_ttl_s": 3600.1}}, "policy.lease_ttl_s"),
        ({"queue": "no spaces"}, "queue"),
        ({"queue": ""}, "queue"),
        ({"policy": {"verdict_by": "leader"}}, "policy.verdict_by"),
        ({"unknown": 1}, "unknown"),
    ],
)
async def test_a_submission_out_of_bounds_is_refused_with_the_field(service: Service, wish: Any, field: str) -> None:
    refusal = await service.refused("POST", SUBMIT, wish)

    assert (422, "invalid", field) == (refusal["status"], refusal["code"], refusal["field"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/facts"),
        ("GET", "/output"),
        ("GET", "/effects"),
        ("GET", "/why"),
        ("POST", "/cancel"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/retry"),
    ],
)
async def test_an_unknown_run_is_unknown_on_every_road(service: Service, method: str, path: str) -> None:
    refusal = await service.refused(method, f"{SUBMIT}/nobody{path}", {} if method == "POST" else None)

    assert (404, "run_unknown", "nobody") == (refusal["status"], refusal["code"], refusal["run_id"])


async def test_a_list_waits_for_the_position_that_its_caller_has_seen(service: Service) -> None:
    position = (await service.ok("POST", SUBMIT, {"name": "mine", "tags": {"k": "v"}}))["position"]

    page = await service.ok("GET", f"{SUBMIT}?tag=k:v&state=queued&state=running&min_position={position}")

    assert ["mine"] == [run["name"] for run in page["items"]]
    assert page["position"] >= position
    assert "payload" not in page["items"][0]


async def test_a_list_is_paged_to_its_end(service: Service) -> None:
    receipt = await service.ok("POST", f"{SUBMIT}/batch", {"runs": [{} for _ in range(5)]})
    seen, cursor = [], ""
    while cursor is not None:
        query = f"limit=2&min_position={receipt['position']}{f'&cursor={cursor}' if cursor else ''}"
        page = await service.ok("GET", f"{SUBMIT}?{query}")
        seen += [run["run_id"] for run in page["items"]]
        cursor = page["next_cursor"]

    assert sorted(run["run_id"] for run in receipt["runs"]) == sorted(seen)


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=501", "limit"), ("stat=queued", "stat"), ("sort=x", "sort"), ("state=x", "state")],
)
async def test_a_query_out_of_bounds_is_refused_with_the_field(service: Service, query: str, field: str) -> None:
    refusal = await service.refused("GET", f"{SUBMIT}?{query}")

    assert (422, "invalid", field) == (refusal["status"], refusal["code"], refusal["field"])


async def test_a_read_that_wants_the_future_is_told_both_positions(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.views.BEHIND_S", 0.01)
    run_id = await service.submitted()

    for path in (f"{SUBMIT}/{run_id}", SUBMIT, f"{SUBMIT}/{run_id}/facts", f"{SUBMIT}/{run_id}/why"):
        refusal = await service.refused("GET", f"{path}?min_position=99")

        assert (504, "read_model_behind", 99) == (refusal["status"], refusal["code"], refusal["wanted"])


async def test_a_wait_for_the_settlement_ends_with_it(service: Service) -> None:
    run_id = await service.held()
    waiting = asyncio.ensure_future(service.ok("GET", f"{SUBMIT}/{run_id}?until=settled&wait_s=30"))
    while not len(service.node.bells):
        await asyncio.sleep(0)

    await service.ok("POST", f"{SUBMIT}/{run_id}/close", {"fence": 1, "outcome": "succeeded", "result": 42})

    run = await waiting
    assert ("succeeded", 42) == (run["state"], run["result"])


async def test_a_wait_for_the_settlement_that_does_not_come_ends_in_time_with_the_run_as_it_is(
    service: Service,
) -> None:
    run_id = await service.submitted()

    run = await service.ok("GET", f"{SUBMIT}/{run_id}?until=settled&wait_s=0.01")

    assert "queued" == run["state"]


async def test_a_run_is_steered_through_question_answer_pause_and_resume(service: Service) -> None:
    run_id = await service.held()
    path = f"{SUBMIT}/{run_id}"

    parked = await service.ok("POST", f"{path}/park", {"fence": 1, "kind": "waiting_input", "question": "how?"})
    answered = await service.ok("POST", f"{path}/answer", {"answer": {"so": 1}})
    paused = await service.ok("POST", f"{path}/pause")
    resumed = await service.ok("POST", f"{path}/resume", {})

    states = [parked["state"], answered["state"], paused["state"], resumed["state"]]
    assert ["waiting_input", "queued", "paused", "queued"] == states
    assert ("how?", {"so": 1}, "admin") == tuple(answered["answers"][0][k] for k in ("question", "answer", "principal"))


async def test_a_retry_is_a_new_run_that_says_of_which(service: Service) -> None:
    run_id = await service.submitted(name="again", payload=[1])
    await service.ok("POST", f"{SUBMIT}/{run_id}/cancel", {"keep_workspaces": True})

    answer = await service.ask("POST", f"{SUBMIT}/{run_id}/retry")

    new = answer.json()
    assert (201, run_id, "queued", "again", [1]) == (
        answer.status_code,
        new["retry_of"],
        new["state"],
        new["name"],
        new["payload"],
    )


async def test_the_leaders_verdict_settles_what_the_worker_closed(service: Service) -> None:
    run_id = await service.held(leader_id="lead", policy={"verdict_by": "leader"})
    closed = await service.ok("POST", f"{SUBMIT}/{run_id}/close", {"fence": 1, "outcome": "succeeded"})

    judged = await service.ok("POST", f"{SUBMIT}/{run_id}/verdict", {"verdict": "failed", "result": "no"})

    assert ("waiting_verdict", "failed", "no") == (closed["state"], judged["state"], judged["result"])


async def test_a_command_against_a_run_that_ended_otherwise_names_how_it_ended(service: Service) -> None:
    run_id = await service.submitted()
    await service.ok("POST", f"{SUBMIT}/{run_id}/cancel")

    refusal = await service.refused("POST", f"{SUBMIT}/{run_id}/pause")

    assert (409, "run_settled", "cancelled") == (refusal["status"], refusal["code"], refusal["state"])


@pytest.mark.origin("A39")
@pytest.mark.parametrize("role", ["leader", "worker", "reader", "operator"])
async def test_reads_are_open_to_every_role_of_the_tenant_and_writes_are_for_the_owner(
    service: Service, role: str
) -> None:
    run_id = await service.held("w1", leader_id="lead")
    key = service.made_key(role)
    bound = service.made_key(role, leader_ids=["other"], worker_ids=["other"])

    for path in ("", "/facts", "/effects", "/why"):
        await service.ok("GET", f"{SUBMIT}/{run_id}{path}", key=key)
    for verb, body in (("close", {"fence": 1, "outcome": "succeeded"}), ("verdict", {"verdict": "succeeded"})):
        await service.refused("POST", f"{SUBMIT}/{run_id}/{verb}", body, key=bound)

    assert "running" == (await service.ok("GET", f"{SUBMIT}/{run_id}"))["state"]


async def test_a_leader_bound_to_its_ids_sees_and_steers_their_runs_and_no_others(service: Service) -> None:
    mine, foreign = await service.submitted(leader_id="me"), await service.submitted(leader_id="you")
    key = service.made_key("leader", leader_ids=["me"])
    position = service.node.desk.journal.position

    page = await service.ok("GET", f"{SUBMIT}?min_position={position}", key=key)
    random = await service.refused("GET", f"{SUBMIT}/nobody", key=key)

    assert [mine] == [run["run_id"] for run in page["items"]]
    assert mine == (await service.ok("GET", f"{SUBMIT}/{mine}", key=key))["run_id"]
    for method, path in (("GET", ""), ("GET", "/facts"), ("GET", "/why")):
        refusal = await service.refused(method, f"{SUBMIT}/{foreign}{path}", key=key)
        assert random == {**refusal, "detail": random["detail"], "run_id": "nobody"}
    for act in ("cancel", "retry", "pause"):
        refusal = await service.refused("POST", f"{SUBMIT}/{foreign}/{act}", {}, key=key)
        assert ("not_allowed", "leader 'you' or an operator") == (refusal["code"], refusal["allowed"])
    assert "not_allowed" == (await service.refused("POST", SUBMIT, {"leader_id": "you"}, key=key))["code"]


async def test_a_worker_bound_to_its_ids_sees_the_runs_that_those_hold(service: Service) -> None:
    mine, foreign = await service.held("w1"), await service.held("w2")
    key = service.made_key("worker", worker_ids=["w1"])

    assert mine == (await service.ok("GET", f"{SUBMIT}/{mine}", key=key))["run_id"]
    assert "run_unknown" == (await service.refused("GET", f"{SUBMIT}/{foreign}", key=key))["code"]


async def test_every_fact_names_the_principal_and_the_trace_of_the_request_that_caused_it(service: Service) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    key = service.made_key("leader", "ada")
    run_id = (await service.ok("POST", SUBMIT, {}, key=key, headers={"traceparent": trace}))["run_id"]

    facts = (await service.ok("GET", f"{SUBMIT}/{run_id}/facts"))["facts"]

    assert ["ada"] == [fact["principal"] for fact in facts]
    assert trace == service.node.desk.journal.feed.after(0)[0].meta.traceparent


async def test_facts_are_paged_in_order(service: Service) -> None:
    run_id = await service.held()
    path = f"{SUBMIT}/{run_id}/facts"

    first = await service.ok("GET", f"{path}?limit=2")
    rest = await service.ok("GET", f"{path}?after={first['next_after']}&limit=2")

    positions = [fact["position"] for fact in first["facts"] + rest["facts"]]
    assert positions == sorted(set(positions))
    assert ["run.submitted.v1", "lease.fence_bumped.v1", "run.attempt_started.v1"] == [
        fact["topic"] for fact in first["facts"] + rest["facts"]
    ]
    assert rest["next_after"] is None


@pytest.mark.origin("H17")
async def test_why_is_answered_in_every_state_that_a_run_can_be_in_here(service: Service) -> None:
    queued, running, parked = await service.submitted(), await service.held(), await service.held()
    await service.ok("POST", f"{SUBMIT}/{parked}/park", {"fence": 1, "kind": "waiting_input", "question": 1})
    settled = await service.submitted()
    await service.ok("POST", f"{SUBMIT}/{settled}/cancel")

    states = [(await service.ok("GET", f"{SUBMIT}/{run}/why"))["state"] for run in (queued, running, parked, settled)]

    assert ["queued", "running", "waiting_input", "cancelled"] == states
