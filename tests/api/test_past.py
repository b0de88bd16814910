"""The past over HTTP: a run, a list and an explanation as of a position or an instant."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from projections import past_runs
from tests.api.service import Service, running

RUN = "/v1/runs/{}"
UNRECORDED: dict[str, Any] = {"partial": None, "workspaces": []}


async def lived(service: Service) -> tuple[str, list[dict[str, Any]]]:
    """A run that lives a whole life, and what was shown of it after each step."""
    shown: list[dict[str, Any]] = []

    async def step(verb: str, path: str, body: dict[str, Any]) -> None:
        await service.ok(verb, path, body)
        shown.append(await service.ok("GET", f"/v1/runs/{run_id}"))

    run_id = await service.submitted(name="nightly", tags={"team": "core"}, payload={"n": 1})
    shown.append(await service.ok("GET", f"/v1/runs/{run_id}"))
    await service.ok("PUT", "/v1/workers/w1", {"slots": 9})
    path = f"/v1/runs/{run_id}"
    await step("POST", f"{path}/claim", {"worker_id": "w1"})
    await step("POST", f"{path}/park", {"fence": 1, "kind": "waiting_input", "question": "go?"})
    await step("POST", f"{path}/answer", {"answer": "go"})
    await step("POST", f"{path}/claim", {"worker_id": "w1"})
    await step("POST", f"{path}/partial", {"fence": 2, "partial": {"half": True}})
    await step("POST", f"{path}/effects/mail", {"fence": 2, "payload": 1})
    await step("POST", f"{path}/close", {"fence": 2, "outcome": "failed", "error": "boom", "retryable": False})
    return run_id, shown


def then(shown: dict[str, Any]) -> dict[str, Any]:
    """A run that was shown live, without what is not recorded."""
    return {**shown, **UNRECORDED, "evidence": dict.fromkeys(shown["evidence"])}


@pytest.mark.origin("H17")
async def test_a_run_is_shown_as_it_was_at_every_position_byte_for_byte(service: Service) -> None:
    run_id, shown = await lived(service)
    for before in shown:
        position = before["position"]
        again = await service.ok("GET", f"/v1/runs/{run_id}?at={position}")
        as_of = again.pop("as_of")

        assert list(then(before).items()) == list(again.items())  # in this order, too
        assert (position, ["evidence", "partial"]) == (as_of["position"], as_of["not_recorded"])


async def test_an_instant_means_the_last_fact_until_then(service: Service) -> None:
    run_id, shown = await lived(service)
    facts = (await service.ok("GET", f"/v1/runs/{run_id}/facts"))["facts"]
    instants = [datetime.fromisoformat(fact["recorded_at"]) for fact in facts]
    for fact, at, later in zip(facts, instants, [*instants[1:], instants[-1] + timedelta(microseconds=1)], strict=True):
        if at == later:
            continue  # of one append
        for instant in (at, at + (later - at) / 2):
            for text in (instant.isoformat(), instant.astimezone(UTC).isoformat().replace("+00:00", "Z")):
                again = await service.ok("GET", f"/v1/runs/{run_id}?at={quote(text)}")
                assert fact["position"] == again["position"], text
    unescaped = instants[0].isoformat()  # with a plus that becomes a blank
    assert "queued" == (await service.ok("GET", f"/v1/runs/{run_id}?at={unescaped}"))["state"]
    assert "failed" == shown[-1]["state"]


async def test_a_list_of_the_past_is_the_list_that_was_shown_then(service: Service) -> None:
    seen: list[tuple[int, dict[str, Any]]] = []
    asked = "sort=submitted_at&limit=500"
    run_ids: list[str] = []
    await service.ok("PUT", "/v1/workers/w1", {"slots": 100})

    async def look() -> None:
        position = service.node.desk.journal.position
        listed = await service.ok("GET", f"/v1/runs?{asked}&min_position={position}")
        assert position == listed["position"]
        seen.append((position, listed))

    for number in range(6):
        run_ids.append(await service.submitted(queue=f"q{number % 2}", tags={"n": str(number % 3)}, payload=number))
        await look()
        if number % 2:
            claim = await service.ok("POST", f"/v1/runs/{run_ids[number - 1]}/claim", {"worker_id": "w1"})
            await look()
            body = {"fence": claim["fence"], "outcome": "succeeded", "result": number}
            await service.ok("POST", f"/v1/runs/{run_ids[number - 1]}/close", body)
            await look()
    await service.ok("POST", f"/v1/runs/{run_ids[1]}/cancel", {})
    for position, listed in seen:
        again = await service.ok("GET", f"/v1/runs?{asked}&at={position}")
        assert [then(item) for item in listed["items"]] == again["items"], position
        assert (position, position) == (again["position"], again["as_of"]["position"])


async def test_a_list_of_the_past_is_filtered_sorted_and_paged_by_what_was_then(service: Service) -> None:
    await service.ok("PUT", "/v1/workers/w1", {"slots": 100})
    runs = [await service.submitted(name=f"r{number}", priority=number % 3) for number in range(7)]
    for run_id in runs[:4]:
        await service.ok("POST", f"/v1/runs/{run_id}/claim", {"worker_id": "w1"})
    at = service.node.desk.journal.position
    for run_id in runs[:2]:
        await service.ok("POST", f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"})
    await service.ok("POST", f"/v1/runs/{runs[6]}/cancel", {})
    await service.submitted(name="later")

    async def every(ask: str) -> list[str]:
        found: list[str] = []
        cursor = ""
        while True:
            page = await service.ok("GET", f"/v1/runs?at={at}&limit=2&{ask}{cursor}")
            found += [item["name"] for item in page["items"]]
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"

    assert [f"r{number}" for number in range(6, -1, -1)] == await every("")
    assert ["r0", "r1", "r2", "r3"] == await every("state=running&sort=name")
    assert ["r0", "r1", "r2", "r3"] == await every("owner=w1&sort=submitted_at")
    assert ["r4", "r5", "r6"] == await every("state=queued&sort=name")
    assert ["r5", "r2", "r4", "r1", "r6", "r3", "r0"] == await every("sort=-priority")
    assert [] == await every("state=succeeded&state=cancelled")
    assert ["r3"] == await every("q=r3")


async def test_a_cursor_of_one_position_is_of_no_use_at_another(service: Service) -> None:
    for _ in range(3):
        await service.submitted()
    page = await service.ok("GET", "/v1/runs?at=3&limit=1")
    problem = await service.refused("GET", f"/v1/runs?at=2&limit=1&cursor={page['next_cursor']}")

    assert ("invalid", "cursor") == (problem["code"], problem["field"])


@pytest.mark.parametrize("path", ["/v1/runs/{run}", "/v1/runs/{run}/why", "/v1/runs"])
async def test_a_place_where_nothing_was_is_refused_with_the_values(service: Service, path: str) -> None:
    run_id = await service.submitted()
    path, tail = path.format(run=run_id), service.node.desk.journal.position

    async def said(at: str) -> dict[str, Any]:
        return await service.refused("GET", f"{path}?at={quote(at)}")

    beyond = await said(str(tail + 1))
    assert ("position_beyond", 422, tail) == (beyond["code"], beyond["status"], beyond["journal_position"])
    early = await said("1999-12-31T23:59:59Z")
    assert ("instant_before", 422) == (early["code"], early["status"])
    late = await said("9998-01-01T00:00:00Z")
    assert ("instant_beyond", 422) == (late["code"], late["status"])
    for garbage in ("0", "-1", "1.5", "soon", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "\u0663"):
        problem = await said(garbage)
        assert ("invalid", "at", garbage) == (problem["code"], problem["field"], problem["value"])
    assert 422 == (await said("9" * 65))["status"]


async def test_a_run_is_not_there_before_its_submission(service: Service) -> None:
    await service.submitted()
    run_id = await service.submitted()
    problem = await service.refused("GET", f"/v1/runs/{run_id}?at=1")

    assert ("run_not_yet", 404, 2) == (problem["code"], problem["status"], problem["submitted"])
    assert "run_unknown" == (await service.refused("GET", "/v1/runs/none?at=1"))["code"]


async def test_a_key_sees_no_more_of_the_past_than_of_the_present(service: Service) -> None:
    run_id = await service.submitted(leader_id="ada")
    key = service.made_key("leader", leader_ids=["bea"])

    assert "run_unknown" == (await service.refused("GET", f"/v1/runs/{run_id}?at=1", key=key))["code"]
    assert [] == (await service.ok("GET", "/v1/runs?at=1", key=key))["items"]


async def test_nobody_waits_for_the_past_to_end(service: Service) -> None:
    run_id = await service.submitted()
    problem = await service.refused("GET", f"/v1/runs/{run_id}?at=1&until=settled&wait_s=1")

    assert ("invalid", "until") == (problem["code"], problem["field"])


async def test_an_explanation_of_the_past_goes_by_facts_and_says_what_came_next(service: Service) -> None:
    run_id, shown = await lived(service)
    told = await service.ok("GET", f"/v1/runs/{run_id}/why?at={shown[1]['position']}")

    assert ("running", 1, []) == (told["state"], told["fence"], told["clocks"])
    assert told["next"].startswith("then came run.attempt_ended.v1, at position 5, recorded at ")
    assert ["evidence", "partial"] == told["as_of"]["not_recorded"]
    assert (
        "nothing has happened to it since."
        == (await service.ok("GET", f"/v1/runs/{run_id}/why?at={shown[-1]['position']}"))["next"]
    )


async def test_a_list_that_needs_too_much_is_refused_and_can_be_narrowed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_runs, "OPEN_MAX", 2)
    runs = [await service.submitted(queue="a" if number < 2 else "b") for number in range(4)]
    at = service.node.desk.journal.position
    for run_id in runs:
        await service.ok("POST", f"/v1/runs/{run_id}/cancel", {})
    await service.ok("GET", f"/v1/runs?min_position={service.node.desk.journal.position}")
    problem = await service.refused("GET", f"/v1/runs?at={at}")
    narrowed = await service.ok("GET", f"/v1/runs?at={at}&queue=a")

    assert ("past_too_wide", 422, 2) == (problem["code"], problem["status"], problem["limit"])
    assert ["queued", "queued"] == [item["state"] for item in narrowed["items"]]


async def test_many_places_are_asked_for_and_few_are_remembered(data_dir: Path) -> None:
    async with running(data_dir) as service:
        runs = [await service.submitted() for _ in range(3 * past_runs.PLACES)]
        for run_id in runs:
            await service.ok("POST", f"/v1/runs/{run_id}/cancel", {})
        asked = range(1, len(runs) + 1)
        pages = await asyncio.gather(*(service.ok("GET", f"/v1/runs?at={at}&limit=500") for at in asked))

        assert list(asked) == [len(page["items"]) for page in pages]
        assert {"queued"} == {item["state"] for page in pages for item in page["items"]}
        assert past_runs.PLACES == len(service.node.past._folded)
