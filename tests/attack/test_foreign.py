"""Whoever has no business with a thing gets nothing out of asking for it: every operation, every kind of stranger.

Asked are all operations of the document. Strangers are those whom no key lets in, and those whose keys are bound to
other leaders and workers. What they are told about somebody else's run is what they are told about none at all, or
names a right that they lack; whichever it is, nothing changes and nothing of the run is in it.
"""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from api.keys import Wanted
from api.roles import TABLE
from tests.api.service import Service, running
from tests.attack.asking import CLOSED, OPERATIONS, STREAM, Operation

SECRET = "not for your eyes"
REFUSED = {401, 403, 404, 409}
JSON = {"Accept": "application/json"}
MANY = 1_000_000
STRANGERS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "another leader": ("leader", {"leader_ids": ["bob"]}),
    "a leader of nobody": ("leader", {"leader_ids": []}),
    "another worker": ("worker", {"worker_ids": ["w2"]}),
    "a worker of nothing": ("worker", {"worker_ids": []}),
}
SAID = {"worker_id": "w2", "leader_id": "bob", "fence": 1, "queues": "mine", "filter": None, "answer": "extend"}
"""What a stranger puts into a body: its own ids, and the fence that is in force."""


class World:
    """A run of ada's that w1 holds, with everything that hangs on it, and who else there is."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.ids: dict[str, str] = {}
        self.strangers: dict[str, str] = {}

    async def fill(self) -> None:
        service, hers = self.service, {"leader_id": "ada", "payload": SECRET}
        run_id = await service.held("w1", **hers)
        await service.ok("PUT", "/v1/workers/w2", {})
        run = f"/v1/runs/{run_id}"
        await service.ok("POST", f"{run}/effects/pay", {"fence": 1, "payload": SECRET})
        await service.ok("POST", f"{run}/output", {"fence": 1, "seq": 0, "data": SECRET})
        await service.ok("POST", f"{run}/partial", {"fence": 1, "partial": SECRET})
        turn = await service.ok("POST", f"{run}/turns", {"fence": 1})
        await service.ok("PUT", "/v1/leaders/ada/sessions/s1", {})
        await service.submitted(queue="hers", **hers)
        reserved = await service.ok("POST", "/v1/reservations", {"worker_id": "w1", "queues": ["hers"]})
        key = await service.ok("POST", "/v1/keys", {"name": "other", "role": "reader"})
        self.ids = {
            "run_id": run_id, "worker_id": "w1", "leader_id": "ada", "session_id": "s1", "key": "pay",
            "token": reserved["token"], "key_id": key["key_id"], "queue": "hers", "turn": str(turn["turn"]),
        }  # fmt: skip
        for name, (role, bounds) in STRANGERS.items():
            self.strangers[name] = service.made_key(role, name.replace(" ", "-"), **bounds)

    async def ask(self, operation: Operation, key: str | None, ids: dict[str, str]) -> httpx.Response:
        path, body = operation.at(ids), operation.body(SAID)
        return await self.service.ask(operation.method, path, body, key=key, headers=JSON)

    def recorded(self) -> int:
        return self.service.node.desk.journal.position


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    place: Path = tmp_path_factory.mktemp("foreign")
    async with running(place, key_failures=MANY) as service:
        world = World(service)
        await world.fill()
        yield world


def about_nothing(operation: Operation, ids: dict[str, str]) -> dict[str, str]:
    """The same ids, but for one thing that the operation is about, which does not exist."""
    return {**ids, operation.names[0]: operation.of_nothing(operation.names[0])}


def alike(answer: httpx.Response, asked: Operation, ids: dict[str, str]) -> tuple[int, Any]:
    """An answer without the ids that were asked for and what differs from moment to moment."""
    text = answer.text
    for name in asked.names:
        text = text.replace(ids[name], "?")
    return answer.status_code, json.loads(text) if text else None


@pytest.mark.parametrize("operation", CLOSED, ids=lambda operation: operation.label)
@pytest.mark.asyncio(loop_scope="module")
async def test_no_key_and_every_key_that_opens_nothing_are_told_the_same_about_everything(
    world: World, operation: Operation
) -> None:
    service, now = world.service, world.service.node.clock().wall
    ended = Wanted(name="ended", role="admin", not_after=now - timedelta(seconds=1))
    revoked = service.made_key("admin", "revoked")
    service.node.keys.revoke(revoked.split("_")[1], now)
    keys = [None, "", "jlk", revoked, service.node.keys.make(ended, "test", now)[1], service.key[:-1], "Basic " + "x"]
    before = world.recorded()

    answers = [await world.ask(operation, key, ids) for key in keys for ids in (world.ids, {})]

    assert {401} == {answer.status_code for answer in answers}
    assert 1 == len({answer.text for answer in answers})
    assert all(answer.headers["www-authenticate"].startswith("Bearer") for answer in answers)
    assert before == world.recorded()


def mine_to_ask(operation: Operation, role: str) -> bool:
    """Whether the role may ask about things of others: lists and what everybody may see of the fleet."""
    allowed = TABLE.get(operation.label, frozenset())
    return operation.method == "GET" and role in allowed and "run_id" not in operation.names


@pytest.mark.parametrize("operation", [one for one in CLOSED if one.names], ids=lambda operation: operation.label)
@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_stranger_gets_nothing_out_of_a_thing_that_is_anothers_and_changes_nothing(
    world: World, operation: Operation, stranger: str
) -> None:
    if mine_to_ask(operation, STRANGERS[stranger][0]) and operation.label != STREAM:
        return
    before = world.recorded()
    answer = await world.ask(operation, world.strangers[stranger], world.ids)

    assert answer.status_code in REFUSED, answer.text
    assert before == world.recorded()
    assert SECRET not in answer.text
    if operation.method == "GET" and "run_id" in operation.names:
        nothing = about_nothing(operation, world.ids)
        about_none = await world.ask(operation, world.strangers[stranger], nothing)
        assert alike(about_none, operation, nothing) == alike(answer, operation, world.ids)


@pytest.mark.asyncio(loop_scope="module")
async def test_whose_it_is_may_ask(world: World) -> None:
    ada = world.service.made_key("leader", "ada", leader_ids=["ada"])
    w1 = world.service.made_key("worker", "w1", worker_ids=["w1"])

    for key in (ada, w1):
        told = await world.service.ok("GET", f"/v1/runs/{world.ids['run_id']}", key=key, headers=JSON)
        assert SECRET == told["payload"]


@pytest.mark.parametrize("operation", [one for one in CLOSED if one.model is not None], ids=lambda one: one.label)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_field_that_nobody_offers_is_refused_by_name(world: World, operation: Operation) -> None:
    assert operation.model is not None
    before = world.recorded()
    offered = set(operation.model.get("properties", {}))
    for extra in sorted({"owner", "fence", "tenant", "principal", "role", "state", "attempt", "__proto__"} - offered):
        body = {**(operation.body(SAID) or {}), extra: 1}
        refusal = await world.service.refused(operation.method, operation.at({}), body)

        assert (422, "invalid") == (refusal["status"], refusal["code"])
        assert extra in {error["field"] for error in refusal["errors"]}
    assert before == world.recorded()


@pytest.mark.parametrize("path", sorted({operation.path for operation in OPERATIONS}))
@pytest.mark.asyncio(loop_scope="module")
async def test_a_method_that_nobody_described_is_refused_naming_those_that_are(world: World, path: str) -> None:
    described = {operation.method: operation for operation in OPERATIONS if operation.path == path}
    some = next(iter(described.values()))
    for method in sorted(
        {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT"} - set(described)
    ):
        answer = await world.service.ask(method, some.at({}), key=None)

        assert 405 == answer.status_code
        assert sorted(described) == sorted(answer.headers["allow"].split(", "))


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_header_does_not_make_another_method_of_it(world: World, header: str) -> None:
    before = world.recorded()
    answer = await world.service.ask("GET", "/v1/workers/w1", headers={header: "DELETE"})

    assert 200 == answer.status_code
    assert before == world.recorded()


NUMBERS = ("limit", "after", "min_position", "wait_s")


@pytest.mark.parametrize("operation", [one for one in CLOSED if one.method == "GET"], ids=lambda one: one.label)
@pytest.mark.parametrize("value", ["1000000000000", "-1", "9223372036854775808", "1e400", "nan", "x" * 10_000, "%00"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_query_out_of_its_bounds_is_refused(world: World, operation: Operation, value: str) -> None:
    bounded = [one["name"] for one in operation.described.get("parameters", ()) if one["name"] in NUMBERS]
    for name in bounded:
        if (name, value) in {("after", "1000000000000"), ("min_position", "1000000000000")}:
            continue
        answer = await world.service.ask("GET", f"{operation.at(world.ids)}?{name}={value}", headers=JSON)

        assert 422 == answer.status_code, (name, answer.text)
        assert len(answer.content) < 4_000
