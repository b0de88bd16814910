"""What the service says of itself: whether it is there, which step it is at, and how every part is."""

import platform
from pathlib import Path

import httpx
import pytest

from api.app import build_app
from api.boot import Boot
from api.clock import system_clock
from api.node import Node
from api.settings import Settings
from tests.api.service import Service, running


async def test_a_service_that_boots_answers_that_it_lives_and_at_which_step_it_is(data_dir: Path) -> None:
    node = Node(Settings(data_dir=data_dir), system_clock, "b")
    boot = Boot(node, data_dir)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(build_app(node)), base_url="http://service") as http:
        for step in ("opening the journal", "replaying the journal"):
            node.step = step
            ready, live = await http.get("/readyz"), await http.get("/livez")
            run = await http.post("/v1/runs", json={})

            assert (200, 503, {"status": "booting", "step": step}) == (
                live.status_code,
                ready.status_code,
                ready.json(),
            )
            assert (503, "booting", step) == (run.status_code, run.json()["code"], run.json()["step"])
            assert "1" == run.headers["retry-after"]
        await boot.up()
        ready = await http.get("/readyz")
        node.stop_taking()
        stopping = await http.get("/readyz")
        await boot.down()

    assert (200, "ready") == (ready.status_code, ready.json()["status"])
    assert (503, "stopping") == (stopping.status_code, stopping.json()["status"])


async def test_the_steps_of_the_boot_come_in_their_order(data_dir: Path) -> None:
    steps: list[str] = []

    class Watched(Node):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "step":
                steps.append(str(value))
            super().__setattr__(name, value)

    boot = Boot(Watched(Settings(data_dir=data_dir), system_clock, "b"), data_dir)
    await boot.up()
    await boot.down()

    assert [
        "starting",
        "opening the journal",
        "opening the keys",
        "replaying the journal",
        "giving every lease its full ttl",
        "counting every absence from now",
        "taking workspaces for unknown",
        "opening the read models",
        "accepting",
        "starting the sweeps",
        "ready",
    ] == steps


@pytest.mark.origin("D37")
async def test_the_journal_says_what_it_is_where_it_stands_and_when_it_last_wrote(service: Service) -> None:
    before = (await service.ok("GET", "/healthz"))["journal"]
    await service.submitted()
    after = (await service.ok("GET", "/healthz"))["journal"]

    assert ("sqlite", "boot-under-test", 0, None) == tuple(
        before[name] for name in ("kind", "boot_id", "position", "last_append_at")
    )
    assert (1, before["epoch"]) == (after["position"], after["epoch"])
    assert after["last_append_at"] is not None


@pytest.mark.origin("D11", "D33")
async def test_the_first_error_stays_until_somebody_has_seen_it(service: Service) -> None:
    service.node.health.note("the first")
    service.node.health.note("the second")

    degraded = await service.ok("GET", "/healthz")
    await service.ok("POST", "/v1/health/ack", {})
    seen = await service.ok("GET", "/healthz")

    assert ("degraded", "the first") == (degraded["status"], degraded["first_error"])
    assert ("ok", None) == (seen["status"], seen["first_error"])


async def test_a_failure_that_nobody_foresaw_is_kept_in_health_and_tells_the_caller_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        message = "secret of the house"
        raise RuntimeError(message)

    monkeypatch.setattr("commands.explaining.explain", broken)
    run_id = await service.submitted()

    refusal = await service.refused("GET", f"/v1/runs/{run_id}/why")

    health = await service.ok("GET", "/healthz")
    assert (500, "internal") == (refusal["status"], refusal["code"])
    assert "secret" not in str(refusal)
    assert "degraded" == health["status"]
    assert "secret of the house" in health["first_error"]


async def test_the_loops_say_how_they_are(service: Service) -> None:
    loops = (await service.ok("GET", "/healthz"))["loops"]

    assert {"checkpoints", "observers", "presence", "process_manager", "projections", "teardown"} == set(loops)
    assert 0 == loops["projections"]["lag"]


async def test_the_version_says_what_is_running(service: Service) -> None:
    version = await service.ok("GET", "/v1/version")

    assert ("0.1.0", platform.python_version()) == (version["version"], version["python"])


