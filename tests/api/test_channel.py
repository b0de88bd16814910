"""The worker's stream: heartbeats and pushes over a WebSocket, and what its end is evidence of."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from api import channel
from api.clock import system_clock
from domain.values import Moment
from tests.api.service import Service, listening, running
from tests.waiting import BOUND_S, eventually

TOPIC = "worker.detached.v1"


class Worker:
    """A worker's side of its stream."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, **message: Any) -> Any:
        await self.socket.send(json.dumps(message))
        return await self.hear()

    async def hear(self) -> Any:
        async with asyncio.timeout(BOUND_S):
            return json.loads(await self.socket.recv())

    async def closed(self) -> int | None:
        """The code with which the other side closed."""
        with suppress(ConnectionClosed):
            while True:
                await self.hear()
        return self.socket.close_code

    def drop(self) -> None:
        """The connection breaks off, as when the kernel closes it for a process that was killed."""
        self.socket.transport.abort()


class Workers:
    """Where workers connect."""

    def __init__(self, service: Service, url: str) -> None:
        self.service = service
        self.url = url

    def __call__(
        self, worker_id: str = "w1", key: str | None = None, query: str = "", instance: str | None = None
    ) -> connect:
        uri = f"{self.url.replace('http', 'ws')}/v1/workers/{worker_id}/stream{query}"
        head = {} if key == "" else {"Authorization": f"Bearer {key or self.service.key}"}
        if instance is not None:
            head["Jackline-Instance"] = instance
        return connect(uri, additional_headers=head, proxy=None)

    def detachments(self) -> int:
        facts = self.service.node.desk.journal.feed.after(0)
        return sum(1 for recorded in facts if recorded.topic == TOPIC)

    async def gone(self) -> None:
        """Return once the service has noticed that every stream has ended."""

        async def noticed() -> bool:
            return len(self.service.node.streams) == 0

        await eventually(noticed, what="the stream to end")


@pytest_asyncio.fixture
async def workers(service: Service) -> AsyncIterator[Workers]:
    async with listening(service) as url:
        yield Workers(service, url)


async def test_a_heartbeat_is_answered_as_over_http_with_its_number(workers: Workers) -> None:
    run_id = await workers.service.held()
    leases = [{"run_id": run_id, "fence": 1}, {"run_id": run_id, "fence": 7}]
    async with workers() as socket:
        answer = await Worker(socket).say(seq=7, leases=leases)

    over_http = await workers.service.ok("POST", "/v1/workers/w1/heartbeat", {"leases": leases})
    assert {"seq": 7, **over_http} == answer


async def test_what_is_wanted_of_a_holder_is_pushed_at_once_and_does_not_renew(workers: Workers) -> None:
    run_id = await workers.service.held()
    async with workers() as socket:
        await workers.service.ok("POST", f"/v1/runs/{run_id}/cancel", {})
        pushed = await Worker(socket).hear()

    lease = pushed["leases"][0]
    assert "seq" not in pushed
    assert (run_id, 1, "renewed", ["cancel"]) == (
        lease["run_id"],
        lease["fence"],
        lease["outcome"],
        [each["kind"] for each in lease["instructions"]],
    )
    assert lease["ttl_s"] < 60
    assert 0 == workers.service.node.desk.evidence.leases.get(run_id).renewals  # type: ignore[union-attr]


async def test_a_wall_clock_that_was_set_forward_ends_no_slice_that_is_pushed(data_dir: Path) -> None:
    ahead = timedelta()

    def clock() -> Moment:
        now = system_clock()
        return Moment(now.wall + ahead, now.mono)

    async with running(data_dir, clock) as service, listening(service) as url:
        run_id = await service.held(policy={"max_hold_s": 3600})
        async with Workers(service, url)() as socket:
            ahead = timedelta(hours=2)
            await service.ok("POST", f"/v1/runs/{run_id}/cancel", {})
            pushed = await Worker(socket).hear()

    assert 3500 < pushed["leases"][0]["slice_ends_in_s"] <= 3600


async def test_an_answer_and_a_drain_are_pushed_to_the_holder(workers: Workers) -> None:
    run_id = await workers.service.held()
    path = f"/v1/runs/{run_id}"
    await workers.service.ok("POST", f"{path}/park", {"fence": 1, "question": "how?", "keep_lease": True})
    async with workers() as socket:
        await workers.service.ok("POST", f"{path}/answer", {"answer": [1]})
        answered = await Worker(socket).hear()
        await workers.service.ok("POST", "/v1/workers/w1/drain", {})
        drained = await Worker(socket).hear()

    asked = answered["leases"][0]["instructions"]
    assert [("answer", "how?", [1])] == [
        (each["kind"], each["data"]["question"], each["data"]["answer"]) for each in asked
    ]
    assert {"answer", "drain"} == {each["kind"] for each in drained["leases"][0]["instructions"]}


