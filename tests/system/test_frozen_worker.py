"""A worker frozen for longer than its ttl: another takes over, and nothing that the first still does is seen.

The first worker is a process that is really stopped (SIGSTOP) in the middle of its work and continued later with every
kind of guarded write already on its way: it never learned that time has passed. Its last three requests before the
freeze were accepted; what it sends afterwards is refused, kind by kind, with the fence that is in force.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.calling import Caller, Listening
from tests.system.conftest import Serving
from tests.system.frozen_worker import FrozenWorker
from tests.system.serving import Service, claim_one, register, submit

pytestmark = [pytest.mark.system, pytest.mark.origin("B4", "B5", "R8")]

TTL_S = 0.5
STEERING: dict[str, dict[str, Any]] = {"answer": {"answer": "late"}, "verdict": {"verdict": "succeeded"}}
Writes = dict[str, tuple[str, dict[str, Any]]]


def guarded_writes(run_id: str, fence: int) -> Writes:
    """Every kind of write that a fence guards, by name: its route and its body."""
    run, held = f"/v1/runs/{run_id}", {"fence": fence}
    closing = {**held, "outcome": "succeeded", "result": "late"}
    return {
        "partial": (f"{run}/partial", {**held, "partial": "late"}),
        "progress": (f"{run}/progress", {**held, "message": "late"}),
        "output": (f"{run}/output", {**held, "seq": 9, "data": "late"}),
        "park": (f"{run}/park", {**held, "kind": "waiting_input", "question": "late"}),
        "hand back": (f"{run}/hand-back", held),
        "close": (f"{run}/close", closing),
        "closes": ("/v1/closes", {"closes": [{"run_id": run_id, **closing}]}),
        "effect claim": (f"{run}/effects/late", {**held, "payload": "late"}),
        "effect complete": (f"{run}/effects/mail/complete", {**held, "outcome": "late"}),
        "effect fail": (f"{run}/effects/mail/fail", {**held, "outcome": "late"}),
        "effect reconcile": (f"{run}/effects/mail/reconcile", {**held, "resolution": "done", "outcome": "late"}),
    }


@pytest.fixture
def frozen(checkout: Path, service: Service) -> Iterator[FrozenWorker]:
    worker = FrozenWorker(checkout, service.port, service.key)
    yield worker
    worker.end()


def hold_and_freeze(frozen: FrozenWorker, run_id: str) -> None:
    """Have the first worker claim the run, write something of each kind, and stop it there."""
    frozen.do("PUT", "/v1/workers/first", {"slots": 1})
    status, body = frozen.do("POST", "/v1/claims", {"worker_id": "first"})
    assert (status, body["claims"][0]["run_id"], body["claims"][0]["fence"]) == (200, run_id, 1)
    run = f"/v1/runs/{run_id}"
    for path, told in (
        (f"{run}/output", {"fence": 1, "seq": 0, "data": "one\n"}),
        (f"{run}/partial", {"fence": 1, "partial": {"done": 1}}),
        (f"{run}/effects/mail", {"fence": 1, "payload": {"to": "ada"}}),
    ):
        assert frozen.do("POST", path, told)[0] in (200, 204)
    frozen.freeze()


def take_over(caller: Caller, run_id: str) -> dict[str, Any]:
    """What the second worker is told when the run becomes its own, because the first was not heard for a ttl."""
    claim = claim_one(caller, register(caller, "second"), wait_s=10)
    assert (claim["run_id"], claim["fence"], claim["attempt"]) == (run_id, 2, 2)
    return claim


def visible(caller: Caller, run_id: str) -> dict[str, Any]:
    """Everything that a reader can see of the work on a run."""
    run = caller.get(f"/v1/runs/{run_id}").ok()
    shown = (
        "state",
        "reason",
        "fence",
        "owner",
        "result",
        "error",
        "partial",
        "question",
        "failed_attempts",
        "position",
    )
    return {
        **{name: run[name] for name in shown},
        "output": caller.output(run_id),
        "effects": caller.get(f"/v1/runs/{run_id}/effects").ok(),
        "facts": caller.facts(run_id),
    }


@pytest.mark.origin("B32", "B33", "R20", "R25", "D44", "K11")
def test_a_worker_that_thaws_after_a_take_over_is_refused_every_kind_of_write(
    service: Service, frozen: FrozenWorker
) -> None:
    caller = service.caller()
    run_id = submit(caller, policy={"lease_ttl_s": TTL_S})
    hold_and_freeze(frozen, run_id)
    claim = take_over(caller, run_id)
    assert {"done": 1} == claim["partial"]
    assert [{"key": "mail", "state": "ambiguous", "outcome": None}] == claim["effects"]
    caller.post(f"/v1/runs/{run_id}/output", {"fence": 2, "seq": 0, "data": "two\n"}).ok(204)
    caller.post(f"/v1/runs/{run_id}/partial", {"fence": 2, "partial": {"done": 2}}).ok(204)
    before = visible(caller, run_id)

    writes = guarded_writes(run_id, 1)
    for path, body in writes.values():
        frozen.begin("POST", path, body)
    frozen.begin("POST", "/v1/workers/first/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]})
    frozen.thaw()
    told = {kind: frozen.answer() for kind in writes}
    _, heartbeat = frozen.answer()

    status, closes = told.pop("closes")
    assert (200, "fence_lost") == (status, closes["closes"][0]["code"])
    assert {kind: (409, "fence_lost") for kind in told} == {kind: (s, b["code"]) for kind, (s, b) in told.items()}
    for problem in [closes["closes"][0], *(body for _, body in told.values())]:
        assert (1, 2, "second") == (problem["presented"], problem["current"], problem["holder"])
        assert problem["reason"]
    renewal = heartbeat["leases"][0]
    assert (run_id, 1, "lost", 2, "second") == tuple(
        renewal[name] for name in ("run_id", "fence", "outcome", "current", "holder")
    )
    assert ["stop"] == [instruction["kind"] for instruction in renewal["instructions"]]
    assert before == visible(caller, run_id)


@pytest.mark.origin("K11")
def test_refused_stale_writes_are_counted_by_their_route(service: Service, frozen: FrozenWorker) -> None:
    caller = service.caller()
    run_id = submit(caller, policy={"lease_ttl_s": TTL_S})
    hold_and_freeze(frozen, run_id)
    take_over(caller, run_id)

    frozen.begin("POST", f"/v1/runs/{run_id}/partial", {"fence": 1, "partial": "late"})
    frozen.thaw()
    frozen.answer()

    assert {"POST /v1/runs/{run_id}/partial": 1} == caller.get("/healthz").ok()["refused_stale"]


@pytest.mark.origin("D21", "R25")
def test_a_frozen_worker_cannot_add_to_a_run_that_its_successor_has_ended(
    service: Service, frozen: FrozenWorker
) -> None:
    caller = service.caller()
    run_id = submit(caller, policy={"lease_ttl_s": TTL_S})
    hold_and_freeze(frozen, run_id)
    take_over(caller, run_id)
    closed = caller.post(f"/v1/runs/{run_id}/close", {"fence": 2, "outcome": "succeeded", "result": "mine"}).ok()
    assert ("succeeded", "mine") == (closed["state"], closed["result"])
    before = visible(caller, run_id)

    writes = guarded_writes(run_id, 1)
    for path, body in writes.values():
        frozen.begin("POST", path, body)
    frozen.thaw()
    told = {kind: frozen.answer() for kind in writes}

    assert {"fence_lost"} == {(body["closes"][0] if "closes" in body else body)["code"] for _, body in told.values()}
    assert before == visible(caller, run_id)


def test_a_higher_fence_than_the_one_in_force_is_refused_as_well(service: Service) -> None:
    caller = service.caller()
    run_id = submit(caller)
    claim_one(caller, register(caller, "only"))

    told = {kind: caller.post(path, body) for kind, (path, body) in guarded_writes(run_id, 2).items()}

    closes = told.pop("closes").ok()["closes"][0]
    assert ("fence_lost", 2, 1) == (closes["code"], closes["presented"], closes["current"])
    for answer in told.values():
        assert (2, 1) == (answer.refused(409, "fence_lost")["presented"], answer.body["current"])


def test_a_frozen_worker_that_nobody_replaced_may_still_close_late(service: Service, frozen: FrozenWorker) -> None:
    caller = service.caller()
    run_id = submit(caller, policy={"lease_ttl_s": TTL_S})
    hold_and_freeze(frozen, run_id)
    _until_expired(caller, run_id)

    frozen.begin("POST", f"/v1/runs/{run_id}/output", {"fence": 1, "seq": 1, "data": "late"})
    frozen.begin("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded", "result": "mine"})
    frozen.thaw()
    output, close = frozen.answer(), frozen.answer()

    assert (409, "fence_lost") == (output[0], output[1]["code"])
    assert (200, "succeeded", "mine") == (close[0], close[1]["state"], close[1]["result"])
    assert 1 == close[1]["failed_attempts"]


def _until_expired(caller: Caller, run_id: str) -> None:
    """Listen to the run's facts until its lease has expired."""
    with Listening(caller, f"/v1/runs/{run_id}/facts") as frames:
        for frame in frames:
            if frame.name == "lease.expired.v1":
                return


