"""What holds whatever happens: killed workers, frozen workers, restarted services."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jackline import Client, FenceLost, LeaseRef
from jackline.models import PolicyOptions
from jackline.worker.environment import MARK
from jackline.worker.processes import marked
from tests.client.serving import Service, WorkerProcess, text_of
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system

Start = Callable[..., WorkerProcess]
SHORT: PolicyOptions = {"lease_ttl_s": 3.0, "max_attempts": 5}
# Counts, and saves its place; a later attempt goes on where an earlier one had got to.
COUNTER = """
import json, os, subprocess, sys, time
place = json.load(open(os.environ["JACKLINE_PARTIAL"])) or 0
print("from", place, "under", os.environ["JACKLINE_FENCE"], flush=True)
while place < int(sys.argv[1]) and not os.path.exists(sys.argv[2]):
    place += 1
    print("line", place, flush=True)
    subprocess.run(["jackline", "partial", "save", "-"], input=str(place), text=True, check=True)
open(os.environ["JACKLINE_RESULT"], "w").write(str(place))
"""
# Writes a line every 20 ms until it is allowed to end: what was written must arrive, all of it, in order.
WRITER = """
import os, sys, time
number = 0
while not os.path.exists(sys.argv[1]):
    number += 1
    print(number, flush=True)
    time.sleep(0.02)
