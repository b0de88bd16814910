"""Streams: facts and output as they happen, resumed where they broke, ended by whom it concerns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from api import streams
from api.streams import frame
from tests.api.service import Service, listening, running
from tests.waiting import BOUND_S, eventually

STREAM = {"Accept": "text/event-stream"}


class Reader:
    """The frames of one open stream, without its comments."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self._lines = response.aiter_lines()

    async def frames(self, count: int) -> list[dict[str, str]]:
        """The next frames, as many as asked for; fewer when the stream ends."""
        found: list[dict[str, str]] = []
        async with asyncio.timeout(BOUND_S):
            frame: dict[str, str] = {}
            while len(found) < count:
                line = await anext(self._lines, None)
                if line is None:
                    return found
                if line.startswith(":"):
                    self.comments.append(line)
                elif line:
                    name, _, value = line.partition(": ")
                    frame[name] = value
                elif frame:
                    found.append(frame)
                    frame = {}
        return found


class Listening:
    """A service behind a socket."""

    def __init__(self, service: Service, url: str) -> None:
        self.service = service
        self.http = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {service.key}"})

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[Reader]:
        head = {**STREAM, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.http.stream("GET", path, headers=head) as response:
            yield Reader(response)


@pytest_asyncio.fixture
async def there(service: Service) -> AsyncIterator[Listening]:
    async with listening(service) as url:
        there = Listening(service, url)
        yield there
        await there.http.aclose()


@pytest.mark.origin("A38", "D58")
async def test_facts_are_followed_as_they_happen_each_under_its_position_and_topic(there: Listening) -> None:
    run_id = await there.service.submitted(payload={"text": "two\nlines"})
    async with there.stream(f"/v1/runs/{run_id}/facts") as reader:
        first = await reader.frames(1)
        await there.service.ok("POST", f"/v1/runs/{run_id}/cancel", {})
        more = await reader.frames(2)

    page = (await there.service.ok("GET", f"/v1/runs/{run_id}/facts"))["facts"]
    assert "text/event-stream; charset=utf-8" == reader.response.headers["content-type"]
    assert [(str(fact["position"]), fact["topic"]) for fact in page[:3]] == [
        (each["id"], each["event"]) for each in first + more
    ]
    assert ["run.submitted.v1", "run.cancel_requested.v1", "run.settled.v1"] == [each["event"] for each in first + more]


async def test_a_stream_goes_on_after_the_last_fact_that_its_reader_has(there: Listening) -> None:
    run_id = await there.service.held()
    path = f"/v1/runs/{run_id}/facts"
    page = (await there.service.ok("GET", path))["facts"]
    async with there.stream(path, Last_Event_ID=str(page[0]["position"])) as reader:
        resumed = await reader.frames(2)
    async with there.stream(f"{path}?after={page[1]['position']}") as reader:
        after = await reader.frames(1)

    assert [str(fact["position"]) for fact in page[1:]] == [each["id"] for each in resumed]
    assert [str(page[2]["position"])] == [each["id"] for each in after]


async def test_output_is_followed_and_ends_once_the_run_has_ended_and_everything_was_sent(there: Listening) -> None:
    run_id = await there.service.held()
    path = f"/v1/runs/{run_id}"
    async with there.stream(f"{path}/output") as reader:
        await there.service.ok("POST", f"{path}/output", {"fence": 1, "seq": 0, "data": "one\n"})
        first = await reader.frames(1)
        await there.service.ok("POST", f"{path}/output", {"fence": 1, "seq": 1, "stream": "stderr", "data": "two"})
        await there.service.ok("POST", f"{path}/close", {"fence": 1, "outcome": "succeeded"})
        rest = await reader.frames(99)
    async with there.stream(f"{path}/output", Last_Event_ID="1.0") as reader:
        resumed = await reader.frames(99)

    assert [("output", "1.0", '{"fence":1,"seq":0,"stream":"stdout","data":"one\\n"}')] == [
        (each["event"], each["id"], each["data"]) for each in first
    ]
    assert ["1.1"] == [each["id"] for each in rest]
    assert rest == resumed


@pytest.mark.parametrize(
    ("path", "last"), [("facts", "x"), ("facts", "-1"), ("output", "1"), ("output", "1.x"), ("output", "a.b")]
)
async def test_a_place_that_is_no_place_in_the_stream_is_refused(there: Listening, path: str, last: str) -> None:
    run_id = await there.service.submitted()

    answer = await there.http.get(f"/v1/runs/{run_id}/{path}", headers={**STREAM, "Last-Event-ID": last})

    assert (422, "invalid", "Last-Event-ID") == (answer.status_code, answer.json()["code"], answer.json()["field"])


@pytest.mark.parametrize("path", ["runs/{}/facts", "leaders/ada/presence"])
async def test_a_place_beyond_the_journal_is_refused_and_its_end_is_not(there: Listening, path: str) -> None:
    run_id = await there.service.submitted()
    end = (await there.http.get(f"/v1/runs/{run_id}")).json()["position"]
    where = f"/v1/{path.format(run_id)}"
    refused = await there.http.get(where, headers={**STREAM, "Last-Event-ID": str(end + 1_000)})
    async with there.http.stream("GET", where, headers={**STREAM, "Last-Event-ID": str(end)}) as followed:
        status = followed.status_code

    assert (422, "position_beyond", end + 1_000) == (
        refused.status_code, refused.json()["code"], refused.json()["position"],
    )  # fmt: skip
    assert 200 == status


async def test_a_line_that_is_silent_is_kept_alive_by_comments(
    there: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.views.COMMENT_S", 0.01)
    run_id = await there.service.submitted()
    async with there.stream(f"/v1/runs/{run_id}/facts?after=99") as reader:
        frames = asyncio.ensure_future(reader.frames(1))

        async def commented() -> bool:
            return reader.comments.count(":") > 2

        await eventually(commented, what="comments on a silent stream")
        frames.cancel()

    assert 15.0 == streams.COMMENT_S


async def test_a_browser_follows_with_a_ticket_that_is_good_once(there: Listening) -> None:
    run_id = await there.service.submitted()
    ticket = (await there.service.ok("POST", "/v1/tickets"))["ticket"]
    path = f"/v1/runs/{run_id}/facts?ticket={ticket}"
    async with httpx.AsyncClient(base_url=str(there.http.base_url)) as browser:
        async with browser.stream("GET", path, headers=STREAM) as response:
            followed = await Reader(response).frames(1)
        again = await browser.get(path, headers=STREAM)

    assert ["run.submitted.v1"] == [each["event"] for each in followed]
    assert 401 == again.status_code


async def test_the_streams_of_a_key_that_is_revoked_end_at_once(there: Listening) -> None:
    run_id = await there.service.submitted()
    made = await there.service.ok("POST", "/v1/keys", {"name": "r", "role": "reader"})
    async with there.stream(f"/v1/runs/{run_id}/facts", Authorization=f"Bearer {made['key']}") as reader:
        await reader.frames(1)
        await there.service.ok("DELETE", f"/v1/keys/{made['key_id']}")
        rest = await reader.frames(99)

    assert [] == rest


@pytest.mark.origin("D56")
async def test_a_service_that_stops_says_so_to_its_streams_and_ends_them(there: Listening) -> None:
    run_id = await there.service.submitted()
    async with there.stream(f"/v1/runs/{run_id}/facts") as reader:
        await reader.frames(1)
        there.service.node.streams.stop()
        rest = await reader.frames(99)

    assert [] == rest
    assert ": the service is stopping" in reader.comments


async def test_a_reader_that_leaves_is_forgotten(there: Listening) -> None:
    run_id = await there.service.submitted()
    node = there.service.node
    async with there.stream(f"/v1/runs/{run_id}/facts") as reader:
        await reader.frames(1)
        open_then = (len(node.streams), len(node.bells))

    async def forgotten() -> bool:
        return (len(node.streams), len(node.bells)) == (0, 0)

    await eventually(forgotten, what="the stream to be forgotten")
    assert (1, 1) == open_then


async def test_one_stream_too_many_is_refused(data_dir: Path) -> None:
    async with running(data_dir, streams=1) as service, listening(service) as url:
        there = Listening(service, url)
        run_id = await service.submitted()
        async with there.stream(f"/v1/runs/{run_id}/facts") as reader:
            await reader.frames(1)
            answer = await there.http.get(f"/v1/runs/{run_id}/facts", headers=STREAM)
        await there.http.aclose()

    assert (503, "too_many_streams") == (answer.status_code, answer.json()["code"])


@pytest.mark.origin("D12")
async def test_a_claim_whose_client_has_left_is_granted_nothing(there: Listening) -> None:
    service = there.service
    await service.ok("PUT", "/v1/workers/w1", {})
    with pytest.raises(httpx.ReadTimeout):
        await there.http.post("/v1/claims", json={"worker_id": "w1", "wait_s": 30}, timeout=0.2)

    async def given_up() -> bool:
        return len(service.node.desk.live.bells) == 0

    await eventually(given_up, what="the claim to be given up")
    run_id = await service.submitted()

    assert "queued" == (await service.ok("GET", f"/v1/runs/{run_id}"))["state"]


@pytest.mark.parametrize("what", ["facts", "output"])
async def test_a_stream_of_a_run_ends_when_the_run_becomes_another_leaders(what: str, there: Listening) -> None:
    service = there.service
    run_id = await service.held(leader_id="ada")
    bound = {"Authorization": f"Bearer {service.made_key('leader', leader_ids=['ada'])}"}
    await service.ok("POST", f"/v1/runs/{run_id}/output", {"fence": 1, "seq": 0, "data": "hers"})
    async with there.stream(f"/v1/runs/{run_id}/{what}", **bound) as reader:
        await reader.frames(1)
        await service.ok("POST", f"/v1/runs/{run_id}/reassign", {"leader_id": "bea", "revision": 1})
        await service.ok("POST", f"/v1/runs/{run_id}/output", {"fence": 1, "seq": 1, "data": "not hers"})
        rest = await reader.frames(1_000)

    assert ["not hers" in one["data"] or "run.reassigned" in one["event"] for one in rest] == [False] * len(rest)


async def test_a_wait_for_the_end_of_a_run_that_becomes_another_leaders_tells_nothing(service: Service) -> None:
    run_id = await service.submitted(leader_id="ada")
    key = service.made_key("leader", leader_ids=["ada"])
    path = f"/v1/runs/{run_id}?until=settled&wait_s=60"
    waiting = asyncio.ensure_future(service.refused("GET", path, key=key))

    async def waits() -> bool:
        return len(service.node.bells) > 0

    await eventually(waits, what="somebody to wait for the run")
    await service.ok("POST", f"/v1/runs/{run_id}/reassign", {"leader_id": "bea", "revision": 1})
    await service.ok("POST", f"/v1/runs/{run_id}/cancel", {})

    assert "run_unknown" == (await waiting)["code"]


async def test_a_slow_reader_holds_up_nobody_and_costs_one_batch(there: Listening) -> None:
    service = there.service
    run_id = await service.held()
    path = f"/v1/runs/{run_id}"
    data = "x" * 200_000
    async with there.http.stream("GET", f"{path}/output", headers=STREAM):
        for seq in range(60):
            await service.ok("POST", f"{path}/output", {"fence": 1, "seq": seq, "data": data})
        other = await service.ok("GET", path)

    assert "running" == other["state"]


def test_a_frame_is_three_lines_whatever_blanks_the_json_has() -> None:
    spread = b'{"a":\n 1,\r\n"b": 2}'

    assert b'id: 7\nevent: a.b.v1\ndata: {"a":  1,  "b": 2}\n\n' == frame("7", "a.b.v1", spread)


async def test_a_body_beyond_its_bound_is_refused_with_an_answer_that_arrives(there: Listening) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    declared = await there.http.post("/v1/runs", content=b"x" * 2_000_000)
    chunked = await there.http.post("/v1/runs", content=chunks())
    after = await there.http.get("/v1/whoami")

    assert [413, 413, 200] == [declared.status_code, chunked.status_code, after.status_code]
    assert "body_too_large" == chunked.json()["code"]
