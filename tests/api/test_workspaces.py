"""Workspaces, observers and turns over HTTP: every answer is held against the model of its route."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.service import Service, listening, running
from tests.api.test_channel import Worker, Workers
from tests.waiting import eventually

PLACE = "/v1/workspaces"


async def placed(service: Service, run_id: str, **wish: Any) -> str:
    """The id of a new workspace of this run, which is held under fence 1."""
    return str((await service.ok("POST", PLACE, {"run_id": run_id, "fence": 1, **wish}))["workspace_id"])


async def seen(service: Service, workspace_id: str, *observations: dict[str, Any]) -> Any:
    """The workspace after these observations."""
    return await service.ok("POST", f"{PLACE}/{workspace_id}/observations", {"observations": list(observations)})


async def standing(service: Service, **wish: Any) -> tuple[str, str]:
    """A run that worker w1 holds under fence 1, and a workspace that it stands on."""
    ground = {name: wish.pop(name) for name in ("provider", "scope", "spec") if name in wish}
    run_id = await service.held(**wish)
    workspace_id = await placed(service, run_id, **ground)
    await service.ok("POST", f"{PLACE}/{workspace_id}/attach", {"identity": f"body of {workspace_id}"})
    return run_id, workspace_id


async def watch(service: Service, scope: str = "c1") -> str:
    """The run of an observer of this scope, held under fence 1."""
    return await service.held("obs", queue="_observers", concurrency_key=scope)


async def report(service: Service, run_id: str, *observations: dict[str, Any], **batch: Any) -> Any:
    """What a batch of the observer is answered."""
    body = {"run_id": run_id, "fence": 1, "scope": "c1", "observations": list(observations), **batch}
    return await service.ok("POST", "/v1/observers/obs/observations", body)


async def test_the_life_of_a_workspace_as_the_contract_has_it(service: Service) -> None:
    run_id = await service.held()

    made = await service.ok("POST", PLACE, {"run_id": run_id, "fence": 1})
    path = f"{PLACE}/{made['workspace_id']}"
    running_one = await seen(service, made["workspace_id"], {"kind": "present", "identity": "u-1", "incarnation": 1})
    shown = await service.ok("GET", path)
    lost = await seen(service, made["workspace_id"], {"kind": "gone", "message": "evicted by hand"})
    run = await service.ok("GET", f"/v1/runs/{run_id}")
    facts = (await service.ok("GET", f"/v1/runs/{run_id}/facts"))["facts"]

    assert "provisioning" == made["phase"]
    assert shown == running_one
    assert ("running", "u-1", 1, {}) == tuple(shown[name] for name in ("phase", "identity", "incarnation", "spec"))
    assert ("Deleted", "evicted by hand", None, False) == tuple(
        lost["lost"][name] for name in ("reason", "message", "exit_code", "pending")
    )
    assert ("lost", "workspace_lost") == (run["state"], run["reason"])
    assert 1 == [fact["topic"] for fact in facts].count("workspace.lost.v1")
    settled = next(fact for fact in facts if fact["topic"] == "run.settled.v1")
    assert f"workspace-{made['workspace_id']}@3" in settled["data"]["cites"]


async def test_keys_see_the_workspaces_of_the_runs_that_they_may_see(service: Service) -> None:
    _, workspace_id = await standing(service, leader_id="ada", scope="c1")
    await watch(service)
    keys = {
        "its leader": service.made_key("leader", "k1", leader_ids=["ada"]),
        "another leader": service.made_key("leader", "k2", leader_ids=["bob"]),
        "its holder": service.made_key("worker", "k3", worker_ids=["w1"]),
        "another worker": service.made_key("worker", "k4", worker_ids=["w2"]),
        "its observer": service.made_key("worker", "k5", worker_ids=["obs"]),
        "a reader": service.made_key("reader", "k6"),
    }

    answers = {who: await service.ask("GET", f"{PLACE}/{workspace_id}", key=key) for who, key in keys.items()}
    listed = {who: len((await service.ok("GET", PLACE, key=key))["items"]) for who, key in keys.items()}

    may = {"its leader", "its holder", "its observer", "a reader"}
    assert {who: 200 if who in may else 404 for who in keys} == {who: a.status_code for who, a in answers.items()}
    assert {who: int(who in may) for who in keys} == listed


@pytest.mark.origin("C10")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"observations": []}', "observations"),
        (b'{"observations": [{"kind": "vanished"}]}', "observations.0.kind"),
        (b'{"observations": [{"kind": "gone", "reason": "Boredom"}]}', "reason"),
        (b'{"observations": [{"kind": "present", "identity": ""}]}', "identity"),
        (b'{"observations": [{"kind": "present", "incarnation": -1}]}', "incarnation"),
        (b'{"observations": [{"kind": "gone", "colour": "red"}]}', "observations.0.colour"),
        (json.dumps({"observations": [{"kind": "gone", "message": "m" * 4001}]}).encode(), "message"),
        (json.dumps({"observations": [{"kind": "present"}] * 1001}).encode(), "observations"),
    ],
)
async def test_what_cannot_be_taken_is_refused_with_its_field_and_changes_nothing(
    service: Service, body: bytes, field: str
) -> None:
    run_id, workspace_id = await standing(service)

    refused = await service.refused("POST", f"{PLACE}/{workspace_id}/observations", body)

    assert (422, field) == (refused["status"], refused["field"])
    assert "running" == (await service.ok("GET", f"/v1/runs/{run_id}"))["state"]


async def test_a_hostile_body_is_refused_and_the_service_goes_on(service: Service) -> None:
    _, workspace_id = await standing(service)
    path = f"{PLACE}/{workspace_id}/observations"

    deep = await service.refused("POST", path, b"[" * 5000)
    large = await service.refused("POST", path, b'{"observations": "' + b"x" * (1024 * 1024) + b'"}')
    cut = await service.refused("POST", path, b'{"observations": [{"kind"')

    assert ("too_deep", "body_too_large", "malformed") == (deep["code"], large["code"], cut["code"])
    assert "running" == (await service.ok("GET", f"{PLACE}/{workspace_id}"))["phase"]


async def test_refusals_about_workspaces_carry_their_values(service: Service) -> None:
    run_id, workspace_id = await standing(service)
    path = f"{PLACE}/{workspace_id}"
    present = {"kind": "present", "identity": "another"}
    other = await service.refused("POST", f"{path}/observations", {"observations": [present]})
    unknown = await service.refused("GET", f"{PLACE}/nothing")
    moved = await service.refused("POST", f"{path}/phase", {"phase": "waiting", "on": "node"})
    stale = await service.refused("POST", PLACE, {"run_id": run_id, "fence": 2})
    await seen(service, workspace_id, {"kind": "replaced"})
    over = await service.refused("POST", f"{path}/attach", {"identity": "x"})
    ended = await service.refused("POST", f"{path}/assert", {})

    assert (409, "identity_changed", "another") == (other["status"], other["code"], other["presented"])
    assert (404, "workspace_unknown") == (unknown["status"], unknown["code"])
    assert ("wrong_phase", "fence_lost", 2, 1) == (moved["code"], stale["code"], stale["presented"], stale["current"])
    assert ("workspace_over", "lost", "Deleted") == (over["code"], over["phase"], over["reason"])
    assert ("run_settled", "lost") == (ended["code"], ended["state"])


async def test_an_observer_reports_its_whole_scope(service: Service) -> None:
    gone_run, _ = await standing(service, scope="c1")
    _, stays = await standing(service, scope="c1")
    observer = await watch(service)
    key = service.made_key("worker", worker_ids=["obs"])
    body = {
        "run_id": observer, "fence": 1, "scope": "c1", "synced": True,
        "observations": [{"workspace_id": stays, "kind": "present"}, {"workspace_id": "nothing", "kind": "gone"}],
    }  # fmt: skip

    reply = await service.ask("POST", "/v1/observers/obs/observations", body, key=key)
    answer = reply.json()
    position = service.node.desk.journal.position
    stale = await service.refused("POST", "/v1/observers/obs/observations", {**body, "fence": 2})
    broken = await service.refused(
        "POST", "/v1/observers/obs/observations", {**body, "part": {"sync_id": "s", "index": 3, "last": True}}
    )
    health = await service.ok("GET", "/healthz")

    assert {"applied": 1, "ignored": 1, "refused": [], "absent": 1} == answer
    assert str(position) == reply.headers["jackline-position"]
    assert "lost" == (await service.ok("GET", f"/v1/runs/{gone_run}"))["state"]
    assert ("fence_lost", "sync_broken", 0) == (stale["code"], broken["code"], broken["expected"])
    assert 1 == health["refused_stale"]["POST /v1/observers/{observer_id}/observations"]
    assert {"applied": 1, "ignored_unknown": 1} == health["loops"]["observers"]["observations"]
    assert 1 == health["loops"]["observers"]["scopes"]
    assert [("c1", observer)] == [(each["scope"], each["run_id"]) for each in health["loops"]["observers"]["watching"]]


async def test_turns_as_the_contract_has_them(service: Service) -> None:
    run_id, workspace_id = await standing(service)
    path = f"/v1/runs/{run_id}/turns"

    turn = await service.ok("POST", path, {"fence": 1, "workspace_id": workspace_id})
    delivered = await service.ok("POST", f"{path}/1/delivered", {"fence": 1, "incarnation": 0})
    busy = await service.ok("POST", f"{path}/1/state", {"fence": 1, "state": "busy"})
    noticed = await service.ok("POST", f"{path}/1/notice", {"fence": 1, "kind": "conversation_new"})
    done = await service.ok("POST", f"{path}/1/complete", {"fence": 1})
    over = await service.refused("POST", f"{path}/1/fail", {"fence": 1, "code": "late"})
    unknown = await service.refused("POST", f"{path}/2/complete", {"fence": 1})
    malformed = await service.refused("POST", f"{path}/two/complete", {"fence": 1})
    stale = await service.refused("POST", path, {"fence": 2})

    assert {"turn": 1, "incarnation": 0} == turn
    assert ["waiting", "busy", "busy", "completed"] == [each["state"] for each in (delivered, busy, noticed, done)]
    assert ("turn_over", "completed") == (over["code"], over["ended"])
    assert (404, 422, 409) == (unknown["status"], malformed["status"], stale["status"])


async def test_why_shows_the_ground_its_age_and_what_happens_next(service: Service) -> None:
    run_id, workspace_id = await standing(service, policy={"on_workspace_lost": "retry_fresh"})
    waiting = await placed(service, run_id, provider="kubernetes")
    await service.ok("POST", f"{PLACE}/{waiting}/phase", {"phase": "waiting", "on": "quota", "message": "cpu"})
    await seen(service, workspace_id, {"kind": "watch_dropped"})

    unknown = await service.ok("GET", f"/v1/runs/{run_id}/why")
    await seen(service, workspace_id, {"kind": "ended", "reason": "ProcessExited", "exit_code": 3})
    pending = await service.ok("GET", f"/v1/runs/{run_id}/why")

    first, second = unknown["workspaces"]
    assert (workspace_id, waiting) == (first["workspace_id"], second["workspace_id"])
    assert first["unknown_age_s"] >= 0
    assert unknown["evidence"]["unknown_since"] == first["unknown_since"]
    assert f"whether workspace {workspace_id} is there has been unknown since" in first["next"]
    assert f"Workspace {waiting} waits, without a limit, for its quota to have room for it (cpu)." in unknown["next"]
    assert {"idle_reap"} <= {clock["name"] for clock in unknown["clocks"]}
    assert ["workspace.continuity_unknown.v1", "workspace.waiting.v1"] == sorted(
        fact["topic"] for fact in unknown["because"] if fact["topic"].startswith("workspace.")
    )
    assert "workspace.lost.v1" in {fact["topic"] for fact in pending["because"]}
    assert "its holder is asked first" in pending["next"]
    assert "the run is queued again for a fresh workspace" in pending["next"]


async def test_what_is_wanted_about_ground_and_turns_is_pushed_at_once(service: Service) -> None:
    run_id, workspace_id = await standing(service)
    turn = f"/v1/runs/{run_id}/turns"
    await service.ok("POST", turn, {"fence": 1, "workspace_id": workspace_id})
    await service.ok("POST", f"{turn}/1/delivered", {"fence": 1})
    async with listening(service) as url, Workers(service, url)() as socket:
        worker = Worker(socket)
        await seen(service, workspace_id, {"kind": "harness_restarted", "incarnation": 1, "reason": "OOMKilled"})
        restarted = await worker.hear()
        await seen(service, workspace_id, {"kind": "ended", "reason": "ProcessExited", "exit_code": 1})
        lost = await worker.hear()
        await service.ok("DELETE", f"{PLACE}/{workspace_id}")
        torn = await worker.hear()

    kinds = [[each["kind"] for each in pushed["leases"][0]["instructions"]] for pushed in (restarted, lost, torn)]
    assert [
        ["turn_failed"],
        ["workspace_lost", "turn_failed"],
        ["workspace_lost", "destroy_workspace", "turn_failed"],
    ] == kinds
    destroy = torn["leases"][0]["instructions"][1]["data"]
    assert {"workspace_id", "provider", "identity", "spec"} == set(destroy)


async def test_a_worker_that_opens_its_stream_late_is_told_what_is_left_to_do(service: Service) -> None:
    run_id, workspace_id = await standing(service, provider="directory", spec={"path": "/srv/run"})
    await service.ok("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"})
    await service.ok("DELETE", f"{PLACE}/{workspace_id}")
    async with listening(service) as url, Workers(service, url)() as socket:
        told = (await Worker(socket).hear())["leases"][0]

    beat = await service.ok("POST", "/v1/workers/w1/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]})
    await seen(service, workspace_id, {"kind": "gone"})
    after = await service.ok("POST", "/v1/workers/w1/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]})

    assert (run_id, "lost") == (told["run_id"], told["outcome"])
    assert {"path": "/srv/run"} == told["instructions"][-1]["data"]["spec"]
    assert ["stop", "destroy_workspace"] == [each["kind"] for each in beat["leases"][0]["instructions"]]
    assert ["stop"] == [each["kind"] for each in after["leases"][0]["instructions"]]


async def test_a_body_on_one_machine_is_its_own_workers_to_destroy_after_a_take_over(service: Service) -> None:
    run_id, workspace_id = await standing(service, provider="directory")
    await service.ok("POST", f"/v1/runs/{run_id}/hand-back", {"fence": 1})
    await service.ok("PUT", "/v1/workers/w2", {})
    await service.ok("POST", f"/v1/runs/{run_id}/claim", {"worker_id": "w2"})
    await service.ok("DELETE", f"{PLACE}/{workspace_id}")
    beat = await service.ok("POST", "/v1/workers/w2/heartbeat", {"leases": [{"run_id": run_id, "fence": 2}]})
    async with listening(service) as url, Workers(service, url)() as socket:
        told = (await Worker(socket).hear())["leases"][0]

    assert [] == beat["leases"][0]["instructions"]
    assert ("lost", 2, ["destroy_workspace"]) == (
        told["outcome"], told["current"], [each["kind"] for each in told["instructions"]],
    )  # fmt: skip


@pytest.mark.origin("C13", "K5", "C36")
async def test_a_service_that_is_started_again_answers_the_same_and_takes_what_it_knew_for_unknown(
    data_dir: Path,
) -> None:
    async with running(data_dir) as service:
        run_id, workspace_id = await standing(service, scope="c1")
        lost_run, lost = await standing(service)
        await seen(service, lost, {"kind": "gone", "reason": "NodeLost"})
        gone = await placed(service, run_id)
        await service.ok("DELETE", f"{PLACE}/{gone}")
        await seen(service, gone, {"kind": "gone"})
        before = [await service.ok("GET", f"{PLACE}/{each}") for each in (workspace_id, lost, gone)]
        runs = [await service.ok("GET", f"/v1/runs/{each}") for each in (run_id, lost_run)]
    async with running(data_dir) as service:
        after = [await service.ok("GET", f"{PLACE}/{each}") for each in (workspace_id, lost, gone)]
        runs_after = [await service.ok("GET", f"/v1/runs/{each}") for each in (run_id, lost_run)]
        listed = {each["run_id"]: each for each in (await service.ok("GET", "/v1/runs"))["items"]}
        observer = await watch(service)
        await report(service, observer, {"workspace_id": workspace_id, "kind": "present"}, synced=True)
        restored = await service.ok("GET", f"{PLACE}/{workspace_id}")

    changed = {"unknown_since", "unknown_cause", "last_asserted_at", "position"}
    for one, other in zip(before, after, strict=True):
        assert {**one, **dict.fromkeys(changed)} == {**other, **dict.fromkeys(changed)}
    assert ("boot", None, None) == tuple(each["unknown_cause"] for each in after)
    assert before[0]["last_asserted_at"] is not None
    assert None is after[0]["last_asserted_at"], "the start of a service is no assertion"
    assert [run["state"] for run in runs] == [run["state"] for run in runs_after] == ["running", "lost"]
    assert runs[1] == {**runs_after[1], "evidence": runs[1]["evidence"]}
    assert [2, 1] == [len(listed[each]["workspaces"]) for each in (run_id, lost_run)]
    assert listed[run_id]["evidence"]["unknown_since"] is not None
    assert (None, "running") == (restored["unknown_since"], restored["phase"])


async def test_the_end_of_an_observer_shows_within_moments(service: Service) -> None:
    run_id, workspace_id = await standing(service, scope="c1")
    observer = await watch(service)
    await report(service, observer, {"workspace_id": workspace_id, "kind": "present"}, synced=True)
    await service.ok("POST", f"/v1/runs/{observer}/close", {"fence": 1, "outcome": "succeeded"})

    async def unknown() -> bool:
        shown = await service.ok("GET", f"{PLACE}/{workspace_id}")
        return bool(shown["unknown_cause"] == "observer_gone")

    await eventually(unknown, what="the workspace to be unknown")
    assert "running" == (await service.ok("GET", f"/v1/runs/{run_id}"))["state"]
