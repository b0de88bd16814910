"""Lists of runs: filters, orders, pages that are complete while rows change, and cursors that cannot be bent."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.refusal import InvalidCommand
from domain.submission import Policy
from domain.values import Json
from projections.runner import Runner
from projections.stored import listing as lists
from projections.stored import runs
from projections.stored.cursors import LIMIT_MAX
from projections.stored.listing import SEARCH_MAX_CHARS, SORTS, TAGS_MAX, Listing
from tests.projections.acts import NOON, TENANT, claim, close, submit
from tests.projections.world import BOUND_S, World, expected, followed, opened

IMMUTABLE = ("submitted_at", "-submitted_at", "priority", "-priority", "queue", "name")
WIRE = {
    "run_id", "queue", "name", "tags", "labels", "priority", "run_after", "concurrency_key", "state", "reason",
    "leader_id", "revision", "fence", "attempt", "failed_attempts", "owner", "due_at", "policy", "question", "answers",
    "result", "error", "retry_of", "submitted_at", "settled_at", "position",
}  # fmt: skip


@contextlib.asynccontextmanager
async def listing(data_dir: Path) -> AsyncIterator[tuple[World, Runner]]:
    async with opened(None) as world, followed(world, data_dir) as runner:
        yield world, runner


async def zoo(world: World) -> None:
    """Runs of every kind that the filters tell apart."""
    await world.act("a1", submit(name="Nightly build", tags={"team": "core", "size": "big"}, priority=1))
    await world.act("a2", submit(name="100% done", tags={"team": "core"}, queue="other", leader_id="ada"), 1)
    await world.act("a3", submit(tags={"team": "web"}, leader_id="bob", priority=-1), 1)
    await world.act("a4", submit(run_after=NOON.wall + timedelta(hours=1)), 1)
    await world.act("a1", claim("w1"), 1)
    await world.act("a2", claim("w1", token="t1"), 1)
    await world.act("a3", claim("w2"), 1)
    await world.act("a3", close("succeeded", result={"n": 1}), 1)


async def ids(runner: Runner, **wanted: Any) -> list[str]:
    await runner.caught_up(BOUND_S)
    page = await runner.runs.list(TENANT, Listing(**wanted))
    return [item["run_id"] for item in page["items"]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["a4", "a3", "a2", "a1"]),
        ({"sort": "submitted_at"}, ["a1", "a2", "a3", "a4"]),
        ({"sort": "-priority"}, ["a1", "a4", "a2", "a3"]),
        ({"sort": "priority"}, ["a3", "a2", "a4", "a1"]),
        ({"sort": "due_at"}, ["a2", "a4", "a1", "a3"]),
        ({"sort": "settled_at"}, ["a3", "a1", "a2", "a4"]),
        ({"sort": "state"}, ["a4", "a2", "a1", "a3"]),
        ({"sort": "-name"}, ["a1", "a2", "a4", "a3"]),
        ({"state": ("running",)}, ["a1"]),
        ({"state": ("reserved", "succeeded")}, ["a3", "a2"]),
        ({"state": ("lost",)}, []),
        ({"queue": "other"}, ["a2"]),
        ({"leader_id": "bob"}, ["a3"]),
        ({"owner": "w1"}, ["a2", "a1"]),
        ({"owner": "w2"}, []),
        ({"tags": ("team:core",)}, ["a2", "a1"]),
        ({"tags": ("team:core", "size:big")}, ["a1"]),
        ({"tags": ("team:co",)}, []),
        ({"q": "NIGHTLY"}, ["a1"]),
        ({"q": "100%"}, ["a2"]),
        ({"q": "a_"}, []),
        ({"q": "team:web"}, ["a3"]),
        ({"q": "A4"}, ["a4"]),
        ({"leaders": ("ada", "bob")}, ["a3", "a2"]),
        ({"leaders": ()}, []),
        ({"owners": ("w1",)}, ["a2", "a1"]),
        ({"limit": 2}, ["a4", "a3"]),
        ({"state": ("queued",), "tags": ("team:core",), "queue": "default"}, []),
    ],
    ids=str,
)
async def test_a_list_gives_exactly_the_runs_that_match_in_the_order_asked_for(
    tmp_path: Path, wanted: dict[str, Any], found: list[str]
) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)

        assert found == await ids(runner, **wanted)


async def test_an_item_has_every_field_of_the_wire_but_the_payload_and_what_is_not_a_fact(tmp_path: Path) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        await runner.caught_up(BOUND_S)
        page = json.loads(msgspec.json.encode(await runner.runs.list(TENANT, Listing())))

    assert [WIRE] * 4 == [set(item) for item in page["items"]]
    assert {page["position"]} == {item["position"] for item in page["items"]}
    settled = page["items"][1]
    assert ("succeeded", {"n": 1}, None) == (settled["state"], settled["result"], settled["owner"])


async def test_one_run_is_given_whole_with_the_position_of_its_last_fact(tmp_path: Path) -> None:
    payload = Json(b'{"z":1,  "a":1.0,"a":2}')
    async with listing(tmp_path) as (world, runner):
        await world.act("r1", submit(payload=payload))
        await world.act("r2", submit())
        await runner.caught_up(BOUND_S)
        shown = await runner.runs.get(TENANT, "r1")
        other = await runner.runs.get(TENANT, "r2")
        whole = {**expected(world, "r1"), "position": 1}

    assert shown is not None
    assert other is not None
    assert json.loads(msgspec.json.encode(whole)) == json.loads(msgspec.json.encode(shown))
    assert bytes(payload) == bytes(shown["payload"])
    assert b"null" == bytes(other["payload"])


async def test_runs_of_another_tenant_are_neither_listed_nor_given(tmp_path: Path) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        await runner.caught_up(BOUND_S)

        for wanted in (Listing(), Listing(tags=("team:core",)), Listing(owner="w1")):
            assert [] == (await runner.runs.list("elsewhere", wanted))["items"]
        assert await runner.runs.get("elsewhere", "a1") is None


async def pages(runner: Runner, wanted: Listing) -> AsyncIterator[list[str]]:
    cursor: str | None = None
    while True:
        page = await runner.runs.list(TENANT, msgspec.structs.replace(wanted, cursor=cursor))
        yield [item["run_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return


@given(
    limit=st.integers(1, 5),
    sort=st.sampled_from(IMMUTABLE),
    priorities=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    between=st.lists(st.sampled_from(["claim", "cancel", "succeed", "new"]), max_size=8),
)
@settings(max_examples=40)
def test_paging_is_complete_and_repeats_nothing_while_runs_come_and_change(
    limit: int, sort: str, priorities: list[int], between: list[str]
) -> None:
    async def body(data_dir: Path) -> None:
        async with listing(data_dir) as (world, runner):
            for number, priority in enumerate(priorities):
                await world.act(f"r{number}", submit(priority=priority, name=f"n{priority}"), float(number % 2))
            there = {f"r{number}" for number in range(len(priorities))}
            await runner.caught_up(BOUND_S)
            waiting, seen = list(between), list[str]()
            async for page in pages(runner, Listing(limit=limit, sort=sort)):
                seen.extend(page)
                if waiting:
                    act = waiting.pop()
                    await world.act(f"x{len(waiting)}" if act == "new" else "r0", "submit" if act == "new" else act)
                    await runner.caught_up(BOUND_S)

            assert len(seen) == len(set(seen))
            assert there <= set(seen)

    with tempfile.TemporaryDirectory() as data_dir:
        asyncio.run(body(Path(data_dir)))


@pytest.mark.parametrize("sort", [f"{sign}{column}" for column in SORTS for sign in ("", "-")])
async def test_every_order_is_total_so_that_pages_of_one_are_the_whole_list(tmp_path: Path, sort: str) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        for number in range(3):
            await world.act(f"b{number}", submit(policy=Policy()))
        whole = await ids(runner, sort=sort)
        one_by_one = [page async for page in pages(runner, Listing(sort=sort, limit=1))]

    assert [[run_id] for run_id in whole] == one_by_one


async def test_a_page_ends_early_when_its_documents_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PAGE_BYTES", 1)
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        await runner.caught_up(BOUND_S)
        each = [page async for page in pages(runner, Listing())]

    assert [["a4"], ["a3"], ["a2"], ["a1"]] == each


async def cursor_of(runner: Runner, tenant: str = TENANT, **wanted: Any) -> str:
    await runner.caught_up(BOUND_S)
    cursor = (await runner.runs.list(tenant, Listing(limit=1, **wanted)))["next_cursor"]
    assert isinstance(cursor, str)
    return cursor


async def test_a_cursor_that_was_altered_anywhere_is_refused(tmp_path: Path) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        cursor = await cursor_of(runner)
        for place in range(len(cursor)):
            altered = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
            with pytest.raises(InvalidCommand):
                await runner.runs.list(TENANT, Listing(cursor=altered))


@pytest.mark.parametrize("cursor", ["", "=", "é", "AAAA", "A" * 5_000, "not a cursor"])
async def test_what_is_no_cursor_is_refused_with_its_field(tmp_path: Path, cursor: str) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        await runner.caught_up(BOUND_S)
        with pytest.raises(InvalidCommand) as refused:
            await runner.runs.list(TENANT, Listing(cursor=cursor))

    assert ("invalid", "cursor") == (refused.value.code, refused.value.field)


@pytest.mark.parametrize("made_up", [2**63, 2**64 - 1, True, None, 1.5, b"x", [1], {"a": 1}])
def test_a_made_up_place_that_no_page_ends_at_is_refused_before_it_is_asked_for(made_up: Any) -> None:
    cursor = lists.write_cursor(TENANT, Listing(), "epoch", (made_up, "run"))
    with pytest.raises(InvalidCommand) as refused:
        lists.query(TENANT, Listing(cursor=cursor), "epoch")
    assert ("invalid", "cursor") == (refused.value.code, refused.value.field)


@pytest.mark.parametrize("place", [2**63 - 1, -(2**63), 0, "", "\0"])
def test_a_place_that_a_column_can_hold_is_asked_for_as_it_is(place: Any) -> None:
    cursor = lists.write_cursor(TENANT, Listing(), "epoch", (place, "run"))
    assert (place, "run") == lists.query(TENANT, Listing(cursor=cursor), "epoch").parameters[1:3]


async def test_a_cursor_of_another_tenant_filter_order_or_journal_is_refused(tmp_path: Path) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        cursor = await cursor_of(runner)
        for tenant, wanted in (
            ("elsewhere", Listing(cursor=cursor)),
            (TENANT, Listing(cursor=cursor, queue="default")),
            (TENANT, Listing(cursor=cursor, sort="submitted_at")),
            (TENANT, Listing(cursor=cursor, leaders=("ada",))),
        ):
            with pytest.raises(InvalidCommand):
                await runner.runs.list(tenant, wanted)
        with pytest.raises(InvalidCommand):
            lists.read_cursor(TENANT, Listing(cursor=cursor), "another journal")
        more = await runner.runs.list(TENANT, Listing(cursor=cursor, limit=LIMIT_MAX))

    assert 3 == len(more["items"])


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": LIMIT_MAX + 1}, "limit"),
        ({"sort": "payload"}, "sort"),
        ({"sort": "--state"}, "sort"),
        ({"state": ("waiting",)}, "state"),
        ({"tags": ("team",)}, "tag"),
        ({"tags": ("a:b",) * (TAGS_MAX + 1)}, "tag"),
        ({"q": "x" * (SEARCH_MAX_CHARS + 1)}, "q"),
    ],
    ids=str,
)
def test_a_list_outside_its_bounds_is_refused_with_the_field(wanted: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCommand) as refused:
        lists.check(Listing(**wanted))

    assert field == refused.value.field


@pytest.mark.parametrize(
    "wanted",
    [{"limit": 1}, {"limit": LIMIT_MAX}, {"tags": ("a:b",) * TAGS_MAX}, {"q": "x" * SEARCH_MAX_CHARS}],
    ids=str,
)
def test_a_list_at_its_bounds_is_accepted(wanted: dict[str, Any]) -> None:
    lists.check(Listing(**wanted))


async def test_a_list_has_an_index_for_each_common_question(tmp_path: Path) -> None:
    async with listing(tmp_path) as (world, runner):
        await zoo(world)
        await runner.caught_up(BOUND_S)
        plans = {}
        for name, wanted in {
            "runs_submitted": Listing(),
            "runs_state": Listing(state=("queued",), sort="submitted_at"),
            "runs_queue": Listing(queue="default"),
            "runs_leader": Listing(leader_id="ada"),
            "runs_owner": Listing(owner="w1"),
        }.items():
            query = lists.query(TENANT, wanted, world.journal.epoch)
            with runner.database.reading() as connection:
                plan = connection.execute(f"EXPLAIN QUERY PLAN {query.statement}", query.parameters).fetchall()
            plans[name] = " ".join(row[3] for row in plan)

    assert [] == [f"{name}: {plan}" for name, plan in plans.items() if name not in plan]
