"""The stored read models over HTTP: fresh for whoever acted, bounded by what a key may see, and open about trouble."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from projections.stored.catalogue import NAMES
from projections.stored.runs_fold import RunsFold
from tests.api.service import Service, running


async def closed(service: Service, **wish: Any) -> str:
    run_id = await service.held(**wish)
    await service.ok("POST", f"/v1/runs/{run_id}/effects/mail", {"fence": 1, "payload": 1})
    await service.ok("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"})
    return run_id


async def test_a_timeline_shows_what_was_acknowledged_before_it_was_asked_for(service: Service) -> None:
    run_id = await closed(service)

    told = await service.ok("GET", f"/v1/runs/{run_id}/timeline")

    assert ["queued", "running", "succeeded"] == [one["state"] for one in told["items"] if one["state"]]
    assert f"run-{run_id}@1" == told["items"][0]["fact"]
    assert "effect.intended.v1" in [one["topic"] for one in told["items"]]
    assert all(one["lasted_s"] >= 0 for one in told["items"][:2])


async def test_the_lists_count_what_was_acknowledged_before_they_were_asked_for(service: Service) -> None:
    run_id = await closed(service, queue="mail")
    await service.submitted(queue="mail")

    (worker,) = (await service.ok("GET", "/v1/workers"))["items"]
    (queue,) = (await service.ok("GET", "/v1/queues"))["items"]
    (effect,) = (await service.ok("GET", "/v1/effects?state=ambiguous"))["items"]
    (used,) = (await service.ok("GET", "/v1/usage?queue=mail"))["items"]

    assert (1, 1, 0) == tuple(worker["counts"][name] for name in ("attempts", "succeeded", "lost"))
    assert ("mail", 1, 1, 0) == tuple(queue[name] for name in ("queue", "queued", "due", "leases"))
    assert queue["oldest_waits_s"] >= 0
    assert [60, 300, 3600] == [rate["window_s"] for rate in queue["rates"]]
    assert (run_id, "mail", "ambiguous") == tuple(effect[name] for name in ("run_id", "key", "state"))
    assert (2, 1, 1) == tuple(used[name] for name in ("submitted", "attempts", "settled_succeeded"))
    assert [] == (await service.ok("GET", "/v1/usage?day_to=2000-01-01"))["items"]


@pytest.mark.parametrize("path", ["workers", "leaders", "queues", "effects", "usage", "projections"])
async def test_a_position_that_does_not_come_is_refused_with_both(
    service: Service, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.views.BEHIND_S", 0.01)

    refusal = await service.refused("GET", f"/v1/{path}?min_position=1000")

    assert (504, "read_model_behind", 1000) == (refusal["status"], refusal["code"], refusal["wanted"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("workers?state=asleep", "state.0"),
        ("leaders?limit=501", "limit"),
        ("queues?limit=0", "limit"),
        ("effects?state=done", "state.0"),
        ("effects?cursor=abc", "cursor"),
        ("usage?day_from=yesterday", "day_from"),
        ("usage?day_from=2030-02-30", "day_from"),
        ("usage?day_to=0", "day_to"),
        ("usage?day_from=2030-01-02&day_to=2030-01-01", "day_from"),
        ("projections?digest=perhaps", "digest"),
        ("usage?days=3", "days"),
    ],
)
async def test_a_query_outside_its_bounds_is_refused_with_its_field(service: Service, query: str, field: str) -> None:
    refusal = await service.refused("GET", f"/v1/{query}")

    named = [refusal["field"]] if "field" in refusal else [one["field"] for one in refusal["problems"]]
    assert (422, [field]) == (refusal["status"], [name.removeprefix("query.") for name in named])


async def test_a_key_that_is_bound_sees_the_effects_of_its_runs_and_no_usage(service: Service) -> None:
    await closed(service)
    mine = await closed(service, leader_id="ada")
    key = service.made_key("leader", leader_ids=["ada"])

    seen = (await service.ok("GET", "/v1/effects", key=key))["items"]
    everything = (await service.ok("GET", "/v1/effects"))["items"]

    assert [mine] == [one["run_id"] for one in seen]
    assert 2 == len(everything)
    for path in ("/v1/usage", "/v1/projections"):
        assert 403 == (await service.refused("GET", path, key=key))["status"]


async def test_a_timeline_of_a_run_that_a_key_may_not_see_does_not_exist(service: Service) -> None:
    run_id = await service.submitted()
    key = service.made_key("leader", leader_ids=["ada"])

    refusal = await service.refused("GET", f"/v1/runs/{run_id}/timeline", key=key)

    assert (404, "run_unknown") == (refusal["status"], refusal["code"])


async def test_the_read_models_are_shown_with_their_digests_on_request(service: Service) -> None:
    await closed(service)

    shown = (await service.ok("GET", "/v1/projections"))["items"]
    read = (await service.ok("GET", "/v1/projections?digest=true"))["items"]

    assert [*NAMES] == [one["name"] for one in shown]
    assert {None} == {one["digest"] for one in shown}
    assert {64} == {len(one["digest"]) for one in read}
    assert {("current", 0)} == {(one["state"], one["lag"]) for one in read}


async def test_a_fact_that_cannot_be_folded_is_shown_in_health_and_costs_only_its_run(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = RunsFold._enter

    def enter(fold: RunsFold, run_id: str, position: int, *, new: bool) -> Any:
        if position == 1:
            message = "who wrote this?"
            raise ValueError(message)
        return right(fold, run_id, position, new=new)

    monkeypatch.setattr(RunsFold, "_enter", enter)
    async with running(data_dir) as service:
        bad, good = await service.submitted(), await service.submitted()
        position = service.node.desk.journal.position
        listed = await service.ok("GET", f"/v1/runs?min_position={position}")
        health = await service.ok("GET", "/healthz")
        shown = (await service.ok("GET", "/v1/projections"))["items"]

        assert [good] == [one["run_id"] for one in listed["items"]]
        assert bad == (await service.ok("GET", f"/v1/runs/{bad}"))["run_id"]
        assert "runs put run.submitted.v1 at position 1 aside: ValueError: who wrote this?" in health["first_error"]
        assert "degraded" == health["status"]
        assert [[bad], []] == [[one["subject"] for one in each["quarantined"]] for each in shown[:2]]


@pytest.mark.parametrize("path", ["runs", "workers"])
@pytest.mark.parametrize("held", [False, True])
async def test_a_list_waits_for_what_was_acknowledged_but_not_for_ever(
    service: Service, data_dir: Path, path: str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.views.FRESH_S", 0.05 if held else 30.0)
    await service.held()
    await service.ok("GET", f"/v1/{path}")
    with contextlib.closing(sqlite3.connect(data_dir / "projections.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await service.held(worker="w2")
        asked = asyncio.ensure_future(service.ask("GET", f"/v1/{path}"))
        if held:
            await asked
        other.execute("ROLLBACK")
        page = (await asked).json()

    assert (1 if held else 2) == len(page["items"])
    assert (page["position"] < service.node.desk.journal.position) is held
