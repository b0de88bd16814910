"""The wire contract of runs, row by row: exact names and statuses, as a stranger with curl would find them."""

import pytest

from tests.system import shapes
from tests.system.calling import Caller, Listening
from tests.system.serving import Service, claim_one, register, submit

pytestmark = pytest.mark.system


@pytest.fixture
def caller(shared: Service) -> Caller:
    return shared.caller()


def held(caller: Caller, queue: str, **wish: object) -> str:
    """The id of a new run that `holder` holds under fence 1."""
    run_id = submit(caller, queue=queue, **wish)
    claim_one(caller, register(caller, "holder", slots=1000), queue=queue)
    return run_id


def test_a_submission_may_leave_everything_out(caller: Caller) -> None:
    answer = caller.post("/v1/runs", {})

    body = answer.ok(201)
    shapes.exactly(shapes.SUBMITTED, body)
    assert ("queued", None, answer.position) == (body["state"], body["leader"], body["position"])
    run = caller.get(f"/v1/runs/{body['run_id']}").ok()
    shapes.run(run)
    assert shapes.POLICY == run["policy"]
    assert ("default", 0, 0, 0, None) == tuple(run[name] for name in ("queue", "priority", "fence", "attempt", "owner"))
    assert ({}, {}, None, [], []) == tuple(run[name] for name in ("tags", "labels", "payload", "answers", "workspaces"))
    assert body["position"] == run["position"]
    caller.post(f"/v1/runs/{body['run_id']}/cancel", {}).ok()


def test_a_submission_is_shown_as_it_was_made(caller: Caller) -> None:
    policy = {**shapes.POLICY, "max_attempts": 5, "lease_ttl_s": 0.5, "max_hold_s": 30.0, "verdict_by": "leader"}
    wish = {
        "queue": "shown", "name": "n", "tags": {"k": "v"}, "payload": {"deep": [1, 2.5, None, "é"]}, "leader_id": "ada",
        "labels": {"gpu": "yes"}, "priority": 7, "run_after": "2100-01-01T00:00:00Z", "concurrency_key": "c",
        "policy": policy,
    }  # fmt: skip

    body = caller.post("/v1/runs", {**wish, "idempotency_key": "shown-1"}).ok(201)

    run = caller.get(f"/v1/runs/{body['run_id']}").ok()
    assert wish == {name: run[name] for name in wish}
    assert wish["run_after"] == run["due_at"]
    shapes.exactly({"connections", "zero_since"}, body["leader"])


def test_a_repeat_under_the_same_idempotency_key_repeats_status_and_body(caller: Caller) -> None:
    wish = {"queue": "repeated", "payload": {"a": 1}, "idempotency_key": "once"}

    first = caller.post("/v1/runs", wish)
    again = caller.post("/v1/runs", {"idempotency_key": "once", "payload": {"a": 1}, "queue": "repeated"})

    assert (first.ok(201), first.status) == (again.body, again.status)
    caller.post("/v1/runs", {**wish, "payload": {"a": 2}}).refused(422, "idempotency_mismatch")
    assert 1 == caller.get("/v1/queues/repeated").ok()["queued"]


def test_a_repeat_of_a_command_under_its_header_gets_the_first_answer_whatever_happened_since(caller: Caller) -> None:
    first = caller.post("/v1/runs", {"queue": "headed"}, idempotency="headed-1")
    caller.post(f"/v1/runs/{first.ok(201)['run_id']}/cancel", {}, idempotency="headed-2").ok()

    again = caller.post("/v1/runs", {"queue": "headed"}, idempotency="headed-1")

    assert first.body == again.ok(201)
    caller.post("/v1/runs", {"queue": "other"}, idempotency="headed-1").refused(422, "idempotency_mismatch")


def test_a_batch_is_answered_in_order_and_is_all_or_none(caller: Caller) -> None:
    answer = caller.post("/v1/runs/batch", {"runs": [{"queue": "batch", "name": f"b{n}"} for n in range(5)]})

    body = answer.ok(201)
    shapes.exactly({"runs", "position"}, body)
    assert {"run_id", "state"} == set.union(*({*one} for one in body["runs"]))
    names = [caller.get(f"/v1/runs/{one['run_id']}").ok()["name"] for one in body["runs"]]
    assert ["b0", "b1", "b2", "b3", "b4"] == names
    caller.post("/v1/runs/batch", {"runs": [{"queue": "batch"}, {"queue": ""}]}).refused(422, "invalid")
    assert 5 == caller.get("/v1/queues/batch").ok()["queued"]
    assert 1000 == len(caller.post("/v1/runs/batch", {"runs": [{"queue": "many"}] * 1000}).ok(201)["runs"])
    caller.post("/v1/runs/batch", {"runs": [{}] * 1001}).refused(422, "invalid")


