"""`jackline work` against a real service: commands, their output, and how they end."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jackline import Client, Fact, Run
from jackline.models import PolicyOptions
from jackline.worker.environment import MARK
from jackline.worker.processes import marked
from tests.client.serving import Service, WorkerProcess, text_of
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system

QUICK: PolicyOptions = {"retry_base_s": 0.1, "max_attempts": 2}
Submit = Callable[..., str]


@pytest.fixture(scope="module")
def hand(shared: Service) -> Iterator[WorkerProcess]:
    """One worker for the tests that only look at what becomes of a command."""
    started = WorkerProcess(shared, "hand", "--queue", "hand", "--slots", "4", "--grace", "5")
    yield started.start({"SECRET_OF_THE_WORKER": "x", "LC_ALL": "C.UTF-8"})
    started.close()


@pytest.fixture
def submit(client: Client, hand: WorkerProcess) -> Submit:
    def begin(*command: str, **payload: Any) -> str:
        return client.submit({"command": list(command), **payload}, queue="hand", policy=QUICK).run_id

    return begin


def shell(submit: Submit, script: str, **payload: Any) -> str:
    return submit("sh", "-c", script, **payload)


@pytest.mark.origin("A33", "A34")
def test_exit_code_0_succeeds_with_the_result_that_the_command_wrote(client: Client, submit: Submit) -> None:
    run = client.wait(shell(submit, "echo hello; echo '{\"n\": 1}' > $JACKLINE_RESULT"), 20)

    assert ("succeeded", {"n": 1}) == (run.state, run.result)
    assert "hello\n" == text_of(client, run.run_id)


def test_a_result_that_is_no_json_is_kept_as_text_and_the_run_succeeds(client: Client, submit: Submit) -> None:
    run = client.wait(shell(submit, "echo 'done: 7 files' > $JACKLINE_RESULT"), 20)

    assert ("succeeded", "result_not_json", "done: 7 files\n") == (run.state, run.result["code"], run.result["text"])


def test_an_exit_code_fails_the_run_once_its_attempts_are_spent(client: Client, submit: Submit) -> None:
    run = client.wait(shell(submit, "exit 7"), 20)

    assert ("failed", 2, "exit", 7) == (run.state, run.attempt, run.error["code"], run.error["exit_code"])


def test_a_signal_is_told_as_a_signal(client: Client, submit: Submit) -> None:
    run = client.wait(shell(submit, "kill -SEGV $$"), 20)

    assert ("failed", "signal", "SIGSEGV") == (run.state, run.error["code"], run.error["name"])


@pytest.mark.parametrize("command", ["no-such-command", "/"])
def test_a_command_that_cannot_be_started_fails_at_once(client: Client, submit: Submit, command: str) -> None:
    run = client.wait(submit(command), 20)

    assert ("failed", 1, "not_started") == (run.state, run.attempt, run.error["code"])


def test_a_directory_that_is_not_there_fails_at_once(client: Client, submit: Submit) -> None:
    run = client.wait(submit("true", cwd="/no/such/directory"), 20)

    assert ("failed", "not_started") == (run.state, run.error["code"])
    assert "/no/such/directory" in run.error["message"]


@pytest.mark.parametrize("payload", [None, {}, {"command": []}, {"command": "ls"}, {"command": [1]}, "text"])
def test_a_payload_without_a_command_fails_at_once(client: Client, hand: WorkerProcess, payload: Any) -> None:
    run = client.wait(client.submit(payload, queue="hand").run_id, 20)

    assert ("failed", 1, "no_command") == (run.state, run.attempt, run.error["code"])


def test_a_command_does_not_see_the_workers_environment(client: Client, submit: Submit) -> None:
    run = client.wait(shell(submit, "env", env={"ASKED": "for", "JACKLINE_FENCE": "99"}), 20)
    seen = dict(line.split("=", 1) for line in text_of(client, run.run_id).splitlines())

    assert "SECRET_OF_THE_WORKER" not in seen
    assert ("for", "C.UTF-8", "1") == (seen["ASKED"], seen["LC_ALL"], seen["JACKLINE_FENCE"])
    assert (run.run_id, "1") == (seen["JACKLINE_RUN_ID"], seen["JACKLINE_ATTEMPT"])
    assert not {"JACKLINE_KEY", "JACKLINE_DATA_DIR"} & set(seen)


def test_a_command_gets_a_key_that_can_do_no_more_than_its_worker(client: Client, submit: Submit) -> None:
    run = client.wait(shell(submit, "jackline keys list; echo $?; jackline progress fine; echo $?"), 30)

    assert ["6", "0"] == text_of(client, run.run_id).split()


def test_files_stay_for_the_next_attempt_on_the_same_worker(client: Client, submit: Submit) -> None:
    run = client.wait(shell(submit, "cat kept 2>/dev/null; echo before > kept; exit $((2 - JACKLINE_ATTEMPT))"), 20)

    assert ("succeeded", 2) == (run.state, run.attempt)
    assert "before\n" == text_of(client, run.run_id)


def test_bytes_that_are_not_text_come_out_as_replacements_and_nothing_is_lost(client: Client, submit: Submit) -> None:
    program = "import os; os.write(1, bytes(range(256)) * 100)"
    run = client.wait(submit(sys.executable, "-c", program), 20)

    assert (bytes(range(256)) * 100).decode("utf-8", "replace") == text_of(client, run.run_id)


def test_one_line_of_ten_megabytes_comes_out_whole(client: Client, submit: Submit) -> None:
    program = "import sys; sys.stdout.write('x' * 10_000_000); sys.stderr.write('done')"
    run = client.wait(submit(sys.executable, "-c", program), 60)

    assert ("succeeded", 10_000_000) == (run.state, len(text_of(client, run.run_id)))
    assert "done" == text_of(client, run.run_id, "stderr")


def test_what_a_command_leaves_running_is_ended_with_it(client: Client, submit: Submit, tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    fled = f"setsid sh -c 'while :; do echo x >> {mark}; sleep 0.05; done' >/dev/null 2>&1 &"
    run = client.wait(shell(submit, f"{fled} while [ ! -s {mark} ]; do sleep 0.02; done"), 30)
    last = mark.read_text()

    assert "succeeded" == run.state
    assert last == mark.read_text()
    assert not [line for line in Path("/proc").glob("[0-9]*/cmdline") if str(mark) in _cmdline(line)]


@pytest.mark.origin("A4")
def test_a_command_of_which_nobody_knows_how_it_ended_is_told_as_that_and_leaves_nothing(
    client: Client, submit: Submit, hand: WorkerProcess
) -> None:
    run_id = shell(submit, "sleep 300 & echo up; sleep 300")
    until(lambda: "up" in text_of(client, run_id), what="the command is up")
    control = hand.home / "attempts" / f"{run_id}.1"
    os.kill(json.loads((control / "keeper.json").read_text())["pid"], signal.SIGKILL)
    closed = until(lambda: _closes(client, run_id), what="the attempt is closed")[0]
    client.cancel(run_id)

    assert "exit_unknown" == closed.data["error"]["code"]
    assert [] == list(marked(MARK, str(control)))


@pytest.mark.origin("A4", "D4")
def test_a_worker_that_cannot_start_a_keeper_hands_back_unspent_runs_and_claims_no_more_until_it_can(
    client: Client, shared: Service
) -> None:
    worker = WorkerProcess(shared, "unable", "--queue", "unable").start()
    try:
        keeper = worker.home / "bin" / "keeper.py"
        keeper.write_text("import nothing_of_that_name")
        last_chance: PolicyOptions = {"max_attempts": 1}
        run_id = client.submit({"command": ["true"]}, queue="unable", policy=last_chance).run_id
        until(lambda: worker.happened("claims_no_more"), what="it claims no more", within_s=20)
        handed_back = worker.happened("handed_back")
        draining = lambda: "unable" in [one.worker_id for one in client.workers("draining")]  # noqa: E731
        until(draining, what="it is listed as draining")
        assert ("queued", 0) == ((run := client.run(run_id)).state, run.failed_attempts)
        assert "No module named 'nothing_of_that_name'" in handed_back[0]["error"]
        assert "No module named" in worker.happened("claims_no_more")[0]["error"]
        keeper.unlink()
        run = client.wait(run_id, 40)
    finally:
        worker.close()

    assert ("succeeded", 0, 1) == (run.state, run.failed_attempts, len(worker.happened("claims_again")))
    assert [] == _closes(client, run_id)[:-1]


@pytest.mark.origin("A46")
def test_a_cancelled_command_may_save_before_it_ends(client: Client, submit: Submit) -> None:
    script = """
        trap 'echo 3 | jackline partial save - ; exit 0' TERM
        echo up; while :; do sleep 0.05; done"""
    run_id = shell(submit, script)
    until(lambda: "up" in text_of(client, run_id), what="the command is up")
    client.cancel(run_id)
    run = client.wait(run_id, BOUND_S)

    assert ("cancelled", 3) == (run.state, run.result)


def test_a_cancelled_command_that_ignores_the_order_is_killed(client: Client, submit: Submit) -> None:
    run_id = shell(submit, "trap '' TERM; echo up; while :; do sleep 0.05; done")
    until(lambda: "up" in text_of(client, run_id), what="the command is up")
    client.cancel(run_id)
    run = client.wait(run_id, BOUND_S)

    assert "cancelled" == run.state


def test_a_cancelled_command_that_says_that_it_has_finished_has_succeeded(client: Client, submit: Submit) -> None:
    script = "trap 'echo 1 > $JACKLINE_RESULT; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    run_id = shell(submit, script)
    until(lambda: "up" in text_of(client, run_id), what="the command is up")
    client.cancel(run_id)
    run = client.wait(run_id, BOUND_S)

    assert ("succeeded", 1) == (run.state, run.result)


def test_a_paused_command_is_parked_and_goes_on_from_its_partial(client: Client, submit: Submit) -> None:
    script = """
        [ $JACKLINE_ATTEMPT = 2 ] && cp $JACKLINE_PARTIAL $JACKLINE_RESULT && exit 0
        trap 'echo 5 | jackline partial save - ; exit 1' TERM
        echo up; while :; do sleep 0.05; done"""
    run_id = shell(submit, script)
    until(lambda: "up" in text_of(client, run_id), what="the command is up")
    client.pause(run_id)
    until(lambda: client.run(run_id).state == "paused", what="it is paused")
    client.resume(run_id)
    run = client.wait(run_id, BOUND_S)

    assert ("succeeded", 5, 0) == (run.state, run.result, run.failed_attempts)


@pytest.mark.origin("H11")
def test_a_question_parks_the_run_and_its_answer_reaches_the_next_attempt(client: Client, submit: Submit) -> None:
    script = """
        echo before
        [ "$(cat $JACKLINE_ANSWERS)" = '[]' ] && { jackline park --question '"which?"'; echo $?; exit 5; }
        cp $JACKLINE_ANSWERS $JACKLINE_RESULT"""
    run_id = shell(submit, script)
    parked = until(lambda: _in_state(client, run_id, "waiting_input"), what="it waits")
    assert parked is not None
    assert "before\n" == text_of(client, run_id)
    client.answer(run_id, {"branch": "main"})
    run = client.wait(run_id, BOUND_S)

    assert ("which?", 0) == (parked.question, run.failed_attempts)
    assert [{"question": "which?", "answer": {"branch": "main"}}] == run.result


def test_a_question_can_be_waited_for_without_letting_go_of_the_run(client: Client, submit: Submit) -> None:
    run_id = shell(submit, "jackline park --keep-lease --wait --question which > $JACKLINE_RESULT")
    until(lambda: _in_state(client, run_id, "waiting_input"), what="it waits")
    client.answer(run_id, "main")
    run = client.wait(run_id, BOUND_S)

    assert ("succeeded", "main", 1, 1) == (run.state, run.result, run.attempt, run.fence)


def test_a_lease_kept_by_a_command_that_left_is_given_up(client: Client, submit: Submit, hand: WorkerProcess) -> None:
    run_id = shell(submit, "jackline park --keep-lease --question which; exit 0")
    until(lambda: _ended(hand, run_id, "park"), what="the lease is given up")

    assert ("waiting_input", None) == (client.run(run_id).state, client.run(run_id).owner)


@pytest.mark.origin("B25", "B26")
def test_an_effect_is_caused_once_over_two_attempts(client: Client, submit: Submit, tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    script = f"""
        jackline effect claim mail --payload '{{"to": "ada"}}' > said; told=$?
        if [ $told = 0 ]; then echo line >> {outbox}; jackline effect complete mail --outcome '{{"id": 1}}'; exit 1; fi
        echo "{{\\"told\\": $told, \\"outcome\\": $(cat said)}}" > $JACKLINE_RESULT"""
    run = client.wait(shell(submit, script), 30)

    assert ("succeeded", {"told": 10, "outcome": {"id": 1}}) == (run.state, run.result)
    assert "line\n" == outbox.read_text()


def test_an_effect_whose_attempt_ended_in_the_middle_is_ambiguous_until_reconciled(
    client: Client, submit: Submit
) -> None:
    script = """
        jackline effect claim mail --payload 1; a=$?
        [ $a = 0 ] && exit 1
        jackline effect claim mail --payload 2; b=$?
        jackline effect reconcile mail --not-done
        jackline effect claim mail --payload 1; c=$?
        jackline effect fail mail --outcome '"no"'
        echo "[$a, $b, $c]" > $JACKLINE_RESULT"""
    run = client.wait(shell(submit, script), 40)

    assert ("succeeded", [12, 11, 0]) == (run.state, run.result)


def test_more_runs_than_slots_are_executed_one_after_another(client: Client, submit: Submit) -> None:
    runs = [client.wait(run_id, 40) for run_id in [shell(submit, "sleep 0.1") for _ in range(12)]]

    assert {"succeeded"} == {run.state for run in runs}


def _in_state(client: Client, run_id: str, state: str) -> Run | None:
    run = client.run(run_id)
    return run if run.state == state else None


def _closes(client: Client, run_id: str) -> list[Fact]:
    return [fact for fact in client.facts(run_id) if fact.topic == "run.closed.v1"]


def _ended(worker: WorkerProcess, run_id: str, verb: str) -> bool:
    return any(entry["run_id"] == run_id and entry["verb"] == verb for entry in worker.happened("run_ended"))


def _cmdline(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
