"""The wire contract of the service itself: health, keys and roles, queues, and how failures are told."""

import json
from typing import Any

import pytest

from tests.system.calling import Answer, Caller
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.serving import Service, claim_one, cli, register, submit

pytestmark = pytest.mark.system


@pytest.fixture
def caller(shared: Service) -> Caller:
    return shared.caller()


def made_key(service: Service, name: str, role: str, **bound: Any) -> Caller:
    """A caller with a new key of this role."""
    made = service.caller().post("/v1/keys", {"name": name, "role": role, **bound}).ok(201)
    return service.caller(made["key"])


@pytest.mark.origin("D37")
def test_liveness_readiness_and_health_say_what_they_are_asked(shared: Service, caller: Caller) -> None:
    stranger = shared.stranger()
    assert 200 == stranger.get("/livez").status
    assert 200 == stranger.get("/readyz").status
    stranger.get("/v1/runs").refused(401, "unauthenticated")

    health = caller.get("/healthz").ok()

    assert health["status"] in ("ok", "degraded")
    assert {"kind", "epoch", "boot_id", "position", "last_append_at"} <= health["journal"].keys()
    assert "sqlite" == health["journal"]["kind"]
    assert verified(shared)["facts"] == health["journal"]["position"]


def test_the_ready_line_and_the_admin_key_are_as_promised(shared: Service) -> None:
    said = shared.log.read_text()

    assert f"jackline ready on {shared.url}\n" in said
    assert str(shared.data_dir / "admin.key") in said
    assert shared.key not in said
    assert 0o600 == (shared.data_dir / "admin.key").stat().st_mode & 0o777
    assert shared.key == (shared.data_dir / "admin.key").read_text().strip()
    assert shared.url == (shared.data_dir / "server.url").read_text().strip()


def test_keys_are_made_once_shown_listed_and_revoked(shared: Service, caller: Caller) -> None:
    made = caller.post("/v1/keys", {"name": "shown-once", "role": "reader"}).ok(201)
    reader = shared.caller(made["key"])
    assert ("shown-once", "reader", "default") == tuple(
        reader.get("/v1/whoami").ok()[name] for name in ("principal", "role", "tenant")
    )
    listed = caller.get("/v1/keys").ok()["items"]
    assert made["key_id"] in [key["key_id"] for key in listed]
    assert made["key"] not in json.dumps(listed)
    for path in shared.data_dir.iterdir():
        assert path.is_dir() or made["key"].encode() not in path.read_bytes(), path

    caller.delete(f"/v1/keys/{made['key_id']}").ok(204)

    reader.get("/v1/runs").refused(401, "unauthenticated")
    caller.delete("/v1/keys/unknown").refused(404, "key_unknown")


