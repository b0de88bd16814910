"""Killing a loaded service again and again, and holding it to everything that it had acknowledged.

A kill comes after a number of further acknowledged commands, drawn from the seed, so it hits the service in the middle
of whatever it does under load. Then it is started again on the same data dir and port; the clients, which have been
repeating what nobody answered, go on by themselves.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.system.load import Crowd, Fact, Promise, broken, chances, disorder, duplicates, unvouched
from tests.system.serving import Service
from tests.waiting import until

CLIENTS = 4
FEWEST, MOST = 1, 40
"""Acknowledged commands between a start and the next kill."""


@dataclass(frozen=True)
class Ordeal:
    """How often, and by which chance."""

    kills: int
    seed: int


@dataclass(frozen=True)
class Survived:
    """What is left when all is quiet: every promise, and every fact of every run."""

    promises: list[Promise]
    facts: dict[str, list[Fact]]


def survive(service: Service, ordeal: Ordeal, start: Callable[[Service], object] = Service.start) -> Survived:
    """Put a running service through the ordeal; everything that is wrong fails with the seed that shows it.

    `start` starts it again after a kill.

    Raises:
        AssertionError: something acknowledged was lost, doubled, or put in another order.
    """
    chance = chances(ordeal.seed)
    crowd = Crowd(service.port, service.key, CLIENTS, chance.getrandbits(32))
    crowd.start()
    marks = [0] * CLIENTS
    try:
        for number in range(1, ordeal.kills + 1):
            _load(crowd, chance.randint(FEWEST, MOST))
            service.kill()
            promised = crowd.since(marks)
            start(service)
            lost = broken(service.caller(), promised)
            assert [] == lost, f"kill {number}, seed {ordeal.seed}"
        _load(crowd, MOST)
    except BaseException:
        crowd.abandon()
        raise
    crowd.stop()
    return judge(service, crowd, ordeal.seed)


def _load(crowd: Crowd, commands: int) -> None:
    goal = crowd.promised + commands

    def enough() -> bool:
        crowd.check_alive()
        return crowd.promised >= goal

    until(enough, what=f"{commands} more acknowledged commands", within_s=30.0)


def judge(service: Service, crowd: Crowd, seed: int) -> Survived:
    """Hold a service to everything that a crowd which has stopped was told; the seed is named when it fails."""
    caller = service.caller()
    promises = crowd.since([0] * CLIENTS)
    facts = {promise.run_id: caller.facts(promise.run_id) for promise in promises if promise.kind == "submitted"}

    assert [] == broken(caller, promises), seed
    assert [] == [problem for client in crowd.clients for problem in disorder(client.diary)], seed
    assert [] == duplicates(facts), seed
    assert [] == [problem for run_id, some in facts.items() for problem in unvouched(caller, run_id, some)], seed
    assert [] == _stale_partials(service, promises), seed
    assert {"ok": True} == {name: value for name, value in verified(service).items() if name == "ok"}, seed
    return Survived(promises, facts)


def _stale_partials(service: Service, promises: list[Promise]) -> list[str]:
    """Runs that do not show the last partial that was acknowledged."""
    caller = service.caller()
    last: dict[str, Promise] = {}
    for promise in promises:
        if promise.kind == "partial" and promise.fence >= last.get(promise.run_id, promise).fence:
            last[promise.run_id] = promise
    shown = {run_id: caller.get(f"/v1/runs/{run_id}").ok()["partial"] for run_id in last}
    return [
        f"{run_id} shows {shown[run_id]} and not {promise}"
        for run_id, promise in last.items()
        if shown[run_id] != {"by": promise.values[0], "fence": promise.fence}
    ]


def verified(service: Service) -> dict[str, object]:
    """What `jackline journal verify --json` says of the data dir, beside the service or without it."""
    done = service.run_cli("journal", "verify", "--json", "--data-dir", str(service.data_dir))
    said: dict[str, object] = json.loads(done.stdout)
    assert done.returncode == (0 if said["ok"] else 1), done
    return said
