"""The wire contract of workers: registration, claims, reservations, heartbeats, and every write under a fence."""

import json
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.system import shapes
from tests.system.calling import Caller, Listening
from tests.system.conftest import Serving
from tests.system.serving import Service, claim_one, register, submit

pytestmark = pytest.mark.system


@pytest.fixture
def caller(shared: Service) -> Caller:
    return shared.caller()


def held(caller: Caller, queue: str, worker: str = "holder", **wish: Any) -> str:
    """The id of a new run that a worker holds under fence 1."""
    run_id = submit(caller, queue=queue, **wish)
    claim_one(caller, register(caller, worker, slots=1000), queue=queue)
    return run_id


@pytest.mark.origin("D53")
def test_a_worker_is_registered_shown_listed_drained_and_leaves(caller: Caller) -> None:
    worker = caller.put("/v1/workers/full-life", {"labels": {"gpu": "yes"}, "slots": 2}).ok()
    assert ("full-life", {"gpu": "yes"}, 2, "active") == tuple(
        worker[name] for name in ("worker_id", "labels", "slots", "state")
    )
    shown = caller.get("/v1/workers/full-life").ok()
    assert worker.keys() == shown.keys()
    shapes.instant(shown["last_seen_at"])
    assert "full-life" in [one["worker_id"] for one in caller.get("/v1/workers").ok()["items"]]
    caller.put("/v1/workers/full-life", {"slots": 10_000}).ok()
    caller.put("/v1/workers/full-life", {"slots": 10_001}).refused(422, "invalid")

    run_id = submit(caller, queue="full-life")
    claim_one(caller, "full-life", queue="full-life")
    assert [run_id] == caller.ask("DELETE", "/v1/workers/full-life").refused(409, "leases_held")["run_ids"]
    assert "draining" == caller.post("/v1/workers/full-life/drain", {}).ok()["state"]
    asked = {"worker_id": "full-life", "queues": ["full-life"]}
    caller.post("/v1/claims", asked).refused(409, "worker_draining")
    caller.post(f"/v1/runs/{run_id}/hand-back", {"fence": 1}).ok()
    caller.delete("/v1/workers/full-life").ok(204)
    assert caller.post("/v1/claims", asked).status in (404, 409)


def test_fewer_slots_or_labels_revoke_nothing(caller: Caller) -> None:
    runs = [held(caller, "shrunk", "shrinking") for _ in range(3)]

    caller.put("/v1/workers/shrinking", {"slots": 1}).ok()
    submit(caller, queue="shrunk")

    beat = caller.post("/v1/workers/shrinking/heartbeat", {"leases": [{"run_id": r, "fence": 1} for r in runs]}).ok()
    assert ["renewed"] * 3 == [lease["outcome"] for lease in beat["leases"]]
    asked = {"worker_id": "shrinking", "queues": ["shrunk"], "max": 5}
    assert [] == caller.post("/v1/claims", asked).ok()["claims"]


@pytest.mark.origin("B9", "D35")
def test_a_claim_by_queue_answers_claims_and_a_position(caller: Caller) -> None:
    run_id = submit(caller, queue="claimed", payload={"a": 1})
    register(caller, "claimer", slots=10)

    answer = caller.post("/v1/claims", {"worker_id": "claimer", "queues": ["claimed"], "max": 5, "wait_s": 0})
    nothing = caller.post("/v1/claims", {"worker_id": "claimer", "queues": ["claimed"]}).ok()

    body = answer.ok()
    shapes.exactly({"claims", "position"}, body)
    shapes.exactly(shapes.CLAIM, body["claims"][0])
    assert {
        "run_id": run_id, "fence": 1, "attempt": 1, "lease_ttl_s": 60.0, "payload": {"a": 1}, "partial": None,
        "answers": [], "effects": [],
    } == body["claims"][0]  # fmt: skip
    assert answer.position == body["position"]
    shapes.exactly({"claims", "position"}, nothing)
    assert [] == nothing["claims"]
    caller.post("/v1/claims", {"worker_id": "nobody"}).refused(404, "worker_unknown")
    wrongs: list[dict[str, Any]] = [{"max": 0}, {"max": 1001}, {"wait_s": 61}, {"wait_s": -1}, {"queues": []}]
    for wrong in wrongs:
        caller.post("/v1/claims", {"worker_id": "claimer", **wrong}).refused(422, "invalid")


