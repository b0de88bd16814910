"""What callers say stays where it belongs: in the journal, and in answers to whoever may see it.

A canary is put into everything that a caller can fill: payloads, output, partials, errors, workspaces, turns, keys,
paths, headers, bodies that are refused, lines that are no requests. Afterwards it is in the journal (or the test would
prove nothing), and neither in what the service logged nor in what it says about itself.
"""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from api.openapi import document
from tests.attack.sockets import frame, head, heard, raw, upgraded
from tests.system.conftest import Serving
from tests.system.serving import Service, register, submit

pytestmark = pytest.mark.system

CANARY = "canary-5f1c9e"
ANSI = "\x1b[31mred"


def sung(service: Service) -> None:
    """Say the canary everywhere where a caller can say something."""
    caller = service.caller()
    run_id = submit(caller, payload={CANARY: CANARY}, tags={"bird": CANARY}, name=CANARY)
    register(caller, "w1")
    run = f"/v1/runs/{run_id}"
    caller.post(f"{run}/claim", {"worker_id": "w1"}).ok()
    for path, said in (
        ("output", {"seq": 0, "data": f"{CANARY}\n{ANSI}"}),
        ("partial", {"partial": CANARY}),
        ("progress", {"message": CANARY, "tool": {"id": CANARY, "name": CANARY, "state": "started"}}),
        (f"effects/{CANARY}", {"payload": CANARY}),
        (f"effects/{CANARY}/fail", {"outcome": CANARY}),
        ("close", {"outcome": "failed", "error": CANARY, "retryable": False}),
    ):
        assert caller.post(f"{run}/{path}", {"fence": 1, **said}).status < 300, path


def stood(service: Service) -> None:
    """Say it about what runs stand on and about turns: one workspace stays unknown, another is lost."""
    caller = service.caller()
    for kind in ("watch_dropped", "gone"):
        run_id = submit(caller)
        run = f"/v1/runs/{run_id}"
        caller.post(f"{run}/claim", {"worker_id": "w1"}).ok()
        asked = {"run_id": run_id, "fence": 1, "provider": "kubernetes", "spec": {CANARY: CANARY}}
        place = f"/v1/workspaces/{caller.post('/v1/workspaces', asked).ok(201)['workspace_id']}"
        seen = {"kind": kind, "identity": CANARY, "message": CANARY, "version": CANARY}
        caller.post(f"{place}/phase", {"phase": "waiting", "on": "node", "message": CANARY}).ok()
        caller.post(f"{place}/phase", {"phase": "provisioning"}).ok()
        caller.post(f"{place}/attach", {"identity": CANARY, "details": {CANARY: CANARY}}).ok()
        caller.post(f"{run}/turns", {"fence": 1}).ok(201)
        caller.post(f"{run}/turns/1/fail", {"fence": 1, "code": CANARY, "message": CANARY}).ok()
        caller.post(f"{place}/observations", {"observations": [seen]}).ok()


def refused(service: Service) -> None:
    """Say it in requests that are refused, and in what is no request at all."""
    caller, stranger = service.caller(), service.stranger()
    for wrong in ({"queue": f"{CANARY} "}, {CANARY: 1}, {"policy": {"max_attempts": CANARY}}):
        assert 422 == caller.post("/v1/runs", wrong).status
    assert 422 == caller.post("/v1/runs", f'{{"payload": "{CANARY}'.encode()).status
    assert 404 == caller.get(f"/{CANARY}").status
    assert 404 == caller.get(f"/v1/runs/{CANARY}").status
    assert 401 == stranger.get("/v1/whoami", authorization=f"Bearer jlk_{CANARY}").status
    assert 401 == stranger.get(f"/v1/whoami?ticket={CANARY}").status
    assert 422 == caller.post("/v1/runs", {}, idempotency=CANARY * 100).status
    for said in (CANARY.encode() + b"\r\n\r\n", head(service, f"GET /{CANARY}", f"\x00{CANARY}: x")):
        with raw(service) as connection:
            connection.sendall(said)
            heard(connection)
    for path in ("/v1/workers/w1/stream", "/v1/leaders/l1/presence"):
        for data in (CANARY.encode(), CANARY.encode() + b"\xff"):
            with upgraded(service, path) as connection, suppress(OSError):
                connection.sendall(frame(1, data) + frame(8, b"\x03\xe8"))
                heard(connection)


def test_what_callers_say_is_neither_logged_nor_told_by_the_service_about_itself(make_service: Serving) -> None:
    service = make_service().start()
    sung(service)
    stood(service)
    refused(service)

    caller = service.caller()
    about = [
        path for path, methods in document()["paths"].items() if "service" in methods.get("get", {}).get("tags", ())
    ]
    telling = [path for path in (*about, "/metrics") if CANARY in json.dumps(caller.get(path).body)]
    service.terminate()
    logged = service.log.read_text(errors="replace")
    kept = b"".join(path.read_bytes() for path in service.data_dir.iterdir() if path.is_file())

    assert kept.count(CANARY.encode())
    assert [] == telling
    assert [] == [line for line in logged.splitlines() if CANARY in line or ANSI in line or "Traceback" in line]


def test_the_secret_of_a_key_is_in_its_answer_and_nowhere_else(make_service: Serving) -> None:
    service = make_service().start()
    caller = service.caller()
    made = caller.post("/v1/keys", {"name": "any", "role": "reader"}, idempotency="once").ok(201)["key"]
    service.caller(made).get("/v1/whoami").ok()
    listed = json.dumps(caller.get("/v1/keys").ok())
    secrets = {made.split("_")[2], service.key.split("_")[2]}
    service.terminate()

    assert not [secret for secret in secrets if secret in listed]
    assert not [secret for secret in secrets if secret in service.log.read_text()]
    holding = {
        path.name for path in _files(service.data_dir) if any(one.encode() in path.read_bytes() for one in secrets)
    }
    assert {"admin.key"} == holding


def _files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]
