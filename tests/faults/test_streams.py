"""Streams that are cut in the middle of a frame and whose service is killed: every fact exactly once, in order.

Three readers follow one run through a proxy that cuts them: its facts, its output, and its leader's presence. Each
resumes after the last id that it has read whole. In the end what they have read is what was recorded, nothing twice and
nothing left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.following import Follower, missed, repeated
from tests.system.calling import Caller, Frame
from tests.system.conftest import Serving
from tests.system.cutting import Cutting
from tests.system.serving import Service, register, submit
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.origin("D46")]

CUTS = 20
SHARE = 0.12
LAST = "the last words\n"


def settles(frame: Frame) -> bool:
    return frame.name == "run.settled.v1"


def ends_output(frame: Frame) -> bool:
    return bool(frame.document["data"] == LAST)


@contextmanager
def followed(service: Service, proxy: Cutting, run_id: str) -> Iterator[dict[str, Follower]]:
    """Readers of the run's streams, which have read everything when the block has ended."""
    through = Caller(proxy.port, service.key)
    readers = {
        "facts": Follower(through, f"/v1/runs/{run_id}/facts", settles),
        "presence": Follower(through, "/v1/leaders/ada/presence", settles),
        "output": Follower(through, f"/v1/runs/{run_id}/output", ends_output),
    }
    for reader in readers.values():
        reader.start()
    try:
        until(lambda: readers["presence"].greeted, what="the leader to be greeted")
        yield readers
    except BaseException:
        for reader in readers.values():
            reader.stop()
        raise
    for reader in readers.values():
        reader.join(60)
        assert not reader.is_alive(), f"{reader.path} has not ended: {reader.ids[-5:]}"


def turn(caller: Caller, run_id: str, worker: str) -> None:
    """One attempt: output, a question, and its answer."""
    fence = caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": worker}).ok()["fence"]
    for seq in range(3):
        caller.post(f"/v1/runs/{run_id}/output", {"fence": fence, "seq": seq, "data": f"{fence}.{seq}\n"}).ok(204)
    caller.post(f"/v1/runs/{run_id}/park", {"fence": fence, "question": fence}).ok()
    caller.post(f"/v1/runs/{run_id}/answer", {"answer": fence}).ok()


def test_every_fact_and_every_piece_of_output_is_read_once_and_in_order_across_cuts_and_kills(
    make_quick_service: Serving, seed: int
) -> None:
    service = make_quick_service(retry_continuation_s=0).start()
    caller = service.caller()
    worker = register(caller, "writer")
    run_id = submit(caller, leader_id="ada", policy={"max_attempts": 1000})
    with Cutting(service.port, seed, SHARE) as proxy, followed(service, proxy, run_id) as readers:
        turns = 0
        while proxy.cuts < CUTS:
            turn(caller, run_id, worker)
            turns += 1
            assert turns < 1_000, f"only {proxy.cuts} cuts"
            if turns in (5, 15, 25):
                service.kill()
                service.start()
                caller.close()
        fence = caller.post(f"/v1/runs/{run_id}/claim", {"worker_id": worker}).ok()["fence"]
        caller.post(f"/v1/runs/{run_id}/output", {"fence": fence, "seq": 0, "data": LAST}).ok(204)
        caller.post(f"/v1/runs/{run_id}/cancel").ok()
        caller.post(f"/v1/runs/{run_id}/hand-back", {"fence": fence}).ok()

    facts = caller.facts(run_id)
    settled = next(fact["position"] for fact in facts if fact["topic"] == "run.settled.v1")
    facts = [fact for fact in facts if fact["position"] <= settled]
    for name, wanted in (
        ("facts", [fact["position"] for fact in facts]),
        ("presence", [fact["position"] for fact in facts[1:] if fact["topic"].startswith("run.")]),
    ):
        read = [int(one) for one in readers[name].ids]
        assert ([], []) == (repeated(read), missed(read, wanted)), (name, seed)
        assert wanted == read, (name, seed)
    chunks = [f"{chunk['fence']}.{chunk['seq']}" for chunk in caller.output(run_id)]
    assert chunks == readers["output"].ids, seed
    assert all(reader.opened > 1 for reader in readers.values()), "a reader was never cut"


def test_what_is_read_twice_out_of_order_or_not_at_all_is_named() -> None:
    assert ([], []) == (repeated([1, 2, 5]), missed([1, 2, 5], [1, 2, 5]))
    assert [(2, 2)] == repeated([1, 2, 2, 3])
    assert [(5, 4)] == repeated([1, 5, 4])
    assert [2] == missed([1, 3], [1, 2, 3])
