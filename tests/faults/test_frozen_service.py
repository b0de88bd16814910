"""The service itself is frozen, for longer than leases, sessions and graces last: nobody is charged for that.

What is asked meanwhile waits in the kernel. A second service with the same work, which runs on, is the clock of the
test, and its negative control: there the lease expires, its run is aborted, and the leader that says nothing is gone.
"""

import signal
from dataclasses import dataclass
from typing import Any

import pytest

from tests.system.calling import Caller
from tests.system.conftest import Serving
from tests.system.serving import Service, claim_one, register, submit
from tests.waiting import until

pytestmark = pytest.mark.system

TTL_S = 4.0
POLICY = {"max_attempts": 1, "lease_ttl_s": TTL_S}
SESSION = "/v1/leaders/ada/sessions/s1"
SETTINGS = {"leader_grace_s": 1, "worker_gone_s": 4}


@dataclass
class Work:
    """What is under way: a run that is held, on its only attempt, and one whose leader keeps a session."""

    caller: Caller
    held: str
    fence: int
    led: str

    def renewals(self) -> list[tuple[str, str, Any]]:
        """What keeps both alive."""
        leases = [{"run_id": self.held, "fence": self.fence}]
        return [("POST", "/v1/workers/steady/heartbeat", {"leases": leases}), ("PUT", SESSION, {"ttl_s": TTL_S})]

    def state(self, run_id: str) -> str:
        """How a run stands."""
        return str(self.caller.get(f"/v1/runs/{run_id}").ok()["state"])

    def topics(self, run_id: str) -> set[str]:
        """What happened to a run."""
        return {fact["topic"] for fact in self.caller.facts(run_id)}


def work(service: Service) -> Work:
    caller = service.caller()
    caller.put(SESSION, {"ttl_s": TTL_S}).ok()
    led = submit(caller, queue="led", leader_id="ada")
    held = submit(caller, policy=POLICY)
    return Work(caller, held, claim_one(caller, register(caller, "steady"))["fence"], led)


def test_a_service_that_was_frozen_charges_nobody_for_it(make_quick_service: Serving) -> None:
    frozen = make_quick_service(**SETTINGS).start()
    control = make_quick_service(**SETTINGS).start()
    asking = [frozen.caller(), frozen.caller()]
    other, mine = work(control), work(frozen)
    assert frozen.process is not None
    for caller, renewal in zip(asking, mine.renewals(), strict=True):
        caller.ask(*renewal).ok()
    frozen.process.send_signal(signal.SIGSTOP)
    try:
        for caller, renewal in zip(asking, mine.renewals(), strict=True):
            caller.say(*renewal)
        until(lambda: other.state(other.held) == "aborted", what="a lease that nobody renews ends its run")
        until(lambda: other.state(other.led) == "cancelled", what="a leader that says nothing is gone")
    finally:
        frozen.process.send_signal(signal.SIGCONT)
    renewed, kept = (caller.hear("what was asked meanwhile").ok() for caller in asking)

    assert ["renewed"] == [lease["outcome"] for lease in renewed["leases"]]
    assert 1 == kept["connections"]
    assert "lease.expired.v1" not in mine.topics(mine.held)
    assert ("queued", False) == (mine.state(mine.led), "run.worker_timeout.v1" in mine.topics(mine.led))
    assert "this process did not run for" in frozen.log.read_text()