def test_a_leader_frozen_past_its_grace_has_lost_its_runs_and_changes_nothing_when_it_thaws(
    make_quick_service: Serving, checkout: Path
) -> None:
    service = make_quick_service(leader_grace_s=0.3).start()
    caller, leader = service.caller(), FrozenWorker(checkout, service.port, service.key)
    try:
        leader.do("PUT", "/v1/leaders/ada/sessions/one", {"ttl_s": 1})
        run_id = leader.do("POST", "/v1/runs", {"leader_id": "ada"})[1]["run_id"]
        claim_one(caller, register(caller, "worker"))
        leader.freeze()
        run = caller.get(f"/v1/runs/{run_id}?until=settled&wait_s=20").ok()
        assert ("cancelled", "leader_gone", 2) == (run["state"], run["reason"], run["fence"])
        before = visible(caller, run_id)

        for path in ("answer", "pause", "resume", "verdict"):
            leader.begin("POST", f"/v1/runs/{run_id}/{path}", STEERING.get(path, {}))
        leader.thaw()
        told = [leader.answer() for _ in range(4)]
        writes = {kind: caller.post(path, body) for kind, (path, body) in guarded_writes(run_id, 1).items()}

        assert [(409, "run_settled")] * 4 == [(status, body["code"]) for status, body in told]
        closes = writes.pop("closes").ok()["closes"][0]
        assert {"fence_lost"} == {closes["code"], *(answer.code for answer in writes.values())}
        assert before == visible(caller, run_id)
    finally:
        leader.end()