def test_claims_come_by_priority_then_due_instant_then_submission_and_need_their_labels(caller: Caller) -> None:
    wishes: list[dict[str, Any]] = [{"name": "plain-1"}, {"name": "high", "priority": 5}, {"name": "plain-2"}]
    wishes.append({"name": "labelled", "priority": 9, "labels": {"gpu": "yes"}})
    wishes.append({"name": "later", "priority": 9, "run_after": "2100-01-01T00:00:00Z"})
    runs = caller.post("/v1/runs/batch", {"runs": [{"queue": "ordered", **wish} for wish in wishes]}).ok(201)["runs"]
    names = {one["run_id"]: wish["name"] for one, wish in zip(runs, wishes, strict=True)}
    register(caller, "plain", slots=10)
    caller.put("/v1/workers/labelled", {"labels": {"gpu": "yes", "more": "x"}, "slots": 10}).ok()

    plain = caller.post("/v1/claims", {"worker_id": "plain", "queues": ["ordered"], "max": 10}).ok()["claims"]
    rest = caller.post("/v1/claims", {"worker_id": "labelled", "queues": ["ordered"], "max": 10}).ok()["claims"]

    assert ["high", "plain-1", "plain-2"] == [names[claim["run_id"]] for claim in plain]
    assert ["labelled"] == [names[claim["run_id"]] for claim in rest]


def test_a_repeated_claim_under_its_key_grants_the_same_again_and_no_more(caller: Caller) -> None:
    caller.post("/v1/runs/batch", {"runs": [{"queue": "keyed"}] * 4}).ok(201)
    register(caller, "keyed", slots=10)
    asked = {"worker_id": "keyed", "queues": ["keyed"], "max": 2}

    first = caller.post("/v1/claims", asked, idempotency="claim-1").ok()["claims"]
    again = caller.post("/v1/claims", asked, idempotency="claim-1").ok()["claims"]

    assert (2, first) == (len(first), again)
    assert 2 == caller.get("/v1/queues/keyed").ok()["queued"]


@pytest.mark.origin("B15")
def test_a_claim_by_id_answers_one_claim_or_who_holds_it(caller: Caller) -> None:
    run_id = submit(caller, queue="by-id", run_after="2100-01-01T00:00:00Z")
    register(caller, "one"), register(caller, "two")

    claim = caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": "one"}).ok()
    problem = caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": "two"}).refused(409, "lease_held")

    shapes.exactly(shapes.CLAIM, claim)
    assert (run_id, 1) == (claim["run_id"], claim["fence"])
    assert ("one", 1) == (problem["holder"], problem["fence"])
    assert 0 < problem["retry_after_s"] <= 60
    caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": "nobody"}).refused(404, "worker_unknown")


@pytest.mark.origin("D15", "D16", "D18")
def test_a_reservation_is_bound_or_cancelled_by_its_token_alone(caller: Caller) -> None:
    run_id = submit(caller, queue="reserved")
    register(caller, "reserver", slots=10)
    asked = {"worker_id": "reserver", "queues": ["reserved"]}

    first = caller.post("/v1/reservations", asked).ok(201)
    assert (run_id, 1) == (first["run_id"], first["fence"])
    shapes.instant(first["lapses_at"])
    shown = caller.get(f"/v1/runs/{run_id}").ok()
    assert ("reserved", "reserver", 1, 0) == tuple(shown[name] for name in ("state", "owner", "fence", "attempt"))
    early = caller.post(f"/v1/runs/{run_id}/partial", {"fence": 1, "partial": 1}).refused(409, "fence_lost")
    assert 1 == early["current"]
    assert caller.delete(f"/v1/reservations/{first['token']}").status in (200, 204)
    assert ("queued", 0) == tuple(caller.get(f"/v1/runs/{run_id}").ok()[name] for name in ("state", "failed_attempts"))

    second = caller.post("/v1/reservations", asked).ok(201)
    caller.post(f"/v1/reservations/{first['token']}/bind", {"worker_id": "reserver"}).refused(409, "reservation_lost")
    claim = caller.post(f"/v1/reservations/{second['token']}/bind", {"worker_id": "reserver"}).ok()

    shapes.exactly(shapes.CLAIM, claim)
    assert (run_id, 2, 1) == (claim["run_id"], claim["fence"], claim["attempt"])
    caller.post(f"/v1/runs/{run_id}/close", {"fence": 2, "outcome": "succeeded"}).ok()