async def test_a_worker_whose_stream_breaks_off_without_a_goodbye_is_detached(workers: Workers) -> None:
    run_id = await workers.service.held()
    async with workers() as socket:
        await Worker(socket).say(seq=1, leases=[])
        Worker(socket).drop()
        await workers.gone()

    async def detached() -> bool:
        return workers.detachments() == 1

    await eventually(detached, what="the detachment to be recorded")
    mark = workers.service.node.desk.evidence.leases.get(run_id)
    assert mark is None or mark.deadline <= workers.service.node.clock().mono + 1.0


async def test_a_worker_that_closes_without_a_goodbye_is_detached(workers: Workers) -> None:
    await workers.service.held()
    async with workers():
        pass

    async def detached() -> bool:
        return workers.detachments() == 1

    await eventually(detached, what="the detachment to be recorded")


@pytest.mark.parametrize("goodbye", [{"goodbye": True}, {"kind": "goodbye"}])
async def test_a_worker_that_says_goodbye_is_not_detached(workers: Workers, goodbye: dict[str, Any]) -> None:
    await workers.service.held()
    async with workers() as socket:
        await socket.send(json.dumps(goodbye))
        code = await Worker(socket).closed()
    await workers.gone()

    assert (1000, 0) == (code, workers.detachments())


async def test_only_the_last_stream_of_a_worker_detaches_it(workers: Workers) -> None:
    await workers.service.held()
    async with workers() as first:
        async with workers() as second:
            await Worker(second).say(seq=1, leases=[])
            Worker(second).drop()

            async def one_left() -> bool:
                return len(workers.service.node.streams) == 1

            await eventually(one_left, what="one stream to be left")
        assert 0 == workers.detachments()
        await Worker(first).say(seq=2, leases=[])


@pytest.mark.origin("A28", "K5")
async def test_our_own_stop_detaches_nobody(workers: Workers) -> None:
    await workers.service.held()
    async with workers() as socket:
        await Worker(socket).say(seq=1, leases=[])
        workers.service.node.streams.stop()
        code = await Worker(socket).closed()
    await workers.gone()

    assert (1001, 0) == (code, workers.detachments())


async def test_a_revoked_key_ends_the_stream_and_detaches_nobody(workers: Workers) -> None:
    service = workers.service
    await service.held()
    made = await service.ok("POST", "/v1/keys", {"name": "w", "role": "worker"})
    async with workers(key=made["key"]) as socket:
        await Worker(socket).say(seq=1, leases=[])
        await service.ok("DELETE", f"/v1/keys/{made['key_id']}")
        code = await Worker(socket).closed()
    await workers.gone()

    assert (4401, 0) == (code, workers.detachments())


async def test_silence_ends_the_stream_and_is_evidence_of_nothing(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel.Conversation, "idle_s", property(lambda _: 0.05))
    await workers.service.held()
    async with workers() as socket:
        code = await Worker(socket).closed()
    await workers.gone()

    assert (1001, 0) == (code, workers.detachments())


async def test_a_message_that_cannot_be_read_is_refused_and_the_stream_goes_on(workers: Workers) -> None:
    run_id = await workers.service.held()
    async with workers() as socket:
        worker = Worker(socket)
        unknown = await worker.say(seq=1, lease=[])
        await socket.send("nope")
        malformed = await worker.hear()
        await socket.send(b"")
        empty = await worker.hear()
        good = await worker.say(seq=2, leases=[{"run_id": run_id, "fence": 1}])

    codes = [each["problem"]["code"] for each in (unknown, malformed, empty)]
    assert ["invalid", "malformed", "malformed"] == codes
    assert "renewed" == good["leases"][0]["outcome"]


async def test_a_message_beyond_its_bound_ends_the_stream(workers: Workers) -> None:
    await workers.service.held()
    async with workers() as socket:
        await socket.send("x" * (1024 * 1024 + 1))
        code = await Worker(socket).closed()

    assert 1009 == code


