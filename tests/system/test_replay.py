"""Replaying the journal gives the same states: a restart changes no run, and a rebuilt read model is the live one.

The journal is filled by the same clients that load a service under kills, then by hand with every state that a run can
be parked or ended in. What is compared is what a reader sees, before and after, and the read model's rows.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journal.opening import open_readonly
from tests.system.calling import Caller
from tests.system.conftest import Serving
from tests.system.load import Crowd
from tests.system.serving import Service, claim_one, register, submit
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("A29", "H10", "K5")]

COMMANDS = 150
SECTION = 10
"""Notifications that the library's log gives at a time."""


@pytest.fixture
def filled(make_service: Serving, seed: int) -> Service:
    """A service with a history: of loading clients, and of each state that they do not leave a run in."""
    service = make_service(retry_continuation_s=0).start()
    crowd = Crowd(service.port, service.key, 3, seed)
    crowd.start()
    until(lambda: crowd.promised >= COMMANDS, what="a history", within_s=30)
    crowd.stop()
    _leave_in_every_state(service.caller())
    return service


def _leave_in_every_state(caller: Caller) -> None:
    worker = register(caller, "by-hand", slots=50)

    def held(**wish: Any) -> str:
        run_id = submit(caller, queue="by-hand", **wish)
        assert run_id == claim_one(caller, worker, queue="by-hand")["run_id"]
        return f"/v1/runs/{run_id}"

    once = {"fence": 1}
    held()
    for kind in ("waiting_input", "waiting_peer", "waiting_takeover"):
        caller.post(f"{held()}/park", {**once, "kind": kind, "question": {"what": kind}}).ok()
    caller.post(f"{held()}/park", {**once, "kind": "waiting_input", "keep_lease": True}).ok()
    judged = held(leader_id="ada", policy={"verdict_by": "leader"})
    caller.post(f"{judged}/close", {**once, "outcome": "succeeded", "result": [1, {"two": None}]}).ok()
    caller.post(f"{held(policy={'max_attempts': 1})}/close", {**once, "outcome": "failed", "error": "broken"}).ok()
    caller.post(f"{held()}/close", {**once, "outcome": "failed", "error": {"code": "later"}}).ok()
    salvaged = held()
    caller.post(f"{salvaged}/partial", {**once, "partial": {"saved": True}}).ok(204)
    caller.post(f"{salvaged}/effects/mail", {**once, "payload": 1}).ok()
    caller.post(f"{salvaged}/cancel", {}).ok()
    caller.post(f"/v1/runs/{submit(caller, queue='by-hand')}/cancel", {}).ok()
    caller.post(f"/v1/runs/{submit(caller, queue='by-hand')}/pause", {}).ok()
    submit(caller, queue="by-hand", name="later", run_after="2100-01-01T00:00:00Z", tags={"a": "b"}, payload={"x": [1]})
    submit(caller, queue="by-hand", labels={"gpu": "yes"}, priority=7, concurrency_key="k")
    reserved = submit(caller, queue="by-hand")
    asked = {"worker_id": worker, "queues": ["by-hand"]}
    assert reserved == caller.post("/v1/reservations", asked).ok(201)["run_id"]


def _runs(caller: Caller) -> list[str]:
    """Every run, page after page."""
    found: list[str] = []
    cursor = ""
    while True:
        page = caller.get(f"/v1/runs?limit=100&sort=submitted_at{cursor}").ok()
        found += [item["run_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def _seen(caller: Caller, run_id: str) -> dict[str, Any]:
    """What a reader sees of a run; last-seen marks and remaining durations are no part of it: they begin anew."""
    run, why = caller.get(f"/v1/runs/{run_id}").ok(), caller.get(f"/v1/runs/{run_id}/why").ok()
    del run["evidence"]
    return {
        "run": run,
        "facts": caller.facts(run_id),
        "output": caller.output(run_id),
        "effects": caller.get(f"/v1/runs/{run_id}/effects").ok(),
        "state": why["state"],
        "because": why["because"],
        "fence": why["fence"],
    }


def _caught_up(caller: Caller) -> None:
    position = caller.get("/healthz").ok()["journal"]["position"]
    caller.get(f"/v1/runs?limit=1&min_position={position}").ok()


def test_a_restart_changes_nothing_that_is_derived_from_facts(filled: Service) -> None:
    caller = filled.caller()
    _caught_up(caller)
    runs = _runs(caller)
    before = {run_id: _seen(caller, run_id) for run_id in runs}
    states = {seen["state"] for seen in before.values()}
    caller.close()

    filled.restart()

    caller = filled.caller()
    assert runs == _runs(caller)
    assert before == {run_id: _seen(caller, run_id) for run_id in runs}
    assert {
        "queued", "reserved", "running", "waiting_input", "waiting_peer", "waiting_takeover", "waiting_verdict",
        "paused", "succeeded", "failed", "cancelled",
    } <= states  # fmt: skip


def test_a_rebuilt_read_model_is_the_live_one_byte_for_byte(filled: Service) -> None:
    _caught_up(filled.caller())
    assert 0 == filled.terminate()
    live = _rows(filled.data_dir)

    rebuilt = filled.run_cli("projections", "rebuild", "--data-dir", str(filled.data_dir))

    assert 0 == rebuilt.returncode, rebuilt.stderr
    assert live == _rows(filled.data_dir)
    verified = filled.run_cli("projections", "verify", "--json", "--data-dir", str(filled.data_dir))
    assert 0 == verified.returncode, verified.stdout


def _rows(data_dir: Path) -> dict[str, list[str]]:
    """Every row of every table of the read models, by table; how often a model was built is no part of what it says."""
    with closing(sqlite3.connect(data_dir / "projections.sqlite3")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: sorted(repr(row) for row in connection.execute(f'SELECT * FROM "{table}"'))
            for table in sorted({*tables} - {"tracking"})
        }


def test_the_library_reads_what_was_written_through_its_own_notification_log(filled: Service) -> None:
    head = filled.caller().get("/healthz").ok()["journal"]["position"]
    journal = open_readonly(filled.data_dir)
    try:
        notifications = [
            notification
            for start in range(1, head + 1, SECTION)
            for notification in journal.notification_log.select(start, SECTION)
        ]
        positions = [notification.id for notification in notifications]
        versions: dict[str, list[int]] = {}
        for notification in notifications:
            versions.setdefault(str(notification.originator_id), []).append(notification.originator_version)
    finally:
        journal.close()

    assert list(range(1, head + 1)) == positions
    assert {True} == {sorted(some) == list(range(1, len(some) + 1)) for some in versions.values()}
    assert {"run", "lease", "effects", "worker"} <= {stream.partition("-")[0] for stream in versions}
    assert all(json.loads(notification.state) for notification in notifications)
