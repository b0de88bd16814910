"""How a worker stops, and how what it executes is stopped: asked first, told for what it did, never thrown away."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from jackline import Client, Key
from jackline.models import PolicyOptions
from tests.client.serving import Service, WorkerProcess, free_port, text_of
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system


@pytest.mark.origin("D8", "C28")
def test_a_worker_that_is_stopped_hands_back_what_its_commands_saved_and_leaves(
    shared: Service, client: Client, worker: Callable[..., WorkerProcess], queue: str
) -> None:
    first = worker(shared, "first", "--queue", queue, "--grace", "5")
    script = """
        [ $JACKLINE_ATTEMPT = 2 ] && cp $JACKLINE_PARTIAL $JACKLINE_RESULT && exit 0
        trap 'echo \\"saved\\" | jackline partial save - ; exit 0' TERM
        echo up; while :; do sleep 0.05; done"""
    run_id = client.submit({"command": ["sh", "-c", script]}, queue=queue).run_id
    until(lambda: "up" in text_of(client, run_id), what="the command is up")

    assert 0 == first.stop()
    assert ("queued", 0) == (client.run(run_id).state, client.run(run_id).failed_attempts)
    assert "first" not in [one.worker_id for one in client.workers() if one.state == "active"]
    worker(shared, "second", "--queue", queue)
    run = client.wait(run_id, BOUND_S)
    assert ("succeeded", "saved") == (run.state, run.result)


def test_a_second_signal_ends_a_stubborn_command_at_once(
    shared: Service, client: Client, worker: Callable[..., WorkerProcess], queue: str
) -> None:
    hand = worker(shared, "stubborn", "--queue", queue, "--grace", "600")
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    run_id = client.submit({"command": ["sh", "-c", script]}, queue=queue).run_id
    until(lambda: "up" in text_of(client, run_id), what="the command is up")
    hand.send(signal.SIGTERM)
    until(lambda: hand.happened("stopping"), what="it stops")

    assert 0 == hand.stop()
    assert "queued" == client.run(run_id).state


def test_a_worker_gives_the_key_of_its_commands_back_when_it_leaves(
    shared: Service, client: Client, worker: Callable[..., WorkerProcess], queue: str
) -> None:
    hand = worker(shared, "tidy", "--queue", queue)
    until(lambda: _keys_of(client, "tidy"), what="it has made a key")
    hand.stop()

    assert ["revoked"] == [("revoked" if key.revoked_at else "open") for key in _keys_of(client, "tidy")]
    assert not (hand.home / "run-key.json").exists()


def test_a_worker_that_may_do_little_shares_its_own_key(
    shared: Service, client: Client, worker: Callable[..., WorkerProcess], queue: str
) -> None:
    key = client.create_key("little", "worker", worker_ids=["little"])
    worker(shared, "little", "--queue", queue, "--key", str(key.key), "--url", client.url)
    run_id = client.submit({"command": ["sh", "-c", "jackline partial save - < $JACKLINE_PAYLOAD"]}, queue=queue).run_id

    assert "succeeded" == client.wait(run_id, BOUND_S).state
    assert [] == _keys_of(client, "little")


def test_a_worker_that_waits_for_its_service_can_be_stopped(tmp_path: Path, jackline_script: Path) -> None:
    nobody = Service(jackline_script, tmp_path)
    nobody.data_dir.mkdir()
    (nobody.data_dir / "server.url").write_text(f"http://127.0.0.1:{free_port()}")
    (nobody.data_dir / "admin.key").write_text("key")
    hand = WorkerProcess(nobody, "waits")
    hand.begin()
    until(lambda: hand.happened("unanswered"), what="it says that it waits", within_s=20)

    assert 0 == hand.stop()


@pytest.mark.origin("B6")
def test_at_the_end_of_its_slice_a_command_saves_and_its_run_goes_on(
    shared: Service, client: Client, worker: Callable[..., WorkerProcess], queue: str
) -> None:
    worker(shared, "sliced", "--queue", queue)
    script = """
        place=$(jackline partial get)
        [ $place = null ] || { echo $place > $JACKLINE_RESULT; exit 0; }
        trap 'echo 8 | jackline partial save -; exit 0' TERM
        while :; do sleep 0.05; done"""
    policy: PolicyOptions = {"max_hold_s": 4.0, "lease_ttl_s": 10.0}
    run_id = client.submit({"command": ["sh", "-c", script]}, queue=queue, policy=policy).run_id
    run = client.wait(run_id, BOUND_S)
    ends = [fact.data["outcome"] for fact in client.facts(run_id) if fact.topic == "run.attempt_ended.v1"]

    assert ("succeeded", 8, 0, ["handed_back"]) == (run.state, run.result, run.failed_attempts, ends)


@pytest.mark.origin("A47")
@pytest.mark.parametrize(("trap", "report"), [("''", "ignored"), ("'sleep 0.6; exit 0'", "saved")])
def test_a_worker_tells_a_command_that_saved_from_one_that_had_to_be_killed(
    own_service: Service, worker: Callable[..., WorkerProcess], trap: str, report: str
) -> None:
    own_service.settings["JACKLINE_CANCEL_GRACE_S"] = "0.2"
    own_service.start()
    worker(own_service, "hand", "--grace", "2")
    with own_service.client() as client:
        script = f"trap {trap} TERM; echo up; while :; do sleep 0.05; done"
        run_id = client.submit({"command": ["sh", "-c", script]}, policy={"lease_ttl_s": 2.0}).run_id
        until(lambda: "up" in text_of(client, run_id), what="the command is up")
        client.cancel(run_id)
        reports = until(lambda: _reports(client, run_id), what="it is reported", within_s=20)

    assert [report] == reports


def test_two_workers_do_not_share_a_place(shared: Service, worker: Callable[..., WorkerProcess]) -> None:
    worker(shared, "same", "--queue", "none")
    again = WorkerProcess(shared, "same", "--queue", "none")
    again.begin()
    assert again.process is not None

    assert 2 == again.process.wait(timeout=BOUND_S)


def _reports(client: Client, run_id: str) -> list[str]:
    return [fact.data["report"] for fact in client.facts(run_id) if fact.topic == "run.stop_reported.v1"]


def _keys_of(client: Client, worker_id: str) -> list[Key]:
    return [key for key in client.keys() if key.name == f"runs-of-{worker_id}"]