def test_lists_are_filtered_sorted_and_paged(caller: Caller) -> None:
    wishes = [{"queue": "listed", "name": f"l{n}", "tags": {"n": str(n % 2)}, "priority": n} for n in range(5)]
    body = caller.post("/v1/runs/batch", {"runs": wishes}).ok(201)
    fresh = f"queue=listed&min_position={body['position']}"

    page = caller.get(f"/v1/runs?{fresh}&limit=2&sort=priority").ok()
    rest = caller.get(f"/v1/runs?{fresh}&limit=3&sort=priority&cursor={page['next_cursor']}").ok()

    shapes.exactly({"items", "next_cursor", "position"}, page)
    for item in page["items"]:
        shapes.listed(item)
    assert ["l0", "l1", "l2", "l3", "l4"] == [item["name"] for item in page["items"] + rest["items"]]
    assert rest["next_cursor"] is None
    assert page["position"] >= body["position"]
    odd = caller.get(f"/v1/runs?{fresh}&tag=n:1").ok()["items"]
    assert {"l1", "l3"} == {item["name"] for item in odd}
    assert ["l4"] == [item["name"] for item in caller.get(f"/v1/runs?{fresh}&q=l4&state=queued").ok()["items"]]
    assert [] == caller.get(f"/v1/runs?{fresh}&state=running").ok()["items"]
    assert [] == caller.get(f"/v1/runs?{fresh}&leader_id=nobody").ok()["items"]
    assert [] == caller.get(f"/v1/runs?{fresh}&owner=nobody").ok()["items"]


def test_a_read_waits_for_a_position_and_says_when_it_is_not_reached(caller: Caller) -> None:
    run_id = submit(caller, queue="waited")

    caller.get(f"/v1/runs/{run_id}?min_position=1").ok()
    problem = caller.get(f"/v1/runs/{run_id}?min_position=999999999").refused(504, "read_model_behind")

    assert 999999999 == problem["wanted"]
    assert problem["reached"] < 999999999


def test_facts_of_a_run_are_shown_in_order_with_what_caused_them(caller: Caller) -> None:
    run_id = held(caller, "told")
    caller.post(f"/v1/runs/{run_id}/effects/mail", {"fence": 1, "payload": 1}).ok()

    page = caller.get(f"/v1/runs/{run_id}/facts").ok()

    shapes.exactly({"facts", "next_after"}, page)
    shapes.facts(page["facts"])
    assert page["next_after"] is None
    assert [
        (f"run-{run_id}", "run.submitted.v1"),
        (f"lease-{run_id}", "lease.fence_bumped.v1"),
        (f"run-{run_id}", "run.attempt_started.v1"),
        (f"effects-{run_id}", "effect.intended.v1"),
    ] == [(fact["stream"], fact["topic"]) for fact in page["facts"]]
    assert {"admin"} == {fact["principal"] for fact in page["facts"]}
    assert page["facts"][1]["fact_id"] == page["facts"][2]["causation_id"]
    first = caller.get(f"/v1/runs/{run_id}/facts?limit=1").ok()
    assert first["facts"][0]["position"] == first["next_after"]
    second = caller.get(f"/v1/runs/{run_id}/facts?limit=1&after={first['next_after']}").ok()
    assert page["facts"][1:2] == second["facts"]


@pytest.mark.origin("A38")
def test_facts_are_streamed_live_and_resumed_after_the_last_one_seen(caller: Caller) -> None:
    run_id = submit(caller, queue="streamed")

    with Listening(caller, f"/v1/runs/{run_id}/facts") as frames:
        seen = [next(frames)]
        claim_one(caller, register(caller, "holder", slots=1000), queue="streamed")
        seen += [next(frames), next(frames)]
    with Listening(caller, f"/v1/runs/{run_id}/facts", last_id=seen[1].id) as frames:
        again = next(frames)

    shapes.facts([frame.document for frame in seen])
    for frame in seen:
        assert (frame.id, frame.name) == (str(frame.document["position"]), frame.document["topic"])
    assert caller.facts(run_id) == [frame.document for frame in seen]
    assert seen[2] == again


@pytest.mark.origin("H17")
def test_why_names_state_facts_clocks_and_what_comes_next(caller: Caller) -> None:
    run_id = held(caller, "explained")

    why = caller.get(f"/v1/runs/{run_id}/why").ok()

    shapes.exactly(shapes.WHY, why)
    shapes.facts(why["because"])
    assert ("running", 1) == (why["state"], why["fence"])
    topics = [fact["topic"] for fact in why["because"]]
    assert ["run.submitted.v1", "lease.fence_bumped.v1", "run.attempt_started.v1"] == topics
    for clock in why["clocks"]:
        assert {"name", "since", "due_at"} <= clock.keys()
    assert "holder" in why["next"]
    caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()
    settled = caller.get(f"/v1/runs/{run_id}/why").ok()
    assert ("succeeded", "run.closed.v1") == (settled["state"], settled["because"][-1]["topic"])
    assert [] == settled["clocks"]


