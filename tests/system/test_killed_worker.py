"""A real worker killed with -9 in the middle: its death is evidence, and the next attempt goes on where it was.

Two `jackline work` processes share a queue. The one that holds the run is killed; its kernel closes its stream, so its
lease gets the reconnect window instead of the rest of its 60 s, and the other takes over under the next fence, is
handed the partial, and is told that the effect was done before.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.calling import Caller
from tests.system.serving import Service, submit
from tests.waiting import BOUND_S, until

pytestmark = [
    pytest.mark.system,
    pytest.mark.origin("B1", "B18", "B19", "B25", "B28", "B33", "R9", "H5", "K6"),
]

COUNTING = """
import json, os, signal, subprocess, sys
from pathlib import Path

def jackline(*words, **more):
    return subprocess.run(["jackline", *words], capture_output=True, text=True, **more)

attempt = os.environ["JACKLINE_ATTEMPT"]
done = (json.loads(Path(os.environ["JACKLINE_PARTIAL"]).read_text()) or {"done": 0})["done"]
claimed = jackline("effect", "claim", "mail", "--payload", '{"to": "ada"}')
if claimed.returncode == 0:
    with open(sys.argv[1], "a") as outbox:
        outbox.write(f"mail of attempt {attempt}\\n")
    jackline("effect", "complete", "mail", "--outcome", '{"sent": true}').check_returncode()
print(f"attempt {attempt} begins after {done}, effect exit {claimed.returncode}", flush=True)
jackline("partial", "save", "-", input=json.dumps({"done": done + 1})).check_returncode()
print(f"attempt {attempt} has saved {done + 1}", flush=True)
if attempt == "1":
    signal.pause()
Path(os.environ["JACKLINE_RESULT"]).write_text(json.dumps({"began_after": done}))
"""


class Worker:
    """A `jackline work` process, with defaults."""

    def __init__(self, service: Service, place: Path, worker_id: str) -> None:
        self.worker_id = worker_id
        self.log = place / f"{worker_id}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(service.script), "work", "--id", worker_id, "--data-dir", str(service.data_dir),
                    "--work-dir", str(place / "work"), "--grace", "1", "--json",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(os.environ),
            )  # fmt: skip

    def happenings(self, kind: str) -> list[dict[str, Any]]:
        """What it has said of this kind so far."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [said for line in lines if (said := json.loads(line))["happening"] == kind]

    def says(self, kind: str, within_s: float = 15.0) -> dict[str, Any]:
        """The first thing of this kind that it says."""
        return until(lambda: self.happenings(kind), what=f"{self.worker_id} to say {kind}", within_s=within_s)[0]

    def end(self) -> None:
        """Stop it in good order, so that it leaves no command behind."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(BOUND_S)
            finally:
                self.process.kill()
                self.process.wait()


@pytest.fixture
def workers(service: Service, tmp_path: Path) -> Iterator[list[Worker]]:
    """The worker that will hold the run, and the one that will take over."""
    made: list[Worker] = []

    def add(worker_id: str) -> Worker:
        worker = Worker(service, tmp_path, worker_id)
        made.append(worker)
        worker.says("registered")
        return worker

    add("first")
    yield made
    for worker in made:
        worker.end()


def counting(tmp_path: Path) -> tuple[dict[str, Any], Path]:
    """The payload of a run that saves its place and sends one mail, and the outbox that it writes to."""
    script, outbox = tmp_path / "counting.py", tmp_path / "outbox"
    script.write_text(COUNTING)
    return {"command": [sys.executable, str(script), str(outbox)]}, outbox


def test_a_worker_killed_in_the_middle_is_followed_at_once_by_one_that_continues(
    service: Service, workers: list[Worker], tmp_path: Path
) -> None:
    caller = service.caller()
    payload, outbox = counting(tmp_path)
    run_id = submit(caller, payload=payload)
    until(
        lambda: _said(caller, run_id, "attempt 1 has saved 1"),
        what="the first attempt to be in the middle",
        within_s=30,
    )
    workers.append(Worker(service, tmp_path, "second"))
    workers[1].says("registered")

    workers[0].process.kill()
    workers[0].process.wait()

    run = caller.get(f"/v1/runs/{run_id}?until=settled&wait_s=30").ok()
    assert ("succeeded", {"began_after": 1}, 2, 2) == tuple(
        run[name] for name in ("state", "result", "fence", "attempt")
    )
    assert 1 == run["failed_attempts"]
    assert ["mail of attempt 1"] == outbox.read_text().splitlines()
    assert "attempt 2 begins after 1, effect exit 10" in "".join(chunk["data"] for chunk in caller.output(run_id))
    facts = caller.facts(run_id)
    expired = next(fact["data"] for fact in facts if fact["topic"] == "lease.expired.v1")
    assert (1, "first", True) == (expired["fence"], expired["worker"], expired["detached"])
    ended = next(fact["data"] for fact in facts if fact["topic"] == "run.attempt_ended.v1")
    assert ("detached", 1) == (ended["outcome"], ended["attempt"])
    started = [fact["data"] for fact in facts if fact["topic"] == "run.attempt_started.v1"]
    assert [("first", 1), ("second", 2)] == [(fact["worker"], fact["fence"]) for fact in started]
    assert "run.partial_salvaged.v1" not in [fact["topic"] for fact in facts]


def test_a_frozen_worker_process_that_thaws_ends_its_command_and_leaves_no_trace_in_the_run(
    service: Service, workers: list[Worker], tmp_path: Path
) -> None:
    caller = service.caller()
    payload, outbox = counting(tmp_path)
    run_id = submit(caller, payload=payload, policy={"lease_ttl_s": 3})
    until(
        lambda: _said(caller, run_id, "attempt 1 has saved 1"),
        what="the first attempt to be in the middle",
        within_s=30,
    )
    workers.append(Worker(service, tmp_path, "second"))
    workers[1].says("registered")

    workers[0].process.send_signal(signal.SIGSTOP)
    run = caller.get(f"/v1/runs/{run_id}?until=settled&wait_s=30").ok()
    before, output = caller.facts(run_id), caller.output(run_id)
    workers[0].process.send_signal(signal.SIGCONT)
    ended = workers[0].says("command_ended")
    lost = until(lambda: _losses(workers[0]), what="the first worker to know that it lost the run", within_s=15)[0]

    assert ("succeeded", {"began_after": 1}, 2) == (run["state"], run["result"], run["fence"])
    assert (run_id, 1) == (lost["run_id"], lost["fence"])
    assert (run_id, 1, signal.SIGTERM) == (ended["run_id"], ended["fence"], ended["signal"])
    told = caller.facts(run_id)
    assert before == told[: len(before)]
    # What it says of its own stop and of its own directory is heard; it cannot touch the run any more.
    assert {"run.stop_reported.v1", "workspace.destroyed.v1"} >= {fact["topic"] for fact in told[len(before) :]}
    assert output == caller.output(run_id)
    assert ["mail of attempt 1"] == outbox.read_text().splitlines()


def _losses(worker: Worker) -> list[dict[str, Any]]:
    """What it has said of a lost lease: learned by asking, or from the refusal of its last word."""
    return worker.happenings("claim_lost") + worker.happenings("claim_lost_before_finish")


def _said(caller: Caller, run_id: str, words: str) -> bool:
    return words in "".join(chunk["data"] for chunk in caller.output(run_id))
