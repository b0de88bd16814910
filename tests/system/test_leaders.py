"""Leaders that are killed with -9, and a service that is restarted under them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.calling import Listening
from tests.system.conftest import Serving
from tests.system.serving import Service, submit
from tests.waiting import BOUND_S, until

pytestmark = [pytest.mark.system, pytest.mark.origin("A50", "A27", "R5")]

CLIENT = Path(__file__).with_name("leader_client.py")


def led(service: Service, kind: str) -> "subprocess.Popen[bytes]":
    """A process that is present as `ada`."""
    url = f"{service.url}/v1/leaders/ada/presence"
    client = subprocess.Popen(
        [sys.executable, str(CLIENT), kind, url], env={**os.environ, "KEY": service.key}, stdout=subprocess.DEVNULL
    )
    until(lambda: connections(service) == 1, what="the leader to be there", within_s=20)
    return client


def connections(service: Service) -> int:
    return int(service.caller().get("/v1/leaders/ada").ok()["connections"])


def state(service: Service, run_id: str) -> str:
    return str(service.caller().get(f"/v1/runs/{run_id}").ok()["state"])


@pytest.mark.parametrize("kind", ["stream", "socket"])
def test_a_leader_that_is_killed_is_missed_at_once_and_its_run_is_settled_at_its_grace(
    make_service: Serving, kind: str
) -> None:
    service = make_service(leader_grace_s=1).start()
    client = led(service, kind)
    run_id, other = submit(service.caller(), leader_id="ada"), submit(service.caller())
    client.kill()
    client.wait()
    until(lambda: state(service, run_id) == "cancelled", what="the run to be settled", within_s=10)
    facts = {fact["topic"]: fact for fact in service.caller().facts(run_id)}
    waited = facts["run.worker_timeout.v1"]["data"]["marks"]

    assert "queued" == state(service, other)
    assert "leader_gone" == facts["run.settled.v1"]["data"]["reason"]
    assert 1.0 == waited["grace_s"]


@pytest.mark.parametrize("kind", ["stream", "socket"])
@pytest.mark.parametrize("way", ["restart", "kill"])
def test_a_restart_of_the_service_costs_its_leaders_nothing(make_service: Serving, kind: str, way: str) -> None:
    service = make_service().start()
    client = led(service, kind)
    run_id = submit(service.caller(), leader_id="ada")
    submitted_at = service.caller().get(f"/v1/runs/{run_id}").ok()["submitted_at"]
    if way == "restart":
        service.restart()
    else:
        service.kill()
        service.start()
    client.wait(BOUND_S)
    assert 0 == connections(service)
    assert submitted_at < service.caller().get("/v1/leaders/ada").ok()["zero_since"], "its absence began with our end"
    back = led(service, kind)

    assert "queued" == state(service, run_id)
    assert "presence.leader_gone.v1" not in {fact["topic"] for fact in service.caller().facts(run_id)}
    back.kill()
    back.wait()


def test_a_leader_that_comes_back_too_late_is_told(make_service: Serving) -> None:
    service = make_service(leader_grace_s=0.2).start()
    client = led(service, "stream")
    run_id = submit(service.caller(), leader_id="ada")
    client.kill()
    client.wait()
    until(lambda: state(service, run_id) == "cancelled", what="the run to be settled", within_s=10)
    with Listening(service.caller(), "/v1/leaders/ada/presence") as frames:
        hello, away = next(frames), next(frames)

    assert ("hello", "settled_while_away") == (hello.name, away.name)
    assert [run_id] == [run["run_id"] for run in away.document["runs"]]
