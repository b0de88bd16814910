"""Leaders over the wire: present by a stream, a socket or a session, told of their runs, and missed when they go."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect

from api import leading
from tests.api.dead_line import proxied
from tests.api.service import Service, listening, running
from tests.api.test_streams import STREAM, Listening, Reader
from tests.waiting import BOUND_S, eventually

PRESENCE = "/v1/leaders/ada/presence"


@pytest_asyncio.fixture
async def there(data_dir: Path) -> AsyncIterator[Listening]:
    async with running(data_dir, leader_grace_s=0.3) as service, listening(service) as url:
        there = Listening(service, url)
        yield there
        await there.http.aclose()


def socket_of(there: Listening, leader_id: str = "ada", url: str = "") -> connect:
    base = (url or str(there.http.base_url)).rstrip("/").replace("http", "ws")
    head = {"Authorization": f"Bearer {there.service.key}"}
    return connect(f"{base}/v1/leaders/{leader_id}/presence", additional_headers=head, proxy=None, ping_interval=None)


async def heard(connection: ClientConnection) -> Any:
    async with asyncio.timeout(BOUND_S):
        return json.loads(await connection.recv())


async def counted(service: Service, connections: int, leader_id: str = "ada") -> dict[str, Any]:
    """How the leader is present, once that many connections are recorded."""
    shown: dict[str, Any] = {}

    async def so_many() -> bool:
        shown.update(await service.ok("GET", f"/v1/leaders/{leader_id}"))
        return bool(shown["connections"] == connections)

    await eventually(so_many, what=f"{leader_id} to have {connections} connections")
    return shown


def causes(service: Service) -> list[str]:
    """What the ended connections were put down to."""
    facts = [recorded.fact for recorded in service.node.desk.journal.feed.after(0)]
    return [fact.cause for fact in facts if type(fact).__name__ == "LeaderDisconnected"]  # type: ignore[attr-defined]


def topics(service: Service) -> list[str]:
    return [recorded.topic for recorded in service.node.desk.journal.feed.after(0)]


async def until_state(service: Service, run_id: str, state: str) -> None:
    async def so() -> bool:
        return bool((await service.ok("GET", f"/v1/runs/{run_id}"))["state"] == state)

    await eventually(so, what=f"the run to be {state}")


@pytest.mark.origin("A50", "A7", "A6")
async def test_a_stream_says_hello_then_what_happens_to_the_runs_of_its_leader_alone(there: Listening) -> None:
    other = await there.service.submitted(leader_id="bea")
    async with there.stream(PRESENCE) as reader:
        (hello,) = await reader.frames(1)
        mine = await there.service.submitted(leader_id="ada")
        await there.service.ok("POST", f"/v1/runs/{other}/pause", {})
        await there.service.ok("POST", f"/v1/runs/{mine}/pause", {})
        told = await reader.frames(3)

    assert "hello" == hello["event"]
    assert {"leader_id": "ada", "connections": 1, "zero_since": None}.items() <= json.loads(hello["data"]).items()
    assert ["run.submitted.v1", "run.pause_requested.v1", "run.parked.v1"] == [frame["event"] for frame in told]
    assert [int(frame["id"]) for frame in told] == sorted(int(frame["id"]) for frame in told)


@pytest.mark.origin("A50", "A49", "R4")
async def test_a_client_that_closes_its_stream_is_gone_and_its_runs_are_settled_after_its_grace(
    there: Listening,
) -> None:
    async with there.stream(PRESENCE) as reader:
        await reader.frames(1)
        run_id = await there.service.submitted(leader_id="ada")
        await counted(there.service, 1)
    await until_state(there.service, run_id, "cancelled")

    assert ["closed"] == causes(there.service)
    assert 1 == topics(there.service).count("presence.leader_vanished.v1")


@pytest.mark.origin("A41", "A50")
async def test_a_leader_that_comes_back_too_late_is_told_what_was_settled_while_it_was_away(there: Listening) -> None:
    async with there.stream(PRESENCE) as reader:
        await reader.frames(1)
        run_id = await there.service.submitted(leader_id="ada", name="mine")
    await until_state(there.service, run_id, "cancelled")
    async with there.stream(PRESENCE) as reader:
        hello, away = await reader.frames(2)

    assert "settled_while_away" == away["event"]
    (told,) = json.loads(away["data"])["runs"]
    assert (run_id, "mine", "cancelled", "leader_gone") == tuple(told[k] for k in ("run_id", "name", "state", "reason"))
    assert json.loads(hello["data"])["away_since"] == json.loads(away["data"])["away_since"]


async def test_a_leader_that_comes_back_while_the_read_model_cannot_say_stays_and_is_told_later(
    there: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leading, "COMMENT_S", 0.05)
    runner = there.service.node.runner
    assert runner is not None
    (follower,) = [one for one in runner._followers if one.name == "runs"]
    async with there.stream(PRESENCE) as reader:
        await reader.frames(1)
        gone = await there.service.submitted(leader_id="ada")
    await until_state(there.service, gone, "cancelled")
    await runner.runs.wait_for(there.service.node.desk.journal.position, BOUND_S)
    follower.readable = runner.runs.readable = False
    async with there.stream(PRESENCE) as reader:
        await reader.frames(1)
        await there.service.submitted(leader_id="ada")
        present = await counted(there.service, 1)
        follower.readable = runner.runs.readable = True
        away, live = await reader.frames(2)

    assert 1 == present["open_runs"]
    assert [gone] == [run["run_id"] for run in json.loads(away["data"])["runs"]]
    assert ("settled_while_away", "run.submitted.v1") == (away["event"], live["event"])


async def test_a_stream_is_resumed_after_the_position_that_was_last_seen(there: Listening) -> None:
    async with there.stream(PRESENCE) as reader:
        await reader.frames(1)
        await there.service.submitted(leader_id="ada")
        (seen,) = await reader.frames(1)
        async with there.stream(PRESENCE) as second:
            await second.frames(1)
            missed = await there.service.submitted(leader_id="ada")
            async with there.stream(PRESENCE, Last_Event_ID=seen["id"]) as third:
                hello, again = await third.frames(2)
                next_run = await there.service.submitted(leader_id="ada")
                (live,) = await third.frames(1)

    assert seen["id"] == hello["id"]
    assert (missed, next_run) == tuple(json.loads(frame["data"])["data"]["run_id"] for frame in (again, live))


async def test_a_socket_is_the_same_conversation_and_a_goodbye_is_an_end(there: Listening) -> None:
    async with socket_of(there) as connection:
        hello = await heard(connection)
        run_id = await there.service.submitted(leader_id="ada")
        told = await heard(connection)
        await connection.send(json.dumps({"kind": "goodbye"}))
        await connection.wait_closed()
    await counted(there.service, 0)

    assert ("hello", 1) == (hello["event"], hello["data"]["connections"])
    assert ("run.submitted.v1", run_id) == (told["event"], told["data"]["data"]["run_id"])
    assert ["left"] == causes(there.service)


@pytest.mark.origin("R1", "A8", "A50")
async def test_a_stream_and_a_socket_of_one_leader_are_counted_together(there: Listening) -> None:
    async with socket_of(there) as connection:
        await heard(connection)
        async with there.stream(PRESENCE) as reader:
            await reader.frames(1)
            await counted(there.service, 2)
        await counted(there.service, 1)
        run_id = await there.service.submitted(leader_id="ada")
        connection.transport.abort()
        await until_state(there.service, run_id, "cancelled")

    assert 1 == topics(there.service).count("presence.leader_vanished.v1")


@pytest.mark.origin("A50", "A49")
async def test_a_half_open_socket_is_found_by_a_ping_and_its_leader_is_gone(there: Listening) -> None:
    async with proxied(str(there.http.base_url)) as (url, dead):
        connection = await socket_of(there, url=url)
        await heard(connection)
        run_id = await there.service.submitted(leader_id="ada")
        begun = there.service.node.clock().mono
        dead.set()
        await counted_within(there.service, 0, 15)
        took_s = there.service.node.clock().mono - begun
        await until_state(there.service, run_id, "cancelled")
        connection.transport.abort()

    assert took_s <= 15
    assert ["half_open"] == causes(there.service)


async def test_a_worker_whose_line_is_dead_is_not_detached(there: Listening) -> None:
    await there.service.held("w1")
    async with proxied(str(there.http.base_url)) as (url, dead):
        head = {"Authorization": f"Bearer {there.service.key}"}
        uri = f"{url.replace('http', 'ws')}/v1/workers/w1/stream"
        connection = await connect(uri, additional_headers=head, proxy=None, ping_interval=None)
        await connection.send(json.dumps({"seq": 1, "leases": []}))
        await heard(connection)
        dead.set()

        async def ended() -> bool:
            return len(there.service.node.streams) == 0

        await eventually(ended, what="the dead line to be found", within_s=15)
        connection.transport.abort()

    assert "worker.detached.v1" not in topics(there.service)


async def counted_within(service: Service, connections: int, within_s: float) -> None:
    async def so_many() -> bool:
        return bool((await service.ok("GET", "/v1/leaders/ada"))["connections"] == connections)

    await eventually(so_many, what="the dead line to be found", within_s=within_s)


async def test_a_stop_of_the_service_ends_streams_as_its_own_and_begins_no_absence(there: Listening) -> None:
    async with socket_of(there) as connection, there.stream(PRESENCE) as reader:
        await heard(connection)
        await reader.frames(1)
        run_id = await there.service.submitted(leader_id="ada")
        there.service.node.streams.stop()
        await connection.wait_closed()
        await reader.frames(9)
    await counted(there.service, 0)

    assert 1001 == connection.close_code
    assert ["server_stopping", "server_stopping"] == causes(there.service)
    assert "presence.leader_vanished.v1" not in topics(there.service)
    assert "queued" == (await there.service.ok("GET", f"/v1/runs/{run_id}"))["state"]


@pytest.mark.origin("R4", "A11")
async def test_a_reader_that_is_too_slow_is_cut_off_and_absent_from_then(
    there: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.followings.PENDING_MAX", 3)
    async with there.stream(PRESENCE) as reader:
        await reader.frames(1)
        await there.service.ok("POST", "/v1/runs/batch", {"runs": [{"leader_id": "ada"}] * 10})
        await counted(there.service, 0)

    assert ["slow_reader"] == causes(there.service)


async def test_the_stream_of_a_revoked_key_ends_and_its_leader_is_absent(there: Listening) -> None:
    made = await there.service.ok("POST", "/v1/keys", {"name": "a", "role": "leader", "leader_ids": ["ada"]})
    async with there.stream(PRESENCE, Authorization=f"Bearer {made['key']}") as reader:
        await reader.frames(1)
        await there.service.ok("DELETE", f"/v1/keys/{made['key_id']}")
        await reader.frames(1)
    shown = await counted(there.service, 0)

    assert shown["zero_since"] is not None or "presence.leader_vanished.v1" in topics(there.service)


async def test_a_ticket_opens_one_stream_once(there: Listening) -> None:
    ticket = (await there.service.ok("POST", "/v1/tickets"))["ticket"]
    async with httpx.AsyncClient(base_url=str(there.http.base_url)) as browser:
        async with browser.stream("GET", f"{PRESENCE}?ticket={ticket}", headers=STREAM) as response:
            (hello,) = await Reader(response).frames(1)
        again = await browser.get(f"{PRESENCE}?ticket={ticket}", headers=STREAM)

    assert "hello" == hello["event"]
    assert 401 == again.status_code


# Sessions, and what is refused


async def test_a_session_is_present_and_leaves(service: Service) -> None:
    shown = await service.ok("PUT", "/v1/leaders/ada/sessions/s1", {"ttl_s": 15})
    listed = await service.ok("GET", "/v1/leaders")
    await service.ok("DELETE", "/v1/leaders/ada/sessions/s1")
    after = await service.ok("GET", "/v1/leaders/ada")

    assert {"leader_id": "ada", "connections": 1, "zero_since": None, "open_runs": 0} == shown
    assert [shown] == [{name: one[name] for name in shown} for one in listed["items"]]
    assert ["present"] == [one["state"] for one in listed["items"]]
    assert 0 == after["connections"]


@pytest.mark.origin("A15")
@pytest.mark.parametrize("ttl_s", [-1, 0, 3_601, "x"])
async def test_a_ttl_out_of_bounds_is_refused(service: Service, ttl_s: Any) -> None:
    refused = await service.refused("PUT", "/v1/leaders/ada/sessions/s1", {"ttl_s": ttl_s})

    assert 422 == refused["status"]
    assert [] == topics(service)


@pytest.mark.origin("A15")
@pytest.mark.parametrize("leader_id", ["x" * 300, "a%20b", "a:b", "%C3%A4"])
async def test_a_malformed_leader_id_is_refused_on_every_road(service: Service, leader_id: str) -> None:
    for method, path, body in (
        ("GET", f"/v1/leaders/{leader_id}/presence", None),
        ("GET", f"/v1/leaders/{leader_id}", None),
        ("PUT", f"/v1/leaders/{leader_id}/sessions/s1", {}),
        ("PUT", f"/v1/leaders/ada/sessions/{leader_id}", {}),
        ("DELETE", f"/v1/leaders/{leader_id}/sessions/s1", None),
    ):
        assert "invalid" == (await service.refused(method, path, body))["code"], path
    assert "invalid" == (await service.refused("POST", "/v1/runs", {"leader_id": "a b"}))["code"]
    assert [] == topics(service)


@pytest.mark.origin("A15", "A39")
@pytest.mark.parametrize("role", ["worker", "reader", "operator"])
async def test_only_a_leader_counts_as_presence(service: Service, role: str) -> None:
    key = service.made_key(role)

    for method, path, body in (("GET", PRESENCE, None), ("PUT", "/v1/leaders/ada/sessions/s1", {})):
        assert 403 == (await service.refused(method, path, body, key=key))["status"]


@pytest.mark.origin("A39", "A25")
async def test_a_leader_is_nobody_else_and_steers_nobody_elses_run(service: Service) -> None:
    key = service.made_key("leader", leader_ids=["ada"])
    run_id = await service.submitted(leader_id="bea")

    for method, path, body in (
        ("GET", "/v1/leaders/bea/presence", None),
        ("PUT", "/v1/leaders/bea/sessions/s1", {}),
        ("POST", f"/v1/runs/{run_id}/cancel", {}),
        ("POST", f"/v1/runs/{run_id}/reassign", {"leader_id": "ada", "revision": 1}),
    ):
        refused = await service.refused(method, path, body, key=key)
        assert (403, "not_allowed") == (refused["status"], refused["code"])
        assert "bea" in refused["allowed"]


@pytest.mark.origin("A30", "H8")
async def test_a_run_is_rebound_once_at_its_revision(service: Service) -> None:
    run_id = await service.submitted(leader_id="ada")
    given = await service.ok("POST", f"/v1/runs/{run_id}/reassign", {"leader_id": "bea", "revision": 1})
    stale = await service.refused("POST", f"/v1/runs/{run_id}/reassign", {"leader_id": "ada", "revision": 1})
    listed = await service.ok("GET", "/v1/runs?leader_id=bea&min_position=3")

    assert ("bea", 2) == (given["leader_id"], given["revision"])
    assert (409, "revision_stale", 1, 2) == tuple(stale[k] for k in ("status", "code", "presented", "current"))
    assert [run_id] == [run["run_id"] for run in listed["items"]]


async def test_a_submission_under_an_absent_leader_says_so_and_a_repeat_says_the_same(service: Service) -> None:
    wish = {"leader_id": "ada", "idempotency_key": "k"}
    first = await service.ask("POST", "/v1/runs", wish)
    await service.ok("PUT", "/v1/leaders/ada/sessions/s1", {})
    again = await service.ask("POST", "/v1/runs", wish)

    assert first.json()["leader"]["zero_since"] is not None
    assert (first.status_code, first.json()) == (again.status_code, again.json())


async def test_many_are_cancelled_by_filter_after_a_dry_run_that_changes_nothing(service: Service) -> None:
    mine = [await service.submitted(leader_id="ada", tags={"batch": "7"}) for _ in range(3)]
    other = await service.submitted(leader_id="ada", tags={"batch": "8"})
    ask = {"filter": {"tags": {"batch": "7"}}, "limit": 2}
    dry = await service.ok("POST", "/v1/runs/cancel", ask)
    assert "queued" == (await service.ok("GET", f"/v1/runs/{mine[0]}"))["state"]
    done = await service.ok("POST", "/v1/runs/cancel", {**ask, "dry_run": False}, headers={"Idempotency-Key": "k"})

    assert (3, mine[:2]) == (dry["matching"], [run["run_id"] for run in dry["runs"]])
    assert ["cancelled", "cancelled"] == [run["state"] for run in done["runs"]]
    states = [(await service.ok("GET", f"/v1/runs/{run_id}"))["state"] for run_id in (*mine, other)]
    assert ["cancelled", "cancelled", "queued", "queued"] == states
