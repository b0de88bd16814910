"""The demo's stage: a service, two workers, three runs, and one death.

Everything is real and takes place in a directory of its own: `jackline serve` on a free port with its default timers,
two `jackline work` processes, commands in processes of their own. The first worker is killed with SIGKILL in the
middle of two runs; the second takes over; the first is started again in its old place, finds what it left, asks, and
is told that it has lost it. The demo itself only submits, answers one question, and reads the journal.

Bounds: every wait has a limit, and the whole must end within `LIMIT_S`. Whatever happens, every process is ended.
"""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from jackline._sync.client import Client
from jackline._sync.pause import pause
from jackline.cli.exits import Fault
from jackline.clock import SYSTEM
from jackline.errors import FenceLost
from jackline.models import Fact, LeaseRef, Run, Why
from jackline.worker.environment import MARK
from jackline.worker.processes import end_marked

LIMIT_S = 110.0
LOOK_S = 0.2
QUEUE = "demo"
ANSWER = "yes"
STEP = 150  # files between two savings of the crawl's place
SAVED_BEFORE_THE_END = 2 * STEP
THINK_S = 40.0
RETRY_BASE_S = 1.0


class Teller(Protocol):
    """Whoever listens to the story."""

    def fact(self, name: str, fact: Fact) -> None:
        """A fact of the run called `name`."""

    def why(self, name: str, answer: Why) -> None:
        """Why that run is as it is."""

    def refusal(self, name: str, grant: Fact, refusal: FenceLost) -> None:
        """A write under an old fence was refused, because of that grant."""


@dataclass
class Stage:
    """Where the demo takes place."""

    place: Path
    tell: Teller
    ends_at: float
    names: dict[str, str] = field(default_factory=dict)
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    saved: int = 0

    @property
    def data_dir(self) -> Path:
        """The service's data dir."""
        return self.place / "data"

    @property
    def outbox(self) -> Path:
        """The file outside of all runs that the session appends to."""
        return self.place / "outbox.txt"

    def log(self, worker: str) -> list[dict[str, Any]]:
        """What a worker has said so far."""
        path = self.place / f"{worker}.log"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def until(self, what: str, holds: Callable[[], Any]) -> Any:
        """Wait until `holds()` is true, and return what it returned."""
        while SYSTEM.now() < self.ends_at:
            found = holds()
            if found:
                return found
            pause(LOOK_S)
        msg = f"the demo waited in vain for this: {what}"
        raise Fault(msg)


@dataclass
class Told:
    """What the story left to be checked."""

    crawl: Run
    build: Run
    session: Run
    refusal: FenceLost
    facts: dict[str, list[Fact]]
    outbox: list[str]
    tree: Path
    worker_log: list[dict[str, Any]]


def play(place: Path, tell: Teller) -> Told:
    """Play the whole story."""
    stage = Stage(place, tell, SYSTEM.now() + LIMIT_S)
    with ExitStack() as exits:
        exits.callback(_end_whatever_is_left, place)
        service = exits.enter_context(_process(stage, "service", "serve", "--host", "127.0.0.1", "--port", "0"))
        client = exits.enter_context(_client(stage, service))
        one = exits.enter_context(_worker(stage, "one"))
        _submit(stage, client)
        old = stage.until("worker one is in the middle of two runs", lambda: _in_the_middle(stage, client))
        one.send_signal(signal.SIGKILL)
        one.wait()
        exits.enter_context(_worker(stage, "two"))
        stage.until("worker two acts for both runs", lambda: _taken_over(stage, client, old))
        stage.tell.why("crawl", client.why(_id(stage, "crawl")))
        refusal = _refused(client, old["crawl"])
        stage.tell.refusal("crawl", _grant(stage, "crawl"), refusal)
        exits.enter_context(_worker(stage, "one"))
        stage.until("worker one is told that it lost both, and nothing of it is left", lambda: _let_go(stage, old))
        stage.until("the session asks", lambda: _see(stage, client)["session"].state == "waiting_input")
        client.answer(_id(stage, "session"), ANSWER)
        runs = stage.until("all runs have ended", lambda: _all_settled(stage, client))
        lines = stage.outbox.read_text(encoding="utf-8").splitlines()
        return Told(
            runs["crawl"], runs["build"], runs["session"], refusal, stage.facts, lines, _tree(), stage.log("one")
        )


def _tree() -> Path:
    """The directory tree to crawl: Python's own library."""
    return Path(sysconfig.get_paths()["stdlib"])


def _submit(stage: Stage, client: Client) -> None:
    scripts = Path(str(resources.files("jackline.demo") / "scripts"))
    package = Path(str(resources.files("jackline")))
    commands = {
        "crawl": ["crawl.py", str(_tree()), str(STEP)],
        "build": ["build.py", str(package)],
        "session": ["session.py", str(stage.outbox), str(THINK_S)],
    }
    for name, (script, *words) in commands.items():
        payload = {"command": [sys.executable, "-I", str(scripts / script), *words]}
        policy: Any = {"retry_base_s": RETRY_BASE_S}
        receipt = client.submit(payload, queue=QUEUE, name=name, policy=policy)
        stage.names[receipt.run_id] = name
        stage.facts[name] = []


