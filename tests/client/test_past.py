"""Looking back and asking why, through the SDK and the command line, against a real service."""

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from jackline import Client, Problem
from jackline.cli import crew, show
from jackline.errors import Unknown
from jackline.models import WorkerInfo
from jackline.retrying import Retry
from tests.client.serving import Service, bare_environment, free_port
from tests.waiting import BOUND_S

pytestmark = pytest.mark.system

Said = subprocess.CompletedProcess[str]
Say = Callable[..., Said]


@pytest.fixture
def say(shared: Service) -> Say:
    environment = bare_environment() | {"JACKLINE_DATA_DIR": str(shared.data_dir), "COLUMNS": "200"}

    def said(*words: str) -> Said:
        command = [str(shared.script), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND_S, check=False)

    return said


@pytest.fixture
def lived(client: Client, queue: str) -> tuple[str, int, int]:
    """A run that was submitted and is held, and the positions of the two."""
    run_id = client.submit(queue=queue).run_id
    submitted = client.run(run_id).position
    client.register_worker("w1", slots=9)
    client.claim("w1", [queue])
    return run_id, submitted, client.run(run_id).position


def test_the_sdk_shows_a_run_a_list_and_an_explanation_of_the_past(
    client: Client, queue: str, lived: tuple[str, int, int]
) -> None:
    run_id, submitted, last = lived
    then, now = client.run(run_id, at=submitted), client.run(run_id)
    listed = client.runs(queue=queue, at=submitted)
    why = client.why(run_id, at=submitted)

    assert ("queued", submitted) == (then.state, then.as_of.position if then.as_of else 0)
    assert now.as_of is None
    assert ["queued"] == [run.state for run in listed.items]
    assert listed.as_of is not None
    assert why.state == "queued"
    assert why.next is not None
    assert why.next.startswith("then came ")
    assert last > submitted


def test_an_instant_is_a_datetime_or_text(client: Client, lived: tuple[str, int, int]) -> None:
    run_id, submitted, _ = lived
    recorded_at = client.run(run_id, at=submitted).as_of.recorded_at  # type: ignore[union-attr]
    assert recorded_at is not None

    assert "queued" == client.run(run_id, at=recorded_at).state
    assert "queued" == client.run(run_id, at=recorded_at.isoformat()).state
    with pytest.raises(Problem) as refused:
        client.run(run_id, at=datetime(9998, 1, 1, tzinfo=UTC))
    assert "instant_beyond" == refused.value.code


def test_the_command_line_shows_the_past_and_says_of_when(say: Say, queue: str, lived: tuple[str, int, int]) -> None:
    run_id, submitted, _ = lived
    shown = say("show", run_id, "--at", str(submitted))
    listed = say("ls", "--queue", queue, "--at", str(submitted))
    beyond = say("show", run_id, "--at", "999999999")
    both = say("show", run_id, "--at", "1", "--wait", "1")

    assert (0, 0, 3, 2) == (shown.returncode, listed.returncode, beyond.returncode, both.returncode)
    assert "queued" in shown.stdout
    assert "queued" in listed.stdout
    assert f"as of position {submitted}" in shown.stderr
    assert "evidence and partial are not recorded" in listed.stderr
    assert "position_beyond" in beyond.stderr


def test_why_tells_on_one_screen_what_a_run_waits_for(say: Say, client: Client, queue: str) -> None:
    client.register_worker("near", labels={"gpu": "t4"})
    run_id = client.submit(queue=queue, labels={"gpu": "a100"}).run_id
    said = say("why", run_id)
    program = json.loads(say("why", run_id, "--json").stdout)

    assert "labels_missing  no registered worker has the labels gpu=a100" in said.stdout
    assert "worker 'near' lacks gpu=a100" in said.stdout
    assert "queue  0 due before it, 1 queued in" in said.stdout
    assert len(said.stdout.splitlines()) < 24
    assert {"state", "because", "evidence", "fence", "clocks", "next"} <= set(program)


def test_a_run_that_has_not_ended_is_not_retried_by_mistake(say: Say, client: Client, queue: str) -> None:
    run_id = client.submit(queue=queue).run_id
    refused, forced = say("retry", run_id), say("retry", run_id, "--force")

    assert (3, "") == (refused.returncode, refused.stdout)
    assert f"run {run_id} has not ended, it is queued" in refused.stderr
    assert "--force" in refused.stderr
    assert 0 == forced.returncode
    assert "goes on beside the new one" in forced.stderr
    assert 2 == len(client.runs(queue=queue).items)


@pytest.mark.parametrize("verb", ["facts", "logs"])
def test_following_where_nobody_answers_says_so_at_once(shared: Service, verb: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    command = [str(shared.script), verb, "-f", "some-run", "--url", url, "--key", "none"]
    following = subprocess.Popen(
        command, env=bare_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert following.stderr is not None
        said = following.stderr.readline()
    finally:
        following.kill()
        following.communicate()

    assert "trying again for 60 s" in said
    assert "some-run" in said


def test_whoever_follows_is_told_once_that_nobody_answers_and_then_gets_the_error() -> None:
    told: list[float] = []
    retry = Retry(patience_s=0.3, first_s=0.05, cap_s=0.1)
    with Client(f"http://127.0.0.1:{free_port()}", "none") as client:
        following = client.follow("some-run", retry=retry, on_trouble=lambda _, for_s: told.append(for_s))
        with pytest.raises(Unknown):
            next(following)

    assert [0.3] == told


def test_a_worker_is_listed_with_when_it_was_last_heard(client: Client, say: Say) -> None:
    client.register_worker("heard-just-now")
    row = next(line for line in say("workers").stdout.splitlines() if line.startswith("heard-just-now"))

    assert "s ago" in row


@pytest.mark.parametrize(
    ("ago_s", "said"), [(0, "0.0 s ago"), (12.34, "12.3 s ago"), (61, "1 min ago"), (3_599, "59 min ago")]
)
def test_the_time_since_a_worker_was_heard_is_said_in_words(ago_s: float, said: str) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    worker = WorkerInfo("w1", last_seen_at=now - timedelta(seconds=ago_s), raw={})

    assert said in crew._row(worker, now)
    assert "" == show.ago(None, now)


def test_a_following_command_goes_on_when_the_service_is_back(own_service: Service) -> None:
    own_service.start()
    with own_service.client() as client:
        run_id = client.submit(queue="nobody").run_id
    environment = bare_environment() | {"JACKLINE_DATA_DIR": str(own_service.data_dir)}
    command = [str(own_service.script), "facts", "-f", run_id]
    following = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert following.stdout is not None
        assert following.stderr is not None
        assert "run.submitted.v1" in following.stdout.readline()
        own_service.kill()
        assert "trying again" in following.stderr.readline()
        own_service.start()
        with own_service.client() as client:
            client.cancel(run_id)
        rest, _ = following.communicate(timeout=BOUND_S)
    finally:
        following.kill()

    assert 0 == following.returncode
    assert "run.settled.v1" in rest