@pytest.mark.parametrize("key", ["", "x", "jl_" + "A" * 40, "é"])
def test_keys_that_open_nothing_are_all_told_the_same(shared: Service, key: str) -> None:
    answer = shared.stranger().ask("GET", "/v1/runs", authorization=f"Bearer {key}".encode().decode("latin-1"))

    answer.refused(401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.origin("A39")
def test_each_role_may_do_what_is_its_own_and_nothing_else(shared: Service) -> None:
    reader = made_key(shared, "a-reader", "reader")
    leader = made_key(shared, "a-leader", "leader", leader_ids=["ada"])
    worker = made_key(shared, "a-worker", "worker", worker_ids=["w-1"])
    run_id = leader.post("/v1/runs", {"queue": "roles", "leader_id": "ada"}).ok(201)["run_id"]

    reader.get(f"/v1/runs/{run_id}").ok()
    reader.post("/v1/runs", {}).refused(403, "not_allowed")
    reader.post(f"/v1/runs/{run_id}/cancel", {}).refused(403, "not_allowed")
    leader.post("/v1/runs", {"leader_id": "bob"}).refused(403, "not_allowed")
    leader.put("/v1/workers/w-1", {}).refused(403, "not_allowed")
    leader.post("/v1/keys", {"name": "more", "role": "admin"}).refused(403, "not_allowed")
    worker.put("/v1/workers/w-1", {"slots": 5}).ok()
    worker.put("/v1/workers/w-2", {"slots": 5}).refused(403, "not_allowed")
    worker.post(f"/v1/runs/{run_id}/cancel", {}).refused(403, "not_allowed")
    assert run_id == claim_one(worker, "w-1", queue="roles")["run_id"]
    granted = leader.facts(run_id)[1]
    assert ("lease.fence_bumped.v1", "a-worker") == (granted["topic"], granted["principal"])


@pytest.mark.origin("A39", "D43")
def test_a_worker_cannot_write_under_anothers_fence_even_when_it_knows_it(shared: Service) -> None:
    mine = made_key(shared, "mine", "worker", worker_ids=["w-mine"])
    other = made_key(shared, "other", "worker", worker_ids=["w-other"])
    register(mine, "w-mine")
    run_id = submit(shared.caller(), queue="foreign")
    claim_one(mine, "w-mine", queue="foreign")

    answers: list[Answer] = [
        other.post(f"/v1/runs/{run_id}/partial", {"fence": 1, "partial": "stolen"}),
        other.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded", "result": "stolen"}),
        other.post("/v1/workers/w-mine/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]}),
    ]

    assert {403, 404, 409} >= {answer.status for answer in answers}
    run = mine.get(f"/v1/runs/{run_id}").ok()
    assert ("running", None, None) == (run["state"], run["partial"], run["result"])


@pytest.mark.origin("A39")
def test_a_key_bound_to_leaders_sees_their_runs_alone(shared: Service) -> None:
    ada = made_key(shared, "for-ada", "leader", leader_ids=["ada"])
    hers = ada.post("/v1/runs", {"queue": "seen", "leader_id": "ada"}).ok(201)["run_id"]
    his = submit(shared.caller(), queue="seen", leader_id="bob")

    ada.get(f"/v1/runs/{hers}").ok()
    unseen, unknown = ada.get(f"/v1/runs/{his}"), ada.get("/v1/runs/" + "0" * 32)

    assert unseen.refused(404, "run_unknown").keys() == unknown.refused(404, "run_unknown").keys()
    position = shared.caller().get("/healthz").ok()["journal"]["position"]
    items = ada.get(f"/v1/runs?queue=seen&min_position={position}").ok()["items"]
    assert [hers] == [item["run_id"] for item in items]


def test_a_queue_is_configured_and_shown(caller: Caller) -> None:
    queue = caller.put("/v1/queues/limited", {"max_leases": 1, "max_per_key": 2}).ok()

    assert ("limited", 1, 2) == (queue["queue"], queue["max_leases"], queue["max_per_key"])
    assert "limited" in [one["queue"] for one in caller.get("/v1/queues").ok()["items"]]
    caller.post("/v1/runs/batch", {"runs": [{"queue": "limited"}] * 3}).ok(201)
    register(caller, "limited", slots=10)
    claims = caller.post("/v1/claims", {"worker_id": "limited", "queues": ["limited"], "max": 3}).ok()["claims"]
    assert 1 == len(claims)
    assert 2 == caller.get("/v1/queues/limited").ok()["queued"]


def test_one_lease_per_concurrency_key_is_the_default(caller: Caller) -> None:
    caller.post("/v1/runs/batch", {"runs": [{"queue": "one-per-key", "concurrency_key": "k"}] * 3}).ok(201)
    register(caller, "one-per-key", slots=10)

    asked = {"worker_id": "one-per-key", "queues": ["one-per-key"], "max": 3}
    first = caller.post("/v1/claims", asked).ok()["claims"]
    none = caller.post("/v1/claims", asked).ok()["claims"]
    caller.post(f"/v1/runs/{first[0]['run_id']}/close", {"fence": 1, "outcome": "succeeded"}).ok()
    second = caller.post("/v1/claims", asked).ok()["claims"]

    assert (1, 0, 1) == (len(first), len(none), len(second))


def test_paths_and_methods_that_do_not_exist_are_told_so(caller: Caller) -> None:
    assert "/v1/nothing" == caller.get("/v1/nothing").refused(404, "not_found")["path"]
    answer = caller.ask("PATCH", "/v1/runs", {})
    assert "POST" in answer.refused(405, "method_not_allowed")["allowed"]
    assert "POST" in answer.headers["allow"]


@pytest.mark.origin("H12")
def test_unfenced_writes_are_taken_and_counted_while_a_roll_out_lasts(make_service: Serving) -> None:
    for mode in ("warn", "off"):
        caller = make_service(fence_required=mode).start().caller()
        run_id = submit(caller)
        claim_one(caller, register(caller, "w"))

        caller.post(f"/v1/runs/{run_id}/partial", {"partial": 1}).ok(204)
        caller.post(f"/v1/runs/{run_id}/partial", {"fence": 7, "partial": 2}).refused(409, "fence_lost")

        assert 1 == sum(caller.get("/healthz").ok()["unfenced"].values())
        assert 1 == caller.get(f"/v1/runs/{run_id}").ok()["partial"]


def test_the_command_line_verifies_the_journal_beside_the_service(shared: Service) -> None:
    said = verified(shared)
    assert {"ok", "facts", "first_bad_position", "problem"} == said.keys()
    assert (True, None, None) == (said["ok"], said["first_bad_position"], said["problem"])
    listing = cli(shared.script, "ls", "--json", "--data-dir", str(shared.data_dir))
    assert 0 == listing.returncode, listing.stderr