def _id(stage: Stage, name: str) -> str:
    return next(run_id for run_id, called in stage.names.items() if called == name)


def _see(stage: Stage, client: Client) -> dict[str, Run]:
    """Read the journal on, tell what is new in its order, and return the runs as they are."""
    horizon = int(client.health()["journal"]["position"])
    new: list[tuple[str, Fact]] = []
    for run_id, name in stage.names.items():
        known = stage.facts[name]
        for fact in client.facts(run_id, after=known[-1].position if known else None):
            if fact.position <= horizon:
                known.append(fact)
                new.append((name, fact))
    for name, fact in sorted(new, key=lambda one: one[1].position):
        stage.tell.fact(name, fact)
    return {name: client.run(run_id) for run_id, name in stage.names.items()}


def _in_the_middle(stage: Stage, client: Client) -> dict[str, LeaseRef] | None:
    """The leases of worker one, once the crawl has saved its place, the session has announced, the build has failed.

    Only just after the crawl has saved: a saving that is under way when its worker dies would renew the lease once
    more.
    """
    runs = _see(stage, client)
    before, stage.saved = stage.saved, (runs["crawl"].partial or {}).get("done", 0)
    saved = stage.saved >= SAVED_BEFORE_THE_END and stage.saved > before
    announced = any(fact.topic == "effect.completed.v1" for fact in stage.facts["session"])
    failed = any(fact.topic == "run.closed.v1" for fact in stage.facts["build"])
    acting = runs["crawl"].state == "running" and runs["session"].state == "running"
    if not (saved and announced and failed and acting):
        return None
    return {name: LeaseRef(runs[name].run_id, runs[name].fence) for name in ("crawl", "session")}


def _taken_over(stage: Stage, client: Client, old: dict[str, LeaseRef]) -> bool:
    """Whether the journal, as far as it was told, says so for each run."""
    _see(stage, client)
    return all(_starts(stage, name) > lease.fence for name, lease in old.items())


def _starts(stage: Stage, name: str) -> int:
    """The fence of the run's latest attempt that was told."""
    fences = [fact.data["fence"] for fact in stage.facts[name] if fact.topic == "run.attempt_started.v1"]
    return int(fences[-1]) if fences else 0


def _refused(client: Client, lease: LeaseRef) -> FenceLost:
    """What the service says to a close under the old fence."""
    try:
        client.close(lease, "succeeded", result={"forged": True})
    except FenceLost as refusal:
        return refusal
    msg = f"a close of {lease.run_id} under the old fence {lease.fence} was accepted"
    raise Fault(msg)


def _grant(stage: Stage, name: str) -> Fact:
    """The grant that ended the first one's right."""
    return [fact for fact in stage.facts[name] if fact.topic == "lease.fence_bumped.v1"][1]


def _let_go(stage: Stage, old: dict[str, LeaseRef]) -> bool:
    """Whether worker one has been told about each run, and nothing of it is left: a place is removed last of all."""
    lost = {entry.get("run_id") for entry in stage.log("one") if entry.get("happening") == "claim_lost"}
    told = all(lease.run_id in lost for lease in old.values())
    places = [stage.place / "workers" / "one" / "attempts" / f"{one.run_id}.{one.fence}" for one in old.values()]
    return told and not any(place.exists() for place in places)


def _all_settled(stage: Stage, client: Client) -> dict[str, Run] | None:
    runs = _see(stage, client)
    told = all(stage.facts[name][-1].position >= run.position for name, run in runs.items() if stage.facts[name])
    return runs if told and all(run.settled for run in runs.values()) else None


@contextmanager
def _client(stage: Stage, service: "subprocess.Popen[bytes]") -> Iterator[Client]:
    """A client, once the service has written where it is and says that it is ready."""

    def ready() -> bool:
        if service.poll() is not None:
            said = (stage.place / "service.log").read_text(encoding="utf-8").strip()
            msg = f"the service did not start: {said.splitlines()[-1] if said else 'it said nothing'}"
            raise Fault(msg, "`jackline serve` shows more")
        if not (stage.data_dir / "server.url").exists() or not (stage.data_dir / "admin.key").exists():
            return False
        with Client(data_dir=stage.data_dir) as client:
            return client.ready()

    stage.until("the service is ready", ready)
    with Client(data_dir=stage.data_dir) as client:
        yield client


def _worker(stage: Stage, name: str) -> Any:
    words = ("--id", name, "--queue", QUEUE, "--slots", "3", "--work-dir", str(stage.place / "workers"), "--json")
    return _process(stage, name, "work", *words)


@contextmanager
def _process(stage: Stage, name: str, verb: str, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """One of our own processes, ended in good order at the end, or else killed."""
    code = "from jackline.cli.main import main; main()"
    with (stage.place / f"{name}.log").open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", code, verb, "--data-dir", str(stage.data_dir), *words],
            cwd=stage.place,
            env={name: value for name, value in os.environ.items() if not name.startswith("JACKLINE_")},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_whatever_is_left(place: Path) -> None:
    for control in place.glob("workers/*/attempts/*"):
        end_marked(MARK, str(control))
