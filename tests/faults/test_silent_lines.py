"""Readers that do not read and lines that have gone dead: the healthy do not notice, and who is gone is missed.

A slow reader opens streams and takes nothing while the service has a lot to say; its frames stay in the journal, not in
memory. A half-open line carries nothing and closes nothing: a session runs out, a lease expires, and what
was acknowledged over it before stays so.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.faults.books import Books
from tests.system.calling import HOST, Caller, Listening, Unanswered
from tests.system.conftest import Serving
from tests.system.cutting import Cutting
from tests.system.serving import Service, claim_one, register, submit
from tests.waiting import BOUND_S, until

pytestmark = [pytest.mark.system, pytest.mark.origin("A50")]

READERS = 20
CHUNKS = 60
CHUNK = "x" * 100_000
MARGIN_MB = 80.0
FOUND_WITHIN_S = BOUND_S


@pytest.fixture
def service(make_quick_service: Serving) -> Service:
    return make_quick_service(leader_grace_s=1, retry_continuation_s=0).start()


@contextmanager
def not_reading(service: Service, path: str) -> Iterator[socket.socket]:
    """A stream whose reader takes nothing, with as little room on the way as there may be."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((HOST, service.port))
        lines = (f"GET {path} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {service.key}")
        connection.sendall("\r\n".join((*lines, "Accept: text/event-stream", "", "")).encode())
        yield connection


def test_readers_that_take_nothing_cost_no_memory_and_keep_nobody_waiting(service: Service) -> None:
    caller = service.caller()
    run_id = submit(caller, leader_id="ada")
    fence = claim_one(caller, register(caller, "writer"))["fence"]
    before = service.peak_rss_mb()
    with ExitStack() as stack:
        for number in range(READERS):
            path = f"/v1/runs/{run_id}/output" if number % 2 else f"/v1/runs/{run_id}/facts"
            stack.enter_context(not_reading(service, path))
        stack.enter_context(not_reading(service, "/v1/leaders/ada/presence"))
        until(lambda: caller.get("/healthz").ok()["streams"] > READERS, what="the readers to be there")
        for seq in range(CHUNKS):
            caller.post(f"/v1/runs/{run_id}/output", {"fence": fence, "seq": seq, "data": CHUNK}).ok(204)
        books = Books(service.caller(timeout_s=5))
        assert all(books.submit_next() for _ in range(20))
        assert CHUNKS == len(caller.output(run_id))
        assert service.peak_rss_mb() - before < MARGIN_MB, "what nobody reads is kept in memory"

    until(lambda: caller.get("/healthz").ok()["streams"] == 0, what="the readers to be forgotten")
    caller.post(f"/v1/runs/{run_id}/close", {"fence": fence, "outcome": "succeeded"}).ok()
    books.settle()


def test_a_leader_whose_line_has_gone_dead_is_missed_and_one_with_a_live_line_is_not(service: Service) -> None:
    caller = service.caller()
    with Cutting(service.port, 1) as proxy, Listening(caller, "/v1/leaders/alive/presence") as alive:
        far = Caller(proxy.port, service.key)
        far.put("/v1/leaders/far/sessions/one", {"ttl_s": 2}).ok()
        lost, kept = submit(far, leader_id="far"), submit(caller, leader_id="alive")
        assert "hello" == next(alive).name
        proxy.swallows = True
        with pytest.raises(Unanswered):
            Caller(proxy.port, service.key, timeout_s=0.5).put("/v1/leaders/far/sessions/one", {"ttl_s": 2})

        until(
            lambda: caller.get(f"/v1/runs/{lost}").ok()["state"] == "cancelled",
            what="the leader behind the dead line to be missed",
            within_s=FOUND_WITHIN_S,
        )
        run = caller.get(f"/v1/runs/{kept}").ok()
        assert ("queued", 1) == (run["state"], caller.get("/v1/leaders/alive").ok()["connections"])
        far.close()


def test_a_worker_behind_a_dead_line_loses_its_run_and_nothing_that_was_acknowledged_over_it(service: Service) -> None:
    caller = service.caller()
    run_id = submit(caller, policy={"lease_ttl_s": 1})
    with Cutting(service.port, 1) as proxy:
        far = Caller(proxy.port, service.key, timeout_s=2)
        fence = claim_one(far, register(far, "far"))["fence"]
        far.post(f"/v1/runs/{run_id}/partial", {"fence": fence, "partial": "acknowledged"}).ok(204)
        proxy.swallows = True
        with pytest.raises(Unanswered):
            far.post(f"/v1/runs/{run_id}/partial", {"fence": fence, "partial": "swallowed"})
        claim = claim_one(caller, register(caller, "near"), wait_s=10)

    assert (run_id, fence + 1, "acknowledged") == (claim["run_id"], claim["fence"], claim["partial"])
    late = caller.post(f"/v1/runs/{run_id}/partial", {"fence": fence, "partial": "late"})
    assert fence + 1 == late.refused(409, "fence_lost")["current"]


def test_connections_that_say_nothing_any_more_do_not_keep_the_service_from_stopping(service: Service) -> None:
    with Cutting(service.port, 1) as proxy, ExitStack() as stack:
        far = Caller(proxy.port, service.key)
        for number in range(5):
            stack.enter_context(Listening(far, f"/v1/leaders/leader-{number}/presence"))
        proxy.swallows = True

        assert 0 == service.terminate()
