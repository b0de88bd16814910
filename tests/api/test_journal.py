"""The journal over HTTP: every fact once and in order as a CloudEvent, in bounded pages, to operators of its tenant."""

import hashlib
from typing import Any

import pytest

from journal.chain import Tail, genesis, link
from journal.cloud import SOURCE
from tests.api.service import Service

RUNS = 4


@pytest.fixture
async def recorded(service: Service) -> Service:
    """A service with some facts in its journal."""
    for number in range(RUNS):
        await service.submitted(name=f"run-{number}", payload={"x": [1, 2.5]})
    return service


async def pages(service: Service, limit: int) -> list[Any]:
    """Every page, from the beginning to the end."""
    found, after = [], 0
    while True:
        found.append(await service.ok("GET", f"/v1/journal?after={after}&limit={limit}"))
        if found[-1]["next_after"] is None:
            return found
        after = found[-1]["next_after"]


@pytest.mark.parametrize(("limit", "count"), [(1, RUNS), (3, 2), (RUNS, 1), (1000, 1)])
async def test_every_fact_is_on_one_page_in_order(limit: int, count: int, recorded: Service) -> None:
    found = await pages(recorded, limit)

    assert count == len(found)
    assert list(range(1, RUNS + 1)) == [fact["position"] for page in found for fact in page["facts"]]


async def test_what_is_given_is_a_cloudevent_that_says_which_fact_it_is(recorded: Service) -> None:
    page = await recorded.ok("GET", "/v1/journal?limit=1")
    health = await recorded.ok("GET", "/healthz")

    (fact,) = page["facts"]
    assert ("1.0", "run.submitted.v1", "application/json") == (
        fact["specversion"],
        fact["type"],
        fact["datacontenttype"],
    )
    assert SOURCE + page["journal_id"] == fact["source"]
    assert f"run-{fact['data']['run_id']}" == fact["subject"]
    assert fact["data"]["run_id"] == fact["correlationid"]
    assert {"x": [1, 2.5]} == fact["data"]["payload"]
    assert health["journal"]["epoch"] == page["epoch"]
    first = hashlib.sha256(b"jackline journal " + page["journal_id"].encode()).digest()
    assert first == genesis(page["journal_id"]) == Tail(0, first).hash


async def test_a_page_is_what_the_chain_is_made_of(recorded: Service) -> None:
    (page,) = await pages(recorded, 1000)
    before = genesis(page["journal_id"])

    for row, fact in zip(recorded.node.desk.journal.store.rows_after(0), page["facts"], strict=True):
        before = link(before, fact["position"], fact["subject"], fact["version"], fact["type"], row[4])
        assert before.hex() == fact["hash"]


async def test_after_the_last_position_there_is_an_empty_page_and_beyond_it_a_refusal(recorded: Service) -> None:
    page = await recorded.ok("GET", f"/v1/journal?after={RUNS}")
    problem = await recorded.refused("GET", f"/v1/journal?after={RUNS + 1}")

    assert ([], None, RUNS) == (page["facts"], page["next_after"], page["position"])
    assert (422, "position_beyond", RUNS) == (problem["status"], problem["code"], problem["journal_position"])


async def test_a_page_ends_when_it_is_large(recorded: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.journal_page.PAGE_BYTES", 1)

    found = await pages(recorded, 1000)

    assert [1] * RUNS == [len(page["facts"]) for page in found]


async def test_facts_of_another_tenant_are_counted_and_not_shown(
    recorded: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = recorded.node.desk.journal.store
    theirs = store.rows_after
    monkeypatch.setattr(
        store,
        "rows_after",
        lambda *bounds: (
            (*row[:4], row[4].replace(b'"default",null]', b'"acme",null]'), *row[5:]) for row in theirs(*bounds)
        ),
    )

    page = await recorded.ok("GET", "/v1/journal?limit=2")

    assert ([], 2) == (page["facts"], page["next_after"])


@pytest.mark.parametrize(
    ("role", "status"), [("operator", 200), ("admin", 200), ("reader", 403), ("leader", 403), ("worker", 403)]
)
async def test_it_is_for_operators(role: str, status: int, recorded: Service) -> None:
    answer = await recorded.ask("GET", "/v1/journal", key=recorded.made_key(role))

    assert status == answer.status_code


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-1", "after=x", "unknown=1"])
async def test_a_query_that_is_not_one_is_refused(query: str, service: Service) -> None:
    assert "invalid" == (await service.refused("GET", f"/v1/journal?{query}"))["code"]
