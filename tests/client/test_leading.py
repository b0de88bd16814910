"""`jackline run` and `attach` as leaders: what interrupts, closed terminals, kills and restarts lead to."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jackline import Client, Run
from tests.client.leading import DEAF, PATIENT, Led, commands_of
from tests.client.serving import Service, WorkerProcess, bare_environment
from tests.waiting import BOUND_S, until

pytestmark = pytest.mark.system

GRACE_S = 2.5
BEYOND_S = GRACE_S + 1.5  # an absence that is certainly longer than the grace
SETTINGS = {"JACKLINE_LEADER_GRACE_S": str(GRACE_S), "JACKLINE_KILL_GRACE_S": "1"}

Say = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def shared(jackline_script: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(jackline_script, tmp_path_factory.mktemp("service"), SETTINGS).start()
    yield service
    service.close()


@pytest.fixture(scope="module")
def hand(shared: Service) -> Iterator[WorkerProcess]:
    started = WorkerProcess(shared, "hand", "--slots", "20", "--grace", "10").start()
    yield started
    started.close()


class Stage:
    """One test's leaders, its client, and the file that lets its commands end."""

    def __init__(self, service: Service, client: Client, place: Path, name: str) -> None:
        self.service = service
        self.client = client
        self.place = place
        self.name = name
        self.over = place / "over"
        self.started: list[Led] = []

    def lead(self, *words: str, terminal: bool = False) -> Led:
        """A command line that leads a run."""
        self.started.append(Led(self.service, self.place / "led", *words, terminal=terminal))
        return self.started[-1]

    def run(self, script: str, *options: str, terminal: bool = False) -> Led:
        """A `jackline run` of a shell script."""
        return self.lead("run", *options, "--", "sh", "-c", script, str(self.over), terminal=terminal)


def led_again(client: Client, run_id: str) -> Run:
    """The run, once its leader is connected."""
    leader_id = client.run(run_id).leader_id
    assert leader_id is not None
    until(lambda: client.show_leader(leader_id).connections == 1, what="the leader is back", within_s=30)
    return client.run(run_id)


@pytest.fixture
def stage(shared: Service, client: Client, tmp_path: Path, queue: str) -> Iterator[Stage]:
    made = Stage(shared, client, tmp_path, queue)
    yield made
    for one in made.started:
        one.close()