async def test_a_new_key_is_shown_once_and_works(service: Service) -> None:
    made = await service.ok("POST", "/v1/keys", {"name": "w", "role": "worker", "worker_ids": ["w1"]})

    who = await service.ok("GET", "/v1/whoami", key=made["key"])
    listed = (await service.ok("GET", "/v1/keys"))["items"]

    assert ("w", "worker", "default", None, ["w1"]) == tuple(
        who[name] for name in ("principal", "role", "tenant", "leader_ids", "worker_ids")
    )
    assert ["admin", "w"] == [key["name"] for key in listed]
    assert made["key"] not in str(listed)


async def test_a_revoked_key_is_refused_at_once(service: Service) -> None:
    made = await service.ok("POST", "/v1/keys", {"name": "w", "role": "reader"})
    assert 204 == (await service.ask("DELETE", f"/v1/keys/{made['key_id']}")).status_code

    assert "unauthenticated" == (await service.refused("GET", "/v1/whoami", key=made["key"]))["code"]
    assert "key_unknown" == (await service.refused("DELETE", "/v1/keys/nokeyhas"))["code"]


async def test_the_last_admin_key_is_revoked_only_once_there_is_another(service: Service) -> None:
    (first,) = (await service.ok("GET", "/v1/keys"))["items"]
    refusal = await service.refused("DELETE", f"/v1/keys/{first['key_id']}")
    made = await service.ok("POST", "/v1/keys", {"name": "second", "role": "admin"})
    revoked = await service.ask("DELETE", f"/v1/keys/{first['key_id']}", key=made["key"])

    assert (409, "last_admin_key", first["key_id"]) == (refusal["status"], refusal["code"], refusal["key_id"])
    assert "create another admin key first" in refusal["detail"]
    assert 204 == revoked.status_code
    assert 200 == (await service.ask("GET", "/v1/keys", key=made["key"])).status_code


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "role": "king"}, "role"),
        ({"name": "", "role": "reader"}, "name"),
        ({"name": "a b", "role": "reader"}, "name"),
        ({"name": "x", "role": "reader", "tenant": "other"}, "tenant"),
        ({"name": "x", "role": "reader", "not_after": "tomorrow"}, "not_after"),
    ],
)
async def test_a_key_out_of_bounds_is_not_made(service: Service, body: dict[str, str], field: str) -> None:
    assert field == (await service.refused("POST", "/v1/keys", body))["field"]


async def test_every_answer_is_data_that_is_not_kept_and_not_sniffed(service: Service) -> None:
    for path in ("/livez", "/readyz", "/healthz", "/v1/nowhere", "/v1/runs/nobody"):
        head = (await service.ask("GET", path)).headers

        assert ("nosniff", "no-store") == (head["x-content-type-options"], head["cache-control"])
        assert "frame-ancestors 'none'" in head["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/redoc", "/openapi.json", "/v1", "/v1/runs/", "/v1//runs", "/v1/runs/a/b"]
)
async def test_what_is_nowhere_is_not_found(service: Service, path: str) -> None:
    refusal = await service.refused("GET", path)

    assert (404, "not_found", path) == (refusal["status"], refusal["code"], refusal["path"])


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("DELETE", "/v1/runs", "GET, POST"), ("POST", "/livez", "GET"), ("GET", "/v1/claims", "POST")],
)
async def test_a_method_that_a_path_does_not_answer_to_is_refused_with_those_that_it_does(
    service: Service, method: str, path: str, allowed: str
) -> None:
    answer = await service.ask(method, path)

    assert (405, "method_not_allowed", allowed) == (answer.status_code, answer.json()["code"], answer.headers["allow"])


async def test_a_service_remembers_everything_over_a_restart(data_dir: Path) -> None:
    async with running(data_dir) as service:
        run_id, key = await service.held(), service.key
        first = await service.ok("POST", "/v1/runs", {"payload": 1}, headers={"Idempotency-Key": "k"})

    async with running(data_dir) as service:
        again = await service.ok("POST", "/v1/runs", {"payload": 1}, headers={"Idempotency-Key": "k"}, key=key)
        shown = await service.ok("GET", f"/v1/runs/{run_id}", key=key)
        heard = await service.ok("POST", "/v1/workers/w1/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]})

    assert first == again
    assert ("running", 1, "w1") == (shown["state"], shown["fence"], shown["owner"])
    assert "renewed" == heard["leases"][0]["outcome"]