@pytest.mark.parametrize(
    ("worker_id", "role", "status", "code"),
    [
        ("nobody", "worker", 404, "worker_unknown"),
        ("w1", "reader", 403, "not_allowed"),
        ("w1", "leader", 403, "not_allowed"),
        ("w1", None, 401, "unauthenticated"),
    ],
)
async def test_a_stream_that_may_not_be_opened_is_refused_before_the_handshake(
    workers: Workers, worker_id: str, role: str | None, status: int, code: str
) -> None:
    await workers.service.held()
    key = "" if role is None else workers.service.made_key(role)
    with pytest.raises(InvalidStatus) as refused:
        await workers(worker_id, key)

    response = refused.value.response
    assert (status, code) == (response.status_code, json.loads(response.body or b"{}")["code"])


async def test_another_workers_stream_is_not_mine_to_open(workers: Workers) -> None:
    await workers.service.held("w2")
    with pytest.raises(InvalidStatus) as refused:
        await workers("w2", workers.service.made_key("worker", worker_ids=["w1"]))

    assert 403 == refused.value.response.status_code


async def test_a_stream_is_opened_with_a_ticket(workers: Workers) -> None:
    await workers.service.held()
    ticket = (await workers.service.ok("POST", "/v1/tickets"))["ticket"]
    async with workers(key="", query=f"?ticket={ticket}") as socket:
        answer = await Worker(socket).say(seq=1, leases=[])

    assert {"seq": 1, "leases": []} == answer


async def test_a_claim_that_waits_for_a_worker_that_was_detached_is_granted_nothing(workers: Workers) -> None:
    service = workers.service
    await service.ok("PUT", "/v1/workers/w1", {})
    async with workers() as socket:
        await Worker(socket).say(seq=1, leases=[])
        waiting = asyncio.ensure_future(service.ok("POST", "/v1/claims", {"worker_id": "w1", "wait_s": 30}))

        async def joined() -> bool:
            return len(service.node.desk.live.bells) == 1

        await eventually(joined, what="the claim to wait")
        Worker(socket).drop()
        answer = await waiting

    run_id = await service.submitted()
    assert [] == answer["claims"]
    assert "queued" == (await service.ok("GET", f"/v1/runs/{run_id}"))["state"]


@pytest.mark.origin("R28", "D33")
async def test_a_detachment_that_cannot_be_recorded_still_gives_up_the_claims_and_is_kept_in_health(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        message = "the disk is gone"
        raise OSError(message)

    monkeypatch.setattr("commands.workers.detached", broken)
    service = workers.service
    await service.ok("PUT", "/v1/workers/w1", {})
    async with workers() as socket:
        await Worker(socket).say(seq=1, leases=[])
        waiting = asyncio.ensure_future(service.ok("POST", "/v1/claims", {"worker_id": "w1", "wait_s": 30}))

        async def joined() -> bool:
            return len(service.node.desk.live.bells) == 1

        await eventually(joined, what="the claim to wait")
        Worker(socket).drop()
        answer = await waiting

    async def noted() -> bool:
        return service.node.health.first_error is not None

    await eventually(noted, what="the failure to be kept")
    assert [] == answer["claims"]
    assert "the disk is gone" in (await service.ok("GET", "/healthz"))["first_error"]


async def test_a_path_that_is_nowhere_is_refused_before_the_handshake(workers: Workers) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"{workers.url.replace('http', 'ws')}/v1/nowhere", proxy=None):
            pass

    assert 404 == refused.value.response.status_code


@pytest.mark.parametrize("path", ["/v1/nowhere", "/v1/workers/nobody/stream", "/v1/leaders/l1/presence"])
async def test_a_refused_handshake_is_no_error_of_the_service(
    workers: Workers, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidStatus):
        async with connect(f"{workers.url.replace('http', 'ws')}{path}", proxy=None):
            pass

    assert [] == [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


async def test_the_stream_of_a_process_that_was_taken_over_is_told_so_and_detaches_nobody(workers: Workers) -> None:
    desk, path = workers.service.node.desk, "/v1/workers/w1"
    await workers.service.ok("PUT", path, {}, headers={"Jackline-Instance": "a1"})
    async with workers(instance="a1") as socket:
        first = Worker(socket)
        await first.say(seq=1, leases=[])
        desk.evidence.lost_worker(("default", "w1"))  # as if another stream of it had broken
        await workers.service.ok("PUT", path, {}, headers={"Jackline-Instance": "b2"})

        told = await first.say(seq=2, leases=[])
        first.drop()
    await workers.gone()

    assert (2, "worker_in_use") == (told["seq"], told["problem"]["code"])
    assert 0 == workers.detachments()
    with pytest.raises(InvalidStatus) as refused:
        async with workers(instance="a1"):
            pass
    assert 409 == refused.value.response.status_code
