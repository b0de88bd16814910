"""Records a history of the real service for the tests that replay it: `python -m tests.projections.recording`.

Leaders come, reassign and stay away past the grace; workers are granted, reserve, fall silent, are put aside and leave;
runs succeed, fail, are retried, parked, answered, paused, cancelled and judged; effects end in every way; bodies are
seen, lost, out of sight, never made and let go, and turns in them are completed, cut and failed. What was
recorded is kept with its hash chain in ``histories/``; making it anew is only for facts that are new.
"""

import asyncio
import gzip
import tempfile
from pathlib import Path
from typing import Any

from journal.opening import JOURNAL_NAME
from tests.api.service import Service, running
from tests.waiting import eventually

PLACE = Path(__file__).resolve().parent / "histories" / "service.sqlite3.gz"
QUICK = {"max_attempts": 2, "lease_ttl_s": 0.5, "retry_base_s": 1.0}
BOUND_S = 20.0


async def main() -> None:
    """Record, and write the file."""
    with tempfile.TemporaryDirectory() as place:
        data_dir = Path(place)
        async with running(data_dir, leader_grace_s=0.5, cancel_grace_s=0.2, reservation_s=0.3, quarantine_s=1) as one:
            await tell(one)
        PLACE.parent.mkdir(exist_ok=True)
        PLACE.write_bytes(gzip.compress((data_dir / JOURNAL_NAME).read_bytes(), mtime=0))


async def tell(service: Service) -> None:
    """Everything that may happen to runs, once or a few times."""
    ok = service.ok
    await ok("PUT", "/v1/queues/mail", {"max_leases": 2, "max_per_key": 1})
    for worker in ("w1", "w2"):
        await ok("PUT", f"/v1/workers/{worker}", {"labels": {"arch": "arm"}, "slots": 8})
    for leader in ("ada", "bob"):
        await ok("PUT", f"/v1/leaders/{leader}/sessions/s1", {"ttl_s": 3600})
    await _effects(service)
    await _steered(service)
    silent = await service.held("w2", policy=QUICK, leader_id="bob")
    gone = await service.submitted(leader_id="ada", queue="mail", concurrency_key="k")
    moved = await service.submitted(leader_id="ada")
    await ok("POST", f"/v1/runs/{moved}/reassign", {"leader_id": "bob", "revision": 1})
    reserved = await ok("POST", "/v1/reservations", {"worker_id": "w1", "queues": ["mail"]})
    await ok("DELETE", f"/v1/reservations/{reserved['token']}")
    await ok("POST", "/v1/reservations", {"worker_id": "w1", "queues": ["mail"]})
    await ok("POST", "/v1/workers/w2/quarantine", {"reason": "it was odd"})
    await ok("POST", "/v1/workers/w2/release", {})
    await ok("DELETE", "/v1/leaders/ada/sessions/s1")
    await _until(service, gone, "cancelled")
    await _until(service, silent, "queued")
    await ok("POST", f"/v1/runs/{silent}/claim", {"worker_id": "w1"})
    await _until(service, silent, "queued", "aborted")
    await _grounds(service)
    await ok("POST", "/v1/workers/w1/drain", {})
    await ok("DELETE", "/v1/workers/w2")


async def _grounds(service: Service) -> None:
    """Bodies that are seen, unseen, lost, never made and let go, and turns in them that end in every way."""
    for fate in ("lost", "unseen", "let go", "never made"):
        run_id = await service.held(queue="mail")
        ground = (await service.ok("POST", "/v1/workspaces", {"run_id": run_id, "fence": 1}))["workspace_id"]
        seen = f"/v1/workspaces/{ground}/observations"
        if fate == "never made":
            await service.ok("POST", seen, {"observations": [{"kind": "gone", "reason": "Evicted"}]})
            continue
        await service.ok("POST", seen, {"observations": [{"kind": "present", "identity": ground, "incarnation": 1}]})
        await _turns(service, run_id, ground, seen)
        await service.ok("POST", seen, {"observations": [{"kind": "watch_dropped"}]})
        if fate == "lost":
            await service.ok("POST", seen, {"observations": [{"kind": "gone", "reason": "Evicted"}]})
        if fate == "let go":
            await service.ok("POST", seen, {"observations": [{"kind": "synced"}, {"kind": "present"}]})
            await service.ok("DELETE", f"/v1/workspaces/{ground}")
            await service.ok("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"})


async def _turns(service: Service, run_id: str, ground: str, seen: str) -> None:
    turns = f"/v1/runs/{run_id}/turns"
    for _ in range(4):
        await service.ok("POST", turns, {"fence": 1, "workspace_id": ground})
    for turn in (1, 2, 3):
        await service.ok("POST", f"{turns}/{turn}/delivered", {"fence": 1})
    await service.ok("POST", f"{turns}/1/complete", {"fence": 1})
    await service.ok("POST", f"{turns}/2/state", {"fence": 1, "state": "busy"})
    await service.ok("POST", f"{turns}/3/notice", {"fence": 1, "kind": "conversation_new"})
    again = {"kind": "harness_restarted", "identity": ground, "incarnation": 2, "reason": "OOMKilled"}
    await service.ok("POST", seen, {"observations": [again]})


async def _effects(service: Service) -> None:
    run_id = await service.held(queue="mail")
    for key, end in (("sent", "complete"), ("bounced", "fail"), ("unknown", "")):
        path = f"/v1/runs/{run_id}/effects/{key}"
        await service.ok("POST", path, {"fence": 1, "payload": key})
        if end:
            await service.ok("POST", f"{path}/{end}", {"fence": 1, "outcome": {"said": key}})
    await service.ok("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded", "result": [1]})
    done: dict[str, Any] = {"resolution": "done", "outcome": None}
    await service.ok("POST", f"/v1/runs/{run_id}/effects/unknown/reconcile", done)


async def _steered(service: Service) -> None:
    ok = service.ok
    parked = await service.held()
    question = {"fence": 1, "kind": "waiting_input", "question": "go on?", "keep_lease": False}
    await ok("POST", f"/v1/runs/{parked}/park", question)
    await ok("POST", f"/v1/runs/{parked}/answer", {"answer": "yes"})
    await ok("POST", f"/v1/runs/{parked}/claim", {"worker_id": "w1"})
    await ok("POST", f"/v1/runs/{parked}/hand-back", {"fence": 2})
    await ok("POST", f"/v1/runs/{parked}/pause", {})
    await ok("POST", f"/v1/runs/{parked}/resume", {})
    await ok("POST", f"/v1/runs/{parked}/cancel", {})
    judged = await service.held(policy={"verdict_by": "leader"}, leader_id="bob")
    await ok("POST", f"/v1/runs/{judged}/close", {"fence": 1, "outcome": "succeeded", "result": 1})
    await ok("POST", f"/v1/runs/{judged}/verdict", {"verdict": "failed", "result": None})
    failed = await service.held(policy={"max_attempts": 1})
    await ok("POST", f"/v1/runs/{failed}/close", {"fence": 1, "outcome": "failed", "error": "boom"})
    held = await service.held()
    await ok("POST", f"/v1/runs/{held}/cancel", {})
    await _until(service, held, "cancelled")


async def _until(service: Service, run_id: str, *states: str) -> None:
    async def there() -> bool:
        return (await service.ok("GET", f"/v1/runs/{run_id}"))["state"] in states

    await eventually(there, what=f"{run_id} in {' or '.join(states)}", within_s=BOUND_S)


if __name__ == "__main__":
    asyncio.run(main())
