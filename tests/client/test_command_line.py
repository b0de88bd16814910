"""The command line as people and programs use it, against a real service."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jackline import Client, LeaseRef
from jackline.cli import show
from jackline.models import PolicyOptions
from tests.client.serving import Say, Service, WorkerProcess, bare_environment, one_line
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def hand(shared: Service) -> Iterator[WorkerProcess]:
    started = WorkerProcess(shared, "hand", "--slots", "4", "--grace", "1").start()
    yield started
    started.close()


def test_a_run_is_followed_and_its_output_goes_where_it_went(say: Say, hand: WorkerProcess) -> None:
    said = say("run", "--name", "greets", "--", "sh", "-c", "echo out; echo err >&2")

    assert (0, "out\n") == (said.returncode, said.stdout)
    assert "err\n" in said.stderr
    assert "succeeded (attempt 1)" in said.stderr


@pytest.mark.parametrize(("command", "code"), [("exit 7", 1), ("kill -9 $$", 1)])
def test_the_exit_code_of_a_followed_run_mirrors_its_outcome(
    say: Say, hand: WorkerProcess, command: str, code: int
) -> None:
    said = say("run", "--max-attempts", "1", "--", "sh", "-c", command)

    assert code == said.returncode
    assert "failed" in said.stderr


def test_a_cancelled_run_is_told_by_its_exit_code(say: Say, hand: WorkerProcess) -> None:
    run_id = say("submit", "--", "sleep", "300").stdout.strip()
    until(lambda: json.loads(say("show", run_id, "--json").stdout)["state"] == "running", what="it runs")
    cancelled = say("cancel", run_id)
    said = say("show", run_id, "--wait", "20")

    assert 0 == cancelled.returncode
    assert (20, True) == (said.returncode, "cancelled" in said.stdout)


def test_an_operator_says_from_outside_what_was_found_out_about_an_ambiguous_effect(say: Say, client: Client) -> None:
    run_id = client.submit(queue="effects", name="mailing").run_id
    client.register_worker("effects-1", slots=1)
    lease = LeaseRef(run_id, client.claim("effects-1", ["effects"])[0].fence)
    for key in ("mail 1", "sms"):
        client.claim_effect(lease, key, {})
    client.hand_back(lease)
    listed, shown = say("effects", "--state", "ambiguous", "--queue", "effects"), say("show", run_id)
    lost = say("effect", "reconcile", "sms", "--done")
    done = say("effect", "reconcile", "mail 1", "--run", run_id, "--done", "--outcome", '{"sent": 1}')
    client.cancel(run_id)
    late = say("effect", "reconcile", "sms", "--run", run_id, "--not-done")
    head, *rows = say("effects", "--queue", "effects").stdout.splitlines()

    assert ["run", "name", "key", "state", "fence", "changed"] == head.split()
    assert 3 == len(listed.stdout.splitlines())
    assert f"`jackline effect reconcile 'mail 1' --run {run_id} --done`" in shown.stdout
    assert "--run RUN" in one_line(lost)
    assert (2, 0, 0) == (lost.returncode, done.returncode, late.returncode), done.stderr + late.stderr
    assert ["reconciled (done)", "reconciled (not done)"] == [row[row.index("recon") :].split("  ")[0] for row in rows]
    assert all(row.startswith(f"{run_id}  mailing") for row in rows)


def test_a_run_that_goes_on_after_the_wait_is_not_called_failed(say: Say, client: Client) -> None:
    run_id = client.submit(queue="nobody").run_id
    said = say("show", run_id, "--wait", "0.2")

    assert 7 == said.returncode
    assert "has not ended within 0.2 s: it is queued" in one_line(said)


def test_options_after_the_first_word_of_the_command_are_the_commands(say: Say) -> None:
    run_id = say("submit", "--queue", "nobody", "ls", "-la", "--json").stdout.strip()
    payload = json.loads(say("show", run_id, "--json").stdout)["payload"]

    assert {"command": ["ls", "-la", "--json"]} == payload


def test_a_submission_says_all_that_it_can(say: Say, tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text('{"more": [1]}')
    words = ["--queue", "nobody", "--name", "n", "--tag", "a=b=c", "--label", "gpu=yes", "--priority", "3"]
    words += ["--env", "X=1", "--cwd", "sub", "--payload", f"@{tmp_path}/more.json", "--max-attempts", "5"]
    words += ["--lease-ttl", "2.5", "--concurrency-key", "c", "--retry-base", "0.5", "--json"]
    receipt = json.loads(say("submit", *words, "--", "true").stdout)
    run = json.loads(say("show", receipt["run_id"], "--json").stdout)

    assert {"command": ["true"], "env": {"X": "1"}, "cwd": "sub", "more": [1]} == run["payload"]
    assert ({"a": "b=c"}, {"gpu": "yes"}, 3, "c") == (
        run["tags"],
        run["labels"],
        run["priority"],
        run["concurrency_key"],
    )
    assert (5, 2.5, 0.5) == tuple(run["policy"][name] for name in ("max_attempts", "lease_ttl_s", "retry_base_s"))


@pytest.mark.parametrize("verb", ["submit", "run"])
def test_every_choice_of_a_policy_can_be_made_on_the_command_line(say: Say, client: Client, verb: str) -> None:
    chosen: dict[str, Any] = {
        "max_attempts": 5, "lease_ttl_s": 2.5, "max_hold_s": 90.0, "retry_base_s": 0.5, "retry_cap_s": 7.0,
        "verdict_by": "leader", "on_quiet": "fail_attempt", "quiet_after_s": 11.0, "total_after_s": 12.0,
        "on_leader_gone": "park", "on_workspace_lost": "retry_fresh",
    }  # fmt: skip
    words = [f"--{name.removesuffix('_s').replace('_', '-')}={value}" for name, value in chosen.items()]
    leave = ["--detach"] if verb == "run" else []
    said = say(verb, "--queue", f"policy-{verb}", "--leader", "ada", *leave, *words, "--", "true")
    (run,) = client.runs(queue=f"policy-{verb}").items

    assert (0, set(PolicyOptions.__annotations__)) == (said.returncode, set(chosen)), said.stderr
    assert chosen == json.loads(say("show", run.run_id, "--json").stdout)["policy"]


def test_lists_are_tables_for_people_and_json_for_programs(say: Say, client: Client) -> None:
    run_id = client.submit({"not": "listed"}, queue="listed", name="\x1b[31mred", tags={"a": "b"}).run_id
    until(lambda: client.runs(queue="listed").items, what="it is listed")
    table, listed = say("ls", "--queue", "listed", "--tag", "a=b"), say("ls", "--queue", "listed", "--json")

    assert run_id in table.stdout
    assert "\x1b" not in table.stdout
    assert [run_id] == [run["run_id"] for run in json.loads(listed.stdout)["items"]]
    assert all("payload" not in run for run in json.loads(listed.stdout)["items"])


def test_facts_and_logs_are_one_document_a_line(say: Say, hand: WorkerProcess) -> None:
    run_id = say("submit", "--", "sh", "-c", "echo one; echo two").stdout.strip()
    followed = say("facts", "-f", run_id, "--json")
    topics = [json.loads(line)["topic"] for line in followed.stdout.splitlines()]

    assert ("run.submitted.v1", "run.closed.v1") == (topics[0], topics[-1])
    assert "one\ntwo\n" == say("logs", run_id).stdout == say("logs", "-f", run_id).stdout
    assert "one\ntwo\n" == "".join(
        json.loads(line)["data"] for line in say("logs", run_id, "--json").stdout.splitlines()
    )


def test_a_followed_run_is_json_lines_for_programs_of_which_the_last_is_the_run(say: Say, hand: WorkerProcess) -> None:
    said = say("run", "--json", "--", "sh", "-c", 'echo \'{"run_id": "not mine"}\'; printf unended')
    *pieces, run = [json.loads(line) for line in said.stdout.splitlines()]
    attached = say("attach", "--json", run["run_id"])

    assert '{"run_id": "not mine"}\nunended' == "".join(piece["data"] for piece in pieces)
    assert ("succeeded", 0) == (run["state"], said.returncode)
    assert [*pieces, run] == [json.loads(line) for line in attached.stdout.splitlines()]


def test_why_is_told_to_people_and_programs(say: Say, client: Client) -> None:
    run_id = client.submit(queue="nobody").run_id
    told = json.loads(say("why", run_id, "--json").stdout)

    assert "queued" == told["state"]
    assert "run.submitted.v1" in say("why", run_id).stdout


def test_a_question_is_answered_from_the_command_line(say: Say, hand: WorkerProcess, client: Client) -> None:
    script = "[ $(cat $JACKLINE_ANSWER) = null ] && jackline park --question which && exit; cat $JACKLINE_ANSWER"
    run_id = say("submit", "--", "sh", "-c", script).stdout.strip()
    until(lambda: client.run(run_id).state == "waiting_input", what="it waits")
    answered = say("answer", run_id, '{"branch": "main"}')
    client.wait(run_id, BOUND_S)

    assert 0 == answered.returncode
    assert '{"branch": "main"}' == say("logs", run_id).stdout


def test_steering_words_do_what_they_say(say: Say, client: Client) -> None:
    run_id = client.submit(queue="nobody").run_id
    paused, resumed = say("pause", run_id), say("resume", run_id)
    cancelled = say("cancel", run_id)
    again = say("retry", run_id)

    assert ["paused", "queued", "cancelled"] == [one.stdout.split()[1] for one in (paused, resumed, cancelled)]
    assert run_id == client.run(again.stdout.strip()).retry_of


def test_who_steers_a_run_that_is_held_is_told_until_when_its_holder_may_save(
    say: Say, client: Client, queue: str
) -> None:
    client.register_worker("saver", slots=9)
    run_id = client.submit(queue=queue).run_id
    client.claim("saver", [queue])
    paused, cancelled = say("pause", run_id), say("cancel", run_id)
    due_at = next(clock.due_at for clock in client.why(run_id).clocks if clock.name == "cancel_grace")

    assert [f"{run_id} running\n"] * 2 == [paused.stdout, cancelled.stdout]
    assert "asked to pause; its holder saver lets go of it when it has saved" in one_line(paused)
    assert f"asked to end; its holder saver may still save, until {show.moment(due_at)}" in one_line(cancelled)


def test_workers_queues_and_keys_are_looked_after(say: Say, hand: WorkerProcess) -> None:
    workers = json.loads(say("workers", "--json").stdout)
    limited = say("queues", "set", "narrow", "--max-leases", "2")
    queues = json.loads(say("queues", "list", "--json").stdout)
    key = json.loads(say("keys", "create", "ci", "--role", "leader", "--json").stdout)
    listed = say("keys", "list")
    revoked = say("keys", "revoke", key["key_id"])

    assert "hand" in [worker["worker_id"] for worker in workers]
    assert "hand" in say("workers").stdout
    assert 0 == limited.returncode
    assert 2 == next(one["max_leases"] for one in queues if one["queue"] == "narrow")
    assert key["key_id"] in listed.stdout
    assert key["key"] not in listed.stdout
    assert 0 == revoked.returncode


def test_a_limit_of_a_queue_that_is_not_named_stays(say: Say, client: Client) -> None:
    def limits() -> tuple[object, object]:
        found = client.queue("limited")
        return found["max_leases"], found["max_per_key"]

    said, seen = [], []
    for words in (["--max-leases", "2"], ["--max-per-key", "3"], ["--max-leases", "none"]):
        said.append(say("queues", "set", "limited", *words).stdout.strip())
        seen.append(limits())

    assert [(2, 1), (2, 3), (None, 3)] == seen
    assert "limited: max_leases none, max_per_key 3" == said[-1]
    assert [2, 2] == [say("queues", "set", "limited", *more).returncode for more in ([], ["--max-leases", "many"])]


def test_an_interrupt_asks_a_followed_run_to_end(shared: Service, hand: WorkerProcess) -> None:
    following = begun(shared, "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    assert following.stdout is not None
    assert "up\n" == following.stdout.readline()
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=BOUND_S)

    assert 20 == following.returncode
    assert "asking the run to end" in err


def test_a_second_interrupt_leaves_the_run_to_itself(shared: Service, hand: WorkerProcess, client: Client) -> None:
    following = begun(shared, "trap '' TERM; echo up; while :; do sleep 0.05; done")
    assert following.stdout is not None
    assert "up\n" == following.stdout.readline()
    assert following.stderr is not None
    following.send_signal(signal.SIGINT)
    while "asking the run to end" not in following.stderr.readline():
        pass
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=BOUND_S)

    assert 130 == following.returncode
    assert "jackline show" in err


def begun(shared: Service, script: str) -> "subprocess.Popen[str]":
    """A run that is followed in the background."""
    environment = bare_environment() | {"JACKLINE_DATA_DIR": str(shared.data_dir)}
    command = [str(shared.script), "run", "--", "sh", "-c", script]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_a_run_stands_on_is_listed_shown_and_released(client: Client, hand: WorkerProcess, say: Say) -> None:
    run = client.wait(client.submit({"command": ["true"]}).run_id, 20)
    workspace_id = run.workspaces[0].workspace_id
    listed = json.loads(say("workspaces", "--run", run.run_id, "--json").stdout)
    shown = json.loads(say("workspaces", "show", workspace_id, "--json").stdout)

    assert [workspace_id] == [one["workspace_id"] for one in listed["items"]]
    assert ("running", "directory", run.run_id) == (shown["phase"], shown["provider"], shown["run_id"])
    assert workspace_id in say("workspaces").stdout
    assert workspace_id in say("show", run.run_id).stdout
    assert f"stood on  {workspace_id}, directory, running" in say("why", run.run_id).stdout
    assert "teardown" in say("workspaces", "release", workspace_id).stdout
    assert "destroyed" in say("workspaces", "release", workspace_id, "--gone").stdout


def test_a_workspace_that_is_not_known_is_told_as_not_found(say: Say) -> None:
    said = say("workspaces", "show", "nonesuch")

    assert 5 == said.returncode
    assert "workspace_unknown" in said.stderr
