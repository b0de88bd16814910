"""Clients that load a service and write down what they were told, and a check of the service against their diaries.

Each client is leader and worker at once, in a thread of its own: it submits a run, claims what is due in the queue that
all share, writes output, a partial and an effect under each lease, and ends the attempt in one of several ways. Every
command carries an idempotency key and is repeated under it until somebody says something definite; an answer that comes
is a promise, and is written down before the next command is sent.

What the diaries are held against is what the service shows: facts, output, partials, states. A promise is broken when
the facts do not have it, have it twice, or have it under another fence, holder, order or value.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.system.calling import Answer, Caller

QUEUE = "shared"
POLICY = {"max_attempts": 1000, "retry_base_s": 0, "retry_cap_s": 0}
ENDS = ("succeed", "succeed", "succeed", "fail", "hand_back", "park")
Fact = dict[str, Any]


@dataclass(frozen=True)
class Promise:
    """One acknowledged command: what it was, about which run and fence, with which values, at which position."""

    kind: str
    run_id: str
    fence: int
    values: tuple[Any, ...]
    position: int | None


@dataclass
class Diary:
    """What one client was told, in order."""

    name: str
    promises: list[Promise] = field(default_factory=list)
    finished: bool = False
    problem: str | None = None


class Client(threading.Thread):
    """Loads the service until told to stop; then finishes the command it is at."""

    def __init__(self, port: int, key: str, name: str, chance: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self.diary = Diary(name)
        self.caller = Caller(port, key, timeout_s=10.0)
        self.chance = chance
        self.stopping = threading.Event()
        self.abandoned = threading.Event()
        self._commands = 0
        self._submitted = 0

    def run(self) -> None:
        """Work; whatever goes wrong is noted for the test."""
        try:
            while not self.stopping.is_set():
                self._submit()
                for claim in self._claim():
                    self._act(claim["run_id"], claim["fence"])
            self.diary.finished = True
        except BaseException as error:  # noqa: BLE001 - a thread has nobody above it: the test reads the diary
            self.diary.problem = f"{type(error).__name__}: {error}"
        finally:
            self.caller.close()

    def _command(self, path: str, body: dict[str, Any]) -> Answer:
        self._commands += 1
        return self.caller.insist("POST", path, body, key=f"{self.diary.name}-{self._commands}", over=self.abandoned)

    def _note(self, kind: str, run_id: str, fence: int, values: tuple[Any, ...], answer: Answer) -> None:
        self.diary.promises.append(Promise(kind, run_id, fence, values, answer.position))

    def _submit(self) -> None:
        self._submitted += 1
        name = f"{self.diary.name}-{self._submitted}"
        answer = self._command("/v1/runs", {"queue": QUEUE, "name": name, "policy": POLICY})
        self._note("submitted", answer.ok(201)["run_id"], 0, (name,), answer)

    def _claim(self) -> list[dict[str, Any]]:
        answer = self._command("/v1/claims", {"worker_id": self.diary.name, "queues": [QUEUE], "max": 2})
        claims: list[dict[str, Any]] = answer.ok()["claims"]
        for claim in claims:
            self._note("granted", claim["run_id"], claim["fence"], (self.diary.name,), answer)
        return claims

    def _act(self, run_id: str, fence: int) -> None:
        path, key = f"/v1/runs/{run_id}", f"mail-{fence}"
        for seq in range(self.chance.randint(1, 3)):
            data = f"{self.diary.name} {run_id} {fence} {seq}\n"
            answer = self._command(f"{path}/output", {"fence": fence, "seq": seq, "data": data})
            answer.ok(204)
            self._note("output", run_id, fence, (seq, data), answer)
        partial = {"by": self.diary.name, "fence": fence}
        answer = self._command(f"{path}/partial", {"fence": fence, "partial": partial})
        answer.ok(204)
        self._note("partial", run_id, fence, (self.diary.name,), answer)
        answer = self._command(f"{path}/effects/{key}", {"fence": fence, "payload": {"to": run_id}})
        assert answer.ok()["answer"] == "claimed", answer
        self._note("intended", run_id, fence, (key,), answer)
        answer = self._command(f"{path}/effects/{key}/complete", {"fence": fence, "outcome": {"sent": fence}})
        answer.ok()
        self._note("completed", run_id, fence, (key,), answer)
        self._end(path, run_id, fence)

    def _end(self, path: str, run_id: str, fence: int) -> None:
        how = self.chance.choice(ENDS)
        body: dict[str, Any] = {"fence": fence}
        route = {"hand_back": "hand-back", "park": "park"}.get(how, "close")
        if how == "succeed":
            body |= {"outcome": "succeeded", "result": {"by": self.diary.name, "fence": fence}}
        elif how == "fail":
            body |= {"outcome": "failed", "error": "by chance", "retryable": True}
        elif how == "park":
            body["question"] = f"go on after {fence}?"
        answer = self._command(f"{path}/{route}", body)
        answer.ok()
        self._note(how, run_id, fence, (self.diary.name,), answer)
        if how == "park":
            answer = self._command(f"{path}/answer", {"answer": f"yes, after {fence}"})
            answer.ok()
            self._note("answered", run_id, fence, (f"yes, after {fence}",), answer)


def chances(seed: int) -> random.Random:
    """Chances that the same seed draws again."""
    return random.Random(seed)


class Crowd:
    """Several clients of one service."""

    def __init__(self, port: int, key: str, count: int, seed: int) -> None:
        chance = chances(seed)
        self.clients = [Client(port, key, f"client-{n}", chances(chance.getrandbits(32))) for n in range(count)]

    def start(self) -> None:
        """Begin."""
        for client in self.clients:
            name = client.diary.name
            client.caller.insist("PUT", f"/v1/workers/{name}", {"slots": 100}, key=name, over=client.abandoned).ok()
            client.start()

    def stop(self, within_s: float = 60.0) -> None:
        """Let each finish what it is at; a client that could not fails the test with what went wrong."""
        for client in self.clients:
            client.stopping.set()
        for client in self.clients:
            client.join(within_s)
        problems = [client.diary.problem for client in self.clients if not client.diary.finished]
        assert not problems, f"clients could not finish: {problems}"

    def abandon(self) -> None:
        """Have every client give up at once: the service may never answer again."""
        for client in self.clients:
            client.stopping.set()
            client.abandoned.set()
        for client in self.clients:
            client.join()

    @property
    def promised(self) -> int:
        """Commands that were acknowledged so far."""
        return sum(len(client.diary.promises) for client in self.clients)

    def check_alive(self) -> None:
        """Fail when a client has met something that it should not have met."""
        assert [] == [client.diary.problem for client in self.clients if client.diary.problem]

    def since(self, marks: list[int]) -> list[Promise]:
        """The promises that each client was given since its mark; moves the marks."""
        fresh = [client.diary.promises[mark:] for client, mark in zip(self.clients, marks, strict=True)]
        marks[:] = [mark + len(some) for mark, some in zip(marks, fresh, strict=True)]
        return [promise for some in fresh for promise in some]


def broken(caller: Caller, promises: Iterable[Promise]) -> list[str]:
    """The promises that the service does not keep, each with what is wrong about it."""
    by_run: dict[str, list[Promise]] = {}
    for promise in promises:
        by_run.setdefault(promise.run_id, []).append(promise)
    return [problem for run_id, some in by_run.items() for problem in _broken_of_run(caller, run_id, some)]


def _broken_of_run(caller: Caller, run_id: str, promises: list[Promise]) -> Iterator[str]:
    facts = caller.facts(run_id)
    chunks = caller.output(run_id)
    output = Counter((chunk["fence"], chunk["seq"], chunk["data"]) for chunk in chunks)
    by_fence = Counter((chunk["fence"], chunk["seq"]) for chunk in chunks)
    for promise in promises:
        if promise.kind == "output":
            kept = output[(promise.fence, *promise.values)] == by_fence[promise.fence, promise.values[0]] == 1
        elif promise.kind == "partial":
            kept = True  # Replaced by later ones: judged once everything is quiet.
        else:
            kept = len(list(filter(_shown_by(promise), facts))) == 1
        if not kept:
            yield f"{promise} is not kept by {[(fact['topic'], fact['data']) for fact in facts]}"


def _shown_by(promise: Promise) -> Callable[[Fact], bool]:
    """Whether a fact is the one that this promise was about."""
    topic, field_name, value = {
        "submitted": ("run.submitted.v1", "name", promise.values[0]),
        "granted": ("lease.fence_bumped.v1", "worker", promise.values[0]),
        "intended": ("effect.intended.v1", "key", promise.values[0]),
        "completed": ("effect.completed.v1", "key", promise.values[0]),
        "succeed": ("run.closed.v1", "outcome", "succeeded"),
        "fail": ("run.closed.v1", "outcome", "failed"),
        "hand_back": ("run.attempt_ended.v1", "outcome", "handed_back"),
        "park": ("run.attempt_ended.v1", "outcome", "parked"),
        "answered": ("run.input_provided.v1", "answer", promise.values[0]),
    }[promise.kind]

    def is_it(fact: Fact) -> bool:
        data = fact["data"]
        same_fence = promise.kind in ("submitted", "answered", "completed") or data.get("fence") == promise.fence
        return bool(fact["topic"] == topic and data.get(field_name) == value and same_fence)

    return is_it


def disorder(diary: Diary) -> list[str]:
    """Acknowledged commands of one client whose positions do not rise: a client's order is the journal's."""
    appended = [promise for promise in diary.promises if promise.position is not None]
    return [
        f"{later} is not after {earlier}"
        for earlier, later in pairwise(appended)
        if (later.position or 0) < (earlier.position or 0)
        or (later.position == earlier.position and (later.kind, earlier.kind) != ("granted", "granted"))
    ]


def duplicates(facts_by_run: dict[str, list[Fact]]) -> list[str]:
    """What is in the journal twice, or under a fence that is not the next."""
    found: list[str] = []
    names = Counter(fact["data"]["name"] for facts in facts_by_run.values() for fact in _of(facts, "run.submitted.v1"))
    found += [f"{name} was submitted {count} times" for name, count in names.items() if count != 1]
    for run_id, facts in facts_by_run.items():
        fences = [fact["data"]["fence"] for fact in _of(facts, "lease.fence_bumped.v1")]
        if fences != list(range(1, len(fences) + 1)):
            found.append(f"the fences of {run_id} are {fences}")
        ends = Counter(fact["data"]["fence"] for fact in _of(facts, "run.closed.v1", "run.attempt_ended.v1"))
        found += [f"{run_id} ended {count} times under {fence}" for fence, count in ends.items() if count != 1]
        keys = Counter(fact["data"]["key"] for fact in _of(facts, "effect.intended.v1"))
        found += [f"{run_id} intended {key} {count} times" for key, count in keys.items() if count != 1]
    return found


def unvouched(caller: Caller, run_id: str, facts: list[Fact]) -> list[str]:
    """Attempts whose end does not vouch for the very output that is shown."""
    shown = Counter(chunk["fence"] for chunk in caller.output(run_id))
    return [
        f"{run_id} shows {shown[fact['data']['fence']]} chunks of {fact['data']}"
        for fact in _of(facts, "run.closed.v1", "run.attempt_ended.v1")
        if fact["data"]["work"]["output_chunks"] != shown[fact["data"]["fence"]]
    ]


def _of(facts: list[Fact], *topics: str) -> list[Fact]:
    return [fact for fact in facts if fact["topic"] in topics]
