"""Histories of real clients: threads that ask one service about one run at the same time, and write down what was told.

Each client is a worker with a key and a connection of its own. It asks by chance, without an idempotency key and never
again, so that an answer that gets lost stays unknown. Instants come from one counter: a call is numbered before it is
sent and after it was answered. A connection that was refused has asked nothing and leaves no operation.
"""

import itertools
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.linear.checker import Operation
from tests.linear.pretending import wishes
from tests.system.calling import NOT_NOW, Answer, Caller, Unanswered
from tests.system.load import chances
from tests.waiting import BOUND_S, until

EFFECT = "mail"
STALE = 0.15
"""How often a fence of somebody else is presented."""
LINGER = "?until=settled&wait_s=0.1"


class Client(threading.Thread):
    """One worker that asks about one run after the other, together with the other clients of its group."""

    def __init__(self, caller: Caller, reader: Caller, group: "Group") -> None:
        super().__init__(daemon=True)
        self.caller = caller
        self.reader = reader
        self.group = group
        self.chance = chances(group.chance.getrandbits(32))
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Ask; whatever goes wrong is kept for the test."""
        try:
            for run_id in self.group.runs:
                self.group.together.wait(BOUND_S)
                self._ask_about(run_id)
        except BaseException as error:  # noqa: BLE001 - a thread has nobody above it: the test looks
            self.problem = error
            self.group.together.abort()
        finally:
            self.caller.close()
            self.reader.close()

    def _ask_about(self, run_id: str) -> None:
        group, fence, history = self.group, 0, self.group.histories[run_id]
        for _ in range(group.operations):
            seen = group.fences[run_id]
            presented = self.chance.randint(1, seen + 1) if seen and self.chance.random() < STALE else fence
            asked = wishes(self.chance, presented, next(group.numbers))
            if group.quiet and asked[0] not in ("get", "claim") and self.chance.random() < 0.8:
                asked = ("get",)
            called = next(group.instants)
            try:
                answer = self._send(run_id, asked)
            except Unanswered as nobody:
                if not isinstance(nobody.__cause__, ConnectionRefusedError):
                    history.append(Operation(self.name, asked, called))
                until(self._answered, what="the service to answer again", within_s=60)
                continue
            answered = None if answer.status in NOT_NOW else next(group.instants)
            told = None if answered is None else understood(asked[0], answer)
            history.append(Operation(self.name, asked, called, answered, told))
            if asked == ("claim",) and told is not None and told[0] == "ok":
                fence = group.fences[run_id] = told[1]

    def _answered(self) -> bool:
        try:
            return self.caller.get("/readyz").status == 200
        except Unanswered:
            return False

    def _send(self, run_id: str, asked: tuple[Any, ...]) -> Answer:
        path = f"/v1/runs/{run_id}"
        if asked[0] == "get":
            return self.reader.get(path + (LINGER if self.group.quiet else ""))
        if asked[0] == "claim":
            return self.caller.post(f"{path}/claim", {"worker_id": self.name})
        kind, fence, *values = asked
        more: dict[str, tuple[str, dict[str, Any]]] = {
            "partial": ("partial", {"partial": values[0] if values else None}),
            "hand_back": ("hand-back", {}),
            "effect_claim": (f"effects/{EFFECT}", {"payload": EFFECT}),
            "effect_complete": (f"effects/{EFFECT}/complete", {"outcome": values[0] if values else None}),
            "effect_fail": (f"effects/{EFFECT}/fail", {"outcome": values[0] if values else None}),
        }
        route, body = more[kind]
        return self.caller.post(f"{path}/{route}", {"fence": fence, **body})


def understood(kind: str, answer: Answer) -> tuple[Any, ...]:
    """What was told, as the model tells it; an answer that the interface does not promise fails."""
    body = answer.body
    if answer.status in (404, 409):
        if kind == "claim":
            assert answer.code == "lease_held", body
            return ("refused", "lease_held", body["holder"], body["fence"])
        assert answer.code in ("fence_lost", "effect_frozen", "effect_unknown"), body
        return ("refused", answer.code, body.get("current"))
    assert answer.status in (200, 204), (answer.status, body)
    if kind == "claim":
        effects = {effect["key"]: effect["state"] for effect in body["effects"]}
        return ("ok", body["fence"], body["partial"], effects.get(EFFECT))
    if kind == "get":
        return ("ok", body["fence"], body["owner"], body["partial"])
    return ("ok", body["answer"], body["outcome"]) if kind == "effect_claim" else ("ok",)


class Group:
    """Clients that go through the same runs side by side; a `quiet` one lets its leases run out."""

    def __init__(self, runs: Sequence[str], operations: int, chance: random.Random, *, quiet: bool = False) -> None:
        self.runs = runs
        self.operations = operations
        self.chance = chance
        self.quiet = quiet
        self.histories: dict[str, list[Operation]] = {run_id: [] for run_id in runs}
        self.fences = dict.fromkeys(runs, 0)
        self.instants, self.numbers = itertools.count(), itertools.count(1)
        self.clients: list[Client] = []
        self.together = threading.Barrier(1)

    def start(self, callers: Mapping[str, tuple[Caller, Caller]]) -> None:
        """Begin: for each worker by its id, the one who acts with the worker's key, and the one who reads."""
        self.together = threading.Barrier(len(callers))
        for name, (caller, reader) in callers.items():
            self.clients.append(Client(caller, reader, self))
            self.clients[-1].name = name
        for client in self.clients:
            client.start()

    def finish(self, within_s: float) -> None:
        """Return once all have asked everything; the first problem of any fails."""
        for client in self.clients:
            client.join(within_s)
        problems = [client.problem for client in self.clients if client.problem]
        for problem in sorted(problems, key=lambda one: isinstance(one, threading.BrokenBarrierError)):
            raise problem
        assert not any(client.is_alive() for client in self.clients), "they never finished"

    def told(self) -> Iterator[Operation]:
        """Every operation, run by run."""
        for history in self.histories.values():
            yield from history