def test_one_heartbeat_answers_every_lease_that_it_lists(caller: Caller) -> None:
    alive, cancelled = held(caller, "beating"), held(caller, "beating")
    caller.post(f"/v1/runs/{cancelled}/cancel", {}).ok()
    leases = [{"run_id": alive, "fence": 1}, {"run_id": cancelled, "fence": 1}, {"run_id": alive, "fence": 9}]

    beat = caller.post("/v1/workers/holder/heartbeat", {"leases": leases}).ok()

    shapes.exactly({"leases"}, beat)
    for lease in beat["leases"]:
        shapes.exactly(shapes.RENEWAL, lease)
        for instruction in lease["instructions"]:
            shapes.exactly({"kind", "reason", "data"}, instruction)
    assert [(alive, 1), (cancelled, 1), (alive, 9)] == [(lease["run_id"], lease["fence"]) for lease in beat["leases"]]
    assert ["renewed", "renewed", "lost"] == [lease["outcome"] for lease in beat["leases"]]
    assert (1, "holder", 60.0) == tuple(beat["leases"][0][name] for name in ("current", "holder", "ttl_s"))
    assert ["cancel"] == [instruction["kind"] for instruction in beat["leases"][1]["instructions"]]
    assert 1 == beat["leases"][2]["current"]
    caller.post("/v1/workers/nobody/heartbeat", {"leases": []}).refused(404, "worker_unknown")


def test_the_stream_answers_heartbeats_and_brings_instructions_at_once(shared: Service, caller: Caller) -> None:
    run_id = held(caller, "attached", "attached")
    url = f"ws://127.0.0.1:{shared.port}/v1/workers/attached/stream"

    with connect(url, additional_headers={"authorization": f"Bearer {shared.key}"}) as stream:
        stream.send(json.dumps({"seq": 7, "leases": [{"run_id": run_id, "fence": 1}]}))
        answer = json.loads(stream.recv(10))
        caller.post(f"/v1/runs/{run_id}/cancel", {}).ok()
        pushed = json.loads(stream.recv(10))
        stream.send(json.dumps({"seq": 8, "leases": "none"}))
        refused = json.loads(stream.recv(10))
        stream.send(json.dumps({"goodbye": True}))

    assert 7 == answer["seq"]
    shapes.exactly(shapes.RENEWAL, answer["leases"][0])
    assert "renewed" == answer["leases"][0]["outcome"]
    assert "seq" not in pushed
    assert [(run_id, 1, ["cancel"])] == [
        (lease["run_id"], lease["fence"], [one["kind"] for one in lease["instructions"]]) for lease in pushed["leases"]
    ]
    assert "invalid" == refused["problem"]["code"]


