"""SIGTERM drains: what was begun is answered or may be repeated, streams end as ours, and the process exits with 0.

The service's own end is evidence of nothing: a worker whose stream it closed is not detached, and after the restart
every lease has its full ttl again, however long the service was away.
"""

import socket
import threading
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from domain.worker import WorkerDetached
from journal.opening import open_readonly
from tests.system.calling import Caller, Listening, Unanswered
from tests.system.conftest import Serving
from tests.system.kills import verified
from tests.system.load import Crowd, broken, chances, disorder
from tests.system.serving import Service, claim_one, register, submit
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system

STOPS = 3
GOING_AWAY = 1001


def stream_of(service: Service, worker_id: str) -> AbstractContextManager[ClientConnection]:
    """The worker's stream, open as long as the context."""
    url = f"ws://127.0.0.1:{service.port}/v1/workers/{worker_id}/stream"
    return connect(url, additional_headers={"authorization": f"Bearer {service.key}"}, open_timeout=BOUND_S)


@pytest.mark.origin("D56", "R19")
def test_stops_under_load_acknowledge_or_leave_to_be_repeated(make_service: Serving, seed: int) -> None:
    service = make_service(retry_continuation_s=0).start()
    crowd = Crowd(service.port, service.key, 4, seed)
    chance = chances(seed)
    marks = [0] * 4
    crowd.start()
    try:
        for _ in range(STOPS):
            goal = crowd.promised + chance.randint(20, 60)
            until(lambda goal=goal: crowd.promised >= goal, what="load", within_s=30)  # type: ignore[misc]
            assert 0 == service.terminate()
            promised = crowd.since(marks)
            service.start()
            assert [] == broken(service.caller(), promised), seed
    except BaseException:
        crowd.abandon()
        raise
    crowd.stop()

    assert [] == broken(service.caller(), crowd.since([0] * 4)), seed
    assert [] == [problem for client in crowd.clients for problem in disorder(client.diary)], seed
    assert verified(service)["ok"]


@pytest.mark.origin("A28", "D56")
def test_a_stop_closes_a_workers_stream_as_ours_and_detaches_nobody(service: Service) -> None:
    caller = service.caller()
    worker, run_id = register(caller, "ada"), submit(caller)
    claim_one(caller, worker)

    with stream_of(service, worker) as stream:
        stream.send('{"leases": []}')
        assert '{"leases":[]}' == stream.recv(10)
        assert 0 == service.terminate()
        with pytest.raises(ConnectionClosed) as closed:
            stream.recv(10)

    assert closed.value.rcvd is not None
    assert GOING_AWAY == closed.value.rcvd.code
    caller = service.start().caller()
    beat = caller.post("/v1/workers/ada/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]}).ok()
    assert "renewed" == beat["leases"][0]["outcome"]
    assert "active" == caller.get("/v1/workers/ada").ok()["state"]
    assert [] == detached(service)


def detached(service: Service) -> list[str]:
    """The workers that the journal says were detached."""
    journal = open_readonly(service.data_dir)
    try:
        facts = [recorded.fact for recorded in journal.store.facts_after(0, 10_000)]
        return [fact.worker_id for fact in facts if isinstance(fact, WorkerDetached)]
    finally:
        journal.close()


def test_a_stream_closed_by_its_worker_without_a_goodbye_is_a_detachment(service: Service) -> None:
    caller = service.caller()
    worker, run_id = register(caller, "ada"), submit(caller)
    claim_one(caller, worker)
    with stream_of(service, register(caller, "bob")) as polite:
        polite.send('{"goodbye": true}')

    with stream_of(service, worker) as abrupt:
        abrupt.socket.shutdown(socket.SHUT_RDWR)

    with Listening(caller, f"/v1/runs/{run_id}/facts") as frames:
        ended = next(frame.document["data"] for frame in frames if frame.name == "run.attempt_ended.v1")
    assert ("detached", 1) == (ended["outcome"], ended["fence"])
    assert ["ada"] == detached(service)


@pytest.mark.origin("D56")
def test_waiting_claims_and_followers_do_not_hold_a_stop_up(service: Service) -> None:
    caller = service.caller()
    register(caller, "ada")
    run_id = submit(caller, queue="other")
    answers: list[Any] = []

    claiming = service.caller(timeout_s=90)

    def wait() -> None:
        try:
            answers.append(claiming.post("/v1/claims", {"worker_id": "ada", "queues": ["empty"], "wait_s": 60}))
        except Unanswered as error:
            answers.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    with Listening(caller, f"/v1/runs/{run_id}/facts") as frames:
        assert "run.submitted.v1" == next(frames).name
        assert 0 == service.terminate()
        assert [] == list(frames)
    waiting.join(10)

    assert 1 == len(answers)
    assert not isinstance(answers[0], Unanswered)
    assert 503 == answers[0].status or (200, []) == (answers[0].status, answers[0].body["claims"])


def test_a_follower_resumes_after_a_restart_where_it_was(service: Service) -> None:
    caller = service.caller()
    run_id = submit(caller)
    with Listening(caller, f"/v1/runs/{run_id}/facts") as frames:
        first = next(frames)
    claim_one(caller, register(caller, "ada"))
    caller.close()

    service.restart()

    caller = service.caller()
    with Listening(caller, f"/v1/runs/{run_id}/facts", last_id=first.id) as frames:
        granted, started = next(frames), next(frames)
        caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()
        closed = next(frames)
    assert ["run.submitted.v1", "lease.fence_bumped.v1", "run.attempt_started.v1", "run.closed.v1"] == [
        frame.name for frame in (first, granted, started, closed)
    ]
    assert sorted({int(frame.id) for frame in (first, granted, started, closed)}) == [
        int(frame.id) for frame in (first, granted, started, closed)
    ]


@pytest.mark.origin("A28", "H3", "K5")
def test_a_lease_has_its_full_ttl_again_after_the_service_was_away_for_longer(service: Service, tmp_path: Path) -> None:
    ttl_s = 1.5
    caller = service.caller()
    run_id = submit(caller, policy={"lease_ttl_s": ttl_s})
    claim_one(caller, register(caller, "ada"))
    deadline = _deadline(caller, run_id)
    caller.close()

    service.kill()
    until(lambda: _instant_of_a_file_made_now(tmp_path) > deadline, what="the lease's old deadline to pass")
    service.start()

    caller = service.caller()
    again = _deadline(caller, run_id)
    beat = caller.post("/v1/workers/ada/heartbeat", {"leases": [{"run_id": run_id, "fence": 1}]}).ok()["leases"][0]
    assert ("renewed", ttl_s) == (beat["outcome"], beat["ttl_s"])
    assert again - timedelta(seconds=ttl_s) > deadline
    caller.post(f"/v1/runs/{run_id}/partial", {"fence": 1, "partial": 1}).ok(204)
    run = caller.post(f"/v1/runs/{run_id}/close", {"fence": 1, "outcome": "succeeded"}).ok()
    assert ("succeeded", 0) == (run["state"], run["failed_attempts"])


def _instant_of_a_file_made_now(place: Path) -> datetime:
    (place / "now").write_text("")
    return datetime.fromtimestamp((place / "now").stat().st_mtime, tz=UTC)


def _deadline(caller: Caller, run_id: str) -> datetime:
    return datetime.fromisoformat(caller.get(f"/v1/runs/{run_id}").ok()["evidence"]["lease_deadline"])