print("end", flush=True)
"""


def submit(client: Client, queue: str, script: str, *words: object, policy: PolicyOptions | None = None) -> str:
    command = [sys.executable, "-c", script, *map(str, words)]
    return client.submit({"command": command}, queue=queue, policy=policy or {}).run_id


def commands_of(hand: WorkerProcess) -> list[int]:
    controls = [str(path) for path in (hand.home / "attempts").glob("*")]
    return [process.pid for control in controls for process in marked(MARK, control)]


def numbers(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.origin("B1", "B2", "B18")
def test_a_run_survives_the_death_of_its_worker_and_goes_on_from_its_partial(
    shared: Service, client: Client, worker: Start, queue: str, tmp_path: Path
) -> None:
    first = worker(shared, "first", "--queue", queue)
    run_id = submit(client, queue, COUNTER, 1000, tmp_path / "enough")
    until(lambda: (client.run(run_id).partial or 0) >= 2, what="its place is saved", within_s=20)
    first.kill()
    worker(shared, "second", "--queue", queue)
    until(lambda: client.run(run_id).fence == 2, what="the second took over")
    (tmp_path / "enough").touch()
    run = client.wait(run_id, BOUND_S)

    assert ("succeeded", 2) == (run.state, run.attempt)
    starts = [line for line in text_of(client, run_id).splitlines() if line.startswith("from")]
    assert "from 0 under 1" == starts[0]
    assert "from 0 under 2" != starts[1]
    assert int(run.result) >= 2


@pytest.mark.origin("B32", "D21", "K11")
def test_a_worker_that_comes_back_is_told_who_holds_its_run_and_ends_its_command(
    shared: Service, client: Client, worker: Start, queue: str, tmp_path: Path
) -> None:
    first = worker(shared, "one", "--queue", queue)
    run_id = submit(client, queue, WRITER, tmp_path / "enough")
    until(lambda: "5" in text_of(client, run_id), what="the command writes")
    first.kill()
    assert commands_of(first)
    worker(shared, "two", "--queue", queue)
    until(lambda: client.run(run_id).owner == "two", what="two took over")
    with pytest.raises(FenceLost) as refused:
        client.close(LeaseRef(run_id, 1), "succeeded")
    again = worker(shared, "one", "--queue", "nothing")
    lost = until(lambda: again.happened("claim_lost"), what="one is told")[0]
    until(lambda: not commands_of(first), what="its command is ended")
    (tmp_path / "enough").touch()

    assert (1, 2, "two") == (refused.value.presented, refused.value.current, refused.value.holder)
    assert (run_id, 1, 2, "two") == (lost["run_id"], lost["presented"], lost["current"], lost["holder"])
    assert "succeeded" == client.wait(run_id, BOUND_S).state


def test_a_worker_that_comes_back_in_time_goes_on_with_its_command_and_no_line_is_lost(
    shared: Service, client: Client, worker: Start, queue: str, tmp_path: Path
) -> None:
    first = worker(shared, "back", "--queue", queue, "--no-stream")
    run_id = submit(client, queue, WRITER, tmp_path / "enough")
    until(lambda: "5" in text_of(client, run_id), what="the command writes")
    first.kill()
    again = worker(shared, "back", "--queue", queue, "--no-stream")
    until(lambda: again.happened("run_found_again"), what="the command is found again")
    (tmp_path / "enough").touch()
    run = client.wait(run_id, BOUND_S)

    assert ("succeeded", 1, 1) == (run.state, run.attempt, run.fence)
    written = numbers(text_of(client, run_id))
    assert [*map(str, range(1, len(written))), "end"] == written


def test_a_command_that_ended_while_its_worker_was_dead_is_told_for_what_it_was(
    shared: Service, client: Client, worker: Start, queue: str, tmp_path: Path
) -> None:
    first = worker(shared, "late", "--queue", queue, "--no-stream")
    run_id = submit(client, queue, WRITER, tmp_path / "enough")
    until(lambda: "5" in text_of(client, run_id), what="the command writes")
    first.kill()
    (tmp_path / "enough").touch()
    until(lambda: not commands_of(first), what="the command has ended")
    worker(shared, "late", "--queue", queue, "--no-stream")
    run = client.wait(run_id, BOUND_S)

    assert ("succeeded", 1) == (run.state, run.attempt)
    assert text_of(client, run_id).endswith("end\n")


@pytest.mark.origin("K4", "B5")
def test_a_frozen_worker_loses_its_run_its_command_is_ended_in_time_and_nothing_of_it_shows_afterwards(
    shared: Service, client: Client, worker: Start, queue: str, tmp_path: Path
) -> None:
    frozen = worker(shared, "frozen", "--queue", queue, "--no-stream", "--grace", "1")
    run_id = submit(client, queue, WRITER, tmp_path / "enough", policy=SHORT)
    until(lambda: "5" in text_of(client, run_id), what="the command writes")
    frozen.send(signal.SIGSTOP)
    until(lambda: not commands_of(frozen), what="the keeper ended the command")
    assert client.run(run_id).fence == 1, "the command was ended before anybody else could take the run"
    worker(shared, "next", "--queue", queue)
    until(lambda: client.run(run_id).owner == "next", what="another took over", within_s=20)
    before = _output_under(client, run_id, 1)
    frozen.send(signal.SIGCONT)
    until(lambda: frozen.happened("claim_lost") or frozen.happened("claim_lost_before_finish"), what="it is told")
    (tmp_path / "enough").touch()
    run = client.wait(run_id, BOUND_S)

    assert ("succeeded", "next") == (run.state, _last_owner(client, run_id))
    assert before == _output_under(client, run_id, 1)


def test_every_kind_of_write_under_an_old_fence_is_refused(
    shared: Service, client: Client, worker: Start, queue: str
) -> None:
    client.register_worker("zombie", slots=1)
    run_id = client.submit({}, queue=queue, policy={"lease_ttl_s": 0.5}).run_id
    old = LeaseRef(run_id, client.claim("zombie", [queue])[0].fence)
    client.register_worker("living", slots=1)
    until(lambda: client.claim("living", [queue]), what="the run is taken over")
    writes: list[Callable[[], object]] = [
        lambda: client.save_partial(old, {"forged": 1}),
        lambda: client.progress(old, "forged"),
        lambda: client.send_output(old, 1, "forged"),
        lambda: client.claim_effect(old, "forged", 1),
        lambda: client.park(old, "forged"),
        lambda: client.hand_back(old),
        lambda: client.close(old, "succeeded", result="forged"),
        lambda: client.send_output(LeaseRef(run_id, 99), 1, "from the future"),
    ]
    for write in writes:
        with pytest.raises(FenceLost) as refused:
            write()
        # The other's lease is as short, and on a slow machine it has run out by now; the fence is what counts.
        assert refused.value.holder in ("living", None)
        assert 2 == refused.value.current

    assert (None, None) == (client.run(run_id).partial, client.run(run_id).result)
    assert ([], []) == (list(client.output_so_far(run_id)), client.effects(run_id))


@pytest.mark.origin("D20", "H2")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_restart_of_the_service_costs_a_command_nothing(
    own_service: Service, worker: Start, tmp_path: Path, how: str
) -> None:
    own_service.start()
    hand = worker(own_service, "hand", "--queue", "q")
    with own_service.client() as client:
        run_id = submit(client, "q", WRITER, tmp_path / "enough")
        until(lambda: "5" in text_of(client, run_id), what="the command writes")
        before = len(numbers(text_of(client, run_id)))
        getattr(own_service, how)()
        until(lambda: hand.happened("unanswered"), what="the worker notices", within_s=30)
        own_service.start()
        until(lambda: hand.happened("reconnected"), what="the worker is back")
        (tmp_path / "enough").touch()
        run = client.wait(run_id, BOUND_S)
        written = numbers(text_of(client, run_id))

    assert ("succeeded", 1, 1) == (run.state, run.attempt, run.fence)
    assert len(written) > before
    assert [*map(str, range(1, len(written))), "end"] == written


def test_what_a_command_did_while_the_service_was_down_is_delivered_in_order_when_it_is_back(
    own_service: Service, worker: Start, tmp_path: Path
) -> None:
    own_service.start()
    hand = worker(own_service, "hand", "--queue", "q")
    with own_service.client() as client:
        run_id = submit(client, "q", WRITER, tmp_path / "enough")
        until(lambda: "5" in text_of(client, run_id), what="the command writes")
        own_service.kill()
        (tmp_path / "enough").touch()
        until(lambda: hand.happened("command_ended"), what="the command has ended without the service", within_s=20)
        own_service.start()
        run = client.wait(run_id, BOUND_S)
        written = numbers(text_of(client, run_id))

    assert ("succeeded", 1) == (run.state, run.attempt)
    assert [*map(str, range(1, len(written))), "end"] == written


def test_a_lease_that_can_no_longer_be_believed_in_ends_the_command_and_hands_the_run_back(
    own_service: Service, worker: Start, tmp_path: Path
) -> None:
    own_service.start()
    hand = worker(own_service, "hand", "--queue", "q", "--grace", "1")
    with own_service.client() as client:
        run_id = submit(client, "q", WRITER, tmp_path / "enough", policy=SHORT)
        until(lambda: "5" in text_of(client, run_id), what="the command writes")
        own_service.kill()
        until(lambda: not commands_of(hand), what="the command is ended", within_s=20)
        until(lambda: hand.happened("command_ended"), what="the worker knows")
        own_service.start()
        (tmp_path / "enough").touch()
        run = client.wait(run_id, BOUND_S)

    assert ("succeeded", 2, 0) == (run.state, run.attempt, run.failed_attempts)


def test_worker_and_service_killed_together_come_back_and_go_on(
    own_service: Service, worker: Start, tmp_path: Path
) -> None:
    own_service.start()
    first = worker(own_service, "hand", "--queue", "q", "--no-stream")
    with own_service.client() as client:
        run_id = submit(client, "q", WRITER, tmp_path / "enough")
        until(lambda: "5" in text_of(client, run_id), what="the command writes")
        own_service.kill()
        first.kill()
        own_service.start()
        worker(own_service, "hand", "--queue", "q", "--no-stream")
        (tmp_path / "enough").touch()
        run = client.wait(run_id, BOUND_S)
        written = numbers(text_of(client, run_id))

    assert ("succeeded", 1) == (run.state, run.attempt)
    assert [*map(str, range(1, len(written))), "end"] == written


@pytest.mark.origin("H9")
def test_a_command_whose_run_was_settled_while_its_worker_was_dead_is_ended_at_the_workers_start(
    shared: Service, client: Client, worker: Start, queue: str, tmp_path: Path
) -> None:
    first = worker(shared, "dead", "--queue", queue, "--no-stream")
    run_id = submit(client, queue, WRITER, tmp_path / "never", policy={"lease_ttl_s": 30.0})
    until(lambda: "5" in text_of(client, run_id), what="the command writes")
    first.kill()
    client.cancel(run_id)
    until(lambda: client.run(run_id).settled, what="the run is cancelled", within_s=20)
    assert commands_of(first)
    worker(shared, "dead", "--queue", queue, "--no-stream")

    until(lambda: not commands_of(first), what="its command is ended", within_s=20)


def _output_under(client: Client, run_id: str, fence: int) -> str:
    return "".join(chunk.data for chunk in client.output_so_far(run_id) if chunk.fence == fence)


def _last_owner(client: Client, run_id: str) -> str | None:
    starts = [fact.data["worker"] for fact in client.facts(run_id) if fact.topic == "run.attempt_started.v1"]
    return starts[-1] if starts else None