def test_a_heartbeat_writes_nothing_to_the_journal(caller: Caller) -> None:
    run_id = held(caller, "silent")
    position = caller.get("/healthz").ok()["journal"]["position"]

    for _ in range(5):
        caller.post("/v1/workers/holder/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]}).ok()

    assert position == caller.get("/healthz").ok()["journal"]["position"]


def test_partial_progress_and_output_are_accepted_under_the_fence_in_body_or_header(caller: Caller) -> None:
    run_id = held(caller, "writing")
    path = f"/v1/runs/{run_id}"

    caller.post(f"{path}/partial", {"fence": 1, "partial": {"n": 1}}).ok(204)
    caller.post(f"{path}/partial", {"partial": {"n": 2}}, jackline_fence="1").ok(204)
    caller.post(f"{path}/progress", {"fence": 1, "message": "going"}).ok(204)
    tool = {"id": "t1", "name": "grep", "state": "started"}
    caller.post(f"{path}/progress", {"fence": 1, "message": "", "tool": tool}).ok(204)
    for data in ("a\n", "a\n", "again"):
        caller.post(f"{path}/output", {"fence": 1, "seq": 0, "stream": "stdout", "data": data}).ok(204)
    caller.post(f"{path}/output", {"fence": 1, "seq": 1, "stream": "stderr", "data": "b\n"}).ok(204)

    assert {"n": 2} == caller.get(path).ok()["partial"]
    assert [(1, 0, "stdout", "a\n"), (1, 1, "stderr", "b\n")] == [
        (chunk["fence"], chunk["seq"], chunk["stream"], chunk["data"]) for chunk in caller.output(run_id)
    ]
    caller.post(f"{path}/partial", {"partial": 3}).refused(428, "fence_required")
    big = {"fence": 1, "seq": 2, "data": "x" * (256 * 1024 + 1)}
    caller.post(f"{path}/output", big).refused(413, "body_too_large")
    caller.post(f"{path}/output", {**big, "data": "x" * (256 * 1024)}).ok(204)


def test_output_is_streamed_with_fence_and_number_and_resumed_after_the_last_piece(caller: Caller) -> None:
    run_id = held(caller, "followed")
    path = f"/v1/runs/{run_id}/output"
    for seq in range(3):
        caller.post(path, {"fence": 1, "seq": seq, "data": f"{seq}\n"}).ok(204)

    with Listening(caller, path) as frames:
        seen = [next(frames) for _ in range(3)]
    caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()
    with Listening(caller, path, last_id="1.1") as frames:
        rest = list(frames)

    assert ["1.0", "1.1", "1.2"] == [frame.id for frame in seen]
    assert {"output"} == {frame.name for frame in seen}
    assert {"fence": 1, "seq": 0, "stream": "stdout", "data": "0\n"} == seen[0].document
    assert seen[2:] == rest


def test_effects_are_claimed_once_and_their_outcome_is_told(caller: Caller) -> None:
    run_id = held(caller, "effects")
    path = f"/v1/runs/{run_id}/effects"

    assert {"answer": "claimed", "outcome": None} == caller.post(f"{path}/mail", {"fence": 1, "payload": {"a": 1}}).ok()
    assert "ambiguous" == caller.post(f"{path}/mail", {"fence": 1, "payload": {"a": 1}}).ok()["answer"]
    assert "mismatch" == caller.post(f"{path}/mail", {"fence": 1, "payload": {"a": 2}}).ok()["answer"]
    caller.post(f"{path}/mail/complete", {"fence": 1, "outcome": {"id": 7}}).ok()
    existing = caller.post(f"{path}/mail", {"fence": 1, "payload": {"a": 1}}).ok()
    assert {"answer": "existing", "outcome": {"id": 7}} == existing
    caller.post(f"{path}/call", {"fence": 1, "payload": 1}).ok()
    caller.post(f"{path}/call/fail", {"fence": 1, "outcome": "busy"}).ok()
    assert "claimed" == caller.post(f"{path}/call", {"fence": 1, "payload": 1}).ok()["answer"]
    caller.post(f"{path}/none/complete", {"fence": 1, "outcome": 1}).refused(404, "effect_unknown")

    caller.post(f"/v1/runs/{run_id}/hand-back", {"fence": 1}).ok()
    claim = claim_one(caller, "holder", queue="effects")
    effects = {effect["key"]: (effect["state"], effect["outcome"]) for effect in claim["effects"]}
    assert {"mail": ("completed", {"id": 7}), "call": ("ambiguous", "busy")} == {
        **effects, "call": (effects["call"][0], "busy"),
    }  # fmt: skip
    assert "ambiguous" == caller.post(f"{path}/call", {"fence": 2, "payload": 1}).ok()["answer"]
    caller.post(f"{path}/call/reconcile", {"fence": 2, "resolution": "not_done"}).ok()
    assert "claimed" == caller.post(f"{path}/call", {"fence": 2, "payload": 1}).ok()["answer"]


def test_a_repeated_effect_claim_under_its_key_may_still_go_on(caller: Caller) -> None:
    run_id = held(caller, "lost-answer")
    path = f"/v1/runs/{run_id}/effects/mail"

    first = caller.post(path, {"fence": 1, "payload": 1}, idempotency="lost-answer-1").ok()
    again = caller.post(path, {"fence": 1, "payload": 1}, idempotency="lost-answer-1").ok()

    assert ("claimed", "claimed") == (first["answer"], again["answer"])


@pytest.mark.origin("D35")
def test_a_close_answers_the_run_and_a_second_one_by_a_stale_fence_is_refused(caller: Caller) -> None:
    run_id = held(caller, "closed", policy={"retry_base_s": 0})

    failed = caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "failed", "error": "e"}).ok()
    claim = claim_one(caller, "holder", queue="closed")
    problem = caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).refused(409, "fence_lost")
    closed = caller.post(f"/v1/runs/{run_id}/close", {"fence": 2, "outcome": "succeeded", "result": {"r": 1}}).ok()

    shapes.run(failed)
    assert ("queued", 1, "e") == tuple(failed[name] for name in ("state", "failed_attempts", "error"))
    assert (2, 2) == (claim["fence"], claim["attempt"])
    assert (1, 2, "holder") == tuple(problem[name] for name in ("presented", "current", "holder"))
    assert problem["reason"]
    shapes.run(closed)
    assert ("succeeded", {"r": 1}) == (closed["state"], closed["result"])
    final = held(caller, "closed-for-good")
    ended = {"fence": 1, "outcome": "failed", "error": "e", "retryable": False}
    assert "failed" == caller.post(f"/v1/runs/{final}/close", ended).ok()["state"]


