"""Alarms: what nobody sees and what nobody destroys is told in `/healthz`, until it clears or somebody has seen it."""

from pathlib import Path

import pytest

from api.unknowns import SHOWN_MAX
from tests.api.service import Service, running
from tests.api.test_workspaces import PLACE, placed, seen, standing
from tests.commands.clockwork import Clock


@pytest.mark.origin("H14")
async def test_an_unknown_that_lasts_degrades_the_service_until_it_is_seen_again(data_dir: Path) -> None:
    async with running(data_dir, observer_alarm_s=0.0) as service:
        run_id, workspace_id = await standing(service)
        before = await service.ok("GET", "/healthz")
        await seen(service, workspace_id, {"kind": "watch_dropped"})
        unknown = await service.ok("GET", "/healthz")
        await seen(service, workspace_id, {"kind": "present"}, {"kind": "synced"})
        after = await service.ok("GET", "/healthz")

    assert ["ok", "degraded", "ok"] == [each["status"] for each in (before, unknown, after)]
    assert [(workspace_id, run_id, "watch_dropped")] == [
        (each["workspace_id"], each["run_id"], each["cause"]) for each in unknown["unknowns"]
    ]
    assert f"observers: workspace {workspace_id} has been unknown for 0 s (watch_dropped)" == unknown["first_error"]
    assert [] == after["unknowns"]


@pytest.mark.origin("H14")
@pytest.mark.parametrize("source", ["observers", "teardown"])
async def test_an_alarm_that_somebody_has_seen_rests_and_the_next_one_does_not(data_dir: Path, source: str) -> None:
    async def wait_in_vain(workspace_id: str) -> None:
        if source == "teardown":
            await service.ok("DELETE", f"{PLACE}/{workspace_id}")
        else:
            await seen(service, workspace_id, {"kind": "watch_dropped"})

    async with running(data_dir, observer_alarm_s=0.0, teardown_alarm_s=0.0) as service:
        _, first = await standing(service)
        _, second = await standing(service)
        await wait_in_vain(first)
        alarmed = await service.ok("GET", "/healthz")
        await service.ask("POST", "/v1/health/ack", {})
        rests = await service.ok("GET", "/healthz")
        await wait_in_vain(second)
        alarmed_again = await service.ok("GET", "/healthz")

    assert ["degraded", "ok", "degraded"] == [each["status"] for each in (alarmed, rests, alarmed_again)]
    assert alarmed["first_error"].startswith(f"{source}: workspace {first} ")
    assert alarmed_again["first_error"].startswith(f"{source}: workspace {second} ")


async def test_a_body_that_nobody_destroys_degrades_the_service_until_it_is_gone_or_an_operator_says_so(
    data_dir: Path,
) -> None:
    clock = Clock()
    async with running(data_dir, clock, teardown_alarm_s=60.0) as service:
        _, workspace_id = await standing(service)
        await service.refused("DELETE", f"{PLACE}/{workspace_id}?gone=true")
        await service.ok("DELETE", f"{PLACE}/{workspace_id}")
        clock.go(59)
        in_time = await service.ok("GET", "/healthz")
        clock.go(1)
        late = await service.ok("GET", "/healthz")
        settled = await service.ok("DELETE", f"{PLACE}/{workspace_id}?gone=true")
        after = await service.ok("GET", "/healthz")

    assert ["ok", "degraded", "ok"] == [each["status"] for each in (in_time, late, after)]
    told = (
        f"teardown: workspace {workspace_id} of worker 'w1' was to be destroyed 60 s ago, and nobody says that it was"
    )
    assert told == late["first_error"]
    assert (1, 60.0, 0, None) == (
        late["loops"]["teardown"]["waiting"], late["loops"]["teardown"]["oldest_s"],
        after["loops"]["teardown"]["waiting"], after["loops"]["teardown"]["oldest_s"],
    )  # fmt: skip
    assert ("destroyed", False) == (settled["phase"], settled["teardown"])


async def test_what_is_left_of_an_ended_run_alarms_nobody(data_dir: Path) -> None:
    async with running(data_dir, observer_alarm_s=0.0) as service:
        run_id, workspace_id = await standing(service)
        await seen(service, workspace_id, {"kind": "watch_dropped"})
        await service.ok("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"})
        ended = await service.ok("GET", "/healthz")
        _, other = await standing(service)
    async with running(data_dir, observer_alarm_s=3600.0) as service:
        restarted = await service.ok("GET", "/healthz")

    assert ("ok", []) == (ended["status"], ended["unknowns"])
    assert [(other, "boot")] == [(each["workspace_id"], each["cause"]) for each in restarted["unknowns"]]


async def test_health_lists_as_many_unknowns_as_the_bound_says_and_counts_them_all(service: Service) -> None:
    first, _ = await standing(service)
    second, _ = await standing(service)
    made = [await placed(service, run_id) for run_id in (first, second) for _ in range((SHOWN_MAX + 1) // 2)]
    for workspace_id in made:
        await seen(service, workspace_id, {"kind": "present"})
        await seen(service, workspace_id, {"kind": "watch_dropped"})

    at_the_bound = await service.ok("GET", "/healthz")
    extra = await placed(service, first)
    await seen(service, extra, {"kind": "present"})
    await seen(service, extra, {"kind": "watch_dropped"})
    beyond = await service.ok("GET", "/healthz")

    assert (SHOWN_MAX, SHOWN_MAX) == (len(at_the_bound["unknowns"]), at_the_bound["loops"]["observers"]["unknown"])
    assert (SHOWN_MAX, SHOWN_MAX + 1) == (len(beyond["unknowns"]), beyond["loops"]["observers"]["unknown"])
    assert made[0] == beyond["unknowns"][0]["workspace_id"]