@pytest.fixture
def say(shared: Service) -> Say:
    def said(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = bare_environment() | {"JACKLINE_DATA_DIR": str(shared.data_dir), "COLUMNS": "200"}
        command = [str(shared.script), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND_S, check=False)

    return said


def stopped(client: Client, run_id: str) -> str:
    """What the worker reported about its order to stop."""
    topic = "run.stop_reported.v1"
    facts = until(
        lambda: [one for one in client.facts(run_id) if one.topic == topic], what="it is reported", within_s=20
    )
    return str(facts[0].data["report"])


@pytest.mark.origin("A1", "H2")
@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_a_leader_that_is_killed_loses_its_run_after_the_grace_and_the_commands_processes_are_gone(
    stage: Stage, worker: Callable[..., WorkerProcess], stream: str
) -> None:
    hand = worker(stage.service, f"own{stream}", "--queue", stage.name, stream)
    led = stage.run(f"sleep 300 & {PATIENT}", "--queue", stage.name, "--lease-ttl", "3")
    run_id = led.run_id()
    led.kill()
    before = stage.client.run(run_id)
    run = stage.client.wait(run_id, BOUND_S)
    report = stopped(stage.client, run_id)
    until(lambda: not commands_of(hand), what="its processes are gone", within_s=20)
    told = [one.topic for one in stage.client.facts(run_id)]

    assert ("running", "cancelled", "leader_gone") == (before.state, run.state, run.reason)
    assert "saved" == report
    assert told.index("run.worker_timeout.v1") < told.index("run.settled.v1") < told.index("run.stop_reported.v1")
    assert [run_id] == [one["run_id"] for one in hand.happened("stop_reported")]


def test_a_command_that_is_deaf_to_the_order_to_stop_is_killed_and_reported_as_ignoring_it(
    stage: Stage, hand: WorkerProcess
) -> None:
    led = stage.run(DEAF)
    run_id = led.run_id()
    led.kill()
    stage.client.wait(run_id, BOUND_S)

    assert "ignored" == stopped(stage.client, run_id)


def test_a_leader_that_comes_back_within_its_grace_loses_nothing(
    own_service: Service, worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    own_service.start()
    worker(own_service, "hand")
    with own_service.client() as client:
        stage = Stage(own_service, client, tmp_path, "")
        led = stage.run(PATIENT)
        run_id = led.run_id()
        led.kill()
        back = stage.lead("attach", run_id)
        assert run_id == back.run_id()
        run = led_again(client, run_id)
        stage.over.touch()

        assert "running" == run.state
        assert (0, "begun\nover\n") == (back.ended(), back.output)
        assert 1 == client.run(run_id).attempt


def test_the_first_interrupt_asks_the_run_to_end_and_follows_it_there(stage: Stage, hand: WorkerProcess) -> None:
    led = stage.run(PATIENT)
    led.run_id()
    led.send(signal.SIGINT)

    assert 20 == led.ended()
    assert "asking the run to end" in led.said
    assert "cancelled" in led.said


def test_the_second_interrupt_leaves_without_waiting(stage: Stage, hand: WorkerProcess) -> None:
    led = stage.run(DEAF)
    run_id = led.run_id()
    led.send(signal.SIGINT)
    led.says("asked to end")
    led.send(signal.SIGINT)
    code = led.ended(within_s=5)
    state = stage.client.run(run_id).state
    settled = stage.client.wait(run_id, BOUND_S)

    assert (130, "running") == (code, state)
    assert "left; the run was asked to end" in led.said
    assert "cancelled" == settled.state


@pytest.mark.parametrize("how", ["terminal", "terminated"])
def test_closing_the_terminal_or_terminating_it_leaves_and_the_grace_decides(
    stage: Stage, hand: WorkerProcess, how: str
) -> None:
    led = stage.run(PATIENT, terminal=how == "terminal")
    run_id = led.run_id()
    if how == "terminal":
        led.close_terminal()
    else:
        led.send(signal.SIGTERM)
    code = led.ended(within_s=10)
    state = stage.client.run(run_id).state
    settled = stage.client.wait(run_id, BOUND_S)

    assert ({"terminal": 129, "terminated": 143}[how], "running") == (code, state)
    assert "jackline attach" in led.said
    assert ("cancelled", "leader_gone") == (settled.state, settled.reason)


@pytest.mark.parametrize("option", ["--keep", "--detach"])
def test_a_run_that_is_to_be_kept_outlives_its_leader(stage: Stage, hand: WorkerProcess, option: str) -> None:
    led = stage.run(PATIENT, option)
    if option == "--keep":
        run_id = led.run_id()
        led.kill()
    else:
        assert 0 == led.ended()
        run_id = led.output.strip()
    run = stage.client.wait(run_id, BEYOND_S)
    back = stage.lead("attach", run_id)
    back.run_id()
    stage.over.touch()

    assert ("running", "keep") == (run.state, run.policy["on_leader_gone"])
    assert 0 == back.ended()


def test_what_was_settled_while_its_leader_was_away_is_shown_to_it(stage: Stage, hand: WorkerProcess) -> None:
    first = stage.run(PATIENT, "--leader", stage.name, "--name", "lost")
    run_id = first.run_id()
    first.kill()
    stage.client.wait(run_id, BOUND_S)
    second = stage.run(PATIENT, "--leader", stage.name)
    second.run_id()
    second.says(f"settled while its leader was away: {run_id} (lost) cancelled, leader_gone")
    stage.over.touch()
    attached = stage.lead("attach", run_id)

    assert (0, 20) == (second.ended(), attached.ended())
    assert "leader_gone" in attached.said
    assert "begun\n" == attached.output


@pytest.mark.parametrize("end", [Service.kill, Service.stop])
def test_a_run_and_its_leader_outlast_a_restart_of_the_service(
    own_service: Service, worker: Callable[..., WorkerProcess], tmp_path: Path, end: Callable[[Service], object]
) -> None:
    own_service.start()
    worker(own_service, "hand")
    with own_service.client() as client:
        stage = Stage(own_service, client, tmp_path, "")
        led = stage.run(PATIENT)
        run_id = led.run_id()
        end(own_service)
        own_service.start()
        run = led_again(client, run_id)
        stage.over.touch()
        code = led.ended()

    assert ("running", 1) == (run.state, run.attempt)
    assert (0, "begun\nover\n") == (code, led.output)


def test_a_run_is_taken_over_under_another_leader_id(stage: Stage, hand: WorkerProcess, say: Say) -> None:
    first = stage.run(PATIENT)
    run_id = first.run_id()
    second = stage.lead("attach", run_id, "--leader", stage.name)
    second.run_id()
    first.kill()
    run = stage.client.wait(run_id, BEYOND_S)
    listed = {one["leader_id"]: one for one in json.loads(say("leaders", "--json").stdout)}
    shown = say("leaders", stage.name).stdout
    stage.over.touch()

    assert ("running", stage.name) == (run.state, run.leader_id)
    assert (1, 1) == (listed[stage.name]["connections"], listed[stage.name]["open_runs"])
    assert stage.name in shown
    assert 0 == second.ended()


def test_a_run_without_a_leader_is_only_followed(stage: Stage, hand: WorkerProcess, say: Say) -> None:
    run_id = say("submit", "--", "sh", "-c", PATIENT, str(stage.over)).stdout.strip()
    led = stage.lead("attach", run_id)
    led.says("has no leader")
    led.kill()
    run = stage.client.wait(run_id, BEYOND_S)
    stage.over.touch()

    assert ("running", None) == (run.state, run.leader_id)


def test_runs_are_cancelled_by_filter_after_a_look_at_which(say: Say, client: Client, queue: str) -> None:
    wanted = [client.submit(n, queue=queue, tags={"a": "b"}).run_id for n in range(2)]
    other = client.submit(9, queue=queue).run_id
    dry = say("cancel", "--queue", queue, "--tag", "a=b", "--dry-run")
    states = {client.run(run_id).state for run_id in wanted}
    done = json.loads(say("cancel", "--queue", queue, "--tag", "a=b", "--json").stdout)

    assert {"queued"} == states
    assert all(run_id in dry.stdout for run_id in wanted)
    assert "2 open runs match" in dry.stderr
    assert [(run_id, "cancelled") for run_id in wanted] == [(one["run_id"], one["state"]) for one in done["runs"]]
    assert "queued" == client.run(other).state


@pytest.mark.parametrize("words", [[], ["RUN", "--queue", "q"], ["RUN", "--dry-run"]])
def test_a_cancel_without_a_run_or_with_too_much_is_refused(say: Say, words: list[str]) -> None:
    said = say("cancel", *words)

    assert 2 == said.returncode
    assert "either one run or filters" in said.stderr


def test_a_timeout_is_answered_by_extend_and_by_abort(say: Say, client: Client, queue: str) -> None:
    client.register_worker("slow", slots=10)
    run_id = client.submit(1, queue=queue, policy={"total_after_s": 0.5}).run_id
    none_yet = say("extend", run_id)
    client.claim("slow", [queue])

    def overdue(count: int) -> bool:
        return len([one for one in client.facts(run_id) if one.topic == "run.worker_timeout.v1"]) >= count

    until(lambda: overdue(1), what="it is overdue")
    extended = say("extend", run_id)
    until(lambda: overdue(2), what="it is overdue again")
    aborted = say("abort", run_id)
    settled = say("abort", run_id)  # a repeat

    assert (5, "no timeout to answer") == (none_yet.returncode, none_yet.stderr.partition("has ")[2].partition(";")[0])
    assert [(0, f"{run_id} running\n"), (0, f"{run_id} aborted\n")] == [
        (one.returncode, one.stdout) for one in (extended, aborted)
    ]
    assert 0 == settled.returncode


def test_a_run_is_reassigned_at_the_revision_that_is_named(say: Say, client: Client, queue: str) -> None:
    run_id = client.submit(1, queue=queue, policy={"on_leader_gone": "keep"}).run_id
    moved = say("reassign", run_id, queue, "--json")
    stale = say("reassign", run_id, "somebody", "--revision", str(json.loads(moved.stdout)["revision"] - 1))
    client.cancel(run_id)

    assert (0, queue) == (moved.returncode, json.loads(moved.stdout)["leader_id"])
    assert (3, True) == (stale.returncode, "revision_stale" in stale.stderr)


def test_a_worker_is_drained_put_aside_and_released(say: Say, client: Client) -> None:
    client.register_worker("aside")

    def state() -> str:
        return next(one.state for one in client.workers() if one.worker_id == "aside")

    seen = []
    for words in (["quarantine", "aside", "--reason", "odd"], ["release", "aside"], ["drain", "aside"]):
        assert 0 == say("workers", *words).returncode
        seen.append(state())

    assert ["quarantined", "active", "draining"] == seen
    assert 5 == say("workers", "drain", "no-such-worker").returncode
    assert _without_ages(say("workers").stdout) == _without_ages(say("workers", "list").stdout)


def _without_ages(table: str) -> str:
    return re.sub(r"\d+(\.\d+)? (s|min) ago", "some time ago", table)


def test_a_key_for_certain_leaders_leads_as_the_first_of_them(stage: Stage, hand: WorkerProcess) -> None:
    made = stage.client.create_key("leads", "leader", leader_ids=[stage.name])
    led = stage.run("echo begun", "--key", str(made.key), "--url", stage.client.url)
    run_id = led.run_id()

    assert 0 == led.ended()
    assert stage.name == stage.client.run(run_id).leader_id


def test_a_leader_that_is_to_judge_is_told_when_it_is_its_turn_and_exits_as_it_judged(
    stage: Stage, hand: WorkerProcess
) -> None:
    led = stage.run("echo begun", "--verdict-by", "leader")
    run_id = led.run_id()
    led.says(f"waits for its leader's verdict; `jackline verdict {run_id} succeeded` (or `failed`) ends it")
    stage.client.verdict(run_id, "failed")

    assert 1 == led.ended()


def test_whoever_submits_for_an_absent_leader_is_told_until_when_it_has_to_be_there(say: Say, queue: str) -> None:
    told = say("submit", "--queue", queue, "--leader", f"nobody-{queue}", "--", "true")
    keeps = say("submit", "--queue", queue, "--leader", f"nobody-{queue}", "--on-leader-gone", "keep", "--", "true")
    led_by_nobody = say("submit", "--queue", queue, "--", "true")

    assert re.search(r"is not connected: unless it is by \S+ \S+, the run is settled as cancelled", told.stderr)
    assert f"`jackline attach {told.stdout.strip()}` is being its leader" in told.stderr
    assert ("", "") == (keeps.stderr, led_by_nobody.stderr)