def test_many_closes_are_answered_one_each_in_order(caller: Caller) -> None:
    first, stale, last = (held(caller, "closes") for _ in range(3))
    closes = [
        {"run_id": first, "fence": 1, "outcome": "succeeded", "result": 1},
        {"run_id": stale, "fence": 7, "outcome": "succeeded"},
        {"run_id": "unknown", "fence": 1, "outcome": "succeeded"},
        {"run_id": last, "fence": 1, "outcome": "failed", "error": "e", "retryable": False},
    ]

    answers = caller.post("/v1/closes", {"closes": closes}).ok()["closes"]

    assert [close["run_id"] for close in closes] == [answer["run_id"] for answer in answers]
    assert ("succeeded", "failed") == (answers[0]["state"], answers[3]["state"])
    assert ("fence_lost", "run_unknown") == (answers[1]["code"], answers[2]["code"])
    assert "running" == caller.get(f"/v1/runs/{stale}").ok()["state"]
    caller.post("/v1/closes", {"closes": closes[:1] * 1001}).refused(422, "invalid")


def test_a_cancelled_holder_is_told_to_stop_and_may_report_once(make_service: Serving) -> None:
    caller = make_service(cancel_grace_s=0.2).start().caller()
    run_id = held(caller, "stopped")
    caller.post(f"/v1/runs/{run_id}/partial", {"fence": 1, "partial": {"half": True}}).ok(204)
    asked = caller.post(f"/v1/runs/{run_id}/cancel", {}).ok()

    settled = caller.get(f"/v1/runs/{run_id}?until=settled&wait_s=10").ok()
    beat = caller.post("/v1/workers/holder/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]}).ok()["leases"][0]
    caller.post(f"/v1/runs/{run_id}/stop-report", {"fence": 1, "report": "saved"}).ok(204)
    reported = caller.facts(run_id)
    caller.post(f"/v1/runs/{run_id}/stop-report", {"fence": 1, "report": "ignored"})

    assert ("running", "cancelled", {"half": True}) == (asked["state"], settled["state"], settled["result"])
    assert ("lost", 2, ["stop"]) == (beat["outcome"], beat["current"], [one["kind"] for one in beat["instructions"]])
    assert "run.stop_reported.v1" == reported[-1]["topic"]
    assert reported == caller.facts(run_id)