@pytest.mark.origin("A38")
def test_a_question_is_parked_answered_and_told_to_the_next_attempt(caller: Caller) -> None:
    run_id = held(caller, "asked")
    parking = {"fence": 1, "kind": "waiting_input", "question": {"which": 1}, "keep_lease": False}

    parked = caller.post(f"/v1/runs/{run_id}/park", parking).ok()
    why = caller.get(f"/v1/runs/{run_id}/why").ok()
    answered = caller.post(f"/v1/runs/{run_id}/answer", {"answer": ["this"]}).ok()

    shapes.run(parked)
    assert ("waiting_input", {"which": 1}, None) == tuple(parked[name] for name in ("state", "question", "owner"))
    assert "waiting_input" == why["state"]
    shapes.run(answered)
    assert ("queued", 0, None) == tuple(answered[name] for name in ("state", "failed_attempts", "question"))
    told = answered["answers"][0]
    assert ({"which": 1}, ["this"], "admin") == (told["question"], told["answer"], told["principal"])
    claim = claim_one(caller, "holder", queue="asked")
    assert (2, [{"which": 1}, ["this"]]) == (
        claim["fence"], [claim["answers"][0]["question"], claim["answers"][0]["answer"]],
    )  # fmt: skip


@pytest.mark.origin("A38", "K6")
def test_pause_resume_cancel_and_retry_answer_the_run(caller: Caller) -> None:
    run_id = submit(caller, queue="steered", payload={"keep": "me"})

    paused = caller.post(f"/v1/runs/{run_id}/pause", {}).ok()
    caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": register(caller, "holder", 1000)}).refused(409, "run_paused")
    resumed = caller.post(f"/v1/runs/{run_id}/resume", {}).ok()
    cancelled = caller.post(f"/v1/runs/{run_id}/cancel", {"keep_workspaces": False}).ok()
    again = caller.post(f"/v1/runs/{run_id}/cancel", {}).ok()
    retried = caller.post(f"/v1/runs/{run_id}/retry", {}).ok(201)

    for document in (paused, resumed, cancelled, again, retried):
        shapes.run(document)
    assert ["paused", "queued", "cancelled", "cancelled"] == [
        document["state"] for document in (paused, resumed, cancelled, again)
    ]
    shapes.instant(cancelled["settled_at"])
    assert (run_id, "queued", {"keep": "me"}) == (retried["retry_of"], retried["state"], retried["payload"])
    assert run_id != retried["run_id"]
    problem = caller.post(f"/v1/runs/{run_id}/answer", {"answer": 1}).refused(409, "run_settled")
    assert ("cancelled", run_id) == (problem["state"], problem["run_id"])


def test_a_leaders_verdict_settles_what_its_worker_has_closed(caller: Caller) -> None:
    run_id = held(caller, "judged", leader_id="ada", policy={"verdict_by": "leader"})

    closed = caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded", "result": 1}).ok()
    caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": "holder"}).refused(409, "verdict_pending")
    judged = caller.post(f"/v1/runs/{run_id}/verdict", {"verdict": "failed", "result": {"why": "no"}}).ok()

    assert "waiting_verdict" == closed["state"]
    shapes.run(judged)
    assert ("failed", {"why": "no"}) == (judged["state"], judged["result"])
    caller.post("/v1/runs", {"policy": {"verdict_by": "leader"}}).refused(422, "invalid")


def test_a_run_is_waited_for_until_it_has_settled(caller: Caller) -> None:
    run_id = held(caller, "awaited")

    open_still = caller.get(f"/v1/runs/{run_id}?until=settled&wait_s=0.05").ok()
    caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded", "result": "r"}).ok()
    settled = caller.get(f"/v1/runs/{run_id}?until=settled&wait_s=60").ok()

    assert ("running", "succeeded") == (open_still["state"], settled["state"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""), ("GET", "/facts"), ("GET", "/why"), ("GET", "/effects"), ("GET", "/output"), ("POST", "/cancel"),
        ("POST", "/pause"), ("POST", "/resume"), ("POST", "/retry"), ("POST", "/hand-back"),
    ],
)  # fmt: skip
def test_an_unknown_run_is_404_everywhere(caller: Caller, method: str, path: str) -> None:
    body = {"fence": 1} if path == "/hand-back" else {}

    answer = caller.ask(method, f"/v1/runs/unknown{path}", body if method == "POST" else None)

    assert "unknown" == answer.refused(404, "run_unknown")["run_id"]
